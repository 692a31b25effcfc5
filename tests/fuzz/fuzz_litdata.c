/* litdata: the input as a chunk that index.json describes, and as the index.json of a true chunk.
 */
#include "pipeline/care.h"
#include "tests/fuzz/fuzz_shards.h"

static size_t describe(char *text, size_t size, const uint8_t *data, size_t n) {
  uint32_t items = 0;
  memcpy(&items, data, n < 4 ? n : 4);
  return (size_t)snprintf(
      text, size,
      "{\"chunks\": [{\"filename\": \"c.bin\", \"chunk_size\": %u}], \"config\": {\"data_format\": "
      "[\"int\", \"bytes\", \"numpy\", \"tensor\", \"no_header_numpy:1\", "
      "\"no_header_tensor:18\"], "
      "\"data_spec\": \"[1, {\\\"type\\\": \\\"builtins.list\\\", \\\"children_spec\\\": [{}, {}, "
      "{}, {}, {}, {}]}]\"}}",
      items);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  static const char *const usual[] = {NULL};
  char text[600];
  fuzz_file("c.bin", data, n);
  fuzz_shard("litdata", fuzz_file("index.json", text, describe(text, sizeof text, data, n)), true,
             usual);
  fuzz_shard("litdata", fuzz_file("other.json", data, n), n & 1, usual);
  return 0;
}
