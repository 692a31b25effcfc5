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

/* A walk over the lists of a feature. */
typedef struct lists_walk {
  const uint8_t *at, *end;             /* of the entry: values in its fields 2 */
  const uint8_t *value_at, *value_end; /* of the value being walked over */
  bool done;
} lists_walk_t;

/* Sets list[0,*n) to the next one that counts; false behind the last. */
static bool next_list(const mr_example_feature_t *f, lists_walk_t *w, const uint8_t **list,
                      size_t *n) {
  static const uint64_t number[] = {
      [MR_FEATURE_BYTES] = 1, [MR_FEATURE_FLOAT] = 2, [MR_FEATURE_INT64] = 3};
  field_t g;
  if (f->lists < 2) {
    *list = f->list, *n = f->list_n;
    return !w->done && (w->done = true);
  }
  if (!w->at) w->at = f->entry, w->end = f->entry + f->entry_n;
  for (;;) {
    bool inside = w->value_at < w->value_end;
    if (!inside && w->at >= w->end) return false;
    if (!take_field(inside ? &w->value_at : &w->at, inside ? w->value_end : w->end, &g))
      return false;
    if (!inside) {
      if (g.number == 2 && g.type == DELIMITED) w->value_at = g.data, w->value_end = g.data + g.n;
    } else if (g.number == number[f->kind] && g.data >= f->list) {
      *list = g.data, *n = g.n;
      return true;
    }
  }
}

bool mr_example_ints(const mr_example_feature_t *feature, bool narrow, void *out) {
  lists_walk_t w = {0};
  const uint8_t *at;
  size_t n;
  int64_t i = 0;
  bool fits = true;
  field_t f;
  while (next_list(feature, &w, &at, &n))
    for (const uint8_t *end = at + n; at < end && take_field(&at, end, &f);) {
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
  lists_walk_t w = {0};
  const uint8_t *at;
  size_t n;
  field_t f;
  while (next_list(feature, &w, &at, &n))
    for (const uint8_t *end = at + n; at < end && take_field(&at, end, &f);) {
      if (f.number != 1 || !f.n) continue;
      memcpy(out, f.data, f.n);
      out += f.n / 4;
    }
}

const uint8_t *mr_example_bytes(const mr_example_feature_t *feature, size_t *n) {
  lists_walk_t w = {0};
  const uint8_t *at;
  size_t size;
  field_t f;
  *n = 0;
  while (next_list(feature, &w, &at, &size))
    for (const uint8_t *end = at + size; at < end && take_field(&at, end, &f);) {
      if (f.number != 1) continue;
      *n = f.n;
      return f.data;
    }
  return feature->list;
}

/* ---- the message ---- */

/* Adds the lists of a feature: of several kinds the last one set counts, and of one kind all do
   that no other kind came between, as protobuf merges them. */
static bool read_feature(const uint8_t *at, const uint8_t *end, mr_example_feature_t *out) {
  static const mr_feature_kind_t kind[] = {MR_FEATURE_NONE, MR_FEATURE_BYTES, MR_FEATURE_FLOAT,
                                           MR_FEATURE_INT64};
  field_t f;
  while (at < end) {
    if (!take_field(&at, end, &f)) return false;
    if (f.number > 3) continue;
    if (f.type != DELIMITED) return false;
    int64_t n = count_values(kind[f.number], f.data, f.data + f.n);
    if (n < 0) return false;
    if (out->kind == kind[f.number]) {
      out->n += n, out->lists++;
    } else {
      out->kind = kind[f.number], out->list = f.data, out->list_n = f.n, out->n = n, out->lists = 1;
    }
  }
  return true;
}

/* An entry of the map: key = 1, value = 2.  name_alone: its value is of another type. */
static bool read_entry(const uint8_t *at, const uint8_t *end, bool name_alone,
                       mr_example_feature_t *out) {
  field_t f;
  *out = (mr_example_feature_t){.name = "", .entry = at, .entry_n = (size_t)(end - at)};
  while (at < end) {
    if (!take_field(&at, end, &f)) return false;
    if (f.number > 2) continue;
    if (f.type != DELIMITED) return false;
    if (f.number == 1)
      out->name = (const char *)f.data, out->name_n = f.n;
    else if (!name_alone && !read_feature(f.data, f.data + f.n, out))
      return false;
  }
  return true;
}

mr_err_t mr_example_next(mr_example_walk_t *w, mr_example_feature_t *out, mr_diag_t *diag) {
  field_t f;
  for (;;) {
    bool inside = w->map_at < w->map_end;
    if (!inside && w->at == w->end) return MR_END;
    if (!take_field(inside ? &w->map_at : &w->at, inside ? w->map_end : w->end, &f)) break;
    if (f.number != (!inside && w->sequences ? 2 : 1)) continue;
    if (f.type != DELIMITED) break;
    if (inside) {
      if (!read_entry(f.data, f.data + f.n, w->sequences, out)) break;
      return MR_OK;
    }
    w->map_at = f.data, w->map_end = f.data + f.n;
  }
  return mr_fail(diag, MR_ERR_DATA, "is not a tf.train.Example, or is malformed");
}
