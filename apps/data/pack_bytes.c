/* What the formats of pack share: bytes that grow, and values of a batch's records.  Want of memory
   is noted and not reported by each call, so that a format can write a record as one expression. */
#include <stdlib.h>
#include <string.h>

#include "apps/data/pack.h"

void mr_pack_add(mr_pack_bytes_t *b, const void *data, size_t n) {
  if (b->short_of) return;
  if (b->n + n > b->cap) {
    size_t cap = 2 * (b->n + n) + 4096;
    uint8_t *more = realloc(b->at, cap);
    if (!more) {
      b->short_of = true;
      return;
    }
    b->at = more, b->cap = cap;
  }
  if (n && data) memcpy(b->at + b->n, data, n);
  if (n && !data) memset(b->at + b->n, 0, n);
  b->n += n;
}

mr_pack_value_t mr_pack_value(const mr_spec_t *spec, const mr_buf_t *b, int f, int i) {
  const mr_field_t *field = &spec->field[f];
  const mr_buf_field_t *v = &b->field[f];
  size_t row = mr_field_row(field), each = mr_field_bytes(field);
  if (!v->offset)
    return (mr_pack_value_t){.data = (const char *)v->data + (size_t)i * each, .bytes = each};
  int64_t rows = v->offset[i + 1] - v->offset[i];
  return (mr_pack_value_t){.data = (const char *)v->data + (size_t)v->offset[i] * row,
                           .bytes = (size_t)rows * row,
                           .rows = rows};
}

bool mr_pack_is_whole(const mr_field_t *f) {
  return !f->ragged && f->ndim == 0 &&
         (f->dtype == MR_U8 || f->dtype == MR_I32 || f->dtype == MR_U32 || f->dtype == MR_I64);
}

int64_t mr_pack_whole(const mr_field_t *field, const void *data) {
  switch (field->dtype) {
    case MR_U8: return *(const uint8_t *)data;
    case MR_I32: return *(const int32_t *)data;
    case MR_U32: return *(const uint32_t *)data;
    default: return *(const int64_t *)data;
  }
}
