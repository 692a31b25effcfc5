/* .beton files. */
#include "pipeline/care.h"
#include "tests/fuzz/fuzz_shards.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  static const char *const usual[] = {NULL};
  fuzz_shard("beton", fuzz_file("t.beton", data, n), true, usual);
  return 0;
}
