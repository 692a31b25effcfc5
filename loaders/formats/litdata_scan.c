/* Reads the offsets, then the sizes at the head of each item; of the items themselves nothing but
   the heads of arrays. */
#include "loaders/formats/litdata_scan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loaders/shards/shard_typed.h"

/* How a leaf's bytes begin. */
typedef enum leaf_head {
  HEAD_NONE,
  HEAD_NUMPY,  /* u32 type, u32 dimensions, u32 each; little-endian */
  HEAD_TENSOR, /* the same, big-endian */
  HEAD_JSON,   /* JSON text, or a byte that says how lists and dicts are written instead */
  HEAD_VECTOR  /* none: one dimension, whose size follows from the bytes */
} leaf_head_t;

typedef struct leaf {
  const mr_litdata_leaf_t *is;
  leaf_head_t head;
  mr_typed_t kind;
  mr_field_t type;
  uint32_t column;  /* in the draft; of arrays, the last one's */
  bool has_last;    /* kind and type are those of column */
  const char *why;  /* why the array that is being read cannot be; literal */
  const char *lost; /* that of the last one that could not be read; NULL: all could */
} leaf_t;

typedef struct litdata_scan {
  mr_shard_file_t *file;
  const mr_litdata_t *set;
  mr_shard_draft_t *draft;
  mr_diag_t *fault, *diag;
  uint32_t n, *offset; /* [n + 1] */
  leaf_t leaf[MR_LITDATA_LEAVES_MAX];
} litdata_scan_t;

/* ---- reading ---- */

#define LITDATA_FAULT(t, ...) (mr_fail((t)->fault, MR_ERR_DATA, __VA_ARGS__), MR_END)

static mr_err_t litdata_read(litdata_scan_t *t, int64_t at, void *to, int64_t n) {
  mr_err_t e = mr_shard_file_read(t->file, at, to, (size_t)n, t->diag);
  return e == MR_END ? LITDATA_FAULT(t, "%s: ends before byte %" PRId64, t->file->path, at + n) : e;
}

static uint32_t leaf_u32(const uint8_t *p, bool big) {
  uint32_t v;
  memcpy(&v, p, sizeof v);
  return big ? __builtin_bswap32(v) : v;
}

/* ---- leaves ---- */

/* NumPy's name of a type by its number in litdata's tables; NULL for others. */
static const char *litdata_type(bool tensor, uint64_t number) {
  static const char *const numpy[] = {"int8",   "int16",  "int32",   "int64",   "uint8",  "uint16",
                                      "uint32", "uint64", "float16", "float32", "float64"};
  static const char *const torch[] = {
      "float32", "float32", "float64", "float64",  0,       0,      0,
      0,         "float16", "float16", "bfloat16", "uint8", "int8", "int16",
      "int16",   "int32",   "int32",   "int64",    "int64", "bool", "uint16"};
  if (tensor) return number < sizeof torch / sizeof *torch ? torch[number] : NULL;
  if (number == 13) return "bool";
  return number < sizeof numpy / sizeof *numpy ? numpy[number] : NULL;
}

static bool set_type(leaf_t *l, const char *name) {
  return name && mr_typed_numpy(name, strlen(name), &l->kind, &l->type.dtype);
}

/* What a leaf of this format is. */
static void settle_format(leaf_t *l) {
  static const char *const bytes[] = {"str", "text", "bytes", "jpeg", "image", "file"};
  const char *format = l->is->format, *colon = strchr(format, ':');
  size_t n = colon ? (size_t)(colon - format) : strlen(format);
  uint64_t number = colon ? strtoull(colon + 1, NULL, 10) : 0;
#define IS(word) (n == strlen(word) && !memcmp(format, word, n))
  l->kind = MR_TYPED_REFUSED;
  for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++)
    if (IS(bytes[i])) l->kind = MR_TYPED_BYTES;
  if (IS("int")) set_type(l, "int64");
  if (IS("float")) set_type(l, "float64");
  if (IS("bool")) set_type(l, "bool");
  if (IS("json")) l->head = HEAD_JSON;
  if (IS("numpy")) l->head = HEAD_NUMPY;
  if (IS("tensor")) l->head = HEAD_TENSOR;
  if (IS("no_header_numpy") && set_type(l, litdata_type(false, number))) l->head = HEAD_VECTOR;
  if (IS("no_header_tensor") && set_type(l, litdata_type(true, number))) l->head = HEAD_VECTOR;
