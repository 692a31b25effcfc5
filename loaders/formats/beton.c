/* Samples of FFCV's .beton files as records.

   A file: a header of 24 bytes; for each field its type, name and arguments; a row for each sample,
   which holds numbers and the places of larger values; the values; a table of their sizes.
   Source of the format: ffcv/types.py, writer.py and fields. */
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "loaders/shards/shard_typed.h"

enum {
  VERSION = 2,
  HEAD_BYTES = 24,
  FIELD_BYTES = 1041,
  NAME_BYTES = 16,
  ARGS_AT = 1 + NAME_BYTES,
  SHAPE_MAX = 32,
  TYPE_AT = 8 * SHAPE_MAX, /* of an array's arguments: length of its type's text, and the text */
  TYPE_MAX = 1024 - TYPE_AT - 8,
  ALLOC_BYTES = 24,
  FIELDS_MAX = 256,
  LOST = 120
};

typedef enum beton_kind { FLOAT, INT, RGB, BYTES, NDARRAY, JSON, TENSOR, KINDS } beton_kind_t;

typedef struct beton_field {
  beton_kind_t kind;
  char name[NAME_BYTES + 1];
  size_t at; /* in a row */
  mr_typed_t typed;
  mr_field_t type;
  uint32_t column;         /* of pictures: for the mode and size below */
  int mode, height, width; /* of the last picture; mode -1: none yet */
  char lost[LOST];         /* of an array: why it becomes no field; "" if it does */
} beton_field_t;

typedef struct alloc {
  uint64_t at, size;
} alloc_t;

typedef struct beton {
  mr_shard_file_t *file;
  mr_shard_draft_t *draft;
  mr_diag_t *fault, *diag;
  int n_fields;
  size_t row;
  uint64_t samples, table;
  beton_field_t field[FIELDS_MAX];
  alloc_t *alloc; /* [n_allocs] by their place */
  size_t n_allocs;
} beton_t;

#define BETON_FAULT(t, ...) (mr_fail((t)->fault, MR_ERR_DATA, __VA_ARGS__), MR_END)

static uint16_t beton_u16(const uint8_t *p) { return (uint16_t)(p[0] | p[1] << 8); }
static uint64_t beton_u64(const uint8_t *p) {
  uint64_t v;
  memcpy(&v, p, sizeof v);
  return v;
}

static mr_err_t beton_read(beton_t *t, uint64_t at, void *to, size_t n) {
  if (n > (uint64_t)t->file->size || at > (uint64_t)t->file->size - n)
    return BETON_FAULT(t, "%s: is not a .beton file, or ends early", t->file->path);
  mr_err_t e = mr_shard_file_read(t->file, (int64_t)at, to, n, t->diag);
  return e == MR_END ? BETON_FAULT(t, "%s: has become shorter", t->file->path) : e;
}

/* ---- fields ---- */

/* Takes a type as json.dumps writes NumPy's description of it, [["", "<f4"]]; one that is no
   field's is the reason that f has none. */
