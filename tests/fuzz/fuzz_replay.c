/* Replay files: whatever one holds, it is opened and checked, or refused with a sentence.  The
   digest is put right first, so that what lies behind it is reached. */
#include <xxhash.h>

#include "stages/train/replay.h"
#include "tests/fuzz/fuzz.h"

enum { DIGITS = 16 };

static void put_replay_digest(uint8_t *file, size_t n) {
  static const char key[] = "\"millrace.xxh3\":\"";
  uint8_t *at = memmem(file, n, key, sizeof key - 1);
  if (!at || (size_t)(file + n - at) < sizeof key - 1 + DIGITS) return;
  char text[DIGITS + 1];
  at += sizeof key - 1;
  memset(at, '0', DIGITS);
  snprintf(text, sizeof text, "%016llx", (unsigned long long)XXH3_64bits(file, n));
  memcpy(at, text, DIGITS);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  if (n > 1 << 16) return 0;
  uint8_t *file = malloc(n + 1);
  fuzz_need(file != NULL, "malloc");
  memcpy(file, data, n);
  put_replay_digest(file, n);
  const char *path = fuzz_file("replay.safetensors", file, n);
  free(file);
  mr_diag_t diag = {0};
  mr_replay_t *r = NULL;
  if (mr_replay_open(path, &r, &diag) < 0) {
    fuzz_need(diag.code < 0 && diag.text[0], "a refusal without a sentence");
    return 0;
  }
  const mr_replay_report_t *t = mr_replay_report(r);
  fuzz_need(t->batch >= 1 && t->n_records <= t->batch && t->step >= 0, "numbers out of range");
  mr_replay_close(r);
  return 0;
}