#undef IS
}

static mr_err_t litdata_leaf(litdata_scan_t *t, leaf_t *l) {
  mr_diag_t failed = {0};
  bool refused = l->kind == MR_TYPED_REFUSED, plain = l->kind == MR_TYPED_PLAIN;
  const char *name = l->is->name;
  char why[MR_LITDATA_FORMAT_MAX + 80];
  if (!strcmp(l->is->format, "pickle"))
    snprintf(why, sizeof why, "it holds pickles, which are programs: store bytes, str or arrays");
  else
    snprintf(why, sizeof why, "no field is made of litdata's %s", l->is->format);
  if (l->head) return MR_OK; /* its columns follow from its values */
  mr_err_t e = mr_typed_column(t->draft, name, strlen(name), l->kind, plain ? &l->type : NULL,
                               refused ? why : NULL, &l->column, &failed);
  if (e == MR_ERR_DATA) return LITDATA_FAULT(t, "%s: %s", t->file->path, failed.text);
  return e < 0 ? mr_diag_relay(t->diag, e, &failed) : MR_OK;
}

/* A list or a dict: JSON text in older releases; since then behind a byte of 0 and its length, or,
   of equal elements, as numbers behind a byte and their count. */
static mr_err_t json_type(litdata_scan_t *t, leaf_t *l, int64_t *at, int64_t *size, leaf_t *now,
                          bool *good) {
  static const mr_dtype_t list[] = {[2] = MR_I64, [3] = MR_F64, [4] = MR_BOOL};
  static const mr_dtype_t single[] = {[8] = MR_I64, [9] = MR_F64, [10] = MR_BOOL};
  uint8_t head[5] = {0};
  l->why = "litdata wrote its lists or dicts in a form of its own: write them as str (json.dumps)";
  if (*size < 1) return MR_OK;
  mr_err_t e = litdata_read(t, *at, head, *size < 5 ? *size : 5);
  if (e != MR_OK) return e;
  uint32_t n = leaf_u32(head + 1, false);
  int64_t skip = *head < ' ' ? 5 : 0;
  *now = (leaf_t){.kind = MR_TYPED_BYTES};
  if (!*head) {
    *good = *size == 5 + (int64_t)n;
  } else if (*head >= 2 && *head <= 4) {
    now->kind = MR_TYPED_PLAIN,
    now->type = (mr_field_t){.dtype = list[*head], .ndim = 1, .dim = {n}};
    *good = n && *size == 5 + (int64_t)(n * (uint64_t)mr_dtype_size(now->type.dtype)) &&
            *size <= MR_SHARD_PART_MAX;
    if (!n) l->why = "an array of it has no elements";
  } else if (*head >= 8 && *head <= 10) {
    now->kind = MR_TYPED_PLAIN, now->type.dtype = single[*head], skip = 1;
    *good = *size == 1 + (int64_t)mr_dtype_size(now->type.dtype);
  } else {
    *good = *head >= ' ';
  }
  if (*good) *at += skip, *size -= skip;
  return MR_OK;
}

/* Reads the type of an array at *at, and moves *at and *size behind its head.  False, and no
   change, if it is malformed: the record is a bad one. */