static void beton_type(const char *text, size_t n, beton_field_t *f) {
  static const struct {
    const char *name;
    mr_typed_t kind;
    mr_dtype_t dtype;
  } type[] = {{"|u1", MR_TYPED_PLAIN, MR_U8},        {"|b1", MR_TYPED_PLAIN, MR_BOOL},
              {"|i1", MR_TYPED_I8, MR_I32},          {"<i2", MR_TYPED_I16, MR_I32},
              {"<u2", MR_TYPED_U16, MR_I32},         {"<i4", MR_TYPED_PLAIN, MR_I32},
              {"<u4", MR_TYPED_PLAIN, MR_U32},       {"<i8", MR_TYPED_PLAIN, MR_I64},
              {"<u8", MR_TYPED_PLAIN, MR_U64},       {"<f2", MR_TYPED_PLAIN, MR_F16},
              {"<f4", MR_TYPED_PLAIN, MR_F32},       {"<f8", MR_TYPED_PLAIN, MR_F64},
              {">i2", MR_TYPED_SWAPPED_I16, MR_I32}, {">u2", MR_TYPED_SWAPPED_U16, MR_I32},
              {">i4", MR_TYPED_SWAPPED, MR_I32},     {">u4", MR_TYPED_SWAPPED, MR_U32},
              {">i8", MR_TYPED_SWAPPED, MR_I64},     {">u8", MR_TYPED_SWAPPED, MR_U64},
              {">f2", MR_TYPED_SWAPPED, MR_F16},     {">f4", MR_TYPED_SWAPPED, MR_F32},
              {">f8", MR_TYPED_SWAPPED, MR_F64}};
  cJSON *json = cJSON_ParseWithLength(text, n);
  const cJSON *one = cJSON_GetArraySize(json) == 1 ? cJSON_GetArrayItem(json, 0) : NULL;
  const cJSON *word = cJSON_GetArraySize(one) == 2 ? cJSON_GetArrayItem(one, 1) : NULL;
  bool known = false;
  for (size_t i = 0; cJSON_IsString(word) && i < sizeof type / sizeof *type; i++)
    if (!strcmp(type[i].name, word->valuestring))
      known = true, f->typed = type[i].kind, f->type.dtype = type[i].dtype;
  const char *plain = cJSON_IsString(word) ? word->valuestring : "of several fields";
  char shown[40];
  if (!known)
    snprintf(f->lost, LOST, "no field has the type of its arrays, %s",
             mr_printable(plain, shown, sizeof shown));
  cJSON_Delete(json);
}

static void beton_array(const uint8_t *args, beton_field_t *f) {
  uint64_t n = beton_u64(args + TYPE_AT);
  if (n <= TYPE_MAX)
    beton_type((const char *)args + TYPE_AT + 8, n, f);
  else
    snprintf(f->lost, LOST, "its arrays have no type");
  int ndim = SHAPE_MAX;
  while (ndim > 0 && !beton_u64(args + 8 * (ndim - 1))) ndim--;
  if (ndim >= MR_MAX_NDIM)
    snprintf(f->lost, LOST, "its arrays have %d dimensions, want at most %d", ndim,
             MR_MAX_NDIM - 1);
  for (; f->type.ndim < ndim && !*f->lost; f->type.ndim++) {
    uint64_t d = beton_u64(args + 8 * f->type.ndim);
    mr_field_t so_far = f->type;
    if (d <= MR_SHARD_PART_MAX) so_far.dim[so_far.ndim++] = (int64_t)d;
    if (!d)
      snprintf(f->lost, LOST, "its arrays have no elements");
    else if (d > MR_SHARD_PART_MAX || mr_field_bytes(&so_far) > MR_SHARD_PART_MAX)
      snprintf(f->lost, LOST, "its arrays have more than %d bytes", MR_SHARD_PART_MAX);
    f->type.dim[f->type.ndim] = (int64_t)d;
  }
}

/* Fills what the type says, and how many bytes of a row the field takes and at which multiple. */
static void beton_settle(const uint8_t *args, beton_field_t *f, size_t *bytes, size_t *align) {
  *bytes = *align = 8;
  switch (f->kind) {
    case FLOAT: f->type.dtype = MR_F64; return;
    case INT: f->type.dtype = MR_I64; return;
    case RGB: *bytes = 13, *align = 1, f->mode = -1; return; /* mode, width, height, place */
    case BYTES:
    case JSON: *bytes = 16, *align = 1, f->typed = MR_TYPED_BYTES; return; /* place, size */
    default: beton_array(args, f);
  }
}

static mr_err_t beton_add_field(beton_t *t, const uint8_t *text, size_t *align_most) {
  beton_field_t *f = &t->field[t->n_fields];
  size_t bytes, align;
  *f = (beton_field_t){.kind = text[0], .typed = MR_TYPED_PLAIN};
  memcpy(f->name, text + 1, NAME_BYTES);
  if (text[0] >= KINDS)
    return BETON_FAULT(t, "%s: field %s is of type %d, want 0 to %d, FFCV's own", t->file->path,
                       f->name, text[0], KINDS - 1);
  beton_settle(text + ARGS_AT, f, &bytes, &align);
  f->at = (t->row + align - 1) / align * align;
  t->row = f->at + bytes;
  if (align > *align_most) *align_most = align;
  t->n_fields++;
  if (f->kind == RGB) return MR_OK; /* its columns follow from the rows */
  if (*f->lost)
    return mr_typed_refuse(t->draft, f->name, strlen(f->name), f->lost, &f->column, t->diag);
  mr_diag_t why = {0};
  mr_err_t e =
      mr_typed_column(t->draft, f->name, strlen(f->name), f->typed,
                      f->typed == MR_TYPED_BYTES ? NULL : &f->type, NULL, &f->column, &why);
  if (e == MR_ERR_DATA) return BETON_FAULT(t, "%s: %s", t->file->path, why.text);
  return e < 0 ? mr_diag_relay(t->diag, e, &why) : MR_OK;
}

