/* What the plug-in of test_fields.c and its oracle both know: the fields of a set, the bytes of
   each by the key of its record, and a batch as the bytes of a file. */
#ifndef MR_TESTS_APPS_PLUGINS_FIELDS_H
#define MR_TESTS_APPS_PLUGINS_FIELDS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/buffer.h"

enum { FIELDS_CLASSES = 5 };

/* Splitmix64 of some numbers. */
static inline uint64_t fields_hash(uint64_t set, uint64_t field, uint64_t key, uint64_t i) {
  uint64_t z = set * 0x9E3779B97F4A7C15u + field * 0xD1B54A32D192ED03u + key * 0x8CB92BA72F3D8DD7u +
               i * 0x2545F4914F6CDD1Du + 1;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return z ^ z >> 31;
}

/* Set 0: five fields of five dtypes, one of them ragged; others follow from their number. */
static inline mr_spec_t fields_of(uint64_t set) {
  mr_spec_t spec = {
      .flow = MR_FLOW_RECORDS,
      .n_fields = 5,
      .field = {
          {.name = "image", .dtype = MR_U8, .layout = MR_LAYOUT_HWC, .ndim = 3, .dim = {9, 8, 3}},
          {.name = "weight", .dtype = MR_F32},
          {.name = "box", .dtype = MR_F16, .ndim = 2, .dim = {2, 2}},
          {.name = "words", .dtype = MR_U32, .ndim = 2, .dim = {7, 2}, .ragged = true},
          mr_field_of_label(FIELDS_CLASSES)}};
  if (!set) return spec;
  spec.n_fields = 1 + (int)(fields_hash(set, 0, 0, 0) % 6);
  for (int f = 0; f < spec.n_fields; f++) {
    mr_field_t *field = &spec.field[f];
    *field =
        (mr_field_t){.dtype = (mr_dtype_t)(fields_hash(set, (uint64_t)f, 1, 0) % MR_DTYPE_COUNT),
                     .ndim = (int)(fields_hash(set, (uint64_t)f, 2, 0) % 3)};
    for (int i = 0; i < field->ndim; i++)
      field->dim[i] = 1 + (int64_t)(fields_hash(set, (uint64_t)f, 3, (uint64_t)i) % 9);
    field->ragged = field->ndim && fields_hash(set, (uint64_t)f, 4, 0) % 3 == 0;
    if (fields_hash(set, (uint64_t)f, 5, 0) % 5 == 0) *field = mr_field_of_label(FIELDS_CLASSES);
    snprintf(field->name, sizeof field->name, "f%d", f);
  }
  return spec;
}

/* Field f of the record of this key into out; returns its rows, of an even field 0. */
static inline int64_t fields_value(const mr_spec_t *spec, uint64_t set, int f, uint64_t key,
                                   void *out) {
  const mr_field_t *field = &spec->field[f];
  uint8_t *at = out;
  int64_t rows = 0;
  size_t bytes = mr_field_bytes(field);
  if (field->ragged) {
    rows = (int64_t)(fields_hash(set, (uint64_t)f, key, 0) % (uint64_t)(field->dim[0] + 1));
    bytes = (size_t)rows * mr_field_row(field);
  }
  for (size_t i = 0; i < bytes; i++) at[i] = (uint8_t)fields_hash(set, (uint64_t)f, key, i + 1);
  for (size_t i = 0; i < bytes && field->dtype == MR_BOOL; i++) at[i] &= 1;
  if (field->label) *(int32_t *)out = (int32_t)(key % FIELDS_CLASSES);
  return rows;
}

/* What the stage stir does with a value: of ragged ones of even keys the first row goes, of the
   others the bytes turn. */
static inline int64_t fields_stir(const mr_field_t *field, uint64_t key, const void *in,
                                  int64_t rows, void *out) {
  const uint8_t *from = in;
  uint8_t *to = out;
  size_t row = mr_field_row(field);
  bool cut = field->ragged && rows && key % 2 == 0;
  size_t bytes = field->ragged ? (size_t)(rows - cut) * row : mr_field_bytes(field);
  memcpy(to, from + (cut ? row : 0), bytes);
  for (size_t i = 0; i < bytes && !field->ragged && !field->label; i++)
    to[i] ^= (uint8_t)(key * 3 + 1);
  return rows - cut;
}

/* ---- a batch as a file ---- */

typedef struct fields_head {
  int64_t n, n_fields, position;
} fields_head_t; /* then n keys, n draws, n marks; then the fields */
typedef struct fields_part {
  char name[MR_FIELD_NAME];
  int64_t ragged, each, bytes; /* of a record, or of a row; of all */
} fields_part_t;               /* then n + 1 offsets if it is ragged, then the bytes */

static inline char *fields_put(char *at, const void *from, size_t n) {
  if (n) memcpy(at, from, n);
  return at + n;
}

/* The bytes of a batch, heap; *n of them. */
static inline char *fields_bytes(const mr_spec_t *spec, const mr_buf_t *b, size_t *n) {
  size_t k = (size_t)b->n;
  char *out = malloc(sizeof(fields_head_t) + k * 17 + mr_spec_bytes(spec) +
                     MR_FIELDS_MAX * (sizeof(fields_part_t) + (k + 1) * 8)),
       *at = out;
  if (!out) return NULL;
  fields_head_t head = {b->n, spec->n_fields, b->position};
  at = fields_put(at, &head, sizeof head);
  at = fields_put(at, b->key, k * 8);
  at = fields_put(at, b->draw, k * 8);
  at = fields_put(at, b->excluded, k);
  for (int f = 0; f < spec->n_fields; f++) {
    const mr_field_t *field = &spec->field[f];
    const mr_buf_field_t *v = &b->field[f];
    size_t each = field->ragged ? mr_field_row(field) : mr_field_bytes(field);
    size_t bytes = each * (field->ragged ? (size_t)v->offset[k] : k);
    fields_part_t part = {.ragged = field->ragged, .each = (int64_t)each, .bytes = (int64_t)bytes};
    memcpy(part.name, field->name, sizeof part.name);
    at = fields_put(at, &part, sizeof part);
    if (field->ragged) at = fields_put(at, v->offset, (k + 1) * 8);
    at = fields_put(at, v->data, bytes);
  }
  *n = (size_t)(at - out);
  return out;
}

#endif
