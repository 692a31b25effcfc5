/* .npz and safetensors files as sources of rows. */
#include "pipeline/care.h"
#include "tests/fuzz/fuzz_shards.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  static const char *const usual[] = {NULL};
  static const char *const named[] = {"fields=x,id,class:label", NULL};
  const char *path = fuzz_file("rows", data, n);
  fuzz_shard("npz", path, true, n & 1 ? usual : named);
  fuzz_shard("safetensors", path, false, n & 1 ? named : usual);
  return 0;
}