static mr_err_t beton_read_fields(beton_t *t, int n) {
  uint8_t text[FIELD_BYTES];
  size_t align = 1;
  for (int i = 0; i < n; i++) {
    mr_err_t e = beton_read(t, HEAD_BYTES + (uint64_t)i * FIELD_BYTES, text, sizeof text);
    if (e == MR_OK) e = beton_add_field(t, text, &align);
    if (e != MR_OK) return e;
  }
  t->row = (t->row + align - 1) / align * align;
  return MR_OK;
}

static mr_err_t beton_read_head(beton_t *t) {
  uint8_t head[HEAD_BYTES];
  mr_err_t e = beton_read(t, 0, head, sizeof head);
  if (e != MR_OK) return e;
  int version = beton_u16(head), n = beton_u16(head + 2);
  t->samples = beton_u64(head + 8), t->table = beton_u64(head + 16);
  if (version != VERSION || n < 1 || n > FIELDS_MAX)
    return BETON_FAULT(t, "%s: is not a .beton file of version %d with 1 to %d fields",
                       t->file->path, VERSION, FIELDS_MAX);
  e = beton_read_fields(t, n);
  if (e != MR_OK) return e;
  if (t->samples > (uint64_t)t->file->size / t->row)
    return BETON_FAULT(t, "%s: ends early: it would have %" PRIu64 " samples", t->file->path,
                       t->samples);
  return MR_OK;
}

/* ---- sizes of values ---- */

static int alloc_by_place(const void *a, const void *b) {
  uint64_t x = ((const alloc_t *)a)->at, y = ((const alloc_t *)b)->at;
  return (x > y) - (x < y);
}

/* Only pictures need the table: a row says how long other values are. */
static mr_err_t read_allocs(beton_t *t) {
  bool pictures = false;
  for (int f = 0; f < t->n_fields; f++) pictures |= t->field[f].kind == RGB;
  if (!pictures) return MR_OK;
  if (t->table < HEAD_BYTES || t->table > (uint64_t)t->file->size)
    return BETON_FAULT(t, "%s: has no table of sizes: it was not written to its end",
                       t->file->path);
  t->n_allocs = (size_t)(((uint64_t)t->file->size - t->table) / ALLOC_BYTES);
  t->alloc = malloc((t->n_allocs + 1) * sizeof *t->alloc);
  if (!t->alloc) return mr_no_memory(t->diag, "the sizes of %s", t->file->path);
  for (size_t i = 0; i < t->n_allocs; i++) {
    uint8_t row[ALLOC_BYTES];
    mr_err_t e = beton_read(t, t->table + i * ALLOC_BYTES, row, sizeof row);
    if (e != MR_OK) return e;
    t->alloc[i] = (alloc_t){beton_u64(row + 8), beton_u64(row + 16)};
  }
  qsort(t->alloc, t->n_allocs, sizeof *t->alloc, alloc_by_place);
  return MR_OK;
}

/* ---- samples ---- */

/* Chooses the column of a picture by its mode and size; false if it can have none. */
static mr_err_t picture_column(beton_t *t, beton_field_t *f, int mode, int height, int width,
                               bool *good) {
  mr_field_t type = {.dtype = MR_U8, .ndim = 3, .dim = {height, width, 3}};
  *good = mode == 0 || (mode == 1 && height && width);
  bool same = f->mode == mode && (mode == 0 || (f->height == height && f->width == width));
  if (!*good || same) return MR_OK;
  mr_diag_t why = {0};
  mr_err_t e =
      mr_typed_column(t->draft, f->name, strlen(f->name), mode ? MR_TYPED_PLAIN : MR_TYPED_BYTES,
                      mode ? &type : NULL, NULL, &f->column, &why);
  if (e == MR_ERR_DATA) return *good = false, MR_OK; /* too many sizes */
  if (e < 0) return mr_diag_relay(t->diag, e, &why);
  f->mode = mode, f->height = height, f->width = width;
  return MR_OK;
}

