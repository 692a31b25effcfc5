/* Index files of shards, with their digest and the identity of the shard set right; and the names
   of shards. */
#include "loaders/shards/shard_index.h"
#include "loaders/shards/shard_names.h"
#include "tests/fuzz/fuzz.h"

#include <xxhash.h>

enum { HEAD = 96, KIND_AT = 8, ID_AT = 24, DIGEST_AT = 88 };

static void load(const uint8_t *data, size_t n) {
  static uint8_t file[1 << 16];
  const mr_shard_id_t id = {1000, 1, 2};
  mr_shard_index_t x;
  size_t all = n < sizeof file ? n : sizeof file;
  memcpy(file, data, all);
  if (all >= HEAD) {
    memcpy(file, "MRSHARD1", 8);
    memset(file + KIND_AT, 0, 16), memcpy(file + KIND_AT, "tar/1", 5);
    memcpy(file + ID_AT, &id, sizeof id);
    memset(file + DIGEST_AT, 0, 8);
    uint64_t digest = XXH3_64bits(file, all);
    memcpy(file + DIGEST_AT, &digest, sizeof digest);
  }
  if (mr_shard_index_load(fuzz_file("x.mrindex", file, all), "tar/1", &id, MR_KEPT_INDEX, NULL, &x,
                          NULL) < 0)
    return;
  for (int64_t i = 0; i < x.n_records; i++) {
    (void)strlen(x.text + x.record[i].key);
    for (uint64_t p = x.record[i].part; p < x.record[i + 1].part; p++)
      (void)strlen(x.text + x.column[x.part[p].column].name);
  }
  if (x.fault) (void)strlen(x.fault);
  mr_shard_index_close(&x);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  char text[256];
  mr_shard_names_t names;
  load(data, n);
  snprintf(text, sizeof text, "%.*s", (int)(n < 200 ? n : 200), (const char *)data);
  (void)mr_shard_names_expand(text, &names, NULL);
  mr_shard_names_fini(&names);
  return 0;
}
