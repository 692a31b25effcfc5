/* Writes .beton files by hand, after ffcv/writer.py and types.py. */
#ifndef MR_TESTS_LOADERS_BETON_H
#define MR_TESTS_LOADERS_BETON_H

#include "tests/loaders/shards.h"

/* A file being written: rows and values grow apart, and places in rows count from the values'
   beginning until beton_file adds it. */
typedef struct beton_out {
  image_t fields, rows, values, allocs;
  size_t place[8];           /* bytes of a row that hold a place */
  int n_fields, n_places, n; /* n: samples */
  size_t row;                /* bytes of one */
} beton_out_t;

/* type: FFCV's number; shape and descr (a JSON text) of arrays, else NULL. */
static inline void beton_field(beton_out_t *o, int type, const char *name, const uint64_t *shape,
                               int ndim, const char *descr) {
  uint8_t text[1041] = {(uint8_t)type};
  memcpy(text + 1, name, strlen(name));
  if (descr) {
    uint64_t n = strlen(descr);
    memcpy(text + 17, shape, (size_t)ndim * 8), memcpy(text + 17 + 256, &n, 8);
    memcpy(text + 17 + 264, descr, n);
  }
  image_add(&o->fields, text, sizeof text);
  o->n_fields++;
}

/* Adds a value, in a page of its own; returns its place. */
static inline uint64_t beton_value(beton_out_t *o, const void *data, size_t n) {
  uint64_t at = o->values.n, row[3] = {(uint64_t)o->n, at, n};
  image_add(&o->values, data, n), image_add(&o->values, NULL, 1 + (64 - n % 64));
  image_add(&o->allocs, row, sizeof row);
  return at;
}

/* The file; the caller frees its bytes. */
static inline image_t beton_file(const beton_out_t *o) {
  image_t file = {0};
  uint64_t first = 24 + o->fields.n + o->rows.n, table = first + o->values.n;
  uint16_t two[2] = {2, (uint16_t)o->n_fields};
  uint64_t n = (uint64_t)o->n;
  image_add(&file, two, 4), image_add(&file, &(uint32_t){1 << 21}, 4);
  image_add(&file, &n, 8), image_add(&file, &table, 8);
  image_add(&file, o->fields.at, o->fields.n), image_add(&file, o->rows.at, o->rows.n);
  for (int i = 0; i < o->n; i++)
    for (int k = 0; k < o->n_places; k++) {
      uint8_t *p = file.at + 24 + o->fields.n + (size_t)i * o->row + o->place[k];
      uint64_t at;
      memcpy(&at, p, 8), at += first, memcpy(p, &at, 8);
    }
  image_add(&file, o->values.at, o->values.n);
  for (size_t i = 0; i < o->allocs.n; i += 24) {
    uint64_t row[3];
    memcpy(row, o->allocs.at + i, 24), row[1] += first;
    image_add(&file, row, 24);
  }
  return file;
}

static inline void beton_free(beton_out_t *o) {
  free(o->fields.at), free(o->rows.at), free(o->values.at), free(o->allocs.at);
}

#endif
