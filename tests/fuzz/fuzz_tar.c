/* Archives: the input as it is, and with the checksums of its blocks set right, so that the parser
   is reached behind them. */
#include "pipeline/care.h"
#include "tests/fuzz/fuzz_shards.h"

static uint8_t fixed[1 << 16];

static size_t with_right_sums(const uint8_t *data, size_t n) {
  size_t all = n < sizeof fixed ? n : sizeof fixed;
  memcpy(fixed, data, all);
  for (size_t at = 0; at + 512 <= all; at += 512) {
    unsigned sum = 0;
    char text[8];
    memset(fixed + at + 148, ' ', 8);
    for (int i = 0; i < 512; i++) sum += fixed[at + i];
    snprintf(text, sizeof text, "%06o", sum);
    memcpy(fixed + at + 148, text, 7);
  }
  return all;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  static const char *const usual[] = {NULL};
  static const char *const named[] = {"fields=__key__:key,jpg:image,cls:label,x:x:float,npy:a",
                                      NULL};
  fuzz_shard("tar", fuzz_file("raw.tar", data, n), true, usual);
  const char *path = fuzz_file("fixed.tar", fixed, with_right_sums(data, n));
  fuzz_shard("tar", path, true, usual);
  fuzz_shard("tar", path, n & 1, named);
  return 0;
}