static mr_err_t array_type(litdata_scan_t *t, leaf_t *l, int64_t *at, int64_t *size, leaf_t *now,
                           bool *good) {
  uint8_t head[8 + 4 * (MR_MAX_NDIM - 1)];
  bool big = l->head == HEAD_TENSOR;
  *now = (leaf_t){.kind = l->kind, .type = {.dtype = l->type.dtype}};
  *good = false;
  if (l->head == HEAD_JSON) return json_type(t, l, at, size, now, good);
  if (l->head == HEAD_VECTOR) {
    int64_t each = now->kind == MR_TYPED_I8 ? 1
                   : now->kind == MR_TYPED_I16 || now->kind == MR_TYPED_U16
                       ? 2
                       : (int64_t)mr_dtype_size(now->type.dtype);
    now->type.ndim = 1, now->type.dim[0] = *size / each;
    *good = *size > 0 && *size % each == 0;
    l->why = *size ? "its bytes are no whole number of elements" : "an array of it has no elements";
    return MR_OK;
  }
  l->why = "an array of it is malformed";
  if (*size < 8) return MR_OK;
  mr_err_t e = litdata_read(t, *at, head, 8);
  if (e != MR_OK) return e;
  uint32_t n = leaf_u32(head + 4, big);
  if (!set_type(now, litdata_type(big, leaf_u32(head, big))))
    return l->why = "no field has the type of its arrays, as complex numbers", MR_OK;
  if (n > MR_MAX_NDIM - 1) return l->why = "its arrays have too many dimensions", MR_OK;
  if (*size < 8 + 4 * (int64_t)n) return MR_OK;
  e = litdata_read(t, *at + 8, head + 8, 4 * (int64_t)n);
  if (e != MR_OK) return e;
  for (uint32_t i = 0; i < n; i++) {
    now->type.dim[now->type.ndim++] = leaf_u32(head + 8 + 4 * i, big);
    if (!now->type.dim[i]) return l->why = "an array of it has no elements", MR_OK;
    if (now->type.dim[i] > MR_SHARD_PART_MAX || mr_field_bytes(&now->type) > MR_SHARD_PART_MAX)
      return MR_OK;
  }
  *at += 8 + 4 * (int64_t)n, *size -= 8 + 4 * (int64_t)n, *good = true;
  return MR_OK;
}

static bool same_array(const leaf_t *a, const leaf_t *b) {
  return a->kind == b->kind && a->type.dtype == b->type.dtype && a->type.ndim == b->type.ndim &&
         !memcmp(a->type.dim, b->type.dim, (size_t)a->type.ndim * sizeof *a->type.dim);
}

/* Finds the column of an array, which differs with its shape. */
static mr_err_t array_column(litdata_scan_t *t, leaf_t *l, int64_t *at, int64_t *size, bool *good) {
  leaf_t now;
  mr_diag_t failed = {0};
  mr_err_t e = array_type(t, l, at, size, &now, good);
  if (e != MR_OK || !*good || (l->has_last && same_array(l, &now))) return e;
  e = mr_typed_column(t->draft, l->is->name, strlen(l->is->name), now.kind,
                      now.kind == MR_TYPED_BYTES ? NULL : &now.type, NULL, &l->column, &failed);
  if (e == MR_ERR_DATA) return *good = false, MR_OK; /* too many shapes */
  if (e < 0) return mr_diag_relay(t->diag, e, &failed);
  l->kind = now.kind, l->type = now.type, l->has_last = true;
  return MR_OK;
}

/* ---- items ---- */

