/* The index of a file whose arrays hold one record a row, such as .npz and safetensors.  Rows have
   even sizes, so nothing is listed: the draft has one record, whose parts are the first rows of the
   arrays, and the distance to the next.  Arrays that are no rows of these records become columns
   that say why they cannot be fields. */
#include "loaders/formats/row_columns.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

int64_t mr_row_array_bytes(const mr_row_array_t *a) {
  int64_t bytes = (int64_t)mr_typed_stored(a->kind, a->dtype);
  for (int i = 0; i < a->ndim; i++) bytes *= a->dim[i];
  return bytes;
}

/* Why an array has no rows that could be values; NULL if it has. */
static const char *why_no_rows(const mr_row_array_t *a) {
  if (a->refused) return a->why_text;
  if (!a->ndim) return "it is a single value, without rows";
  if (a->ndim >= MR_MAX_NDIM) return "it has too many dimensions";
  int64_t bytes = mr_row_array_bytes(a);
  if (!bytes) return "it has no elements";
  return bytes / a->dim[0] > MR_SHARD_PART_MAX ? "its rows have more than 256 MiB" : NULL;
}

/* Whether fields=, "MEMBER:FIELD:AS,..", names an array; without it each is asked for. */
static bool is_asked(const mr_row_array_t *a, const char *fields) {
  for (const char *at = fields; at; at = strchr(at, ',')) {
    at += *at == ',';
    size_t n = strcspn(at, ":,");
    if (n == a->n_name && !memcmp(at, a->name, n)) return true;
  }
  return !fields;
}

typedef struct row_groups {
  int64_t rows, other; /* the commonest number of rows, and the next; 0: none */
  int n, n_other;      /* arrays of each */
  const mr_row_array_t *array, *other_array; /* the first of each */
} row_groups_t;

/* Finds the two numbers of rows that most arrays have. */
static row_groups_t count_row_groups(const mr_row_array_t *array, int n, const char *fields) {
  row_groups_t g = {0};
  for (int i = 0; i < n; i++) {
    int same = 0;
    bool seen = false;
    if (why_no_rows(&array[i]) || !is_asked(&array[i], fields)) continue;
    for (int k = 0; k < n; k++) {
      bool one = !why_no_rows(&array[k]) && is_asked(&array[k], fields) &&
                 array[k].dim[0] == array[i].dim[0];
      same += one, seen |= one && k < i;
    }
    if (seen) continue;
    if (same > g.n)
      g = (row_groups_t){array[i].dim[0], g.rows, same, g.n, &array[i], g.array};
    else if (same > g.n_other)
      g.other = array[i].dim[0], g.n_other = same, g.other_array = &array[i];
  }
  return g;
}

static mr_err_t add_array(const mr_row_array_t *a, int64_t rows, mr_shard_draft_t *draft,
                          mr_diag_t *diag) {
  mr_field_t type = {.dtype = a->dtype, .ndim = a->ndim - 1};
  const char *no_rows = why_no_rows(a);
  mr_diag_t why = {0};
  char other[80];
  uint32_t column;
  if (no_rows) return mr_typed_refuse(draft, a->name, a->n_name, no_rows, &column, diag);
  if (a->dim[0] != rows) {
    snprintf(other, sizeof other, "%" PRId64 " rows, and the records are %" PRId64, a->dim[0],
             rows);
    return mr_typed_refuse(draft, a->name, a->n_name, other, &column, diag);
  }
  memcpy(type.dim, a->dim + 1, (size_t)type.ndim * sizeof *type.dim);
  mr_err_t e = mr_typed_column(draft, a->name, a->n_name, a->kind, &type, NULL, &column, &why);
  if (e == MR_ERR_DATA) return mr_typed_refuse(draft, a->name, a->n_name, why.text, &column, diag);
  if (e < 0) return mr_diag_relay(diag, e, &why);
  return mr_shard_draft_item(draft, column, a->at, mr_row_array_bytes(a) / rows, a->fortran, diag);
}

/* How many bytes of a name a sentence has. */
static int name_shown(const mr_row_array_t *a) { return a->n_name < 200 ? (int)a->n_name : 200; }

/* Two groups of arrays of which neither is the larger, or two that are asked for. */
static void refuse_groups(const row_groups_t *g, const char *path, bool asked, mr_diag_t *fault) {
  mr_fail(fault, MR_ERR_DATA,
          "%s: %d array%s of %" PRId64 " rows (%.*s) and %d of %" PRId64
          " (%.*s)%s: want fields= with arrays of one number of rows",
          path, g->n, g->n == 1 ? "" : "s", g->rows, name_shown(g->array), g->array->name,
          g->n_other, g->other, name_shown(g->other_array), g->other_array->name,
          asked ? " are asked for" : ", so that it is not clear which are the records");
}

mr_err_t mr_row_columns(const mr_row_array_t *array, int n, const mr_shard_file_t *file,
                        mr_shard_draft_t *draft, mr_diag_t *fault, mr_diag_t *diag) {
  const mr_shard_source_t *source = file->ctx;
  const char *path = file->path, *fields = source->fields;
  if (n > MR_SHARD_COLUMNS_MAX) {
    mr_fail(fault, MR_ERR_DATA, "%s: %d arrays, want at most %d", path, n, MR_SHARD_COLUMNS_MAX);
    return MR_OK;
  }
  row_groups_t g = count_row_groups(array, n, fields);
  if (!g.rows && fields) g = count_row_groups(array, n, NULL); /* settling says what is wrong */
  if (!g.rows) {
    mr_fail(fault, MR_ERR_DATA,
            "%s: holds no array with rows, want arrays (N, ...) of N records each%s%.*s%s%.200s",
            path, n ? "; " : "", n ? name_shown(array) : 0, n ? array->name : "", n ? ": " : "",
            n ? why_no_rows(array) : "");
    return MR_OK;
  }
  bool asked = fields && is_asked(g.array, fields);
  if (g.n_other && (asked || g.n_other == g.n)) return refuse_groups(&g, path, asked, fault), MR_OK;
  MR_TRY(mr_shard_draft_record(draft, NULL, 0, diag));
  for (int i = 0; i < n; i++) MR_TRY(add_array(&array[i], g.rows, draft, diag));
  mr_shard_draft_even(draft, g.rows);
  return MR_OK;
}
