/* Arrays of one file as columns: record i has row i of each.  Shared by .npz and safetensors. */
#ifndef MR_LOADERS_FORMATS_ROW_COLUMNS_H
#define MR_LOADERS_FORMATS_ROW_COLUMNS_H

#include "loaders/shards/shard_typed.h"
#include "pipeline/spec.h"

/* An array in the file, in C order unless it says otherwise, or one that cannot be read by rows. */
typedef struct mr_row_array {
  const char *name; /* [n_name] */
  size_t n_name;
  bool fortran; /* in Fortran order: its parts have item 1, and loaders/formats/turned_rows.h puts
                   its rows together */
  bool refused; /* it cannot be read by rows, for the reason in why_text */
  char why_text[256]; /* whole: what is too long for an index loses a part behind its last ";" */
  mr_typed_t kind;    /* PLAIN or a narrow one, with the dtype that its values become */
  mr_dtype_t dtype;
  int ndim;
  int64_t dim[MR_MAX_NDIM];
  int64_t at; /* its first byte in the file */
} mr_row_array_t;

/* Returns the bytes of an array whose product of dimensions has been checked; cannot fail. */
int64_t mr_row_array_bytes(const mr_row_array_t *a);

/* Makes a draft of the records of a file, whose ctx is the mr_shard_source_t.  Their number is the
   first dimension that most arrays have, of those that fields= names if it is given; every other
   array is a refused column with its reason.  Two numbers that equally many arrays have, several
   among those that are named, or no array with rows, are a fault (MR_OK, with MR_ERR_DATA in
   *fault).  MR_ERR_NOMEM. */
mr_err_t mr_row_columns(const mr_row_array_t *array, int n, const mr_shard_file_t *file,
                        mr_shard_draft_t *draft, mr_diag_t *fault, mr_diag_t *diag);

#endif
