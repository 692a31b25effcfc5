/* MDS: the input as a shard that index.json describes truly, and as the index.json of a true shard.
 */
#include "pipeline/care.h"
#include "tests/fuzz/fuzz_shards.h"

static size_t describe(char *text, size_t size, size_t n) {
  return (size_t)snprintf(text, size,
                          "{\"version\": 2, \"shards\": [{\"format\": \"mds\", \"compression\": "
                          "null, \"raw_data\": {\"basename\": \"s.mds\", \"bytes\": %zu, "
                          "\"hashes\": {}}, \"zip_data\": null}]}",
                          n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  static const char *const usual[] = {NULL};
  char text[300];
  fuzz_file("s.mds", data, n);
  fuzz_shard("mds", fuzz_file("index.json", text, describe(text, sizeof text, n)), true, usual);
  fuzz_shard("mds", fuzz_file("other.json", data, n), n & 1, usual);
  return 0;
}
