/* Reads the offsets and the columns, then the sizes at the head of each sample; of the samples
   themselves nothing but the heads of arrays. */
#include "loaders/formats/mds_scan.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loaders/shards/shard_typed.h"

enum {
  COLUMNS_MAX = 256,
  CONFIG_MAX = 1 << 20,
  ARRAY_HEAD_MAX = 2 + 8 * (MR_MAX_NDIM - 1) /* dtype, dimensions and their type, dimensions */
};

typedef struct mds_column {
  char *name; /* in the config */
  const char *encoding;
  int64_t size; /* in bytes; -1: it varies */
  mr_typed_t kind;
  mr_field_t type;      /* of PLAIN and narrow kinds */
  bool array;           /* its values say their type or shape themselves */
  bool has_type;        /* of such an array: type.dtype and kind are fixed */
  uint32_t column;      /* in the draft; of arrays that vary, the last one's */
  mr_field_t last_type; /* of such an array: what column is for */
  mr_typed_t last_kind;
  bool has_last;
  const char *no_value; /* the last array of it that could not be read; literal */
} mds_column_t;

typedef struct mds_scan {
  mr_shard_file_t *file;
  int64_t size;
  const char *path;
  mr_shard_draft_t *draft;
  mr_diag_t *fault, *diag;
  uint32_t n, *offset; /* [n + 1] */
  cJSON *config;
  mds_column_t column[COLUMNS_MAX];
  int n_columns, n_vary;
} mds_scan_t;

/* ---- reading ---- */

#define MDS_FAULT(t, ...) (mr_fail((t)->fault, MR_ERR_DATA, __VA_ARGS__), MR_END)

static mr_err_t mds_read(mds_scan_t *t, int64_t at, void *to, int64_t n) {
  mr_err_t e = mr_shard_file_read(t->file, at, to, (size_t)n, t->diag);
  return e == MR_END ? MDS_FAULT(t, "%s: ends before byte %" PRId64, t->path, at + n) : e;
}

static uint32_t u32_at(const uint8_t *p) {
  uint32_t v;
  memcpy(&v, p, sizeof v);
  return v;
}

/* ---- columns ---- */

/* Sets kind and dtype by NumPy's name of a type. */
static bool mds_type(const char *name, size_t n, mds_column_t *c) {
  return mr_typed_numpy(name, n, &c->kind, &c->type.dtype);
}

/* "ndarray", "ndarray:uint8", "ndarray:uint8:32,32,3" */
static bool mds_array(mds_column_t *c) {
  const char *type = c->encoding + strlen("ndarray");
  c->array = true;
  if (!*type) return true;
  size_t n = strcspn(type + 1, ":");
  c->has_type = mds_type(type + 1, n, c);
  const char *shape = type + 1 + n;
  if (!c->has_type || !*shape) return c->has_type;
  c->array = false;
  do {
    char *end;
    long long d = shape[1] >= '1' && shape[1] <= '9' ? strtoll(shape + 1, &end, 10) : 0;
    if (d < 1 || d > MR_SHARD_PART_MAX || c->type.ndim == MR_MAX_NDIM - 1) return false;
    c->type.dim[c->type.ndim++] = d;
    shape = end;
  } while (*shape == ',');
  return !*shape && mr_field_bytes(&c->type) <= MR_SHARD_PART_MAX;
}

static void mds_settle_encoding(mds_column_t *c) {
  static const char *const bytes[] = {"bytes", "str", "json", "jpeg", "png", "str_decimal"};
  for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++)
    if (!strcmp(c->encoding, bytes[i])) {
      c->kind = MR_TYPED_BYTES;
      return;
    }
  bool array = !strncmp(c->encoding, "ndarray", 7) && (!c->encoding[7] || c->encoding[7] == ':');
  if (!strcmp(c->encoding, "str_int"))
    c->kind = MR_TYPED_TEXT_INT;
  else if (!strcmp(c->encoding, "str_float"))
    c->kind = MR_TYPED_TEXT_FLOAT;
  else if (array ? !mds_array(c) : !mds_type(c->encoding, strlen(c->encoding), c))
    c->kind = MR_TYPED_REFUSED, c->array = false;
}

