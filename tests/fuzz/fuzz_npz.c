/* An .npz file alone: the archive's directory, its members, stored or deflated, and their arrays.
 */
#include "pipeline/care.h"
#include "tests/fuzz/fuzz_shards.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  static const char *const usual[] = {NULL}, *const named[] = {"fields=x,label:class", NULL};
  const char *path = fuzz_file("rows.npz", data, n);
  fuzz_shard("npz", path, n & 1, usual);
  fuzz_shard("npz", path, !(n & 1), named);
  return 0;
}