/* Adds the parts of an item at bytes [at,end); none if it is malformed. */
static mr_err_t add_item(litdata_scan_t *t, int64_t at, int64_t end) {
  uint8_t sizes[4 * MR_LITDATA_LEAVES_MAX];
  int64_t head = 4 * (int64_t)t->set->n_leaves, sum = head;
  if (head > end - at) return MR_OK;
  mr_err_t e = litdata_read(t, at, sizes, head);
  if (e != MR_OK) return e;
  for (int i = 0; i < t->set->n_leaves; i++) sum += leaf_u32(sizes + 4 * i, false);
  if (sum != end - at) return MR_OK;
  if (head) MR_TRY(mr_typed_sizes(t->draft, at, sizes, (size_t)head, t->diag));
  at += head;
  for (int i = 0; i < t->set->n_leaves; i++) {
    leaf_t *l = &t->leaf[i];
    int64_t size = leaf_u32(sizes + 4 * i, false), from = at, n = size;
    bool good = true;
    at += size;
    if (l->head) e = array_column(t, l, &from, &n, &good);
    if (e != MR_OK) return e;
    if (!good) l->lost = l->why;
    if (good) MR_TRY(mr_shard_draft_part(t->draft, l->column, from, n, t->diag));
  }
  return MR_OK;
}

static mr_err_t read_offsets(litdata_scan_t *t) {
  uint8_t four[4];
  const char *path = t->file->path;
  if (t->file->size < 8)
    return LITDATA_FAULT(t, "%s: is not a chunk of litdata: it has %" PRId64 " bytes", path,
                         t->file->size);
  mr_err_t e = litdata_read(t, 0, four, 4);
  if (e != MR_OK) return e;
  t->n = leaf_u32(four, false);
  int64_t rows = 4 * ((int64_t)t->n + 1);
  if (4 + rows > t->file->size)
    return LITDATA_FAULT(t, "%s: is not a chunk of litdata, or ends early: it would have %u items",
                         path, t->n);
  t->offset = malloc((size_t)rows);
  if (!t->offset) return mr_no_memory(t->diag, "the offsets of %s", path);
  e = litdata_read(t, 4, t->offset, rows);
  if (e == MR_OK && t->offset[0] != 4 + rows)
    return LITDATA_FAULT(t, "%s: is not a chunk of litdata: its first item would begin at byte %u",
                         path, t->offset[0]);
  return e;
}

static mr_err_t add_items(litdata_scan_t *t) {
  for (uint32_t i = 0; i < t->n; i++) {
    int64_t at = t->offset[i], end = t->offset[i + 1];
    if (end < at || end > t->file->size)
      return LITDATA_FAULT(
          t, "%s: ends at byte %" PRId64 ", within item %u, or its offsets are damaged",
          t->file->path, t->file->size, i);
    MR_TRY(mr_shard_draft_record(t->draft, NULL, 0, t->diag));
    mr_err_t e = add_item(t, at, end);
    if (e != MR_OK) return e;
  }
  return MR_OK;
}

/* A leaf of arrays of which some could not be read becomes a column, too, that says why. */
static mr_err_t refuse_leaves(litdata_scan_t *t) {
  for (int i = 0; i < t->set->n_leaves && t->n; i++) {
    leaf_t *l = &t->leaf[i];
    if (l->head && l->lost)
      MR_TRY(mr_typed_refuse(t->draft, l->is->name, strlen(l->is->name), l->lost, &l->column,
                             t->diag));
  }
  return MR_OK;
}

mr_err_t mr_litdata_scan(mr_shard_file_t *file, mr_shard_draft_t *draft, mr_diag_t *fault,
                         mr_diag_t *diag) {
  litdata_scan_t *t = calloc(1, sizeof *t);
  if (!t) return mr_no_memory(diag, "an index of %s", file->path);
  t->file = file, t->set = file->ctx, t->draft = draft, t->fault = fault, t->diag = diag;
  mr_err_t e = MR_OK;
  for (int i = 0; i < t->set->n_leaves && e == MR_OK; i++) {
    t->leaf[i].is = &t->set->leaf[i];
    settle_format(&t->leaf[i]);
    e = litdata_leaf(t, &t->leaf[i]);
  }
  if (e == MR_OK) e = read_offsets(t);
  if (e == MR_OK) e = add_items(t);
  if (e == MR_OK) e = refuse_leaves(t);
  free(t->offset), free(t);
  return e < 0 ? e : MR_OK;
}