/* Adds the part of a field, unless it would lie outside the file: the record is a bad one then. */
static mr_err_t beton_add_part(beton_t *t, beton_field_t *f, const uint8_t *row, uint64_t row_at) {
  const uint8_t *p = row + f->at;
  uint64_t at = row_at + f->at, size = 8;
  bool good = !*f->lost;
  if (!good) return MR_OK;
  if (f->kind == BYTES || f->kind == JSON) {
    at = beton_u64(p), size = beton_u64(p + 8);
    if (f->kind == JSON && size) size--; /* a zero ends the text */
  } else if (f->kind == NDARRAY || f->kind == TENSOR) {
    at = beton_u64(p), size = mr_field_bytes(&f->type);
    size = size / mr_dtype_size(f->type.dtype) * mr_typed_stored(f->typed, f->type.dtype);
  } else if (f->kind == RGB) {
    at = beton_u64(p + 5);
    MR_TRY(picture_column(t, f, p[0], beton_u16(p + 3), beton_u16(p + 1), &good));
    const alloc_t *a =
        bsearch(&(alloc_t){.at = at}, t->alloc, t->n_allocs, sizeof *t->alloc, alloc_by_place);
    good = good && a;
    size = a ? a->size : 0;
  }
  uint64_t end = (uint64_t)t->file->size;
  if (!good || size > end || at > end - size) return MR_OK;
  return mr_shard_draft_part(t->draft, f->column, (int64_t)at, (int64_t)size, t->diag);
}

static mr_err_t beton_add_samples(beton_t *t) {
  uint8_t *row = malloc(t->row);
  uint64_t first = HEAD_BYTES + (uint64_t)t->n_fields * FIELD_BYTES;
  mr_err_t e = row ? MR_OK : mr_no_memory(t->diag, "a row of %s", t->file->path);
  for (uint64_t i = 0; i < t->samples && e == MR_OK; i++) {
    uint64_t at = first + i * t->row;
    e = beton_read(t, at, row, t->row);
    if (e == MR_OK) e = mr_shard_draft_record(t->draft, NULL, 0, t->diag);
    for (int f = 0; f < t->n_fields && e == MR_OK; f++)
      e = beton_add_part(t, &t->field[f], row, at);
  }
  free(row);
  return e;
}

static mr_err_t beton_scan(mr_shard_file_t *file, mr_shard_draft_t *draft, mr_diag_t *fault,
                           mr_diag_t *diag) {
  beton_t *t = calloc(1, sizeof *t);
  if (!t) return mr_no_memory(diag, "an index of %s", file->path);
  t->file = file, t->draft = draft, t->fault = fault, t->diag = diag;
  mr_err_t e = beton_read_head(t);
  if (e == MR_OK) e = read_allocs(t);
  if (e == MR_OK) e = beton_add_samples(t);
  free(t->alloc), free(t);
  return e < 0 ? e : MR_OK;
}

static const mr_shard_kind_t beton_kind = {.name = "beton",
                                           .own = "an FFCV file",
                                           .index = "beton/2",
                                           .scan = beton_scan,
                                           .settle = mr__typed_settle,
                                           .unpack = mr__typed_unpack};

static mr_err_t beton_plan(mr_stage_t *s) { return mr__shard_source_plan(s, &beton_kind); }

static const mr_opt_t beton_opts[] = {
    MR_SHARD_OPTS("Files, as in train.beton; several names are joined by \"::\".",
                  "Fields of the file, and what they become: image:image,class:label; AS is label, "
                  "for whole numbers.  By default every field."),
    {0}};

static const mr_hint_t beton_words[] = {{"ffcv", "beton FILE.beton", NULL}, {0}};

const mr_stage_def_t mr_stage_beton = {
    .name = "beton",
    .hint = beton_words,
    .help = "Reads the samples of FFCV's .beton files, in any order.",
    .opts = beton_opts,
    .state_sz = sizeof(mr_shard_source_t),
    .plan = beton_plan,
    MR_SHARD_HOOKS,
};
