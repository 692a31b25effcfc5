/* Arrays of one file as columns: record i has row i of each.  Shared by .npz and safetensors. */
#ifndef MR_LOADERS_FORMATS_ROW_COLUMNS_H
#define MR_LOADERS_FORMATS_ROW_COLUMNS_H

#include "loaders/shards/shards.h"
#include "pipeline/spec.h"

/* An array in C order in the file. */
typedef struct mr_row_array {
  const char *name; /* [n_name] */
  size_t n_name;
  mr_dtype_t dtype;
  int ndim;
  int64_t dim[MR_MAX_NDIM];
  int64_t at; /* its first byte in the file */
} mr_row_array_t;

/* Returns the bytes of an array whose product of dimensions has been checked; cannot fail. */
int64_t mr_row_array_bytes(const mr_row_array_t *a);

/* Makes a draft of the records.  Their number is the most frequent first dimension, the larger one
   if two are equally frequent; other arrays do not become columns.  No array with rows is a fault
   (MR_OK, with MR_ERR_DATA in *fault).  MR_ERR_NOMEM. */
mr_err_t mr_row_columns(const mr_row_array_t *array, int n, const char *path,
                        mr_shard_draft_t *draft, mr_diag_t *fault, mr_diag_t *diag);

#endif
