/* TensorBoard's event files of an earlier run, read at resume.  First byte even: the rest is a file
   as it stands.  Odd: the rest is records, each a byte of length and its text, which get their
   framing here, since no fuzzer finds check sums. */
#include "sinks/resume.h"
#include "sinks/tfrecord.h"
#include "tests/fuzz/fuzz.h"

static uint8_t file[1 << 17];

static size_t frame_all(const uint8_t *data, size_t n) {
  size_t size = 0;
  for (size_t at = 0; at < n;) {
    size_t len = data[at++];
    if (len > n - at) len = n - at;
    fuzz_need(size + MR_TFRECORD_HEAD + len + MR_TFRECORD_TAIL <= sizeof file, "room");
    memcpy(file + size + MR_TFRECORD_HEAD, data + at, len);
    mr_tfrecord_frame(file + size, len);
    at += len, size += MR_TFRECORD_HEAD + len + MR_TFRECORD_TAIL;
  }
  return size;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  mr_reported_steps_t steps = {0};
  mr_diag_t diag = {0};
  bool raw = !n || data[0] % 2 == 0;
  size_t size = raw ? 0 : frame_all(data + 1, n - 1);
  fuzz_file("events.out.tfevents.1", raw ? data + (n > 0) : file, raw ? n - (n > 0) : size);
  fuzz_need(mr_event_steps(fuzz_folder(), &steps, &diag) >= 0, diag.text);
  for (size_t i = 0; i < steps.n; i++)
    fuzz_need(steps.range[i].first <= steps.range[i].last, "a range");
  mr_reported_steps_fini(&steps);
  return 0;
}
