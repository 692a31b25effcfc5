/* One field of the records of .npy files: of an array (N, ...) record i is a[i]; a ragged field has
   a file of rows and one of offsets (loaders/npy_rows.h). */
#ifndef MR_LOADERS_NPY_COLUMN_H
#define MR_LOADERS_NPY_COLUMN_H

#include "loaders/npy_rows.h"
#include "loaders/split.h"
#include "loaders/store.h"
#include "pipeline/stage_source.h"

enum { MR_NPY_AUTO, MR_NPY_HWC, MR_NPY_CHW, MR_NPY_NONE }; /* the setting layout of the stage */
#define MR_NPY_LAYOUTS "auto|hwc|chw|none"

typedef struct mr_npy_column {
  const char *name, *path; /* of the field, of its array or values; they live as long as this */
  const char *offsets;     /* ragged: path of the offsets; NULL: even */
  const mr_split_t *split; /* which record of the files index i is */
  int64_t n;               /* records of the files, at least 1 */

  mr_npy_t head; /* even: type and shape; no data */
  size_t at;     /* even: bytes before the first record, */
  size_t record; /* and of one */
  mr_store_t *store;

  mr_npy_rows_files_t files; /* ragged */
  mr_npy_rows_t *rows;
} mr_npy_column_t;

/* How the columns of a stage are read. */
typedef struct mr_npy_reading {
  int64_t memory; /* as in mr_store_conf_t, for each file */
  mr_read_way_t backend;
  bool in_turn, lenient;
} mr_npy_reading_t;

/* Cuts the text of a setting, "NAME:FILE,.." or, ragged, "NAME:VALUES:OFFSETS,..", which becomes
   the memory of names and paths, into column[0,*n) from *n on, MR_FIELDS_MAX at most.
   MR_ERR_CONFIG with a sentence about the setting. */
mr_err_t mr_npy_columns_cut(mr_stage_t *s, const char *setting, char *text, bool ragged,
                            mr_npy_column_t *column, int *n);

/* Reads the headers, and offsets, of a column whose paths are set.  MR_ERR_IO or MR_ERR_DATA. */
mr_err_t mr_npy_column_peek(mr_npy_column_t *c, mr_diag_t *diag);

/* The field of a peeked column; layout: as the setting says. */
mr_field_t mr_npy_column_field(const mr_npy_column_t *c, int layout);

/* The file and place of record number i: of its value, or of its first offset. */
void mr_npy_column_where(const mr_npy_column_t *c, int64_t number, mr_where_t *out);

/* Opens a column, which must stay where it is until close. */
mr_err_t mr_npy_column_open(mr_npy_column_t *c, const mr_npy_reading_t *how, mr_diag_t *diag);
void mr_npy_column_close(mr_npy_column_t *c); /* of a zeroed or peeked one is fine */

/* One line into text[0,n): how it would be read and why. */
mr_err_t mr_npy_column_explain(const mr_npy_column_t *c, const mr_npy_reading_t *how, char *text,
                               size_t n, mr_diag_t *diag);

/* Sets field f of out[0,k) to records index[0,k) of the split, k <= MR_BURST.  number[k]: in the
   files; an even column sets it, a ragged one reads it. */
mr_err_t mr_npy_column_fetch(mr_npy_column_t *c, int worker, const int64_t *index, int k, int f,
                             int64_t *number, mr_rec_t *out, mr_diag_t *diag);

/* "f64[10,8,8]" into text[0,n); returns text. */
const char *mr_npy_text(const mr_npy_t *a, char *text, size_t n);

#endif