static mr_err_t mds_add_column(mds_scan_t *t, const cJSON *name, const cJSON *encoding,
                               const cJSON *size) {
  mds_column_t *c = &t->column[t->n_columns++];
  bool whole = cJSON_IsNumber(size) && size->valuedouble >= 0 && size->valuedouble < 4294967296.0;
  if (!cJSON_IsString(name) || !cJSON_IsString(encoding) || !(whole || cJSON_IsNull(size)))
    return MDS_FAULT(t, "%s: its columns are malformed", t->path);
  *c = (mds_column_t){.name = name->valuestring,
                      .encoding = encoding->valuestring,
                      .size = whole ? (int64_t)size->valuedouble : -1};
  t->n_vary += c->size < 0;
  mds_settle_encoding(c);
  bool plain = c->kind == MR_TYPED_PLAIN || (c->kind >= MR_TYPED_I8 && c->kind <= MR_TYPED_U16);
  if (c->array && c->size >= 0) c->kind = MR_TYPED_REFUSED, c->array = false;
  if (c->array) return MR_OK; /* its columns follow from its values */
  bool refused = c->kind == MR_TYPED_REFUSED;
  char encoding_why[120];
  snprintf(encoding_why, sizeof encoding_why, "no field is made of encoding %.60s", c->encoding);
  const char *why = !refused ? NULL
                    : !strcmp(c->encoding, "pkl")
                        ? "it holds pickles, which are programs: store bytes, str, json or arrays"
                        : encoding_why;
  mr_diag_t failed = {0};
  mr_err_t e = mr_typed_column(t->draft, c->name, strlen(c->name), c->kind, plain ? &c->type : NULL,
                               why, &c->column, &failed);
  if (e == MR_ERR_DATA) return MDS_FAULT(t, "%s: %s", t->path, failed.text);
  return e < 0 ? mr_diag_relay(t->diag, e, &failed) : MR_OK;
}

static mr_err_t mds_read_columns(mds_scan_t *t, int64_t at, int64_t n) {
  char *text = malloc((size_t)n + 1);
  if (!text) return mr_no_memory(t->diag, "the columns of %s", t->path);
  mr_err_t e = mds_read(t, at, text, n);
  if (e == MR_OK) t->config = cJSON_ParseWithLength(text, (size_t)n);
  free(text);
  if (e != MR_OK) return e;
  const cJSON *name = cJSON_GetObjectItemCaseSensitive(t->config, "column_names");
  const cJSON *encoding = cJSON_GetObjectItemCaseSensitive(t->config, "column_encodings");
  const cJSON *size = cJSON_GetObjectItemCaseSensitive(t->config, "column_sizes");
  int columns = cJSON_GetArraySize(name);
  if (!cJSON_IsArray(name) || columns < 1 || columns > COLUMNS_MAX ||
      cJSON_GetArraySize(encoding) != columns || cJSON_GetArraySize(size) != columns)
    return MDS_FAULT(t, "%s: is not an MDS shard, or one of more than %d columns", t->path,
                     COLUMNS_MAX);
  name = name->child, encoding = encoding->child, size = size->child;
  for (; name && encoding && size && e == MR_OK;
       name = name->next, encoding = encoding->next, size = size->next)
    e = mds_add_column(t, name, encoding, size);
  return e;
}

static mr_err_t mds_read_head(mds_scan_t *t) {
  uint8_t four[4];
  if (t->size < 12)
    return MDS_FAULT(t, "%s: is not an MDS shard: it has %" PRId64 " bytes", t->path, t->size);
  mr_err_t e = mds_read(t, 0, four, 4);
  if (e != MR_OK) return e;
  t->n = u32_at(four);
  int64_t rows = 4 * ((int64_t)t->n + 1), config = 4 + rows;
  if (config > t->size)
    return MDS_FAULT(t, "%s: is not an MDS shard, or ends early: it would have %u samples", t->path,
                     t->n);
  t->offset = malloc((size_t)rows);
  if (!t->offset) return mr_no_memory(t->diag, "the offsets of %s", t->path);
  e = mds_read(t, 4, t->offset, rows);
  if (e != MR_OK) return e;
  int64_t n = (int64_t)t->offset[0] - config;
  if (n < 2 || n > CONFIG_MAX || t->offset[0] > t->size)
    return MDS_FAULT(t, "%s: is not an MDS shard: its first sample would begin at byte %u", t->path,
                     t->offset[0]);
  return mds_read_columns(t, config, n);
}

/* ---- samples ---- */

static bool same_type(const mds_column_t *c, mr_typed_t kind, const mr_field_t *f) {
  return c->has_last && c->last_kind == kind && c->last_type.dtype == f->dtype &&
         c->last_type.ndim == f->ndim &&
         !memcmp(c->last_type.dim, f->dim, (size_t)f->ndim * sizeof *f->dim);
}

/* Reads the head of an array, [type] [dimensions << 2 | bytes of one] dimensions, and moves *at and
 *size behind it.  Sets *good to false if it is malformed:
   the record is a bad one. */
