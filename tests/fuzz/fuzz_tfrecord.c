/* TFRecord files: the input as a file, and as an Example with right checksums around it. */
#include "base/crc32c.h"
#include "loaders/formats/example.h"
#include "pipeline/care.h"
#include "tests/fuzz/fuzz_shards.h"

static uint8_t framed[(1 << 16) + 16];

static size_t frame(const uint8_t *data, size_t n) {
  uint64_t size = n = n < 1 << 16 ? n : 1 << 16;
  uint32_t sum = mr_crc32c_mask(mr_crc32c(&size, 8));
  memcpy(framed, &size, 8), memcpy(framed + 8, &sum, 4);
  memcpy(framed + 12, data, n);
  sum = mr_crc32c_mask(mr_crc32c(data, n));
  memcpy(framed + 12 + n, &sum, 4);
  return n + 16;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  static const char *const usual[] = {NULL};
  static const char *const record[] = {"fields=__record__:r", NULL};
  fuzz_shard("tfrecord", fuzz_file("raw.tfrecord", data, n), true, n & 1 ? usual : record);
  fuzz_shard("tfrecord", fuzz_file("framed.tfrecord", framed, frame(data, n)), false, usual);
  return 0;
}
