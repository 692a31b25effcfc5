/* The wire format: a message is a row of tags (number and type of a field) with values; unknown
   fields are passed over.  Example { Features features = 1 }, Features { map<string, Feature>
   feature = 1 }, Feature { oneof BytesList = 1, FloatList = 2, Int64List = 3 }, and each list has
   its values in field 1, packed or one by one. */
#include "loaders/formats/example.h"

#include <string.h>

enum { VARINT = 0, FIXED64 = 1, DELIMITED = 2, FIXED32 = 5 };

/* A field of a message. */
typedef struct field {
  uint64_t number;
  int type;
  uint64_t value;      /* VARINT */
  const uint8_t *data; /* [n] DELIMITED, FIXED32, FIXED64 */
  size_t n;
} field_t;

static bool take_varint(const uint8_t **at, const uint8_t *end, uint64_t *v) {
  *v = 0;
  for (int shift = 0; shift < 64 && *at < end; shift += 7) {
    uint8_t byte = *(*at)++;
    *v |= (uint64_t)(byte & 0x7F) << shift;
    if (!(byte & 0x80)) return true;
  }
  return false;
}

/* False if no whole field is at *at. */
static bool take_field(const uint8_t **at, const uint8_t *end, field_t *f) {
  uint64_t tag, n = 0;
  if (!take_varint(at, end, &tag) || tag >> 3 == 0) return false;
  *f = (field_t){.number = tag >> 3, .type = (int)(tag & 7)};
  switch (f->type) {
    case VARINT: return take_varint(at, end, &f->value);
    case FIXED64: n = 8; break;
    case FIXED32: n = 4; break;
    case DELIMITED:
      if (!take_varint(at, end, &n)) return false;
      break;
    default: return false; /* groups are of another age */
  }
  if (n > (uint64_t)(end - *at)) return false;
  f->data = *at, f->n = (size_t)n;
  *at += n;
  return true;
}

/* ---- lists ---- */

/* Counts the values of a list and checks all of it; -1 if it is malformed. */
static int64_t count_values(mr_feature_kind_t kind, const uint8_t *at, const uint8_t *end) {
  int64_t n = 0;
  field_t f;
  while (at < end) {
    if (!take_field(&at, end, &f)) return -1;
    if (f.number != 1) continue;
    if (kind == MR_FEATURE_BYTES) {
      if (f.type != DELIMITED) return -1;
      n++;
    } else if (kind == MR_FEATURE_FLOAT) {
      if (f.type != FIXED32 && (f.type != DELIMITED || f.n % 4)) return -1;
      n += (int64_t)(f.n / 4);
    } else if (f.type == VARINT) {
      n++;
    } else {
      uint64_t v;
      const uint8_t *p = f.data;
      if (f.type != DELIMITED) return -1;
      for (; p < f.data + f.n; n++)
        if (!take_varint(&p, f.data + f.n, &v)) return -1;
    }
  }
  return n;
}

/* Writes value number i. */
static bool put_int(uint64_t v, bool narrow, void *out, int64_t i) {
  if (!narrow) return ((int64_t *)out)[i] = (int64_t)v, true;
  ((int32_t *)out)[i] = (int32_t)v;
  return (int64_t)v >= INT32_MIN && (int64_t)v <= INT32_MAX;
}

bool mr_example_ints(const mr_example_feature_t *feature, bool narrow, void *out) {
  const uint8_t *at = feature->list, *end = at + feature->list_n;
  int64_t i = 0;
  bool fits = true;
  field_t f;
  while (at < end && take_field(&at, end, &f)) {
    uint64_t v;
    const uint8_t *p = f.data;
    if (f.number != 1) continue;
    if (f.type == VARINT) fits &= put_int(f.value, narrow, out, i++);
    while (f.type == DELIMITED && p < f.data + f.n && take_varint(&p, f.data + f.n, &v))
      fits &= put_int(v, narrow, out, i++);
  }
  return fits;
}

void mr_example_floats(const mr_example_feature_t *feature, float *out) {
  const uint8_t *at = feature->list, *end = at + feature->list_n;
  field_t f;
  while (at < end && take_field(&at, end, &f)) {
    if (f.number != 1 || !f.n) continue;
    memcpy(out, f.data, f.n);
    out += f.n / 4;
  }
}

const uint8_t *mr_example_bytes(const mr_example_feature_t *feature, size_t *n) {
  const uint8_t *at = feature->list, *end = at + feature->list_n;
  field_t f;
  *n = 0;
  while (at < end && take_field(&at, end, &f)) {
    if (f.number != 1) continue;
    *n = f.n;
    return f.data;
  }
  return feature->list;
}

/* ---- the message ---- */

/* The list of a feature: the last one set, as protobuf decides. */
static bool read_feature(const uint8_t *at, const uint8_t *end, mr_example_feature_t *out) {
  static const mr_feature_kind_t kind[] = {MR_FEATURE_NONE, MR_FEATURE_BYTES, MR_FEATURE_FLOAT,
                                           MR_FEATURE_INT64};
  field_t f;
  while (at < end) {
    if (!take_field(&at, end, &f)) return false;
    if (f.number > 3) continue;
    if (f.type != DELIMITED) return false;
    out->kind = kind[f.number], out->list = f.data, out->list_n = f.n;
  }
  out->n = out->kind ? count_values(out->kind, out->list, out->list + out->list_n) : 0;
  return out->n >= 0;
}

/* An entry of the map: key = 1, value = 2. */
static bool read_entry(const uint8_t *at, const uint8_t *end, mr_example_feature_t *out) {
  const uint8_t *value = NULL;
  size_t n = 0;
  field_t f;
  *out = (mr_example_feature_t){.name = ""};
  while (at < end) {
    if (!take_field(&at, end, &f)) return false;
    if (f.number > 2) continue;
    if (f.type != DELIMITED) return false;
    if (f.number == 1)
      out->name = (const char *)f.data, out->name_n = f.n;
    else
      value = f.data, n = f.n;
  }
  return !value || read_feature(value, value + n, out);
}

mr_err_t mr_example_next(mr_example_walk_t *w, mr_example_feature_t *out, mr_diag_t *diag) {
  field_t f;
  for (;;) {
    bool inside = w->map_at < w->map_end;
    if (!inside && w->at == w->end) return MR_END;
    if (!take_field(inside ? &w->map_at : &w->at, inside ? w->map_end : w->end, &f)) break;
    if (f.number != 1) continue;
    if (f.type != DELIMITED) break;
    if (inside) {
      if (!read_entry(f.data, f.data + f.n, out)) break;
      return MR_OK;
    }
    w->map_at = f.data, w->map_end = f.data + f.n;
  }
  return mr_fail(diag, MR_ERR_DATA, "is not a tf.train.Example, or is malformed");
}