static mr_err_t mds_array_type(mds_scan_t *t, mds_column_t *c, int64_t *at, int64_t *size,
                               bool *good) {
  static const struct {
    uint8_t code;
    const char *name;
  } type[] = {{8, "uint8"},    {9, "int8"},    {16, "uint16"}, {17, "int16"},
              {18, "float16"}, {32, "uint32"}, {33, "int32"},  {34, "float32"},
              {64, "uint64"},  {65, "int64"},  {66, "float64"}};
  *good = false;
  c->no_value = "an array of it is malformed";
  uint8_t p[ARRAY_HEAD_MAX];
  int64_t most = *size < ARRAY_HEAD_MAX ? *size : ARRAY_HEAD_MAX, used = 0;
  mr_err_t e = mds_read(t, *at, p, most);
  if (e != MR_OK) return e;
  mds_column_t now = {.kind = c->kind, .type = {.dtype = c->type.dtype}};
  if (!c->has_type) {
    bool known = false;
    for (size_t i = 0; most && i < sizeof type / sizeof *type; i++)
      if (type[i].code == *p) known = mds_type(type[i].name, strlen(type[i].name), &now);
    if (!known) return c->no_value = "no field has the type of its arrays", MR_OK;
    used++;
  }
  if (used == most) return MR_OK;
  int dims = p[used] >> 2, each = 1 << (p[used] & 3);
  used++;
  if (dims < 1 || dims > MR_MAX_NDIM - 1 || used + (int64_t)dims * each > most) return MR_OK;
  for (int i = 0; i < dims; i++, used += each) {
    uint64_t d = 0;
    memcpy(&d, p + used, (size_t)each);
    if (d < 1) return c->no_value = "an array of it has no elements", MR_OK;
    if (d > MR_SHARD_PART_MAX) return MR_OK;
    now.type.dim[now.type.ndim++] = (int64_t)d;
    if (mr_field_bytes(&now.type) > MR_SHARD_PART_MAX) return MR_OK;
  }
  *at += used, *size -= used, *good = true;
  if (same_type(c, now.kind, &now.type)) return MR_OK;
  mr_diag_t failed = {0};
  e = mr_typed_column(t->draft, c->name, strlen(c->name), now.kind, &now.type, NULL, &c->column,
                      &failed);
  if (e == MR_ERR_DATA) return *good = false, MR_OK; /* too many shapes */
  if (e < 0) return mr_diag_relay(t->diag, e, &failed);
  c->last_kind = now.kind, c->last_type = now.type, c->has_last = true;
  return MR_OK;
}

/* Adds the parts of a sample at bytes [at,end); none if it is malformed. */
static mr_err_t mds_add_parts(mds_scan_t *t, int64_t at, int64_t end) {
  uint8_t sizes[4 * COLUMNS_MAX];
  int64_t head = 4 * (int64_t)t->n_vary, sum = head;
  if (head > end - at) return MR_OK;
  mr_err_t e = mds_read(t, at, sizes, head);
  if (e != MR_OK) return e;
  for (int i = 0, v = 0; i < t->n_columns; i++)
    sum += t->column[i].size < 0 ? u32_at(sizes + 4 * v++) : t->column[i].size;
  if (sum != end - at) return MR_OK;
  if (head) MR_TRY(mr_typed_sizes(t->draft, at, sizes, (size_t)head, t->diag));
  at += head;
  for (int i = 0, v = 0; i < t->n_columns; i++) {
    mds_column_t *c = &t->column[i];
    int64_t size = c->size < 0 ? u32_at(sizes + 4 * v++) : c->size, from = at, n = size;
    at += size;
    bool good = true;
    e = c->array ? mds_array_type(t, c, &from, &n, &good) : MR_OK;
    if (e != MR_OK) return e;
    if (good) MR_TRY(mr_shard_draft_part(t->draft, c->column, from, n, t->diag));
  }
  return MR_OK;
}

static mr_err_t mds_add_samples(mds_scan_t *t) {
  for (uint32_t i = 0; i < t->n; i++) {
    int64_t at = t->offset[i], end = t->offset[i + 1];
    if (end < at || end > t->size)
      return MDS_FAULT(t,
                       "%s: ends at byte %" PRId64 ", within sample %u, or its offsets are damaged",
                       t->path, t->size, i);
    MR_TRY(mr_shard_draft_record(t->draft, NULL, 0, t->diag));
    mr_err_t e = mds_add_parts(t, at, end);
    if (e != MR_OK) return e;
  }
  return MR_OK;
}

mr_err_t mr_mds_scan(mr_shard_file_t *file, mr_shard_draft_t *draft, mr_diag_t *fault,
                     mr_diag_t *diag) {
  mds_scan_t *t = calloc(1, sizeof *t);
  if (!t) return mr_no_memory(diag, "an index of %s", file->path);
  t->file = file, t->size = file->size, t->path = file->path, t->draft = draft, t->fault = fault,
  t->diag = diag;
  mr_err_t e = mds_read_head(t);
  if (e == MR_OK) e = mds_add_samples(t);
  for (int i = 0; i < t->n_columns && e == MR_OK; i++) { /* of whose arrays none could be read */
    mds_column_t *c = &t->column[i];
    if (c->array && !c->has_last && c->no_value)
      e = mr_typed_refuse(draft, c->name, strlen(c->name), c->no_value, &c->column, diag);
  }
  cJSON_Delete(t->config);
  free(t->offset), free(t);
  return e < 0 ? e : MR_OK;
}
