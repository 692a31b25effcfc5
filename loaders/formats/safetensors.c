/* Rows of safetensors files as records: record i has row i of every tensor that has a row
   for each record.
   Headers are read once, at plan; no index is kept. */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loaders/formats/row_columns.h"
#include "loaders/shards/shard_typed.h"

enum { HEADER_MAX = 100 << 20 /* bytes, as in the format's reference reader */ };

/* A number of the header as an integer in [0,2^53]; -1 if it is not one. */
static int64_t header_whole(const cJSON *j) {
  bool good = cJSON_IsNumber(j) && j->valuedouble >= 0 && j->valuedouble <= 9007199254740992.0;
  return good && (double)(int64_t)j->valuedouble == j->valuedouble ? (int64_t)j->valuedouble : -1;
}

/* Sets the type by its name, or why it cannot be read. */
static bool tensor_type(const char *name, mr_row_array_t *a) {
  static const struct {
    const char *name;
    mr_typed_t kind;
  } narrow[] = {{"I8", MR_TYPED_I8}, {"I16", MR_TYPED_I16}, {"U16", MR_TYPED_U16}};
  for (int i = 0; i < MR_DTYPE_COUNT; i++)
    if (!strcmp(name, mr_dtype_safetensors(i))) return a->dtype = (mr_dtype_t)i, true;
  for (size_t i = 0; i < sizeof narrow / sizeof *narrow; i++)
    if (!strcmp(name, narrow[i].name)) return a->kind = narrow[i].kind, a->dtype = MR_I32, true;
  snprintf(a->why_text, sizeof a->why_text, "no field has its type, %.20s", name);
  return a->refused = true, false;
}

/* The bytes of a tensor, behind the header. */
typedef struct span {
  int64_t from, to;
  const char *name;
} span_t;

/* Empty ones first: they share their place with the next. */
static int order_spans(const void *a, const void *b) {
  const span_t *x = a, *y = b;
  if (x->from != y->from) return x->from < y->from ? -1 : 1;
  return (x->to > y->to) - (x->to < y->to);
}

/* The tensors must fill the body without holes or overlaps, as in the format's reference reader:
   bytes that belong to none could hide anything, and no writer gives two tensors the same ones. */
static void check_spans(span_t *span, int n, int64_t body, const char *path, mr_diag_t *fault) {
  int64_t at = 0;
  qsort(span, (size_t)n, sizeof *span, order_spans);
  for (int i = 0; i < n && !fault->code; at = span[i++].to)
    if (span[i].from != at)
      mr_fail(fault, MR_ERR_DATA, "%s: a hole or an overlap before tensor %.200s", path,
              span[i].name);
  if (!fault->code && at != body)
    mr_fail(fault, MR_ERR_DATA, "%s: %lld bytes at the end belong to no tensor", path,
            (long long)(body - at));
}

/* A tensor whose data lie in the file's last `body` bytes. */
static bool read_tensor_head(const cJSON *j, int64_t head, int64_t body, mr_row_array_t *a,
                             span_t *span) {
  const cJSON *dtype = cJSON_GetObjectItemCaseSensitive(j, "dtype"), *d;
  const cJSON *shape = cJSON_GetObjectItemCaseSensitive(j, "shape");
  const cJSON *place = cJSON_GetObjectItemCaseSensitive(j, "data_offsets");
  int64_t from = -1, to = -1, bytes;
  if (!cJSON_IsString(dtype) || !cJSON_IsArray(shape) || cJSON_GetArraySize(place) != 2)
    return false;
  from = header_whole(place->child), to = header_whole(place->child->next);
  if (from < 0 || to < from || to > body || cJSON_GetArraySize(shape) > MR_MAX_NDIM) return false;
  *span = (span_t){from, to, j->string};
  *a = (mr_row_array_t){.name = j->string, .n_name = strlen(j->string), .at = head + from};
  if (!tensor_type(dtype->valuestring, a)) return true;
  bytes = (int64_t)mr_typed_stored(a->kind, a->dtype);
  cJSON_ArrayForEach(d, shape) {
    a->dim[a->ndim] = header_whole(d);
    if (a->dim[a->ndim] < 0 || __builtin_mul_overflow(bytes, a->dim[a->ndim++], &bytes))
      return false;
  }
  return bytes == to - from;
}

