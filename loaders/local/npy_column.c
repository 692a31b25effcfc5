/* Even columns are read through a store, ragged ones through mr_npy_rows; both by the same
   calls. */
#include "loaders/local/npy_column.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"

enum { RECORD_MAX = 1 << 28 };

/* ---- settings ---- */

/* Where VALUES ends in "VALUES:OFFSETS"; the colons of a URL's scheme and port are its own. */
static char *values_end(char *text) {
  bool url = mr_remote_is(text) || !strncasecmp(text, "file://", 7);
  char *host = url ? strstr(text, "://") + 3 : text;
  return strchr(url ? host + strcspn(host, "/") : text, ':');
}

static mr_err_t cut_one(mr_stage_t *s, const char *setting, char *word, bool ragged,
                        mr_npy_column_t *c) {
  char *path = strchr(word, ':'),
       *offsets = path && ragged && path[1] ? values_end(path + 1) : NULL;
  bool good = path && path[1] && (!ragged || (offsets && offsets > path + 1 && offsets[1]));
  if (good) *path++ = 0;
  if (good && ragged) *offsets++ = 0;
  if (!good || !mr_field_name_ok(word))
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting %s: \"%.200s\": want %s, several separated by commas, where NAME "
                         "has at most %d letters, digits, \"_\", \"-\" and \".\", a letter first",
                         setting, word, ragged ? "NAME:VALUES.npy:OFFSETS.npy" : "NAME:FILE.npy",
                         MR_FIELD_NAME - 1);
  *c = (mr_npy_column_t){.name = word, .file.path = path, .offsets.path = offsets};
  return MR_OK;
}

mr_err_t mr_npy_columns_cut(mr_stage_t *s, const char *setting, char *text, bool ragged,
                            mr_npy_column_t *column, int *n) {
  for (char *word = text, *next; word; word = next) {
    next = strchr(word, ',');
    if (next) *next++ = 0;
    if (*n == MR_FIELDS_MAX)
      return mr_stage_fail(s, MR_ERR_CONFIG, "setting %s: want at most %d fields in a record",
                           setting, MR_FIELDS_MAX);
    MR_TRY(cut_one(s, setting, word, ragged, &column[*n]));
    ++*n;
  }
  return MR_OK;
}

/* ---- what the files hold ---- */

const char *mr_npy_text(const mr_npy_t *a, char *text, size_t n) {
  int at = snprintf(text, n, "%s[", mr_dtype_name(a->dtype));
  for (int i = 0; i < a->ndim && at >= 0 && (size_t)at < n; i++)
    at += snprintf(text + at, n - (size_t)at, "%s%" PRId64, i ? "," : "", a->dim[i]);
  if (at >= 0 && (size_t)at < n) snprintf(text + at, n - (size_t)at, "]");
  return text;
}

mr_err_t mr_npy_column_find(mr_npy_column_t *c, mr_remote_t **remote, const mr_remote_conf_t *conf,
                            mr_diag_t *diag) {
  MR_TRY(mr_npy_file_find(&c->file, remote, conf, diag));
  return c->offsets.path ? mr_npy_file_find(&c->offsets, remote, conf, diag) : MR_OK;
}

void mr_npy_column_forget(mr_npy_column_t *c) {
  mr_npy_file_forget(&c->file), mr_npy_file_forget(&c->offsets);
}

static mr_err_t peek_even(mr_npy_column_t *c, mr_diag_t *diag) {
  mr_npy_t *a = &c->head;
  char text[128];
  MR_TRY(mr_npy_file_peek(&c->file, a, &c->at, diag));
  size_t each = mr_dtype_size(a->dtype);
  if (a->ndim < 1 || a->count == 0)
    return mr_fail(diag, MR_ERR_DATA,
                   "%s: holds %s, want an array (N, ...) with records in it, one for each number "
                   "along the first dimension",
                   c->file.path, mr_npy_text(a, text, sizeof text));
  if (mr_npy_as_is(a) && c->at % each)
    return mr_fail(diag, MR_ERR_DATA, "%s: its data begin at byte %zu, want a multiple of %zu",
                   c->file.path, c->at, each);
  c->n = a->dim[0];
  c->record = a->count / (size_t)c->n * each;
  if (c->record <= RECORD_MAX) return MR_OK;
  return mr_fail(diag, MR_ERR_DATA, "%s: records of %zu bytes, want at most %d", c->file.path,
                 c->record, RECORD_MAX);
}

