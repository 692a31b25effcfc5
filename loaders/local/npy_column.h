/* One field of the records of .npy files.  In an array a of shape (N, ...) record i is a[i]; a
   ragged field has a file of rows and one of offsets (loaders/local/npy_rows.h). */
#ifndef MR_LOADERS_LOCAL_NPY_COLUMN_H
#define MR_LOADERS_LOCAL_NPY_COLUMN_H

#include "loaders/local/npy_rows.h"
#include "loaders/local/split.h"
#include "loaders/local/store.h"
#include "pipeline/stage_source.h"

enum { MR_NPY_AUTO, MR_NPY_HWC, MR_NPY_CHW, MR_NPY_NONE }; /* values of the setting layout */
#define MR_NPY_LAYOUTS "auto|hwc|chw|none"

typedef struct mr_npy_column {
  const char *name;            /* of the field; the caller's, as the paths of the files */
  mr_npy_file_t file, offsets; /* its array or values; ragged: the offsets.  Without a path: even */
  const mr_split_t *split;     /* maps index i of the split to a record of the files */
  int64_t n;                   /* records in the files, at least 1 */

  mr_npy_t head; /* even: type and shape; no data */
  size_t at;     /* even: bytes before the first record */
  size_t record; /* even: bytes of a record */
  mr_store_t *store;
  mr_npy_t whole; /* even, if its bytes must be converted: all of it, from open to close */

  mr_npy_rows_files_t files; /* ragged */
  mr_npy_rows_t *rows;
} mr_npy_column_t;

/* How the columns of a stage are read. */
typedef struct mr_npy_reading {
  int64_t memory; /* as in mr_store_conf_t, for each file */
  mr_read_way_t backend;
  bool in_turn, lenient;
} mr_npy_reading_t;

/* Parses the text of a setting, "NAME:FILE,.." or, ragged, "NAME:VALUES:OFFSETS,..", appends its
   columns to column[0,*n) and advances *n, MR_FIELDS_MAX at most.  Names and paths point into text,
   which is cut in place and must outlive the columns.  MR_ERR_CONFIG with a sentence about the
   setting. */
mr_err_t mr_npy_columns_cut(mr_stage_t *s, const char *setting, char *text, bool ragged,
                            mr_npy_column_t *column, int *n);

/* Finds the files of a column whose paths are set; forget ends that.  MR_OK, or the failure of
   mr_npy_file_find. */
mr_err_t mr_npy_column_find(mr_npy_column_t *c, mr_remote_t **remote, const mr_remote_conf_t *conf,
                            mr_diag_t *diag);
void mr_npy_column_forget(mr_npy_column_t *c);

/* Reads the header, and for a ragged column all offsets, of a column whose files are found, and
   fills n, head, at, record or files.  Keeps no file open.  MR_ERR_IO, MR_ERR_DATA or MR_ERR_NOMEM;
   also MR_ERR_DATA for an array without records or a record of more than 256 MiB. */
mr_err_t mr_npy_column_peek(mr_npy_column_t *c, mr_diag_t *diag);

/* Returns the field of a peeked column by value; layout: MR_NPY_*.  Cannot fail. */
mr_field_t mr_npy_column_field(const mr_npy_column_t *c, int layout);

/* Writes the file and byte offset of a record by its number in the files: of its value, or of its
   first offset.  out->file must point at MR_WHERE_MAX bytes. */
void mr_npy_column_where(const mr_npy_column_t *c, int64_t number, mr_where_t *out);

/* Opens a peeked column, which must not move until close.  Fails as mr_store_open or, ragged, as
   mr_npy_rows_open; the caller calls close after a failure too. */
mr_err_t mr_npy_column_open(mr_npy_column_t *c, const mr_npy_reading_t *how, mr_diag_t *diag);
void mr_npy_column_close(mr_npy_column_t *c); /* fine for one that is zeroed or only peeked */

/* Writes one line into text[0,n): how the column would be read, and why.  Fails as
   mr_store_explain; a ragged column cannot fail. */
mr_err_t mr_npy_column_explain(const mr_npy_column_t *c, const mr_npy_reading_t *how, char *text,
                               size_t n, mr_diag_t *diag);

/* Sets field f of out[0,k) to records index[0,k) of the split, k <= MR_BURST.  number[k] are their
   numbers in the files: an even column writes them, a ragged one reads them instead of index.  The
   data lives until the next fetch of this worker.  Fails as mr_store_fetch or mr_npy_rows_fetch. */
mr_err_t mr_npy_column_fetch(mr_npy_column_t *c, int worker, const int64_t *index, int k, int f,
                             int64_t *number, mr_rec_t *out, mr_diag_t *diag);

/* True if the open column is at a URL and not in memory.  Any thread. */
bool mr_npy_column_due(const mr_npy_column_t *c);

/* Returns whether a peeked column would be kept in memory if it were opened now. */
bool mr_npy_column_keeps(const mr_npy_column_t *c, const mr_npy_reading_t *how);

/* Sets *want to the part of record `number` of a column that is due; want->to is not set. */
void mr_npy_column_part(const mr_npy_column_t *c, int64_t number, mr_remote_want_t *want);

/* Returns the layout that pictures of these three dimensions have: the side with one, three or four
   channels is last (HWC) or first (CHW); a last or first dimension of 1 or 3 is preferred to one of
   4.  MR_LAYOUT_NONE without such a side. */
mr_layout_t mr_npy_layout(const int64_t dim[3]);

/* Writes "f64[10,8,8]" into the caller's text[0,n), cut if it does not fit; returns text. */
const char *mr_npy_text(const mr_npy_t *a, char *text, size_t n);

#endif