static mr_err_t add_tensors(const cJSON *json, int64_t head, const mr_shard_file_t *file,
                            mr_shard_draft_t *draft, mr_diag_t *fault, mr_diag_t *diag) {
  int n = 0, most = cJSON_GetArraySize(json);
  mr_row_array_t *array = calloc((size_t)most + 1, sizeof *array);
  span_t *span = calloc((size_t)most + 1, sizeof *span);
  mr_err_t e = array && span ? MR_OK : mr_no_memory(diag, "the tensors of %s", file->path);
  const cJSON *j;
  cJSON_ArrayForEach(j, json) {
    if (e < 0 || fault->code || !strcmp(j->string, "__metadata__")) continue;
    bool good = read_tensor_head(j, head, file->size - head, &array[n], &span[n]);
    n++;
    if (!good)
      mr_fail(fault, MR_ERR_DATA, "%s: tensor %.200s is malformed, or lies outside the file",
              file->path, j->string);
  }
  if (e >= 0 && !fault->code) check_spans(span, n, file->size - head, file->path, fault);
  if (e >= 0 && !fault->code) e = mr_row_columns(array, n, file, draft, fault, diag);
  free(array), free(span);
  return e;
}

/* One JSON object, with nothing but white space behind it, whose metadata are texts; NULL else. */
static cJSON *parse_tensor_header(const char *text, size_t n) {
  const char *end = NULL;
  cJSON *json = cJSON_ParseWithLengthOpts(text, n, &end, 0);
  bool good = cJSON_IsObject(json);
  for (; good && end < text + n; end++) good = *end && strchr(" \n\r\t", *end);
  const cJSON *meta = cJSON_GetObjectItemCaseSensitive(json, "__metadata__"), *m;
  good &= !meta || cJSON_IsObject(meta);
  cJSON_ArrayForEach(m, meta) good &= cJSON_IsString(m);
  if (good) return json;
  cJSON_Delete(json);
  return NULL;
}

static mr_err_t safetensors_scan(mr_shard_file_t *file, mr_shard_draft_t *draft, mr_diag_t *fault,
                                 mr_diag_t *diag) {
  uint64_t n = 0;
  mr_err_t e = mr_shard_file_read(file, 0, &n, sizeof n, diag);
  if (e < 0) return e;
  if (e == MR_END || n < 2 || n > HEADER_MAX || (int64_t)n > file->size - 8) {
    mr_fail(fault, MR_ERR_DATA, "%s: is not a safetensors file, or ends early", file->path);
    return MR_OK;
  }
  char *text = malloc(n);
  if (!text) return mr_no_memory(diag, "the header of %s", file->path);
  e = mr_shard_file_read(file, 8, text, n, diag);
  cJSON *json = e == MR_OK ? parse_tensor_header(text, n) : NULL;
  free(text);
  if (e >= 0 && !json)
    mr_fail(fault, MR_ERR_DATA,
            "%s: is not a safetensors file: its header is not one JSON object with texts as "
            "metadata",
            file->path);
  else if (e >= 0)
    e = add_tensors(json, 8 + (int64_t)n, file, draft, fault, diag);
  cJSON_Delete(json);
  return e < 0 ? e : MR_OK;
}

static const mr_shard_kind_t safetensors_kind = {.name = "safetensors",
                                                 .own = "a safetensors file",
                                                 .scan = safetensors_scan,
                                                 .settle = mr__typed_settle,
                                                 .unpack = mr__typed_unpack};

static mr_err_t safetensors_plan(mr_stage_t *s) {
  return mr__shard_source_plan(s, &safetensors_kind);
}

static const mr_opt_t safetensors_opts[] = {
    MR_SHARD_OPTS("Files, as in part-{0..7}.safetensors; several names are joined by \"::\".",
                  "Tensors, and the fields that their rows become: pixels:image,class:label; AS is "
                  "label, for whole numbers.  By default every tensor that has a row for each "
                  "record."),
    {0}};

const mr_stage_def_t mr_stage_safetensors = {
    .name = "safetensors",
    .help = "Reads the rows of the tensors of safetensors files, in any order.",
    .opts = safetensors_opts,
    .state_sz = sizeof(mr_shard_source_t),
    .plan = safetensors_plan,
    MR_SHARD_HOOKS,
};