mr_err_t mr_npy_column_peek(mr_npy_column_t *c, mr_diag_t *diag) {
  if (!c->offsets.path) return peek_even(c, diag);
  MR_TRY(mr_npy_rows_peek(&c->files, &c->file, &c->offsets, diag));
  c->n = c->files.n;
  return MR_OK;
}

mr_layout_t mr_npy_layout(const int64_t dim[3]) {
  if (dim[2] == 1 || dim[2] == 3) return MR_LAYOUT_HWC;
  if (dim[0] == 1 || dim[0] == 3) return MR_LAYOUT_CHW;
  return dim[2] == 4 ? MR_LAYOUT_HWC : dim[0] == 4 ? MR_LAYOUT_CHW : MR_LAYOUT_NONE;
}

/* The layout of pictures (N,...): as set, else by a dimension that looks like channels. */
static mr_layout_t npy_column_layout_of(const mr_npy_t *a, int layout) {
  if (a->ndim != 4 || layout == MR_NPY_NONE) return MR_LAYOUT_NONE;
  if (layout != MR_NPY_AUTO) return layout == MR_NPY_HWC ? MR_LAYOUT_HWC : MR_LAYOUT_CHW;
  return mr_npy_layout(a->dim + 1);
}

mr_field_t mr_npy_column_field(const mr_npy_column_t *c, int layout) {
  const mr_npy_t *a = c->offsets.path ? &c->files.head : &c->head;
  mr_field_t f = {.dtype = a->dtype};
  snprintf(f.name, sizeof f.name, "%s", c->name);
  if (c->offsets.path) {
    f.ragged = true, f.ndim = a->ndim;
    memcpy(f.dim, a->dim, (size_t)a->ndim * sizeof *f.dim);
    f.dim[0] = c->files.longest;
    return f;
  }
  f.layout = npy_column_layout_of(a, layout), f.ndim = a->ndim - 1;
  memcpy(f.dim, a->dim + 1, (size_t)f.ndim * sizeof *f.dim);
  return f;
}

void mr_npy_column_where(const mr_npy_column_t *c, int64_t number, mr_where_t *out) {
  snprintf(out->file, MR_WHERE_MAX, "%s", c->offsets.path ? c->offsets.path : c->file.path);
  out->offset = c->offsets.path ? (int64_t)c->files.offsets_at + number * (int64_t)sizeof(int64_t)
                                : (int64_t)c->at + number * (int64_t)c->record;
}

/* ---- reading ---- */

static int64_t npy_column_locate(const void *ctx, int64_t index) {
  return mr__split_at(((const mr_npy_column_t *)ctx)->split, index);
}

static mr_err_t check_bools(const void *ctx, const char *path, int64_t at, const uint8_t *record,
                            mr_diag_t *diag) {
  return mr_npy_check_bools(path, record, ((const mr_npy_column_t *)ctx)->record, diag);
}

static mr_store_conf_t npy_column_store_conf(const mr_npy_column_t *c,
                                             const mr_npy_reading_t *how) {
  return (mr_store_conf_t){.path = &c->file.path,
                           .n_files = 1,
                           .remote = c->file.remote,
                           .object = c->file.object ? &c->file.object : NULL,
                           .head = (int64_t)c->at,
                           .record = c->record,
                           .per_file = c->n,
                           .n = mr__split_size(c->split),
                           .memory = how->memory,
                           .backend = how->backend,
                           .in_turn = how->in_turn,
                           .locate = npy_column_locate,
                           .check = c->head.dtype == MR_BOOL ? check_bools : NULL,
                           .lenient = how->lenient,
                           .ctx = c};
}

static mr_npy_rows_conf_t rows_conf(const mr_npy_column_t *c, const mr_npy_reading_t *how) {
  return (mr_npy_rows_conf_t){
      .files = c->files, .memory = how->memory, .backend = how->backend, .lenient = how->lenient};
}

