/* tf.train.Examples: integers become int64 lists, f32 float lists, all else byte strings.  Lengths
   precede what they measure, so that each message is measured first and written then. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/data/pack.h"
#include "base/crc32c.h"

enum { BYTES_LIST = 1, FLOAT_LIST = 2, INT64_LIST = 3 };

static int list_of(const mr_field_t *f) {
  if (f->dtype == MR_F32) return FLOAT_LIST;
  return f->dtype == MR_I32 || f->dtype == MR_I64 ? INT64_LIST : BYTES_LIST;
}

static mr_err_t tfrecord_check(const mr_spec_t *spec, mr_diag_t *diag) {
  for (int f = 0; f < spec->n_fields; f++) {
    const mr_field_t *field = &spec->field[f];
    bool bytes = field->dtype == MR_U8 && field->ndim == 1;
    bool numbers = list_of(field) != BYTES_LIST && field->ndim == 1;
    if (!field->ragged || bytes || numbers) continue;
    return mr_fail(diag, MR_ERR_CONFIG,
                   "pack: field %s: a tfrecord holds ragged rows of single numbers of u8, i32, i64 "
                   "and f32: cast, pad or drop it",
                   field->name);
  }
  return MR_OK;
}

/* ---- protocol buffers ---- */

static size_t varint_bytes(uint64_t v) {
  size_t n = 1;
  for (; v > 127; v >>= 7) n++;
  return n;
}

static void put_varint(mr_pack_bytes_t *o, uint64_t v) {
  uint8_t text[10];
  size_t n = 0;
  for (; v > 127; v >>= 7) text[n++] = (uint8_t)v | 0x80;
  text[n++] = (uint8_t)v;
  mr_pack_add(o, text, n);
}

/* The head of a field of n bytes. */
static void put_head(mr_pack_bytes_t *o, int number, uint64_t n) {
  put_varint(o, (uint64_t)number << 3 | 2);
  put_varint(o, n);
}

static uint64_t delimited_bytes(uint64_t n) { return 1 + varint_bytes(n) + n; }

static int64_t list_number(const mr_field_t *f, const void *data, size_t i) {
  return f->dtype == MR_I32 ? ((const int32_t *)data)[i] : ((const int64_t *)data)[i];
}

/* Bytes of the packed values, or of the byte string. */
static uint64_t packed_bytes(const mr_field_t *f, const mr_pack_value_t *v) {
  uint64_t n = 0;
  if (list_of(f) != INT64_LIST) return v->bytes;
  for (size_t i = 0; i < v->bytes / mr_dtype_size(f->dtype); i++)
    n += varint_bytes((uint64_t)list_number(f, v->data, i));
  return n;
}

/* An entry of the map of features: name = 1, Feature = 2 { list { values = 1 } }. */
static uint64_t put_entry(mr_pack_bytes_t *o, const mr_field_t *f, const mr_pack_value_t *v) {
  uint64_t values = packed_bytes(f, v), list = delimited_bytes(values);
  uint64_t feature = delimited_bytes(list), name = strlen(f->name);
  uint64_t entry = delimited_bytes(name) + delimited_bytes(feature);
  if (!o) return delimited_bytes(entry);
  put_head(o, 1, entry);
  put_head(o, 1, name), mr_pack_add(o, f->name, name);
  put_head(o, 2, feature), put_head(o, list_of(f), list), put_head(o, 1, values);
  if (list_of(f) != INT64_LIST) {
    mr_pack_add(o, v->data, v->bytes);
    return 0;
  }
  for (size_t i = 0; i < v->bytes / mr_dtype_size(f->dtype); i++)
    put_varint(o, (uint64_t)list_number(f, v->data, i));
  return 0;
}

static void tfrecord_add(const mr_spec_t *spec, const mr_buf_t *b, int i, int64_t number,
                         mr_pack_bytes_t *bytes, mr_pack_bytes_t *ends) {
  uint64_t map = 0;
  for (int f = 0; f < spec->n_fields; f++) {
    mr_pack_value_t v = mr_pack_value(spec, b, f, i);
    map += put_entry(NULL, &spec->field[f], &v);
  }
  uint64_t n = delimited_bytes(map);
  uint32_t sum = mr_crc32c_mask(mr_crc32c(&n, sizeof n));
  mr_pack_add(bytes, &n, sizeof n), mr_pack_add(bytes, &sum, sizeof sum);
  size_t at = bytes->n;
  put_head(bytes, 1, map);
  for (int f = 0; f < spec->n_fields; f++) {
    mr_pack_value_t v = mr_pack_value(spec, b, f, i);
    put_entry(bytes, &spec->field[f], &v);
  }
  if (bytes->short_of) return;
  sum = mr_crc32c_mask(mr_crc32c(bytes->at + at, n));
  mr_pack_add(bytes, &sum, sizeof sum);
}

static mr_err_t tfrecord_end(const mr_spec_t *spec, mr_pack_bytes_t *bytes,
                             const mr_pack_bytes_t *ends, mr_diag_t *diag) {
  return MR_OK;
}

static void tfrecord_fields(const mr_spec_t *spec, char text[MR_PACK_MAX]) {
  size_t at = 0;
  for (int f = 0; f < spec->n_fields; f++) {
    const mr_field_t *field = &spec->field[f];
    at += (size_t)snprintf(text + at, MR_PACK_MAX - at, "%s%s:%s", f ? "," : "", field->name,
                           field->name);
    if (field->label) at += (size_t)snprintf(text + at, MR_PACK_MAX - at, ":label");
    if (field->label || (field->ragged && field->dtype == MR_U8)) continue;
    bool single = field->ragged || (field->ndim == 0 && list_of(field) != BYTES_LIST);
    at += (size_t)snprintf(text + at, MR_PACK_MAX - at, ":%s%s", mr_dtype_name(field->dtype),
                           single ? "" : "[");
    for (int d = 0; d < field->ndim && !single; d++)
      at +=
          (size_t)snprintf(text + at, MR_PACK_MAX - at, "%s%" PRId64, d ? "x" : "", field->dim[d]);
    if (!single) at += (size_t)snprintf(text + at, MR_PACK_MAX - at, "]");
  }
}

const mr_pack_format_t mr_pack_tfrecord = {.name = "tfrecord",
                                           .ending = ".tfrecord",
                                           .check = tfrecord_check,
                                           .add = tfrecord_add,
                                           .end = tfrecord_end,
                                           .fields = tfrecord_fields};
