/* Shards of MosaicML Streaming: columns in the order of their names.  The offsets of all samples
   precede the samples, so that the file is put together when the shard ends. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/data/pack.h"

enum { CONFIG_MAX = 8192 };

/* NumPy's name of a type; NULL if MDS has none. */
static const char *mds_type_name(mr_dtype_t t) {
  static const char *const name[MR_DTYPE_COUNT] = {
      [MR_U8] = "uint8",   [MR_I32] = "int32",   [MR_U32] = "uint32",  [MR_I64] = "int64",
      [MR_U64] = "uint64", [MR_F16] = "float16", [MR_F32] = "float32", [MR_F64] = "float64"};
  return name[t];
}

static mr_err_t mds_check(const mr_spec_t *spec, mr_diag_t *diag) {
  for (int f = 0; f < spec->n_fields; f++) {
    const mr_field_t *field = &spec->field[f];
    bool bytes = field->ragged && field->ndim == 1 && field->dtype == MR_U8;
    if (bytes || (!field->ragged && mds_type_name(field->dtype))) continue;
    return mr_fail(
        diag, MR_ERR_CONFIG,
        "pack: field %s: an MDS shard holds ragged u8, and arrays of whole numbers, f16, "
        "f32 and f64: cast, pad or drop it, or want --format tfrecord",
        field->name);
  }
  return MR_OK;
}

/* The fields in the order of their names. */
static void mds_order(const mr_spec_t *spec, int order[MR_FIELDS_MAX]) {
  for (int f = 0; f < spec->n_fields; f++) {
    int at = f;
    for (; at > 0 && strcmp(spec->field[order[at - 1]].name, spec->field[f].name) > 0; at--)
      order[at] = order[at - 1];
    order[at] = f;
  }
}

static void mds_add(const mr_spec_t *spec, const mr_buf_t *b, int i, int64_t number,
                    mr_pack_bytes_t *bytes, mr_pack_bytes_t *ends) {
  int order[MR_FIELDS_MAX];
  mds_order(spec, order);
  for (int k = 0; k < spec->n_fields; k++) {
    if (!spec->field[order[k]].ragged) continue;
    uint32_t size = (uint32_t)mr_pack_value(spec, b, order[k], i).bytes;
    mr_pack_add(bytes, &size, sizeof size);
  }
  for (int k = 0; k < spec->n_fields; k++) {
    const mr_field_t *field = &spec->field[order[k]];
    mr_pack_value_t v = mr_pack_value(spec, b, order[k], i);
    int64_t whole = field->label ? mr_pack_whole(field, v.data) : 0;
    mr_pack_add(bytes, field->label ? &whole : v.data, field->label ? sizeof whole : v.bytes);
  }
  uint64_t end = bytes->n;
  mr_pack_add(ends, &end, sizeof end);
}

static size_t mds_encoding(const mr_field_t *f, char *text, size_t n) {
  if (f->ragged) return (size_t)snprintf(text, n, "bytes");
  if (f->label) return (size_t)snprintf(text, n, "int");
  size_t at = (size_t)snprintf(text, n, "%s%s", f->ndim ? "ndarray:" : "", mds_type_name(f->dtype));
  for (int d = 0; d < f->ndim; d++)
    at += (size_t)snprintf(text + at, n - at, "%c%" PRId64, d ? ',' : ':', f->dim[d]);
  return at;
}

static size_t mds_config(const mr_spec_t *spec, char text[CONFIG_MAX]) {
  int order[MR_FIELDS_MAX];
  static const char *const list[] = {"column_encodings", "column_names", "column_sizes"};
  mds_order(spec, order);
  size_t at = 0;
  for (int l = 0; l < 3; l++) {
    at += (size_t)snprintf(text + at, CONFIG_MAX - at, "%s\"%s\": [", l ? ", " : "{", list[l]);
    for (int k = 0; k < spec->n_fields; k++) {
      const mr_field_t *f = &spec->field[order[k]];
      char word[256], size[32];
      if (l == 0) mds_encoding(f, word, sizeof word);
      snprintf(size, sizeof size, "%zu", f->label ? 8 : mr_field_bytes(f));
      at += l < 2 ? (size_t)snprintf(text + at, CONFIG_MAX - at, "%s\"%s\"", k ? ", " : "",
                                     l ? f->name : word)
                  : (size_t)snprintf(text + at, CONFIG_MAX - at, "%s%s", k ? ", " : "",
                                     f->ragged ? "null" : size);
    }
    at += (size_t)snprintf(text + at, CONFIG_MAX - at, "]");
  }
  return at + (size_t)snprintf(text + at, CONFIG_MAX - at,
                               ", \"compression\": null, \"format\": \"mds\", \"hashes\": [], "
                               "\"size_limit\": null, \"version\": 2}");
}

/* Puts the head before the samples: their number, where each begins, the columns. */
static mr_err_t mds_end(const mr_spec_t *spec, mr_pack_bytes_t *bytes, const mr_pack_bytes_t *ends,
                        mr_diag_t *diag) {
  char config[CONFIG_MAX];
  size_t n_config = mds_config(spec, config), n = ends->n / sizeof(uint64_t);
  size_t first = 4 + 4 * (n + 1) + n_config;
  mr_pack_bytes_t file = {0};
  if (first + bytes->n > UINT32_MAX)
    return mr_fail(
        diag, MR_ERR_DATA,
        "pack: a shard of %zu records has %zu bytes, and an MDS shard ends at 4 GiB: want "
        "a smaller --records",
        n, first + bytes->n);
  uint32_t word[2] = {(uint32_t)n, (uint32_t)first};
  mr_pack_add(&file, word, sizeof word);
  for (size_t i = 0; i < n; i++) {
    uint64_t end;
    memcpy(&end, ends->at + i * sizeof end, sizeof end);
    mr_pack_add(&file, &(uint32_t){(uint32_t)(first + end)}, 4);
  }
  mr_pack_add(&file, config, n_config), mr_pack_add(&file, bytes->at, bytes->n);
  file.short_of |= bytes->short_of;
  free(bytes->at);
  *bytes = file;
  return MR_OK;
}

static void mds_fields(const mr_spec_t *spec, char text[MR_PACK_MAX]) {
  size_t at = 0;
  for (int f = 0; f < spec->n_fields; f++)
    at += (size_t)snprintf(text + at, MR_PACK_MAX - at, "%s%s:%s%s", f ? "," : "",
                           spec->field[f].name, spec->field[f].name,
                           spec->field[f].label ? ":label" : "");
}

const mr_pack_format_t mr_pack_mds = {.name = "mds",
                                      .ending = ".mds",
                                      .check = mds_check,
                                      .add = mds_add,
                                      .end = mds_end,
                                      .fields = mds_fields,
                                      .by_folder = true};