/* An array that is narrow, big-endian or in Fortran order is converted as a whole. */
static bool is_converted(const mr_npy_column_t *c) {
  return !c->offsets.path && !mr_npy_as_is(&c->head);
}

static mr_err_t load_converted(mr_npy_column_t *c, mr_diag_t *diag) {
  MR_TRY(mr_npy_file_load(&c->file, &c->whole, diag));
  if (c->whole.dtype != c->head.dtype || c->whole.count != c->head.count ||
      memcmp(c->whole.dim, c->head.dim, sizeof c->head.dim) != 0)
    return mr_fail(diag, MR_ERR_DATA, "%s: has changed since the graph was planned", c->file.path);
  if (c->head.dtype != MR_BOOL) return MR_OK;
  return mr_npy_check_bools(c->file.path, c->whole.data, c->whole.count, diag);
}

mr_err_t mr_npy_column_open(mr_npy_column_t *c, const mr_npy_reading_t *how, mr_diag_t *diag) {
  mr_store_conf_t even = npy_column_store_conf(c, how);
  mr_npy_rows_conf_t ragged = rows_conf(c, how);
  if (is_converted(c)) return load_converted(c, diag);
  return c->offsets.path ? mr_npy_rows_open(&c->rows, &ragged, diag)
                         : mr_store_open(&c->store, &even, diag);
}

void mr_npy_column_close(mr_npy_column_t *c) {
  mr_store_close(c->store);
  mr_npy_rows_close(c->rows);
  mr_npy_free(&c->whole);
  c->store = NULL, c->rows = NULL;
}

mr_err_t mr_npy_column_explain(const mr_npy_column_t *c, const mr_npy_reading_t *how, char *text,
                               size_t n, mr_diag_t *diag) {
  mr_store_conf_t even = npy_column_store_conf(c, how);
  mr_npy_rows_conf_t ragged = rows_conf(c, how);
  if (is_converted(c)) {
    mr_snprintf(text, n, "read once, converted and kept in memory (%.1f MB)",
                (double)(c->record * (size_t)c->n) / 1e6);
    return MR_OK;
  }
  if (!c->offsets.path) return mr_store_explain(&even, text, n, diag);
  mr_npy_rows_explain(&ragged, text, n);
  return MR_OK;
}

mr_err_t mr_npy_column_fetch(mr_npy_column_t *c, int worker, const int64_t *index, int k, int f,
                             int64_t *number, mr_rec_t *out, mr_diag_t *diag) {
  uint8_t *record[MR_BURST];
  if (c->offsets.path) return mr_npy_rows_fetch(c->rows, worker, number, k, f, out, diag);
  for (int i = 0; c->whole.data && i < k; i++) {
    number[i] = mr__split_at(c->split, index[i]);
    out[i].field[f].data = (char *)c->whole.data + (size_t)number[i] * c->record;
  }
  if (c->whole.data) return MR_OK;
  MR_TRY(mr_store_fetch(c->store, worker, index, k, number, record, diag));
  for (int i = 0; i < k; i++) out[i].field[f].data = record[i];
  return MR_OK;
}

bool mr_npy_column_due(const mr_npy_column_t *c) {
  if (!c->file.object || is_converted(c)) return false;
  return c->offsets.path ? !mr_npy_rows_kept(c->rows) : !mr_store_kept(c->store);
}

bool mr_npy_column_keeps(const mr_npy_column_t *c, const mr_npy_reading_t *how) {
  mr_store_conf_t even = npy_column_store_conf(c, how);
  mr_npy_rows_conf_t ragged = rows_conf(c, how);
  if (is_converted(c)) return true;
  return c->offsets.path ? mr_npy_rows_keeps(&ragged) : mr_store_keeps(&even);
}

void mr_npy_column_part(const mr_npy_column_t *c, int64_t number, mr_remote_want_t *want) {
  *want = (mr_remote_want_t){.object = c->file.object,
                             .at = (int64_t)(c->at + (size_t)number * c->record),
                             .size = (int64_t)c->record};
  if (c->offsets.path) mr_npy_rows_place(c->rows, number, &want->at, &want->size);
}
