/* Writes shards and index files of MosaicML Streaming, after streaming/base/format/mds/writer.py.
 */
#ifndef MR_TESTS_LOADERS_MDS_H
#define MR_TESTS_LOADERS_MDS_H

#include "tests/loaders/shards.h"

/* A shard being written; columns in the order of their names. */
typedef struct mds_shard {
  const char *columns; /* JSON of names, encodings and sizes: "\"column_names\": [..], .." */
  image_t data, ends;  /* samples; u32 end of each */
} mds_shard_t;

static inline void mds_sample(mds_shard_t *o, const void *sizes, size_t n_sizes, const void *data,
                              size_t n) {
  image_add(&o->data, sizes, n_sizes), image_add(&o->data, data, n);
  image_add(&o->ends, &(uint32_t){(uint32_t)o->data.n}, 4);
}

/* The file; the caller frees its bytes. */
static inline image_t mds_file(const mds_shard_t *o) {
  char config[1200];
  image_t file = {0};
  int k = snprintf(config, sizeof config,
                   "{\"format\": \"mds\", \"hashes\": [], \"version\": 2, %s}", o->columns);
  uint32_t n = (uint32_t)(o->ends.n / 4), first = 4 + 4 * (n + 1) + (uint32_t)k;
  image_add(&file, &n, 4), image_add(&file, &first, 4);
  for (uint32_t i = 0; i < n; i++) {
    uint32_t end;
    memcpy(&end, o->ends.at + 4 * i, 4);
    image_add(&file, &(uint32_t){first + end}, 4);
  }
  image_add(&file, config, (size_t)k), image_add(&file, o->data.at, o->data.n);
  return file;
}

static inline void mds_free(mds_shard_t *o) { free(o->data.at), free(o->ends.at); }

/* Appends a shard to the text of an index.json; zip: "null" or the JSON of zip_data. */
static inline void mds_index_add(char *text, size_t n, const char *name, size_t bytes,
                                 const char *hashes, const char *codec, const char *zip) {
  size_t at = strlen(text);
  at += (size_t)snprintf(text + at, n - at,
                         "%s{\"format\": \"mds\", \"compression\": %s, \"raw_data\": "
                         "{\"basename\": \"%s\", \"bytes\": %zu, \"hashes\": {%s}}, "
                         "\"zip_data\": %s}",
                         at ? ", " : "{\"version\": 2, \"shards\": [", codec, name, bytes, hashes,
                         zip);
}

static inline void mds_index_write(char *text, size_t n) {
  strncat(text, "]}", n - strlen(text) - 1);
  write_file("index.json", text, strlen(text));
}

#endif
