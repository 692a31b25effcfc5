/* The index of a file whose arrays hold one record a row, such as .npz and safetensors.  Rows have
   even sizes, so nothing is listed: the draft has one record, whose parts are the first rows of the
   arrays, and the distance to the next.  Arrays with another number of rows do not become
   fields. */
#include "loaders/formats/row_columns.h"

#include <string.h>

#include "loaders/shards/shard_typed.h"

int64_t mr_row_array_bytes(const mr_row_array_t *a) {
  int64_t bytes = (int64_t)mr_dtype_size(a->dtype);
  for (int i = 0; i < a->ndim; i++) bytes *= a->dim[i];
  return bytes;
}

/* The records of the file; 0 without an array with rows. */
static int64_t count_rows(const mr_row_array_t *array, int n) {
  int64_t best = 0;
  int most = 0;
  for (int i = 0; i < n; i++) {
    int same = 0;
    if (!array[i].ndim || !mr_row_array_bytes(&array[i])) continue;
    for (int k = 0; k < n; k++) same += array[k].ndim && array[k].dim[0] == array[i].dim[0];
    if (same > most || (same == most && array[i].dim[0] > best))
      most = same, best = array[i].dim[0];
  }
  return best;
}

static mr_err_t add_array(const mr_row_array_t *a, int64_t rows, mr_shard_draft_t *draft,
                          mr_diag_t *diag) {
  mr_field_t type = {.dtype = a->dtype, .ndim = a->ndim - 1};
  int64_t row = mr_row_array_bytes(a) / rows;
  mr_diag_t why = {0};
  uint32_t column;
  if (!row || row > MR_SHARD_PART_MAX || a->ndim >= MR_MAX_NDIM) return MR_OK;
  memcpy(type.dim, a->dim + 1, (size_t)type.ndim * sizeof *type.dim);
  mr_err_t e =
      mr_typed_column(draft, a->name, a->n_name, MR_TYPED_PLAIN, &type, NULL, &column, &why);
  if (e == MR_ERR_DATA) return MR_OK; /* a name that no field can have */
  if (e < 0) return mr_diag_relay(diag, e, &why);
  return mr_shard_draft_part(draft, column, a->at, row, diag);
}

mr_err_t mr_row_columns(const mr_row_array_t *array, int n, const char *path,
                        mr_shard_draft_t *draft, mr_diag_t *fault, mr_diag_t *diag) {
  if (n > MR_SHARD_COLUMNS_MAX) {
    mr_fail(fault, MR_ERR_DATA, "%s: %d arrays, want at most %d", path, n, MR_SHARD_COLUMNS_MAX);
    return MR_OK;
  }
  int64_t rows = count_rows(array, n);
  if (!rows) {
    mr_fail(fault, MR_ERR_DATA,
            "%s: holds no array with rows, want arrays (N, ...) of N records each", path);
    return MR_OK;
  }
  MR_TRY(mr_shard_draft_record(draft, NULL, 0, diag));
  for (int i = 0; i < n; i++)
    if (array[i].ndim && array[i].dim[0] == rows) MR_TRY(add_array(&array[i], rows, draft, diag));
  mr_shard_draft_even(draft, rows);
  return MR_OK;
}
