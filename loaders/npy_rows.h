/* Records of differing numbers of rows: the rows of all of them one after the other in one .npy
   file, and in another, i64 (N+1), where each begins: record i has the rows
   [offset[i],offset[i+1]). */
#ifndef MR_LOADERS_NPY_ROWS_H
#define MR_LOADERS_NPY_ROWS_H

#include "base/npy.h"
#include "loaders/reader.h"
#include "pipeline/stage.h"

/* The two files, as their headers and the offsets say. */
typedef struct mr_npy_rows_files {
  const char *values, *offsets; /* paths, the caller's */
  mr_npy_t head;                /* of values (rows, ...); no data */
  size_t values_at, offsets_at; /* where their data begin */
  size_t row;                   /* bytes of a row */
  int64_t n, longest;           /* records, at least 1; rows of the longest, at least 1 */
} mr_npy_rows_files_t;

/* Reads the headers and all offsets, which must begin at 0, never fall, and end at the number of
   rows; keeps no file.  MR_ERR_IO or MR_ERR_DATA with a sentence that names the file. */
mr_err_t mr_npy_rows_peek(mr_npy_rows_files_t *f, const char *values, const char *offsets,
                          mr_diag_t *diag);

typedef struct mr_npy_rows_conf {
  mr_npy_rows_files_t files; /* peeked; the paths live until close */
  int64_t memory;            /* bytes of values kept at most; -1: half of what is free */
  mr_read_way_t backend;
  bool lenient; /* values that cannot be read fail the fetch that wants them instead of open */
} mr_npy_rows_conf_t;

typedef struct mr_npy_rows mr_npy_rows_t;

/* Opens both files, reads the offsets once more, and the values if they fit into memory.  MR_ERR_IO
   or MR_ERR_DATA with a sentence; also where the files have changed since they were peeked. */
mr_err_t mr_npy_rows_open(mr_npy_rows_t **out, const mr_npy_rows_conf_t *conf, mr_diag_t *diag);
void mr_npy_rows_close(mr_npy_rows_t *r); /* NULL is fine */

/* Sets field f of out[i] to the rows of record number[i] in [0,n of the files), n <= MR_BURST; what
   it points to stays until the next fetch of this worker, in [0,MR_MAX_LANES).  Several workers may
   call at once.  Fails as open. */
mr_err_t mr_npy_rows_fetch(mr_npy_rows_t *r, int worker, const int64_t *number, int n, int f,
                           mr_rec_t *out, mr_diag_t *diag);

/* How the values would be read here and now: one line into text[0,n). */
void mr_npy_rows_explain(const mr_npy_rows_conf_t *conf, char *text, size_t n);

/* MR_ERR_DATA where one of n bools is neither 0 nor 1; path: of their file. */
mr_err_t mr_npy_check_bools(const char *path, const void *bools, size_t n, mr_diag_t *diag);

#endif
