/* Writes chunks and index files of litdata, after litdata/streaming/writer.py. */
#ifndef MR_TESTS_LOADERS_LITDATA_H
#define MR_TESTS_LOADERS_LITDATA_H

#include <stdio.h>

#include "tests/loaders/image.h"

/* A chunk being written. */
typedef struct litdata_out {
  image_t data, ends; /* items; u32 end of each */
} litdata_out_t;

static inline void litdata_item(litdata_out_t *o, const void *const *leaf, const uint32_t *size,
                                int n) {
  image_add(&o->data, size, 4 * (size_t)n);
  for (int i = 0; i < n; i++) image_add(&o->data, leaf[i], size[i]);
  image_add(&o->ends, &(uint32_t){(uint32_t)o->data.n}, 4);
}

/* The file; the caller frees its bytes. */
static inline image_t litdata_file(const litdata_out_t *o) {
  image_t file = {0};
  uint32_t n = (uint32_t)(o->ends.n / 4), first = 4 + 4 * (n + 1);
  image_add(&file, &n, 4), image_add(&file, &first, 4);
  for (uint32_t i = 0; i < n; i++) {
    uint32_t end;
    memcpy(&end, o->ends.at + 4 * i, 4);
    image_add(&file, &(uint32_t){first + end}, 4);
  }
  image_add(&file, o->data.at, o->data.n);
  return file;
}

static inline void litdata_free(litdata_out_t *o) { free(o->data.at), free(o->ends.at); }

/* Appends a chunk to the text of an index.json, which begins empty. */
static inline void litdata_index_add(char *text, size_t n, const char *name, uint32_t items) {
  size_t at = strlen(text);
  snprintf(text + at, n - at,
           "%s{\"chunk_bytes\": 1, \"chunk_size\": %u, \"dim\": null, \"filename\": \"%s\"}",
           at ? ", " : "{\"chunks\": [", items, name);
}

/* Ends it.  formats: the list data_format; keys: the list of a dict's keys, with \\\" for each
   quote; more: further members of the config, with a comma behind them. */
static inline void litdata_index_end(char *text, size_t n, const char *formats, const char *keys,
                                     int leaves, const char *more) {
  size_t at = strlen(text);
  at += (size_t)snprintf(
      text + at, n - at,
      "], \"config\": {%s\"data_format\": %s, \"data_spec\": \"[1, {\\\"type\\\": "
      "\\\"builtins.dict\\\", \\\"context\\\": \\\"%s\\\", \\\"children_spec\\\": [",
      more, formats, keys);
  for (int i = 0; i < leaves; i++)
    at += (size_t)snprintf(
        text + at, n - at,
        "%s{\\\"type\\\": null, \\\"context\\\": null, \\\"children_spec\\\": []}", i ? ", " : "");
  snprintf(text + at, n - at, "]}]\"}}");
}

#endif
