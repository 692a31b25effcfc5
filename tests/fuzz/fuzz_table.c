/* CSV files. */
#include "pipeline/care.h"
#include "tests/fuzz/fuzz_shards.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  static const char *const usual[] = {NULL};
  static const char *const named[] = {"fields=id,text,kind:label:class", NULL};
  fuzz_shard("table", fuzz_file("t.csv", data, n), true, n & 1 ? usual : named);
  return 0;
}
