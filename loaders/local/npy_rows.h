/* Records with a varying number of rows.  One .npy file holds the rows of all records one after the
   other; another, i64 (N+1), holds offsets: record i has the rows [offset[i],offset[i+1]). */
#ifndef MR_LOADERS_LOCAL_NPY_ROWS_H
#define MR_LOADERS_LOCAL_NPY_ROWS_H

#include "loaders/local/npy_file.h"
#include "pipeline/stage.h"

/* The two files, as described by their headers and the offsets. */
typedef struct mr_npy_rows_files {
  mr_npy_file_t values, offsets; /* found; the caller's */
  mr_npy_t head;                 /* of values (rows, ...); no data */
  size_t values_at, offsets_at;  /* where their data begin */
  size_t row;                    /* bytes of a row */
  int64_t n, longest;            /* records, at least 1; rows of the longest, at least 1 */
} mr_npy_rows_files_t;

/* Reads the headers and all offsets, which must begin at 0, never decrease, and end at the number
   of rows.  Keeps no file open.  What values and offsets point at must outlive *f.  MR_ERR_IO,
   MR_ERR_NOMEM or MR_ERR_DATA with a sentence that names the file; a record must not exceed
   256 MiB. */
mr_err_t mr_npy_rows_peek(mr_npy_rows_files_t *f, const mr_npy_file_t *values,
                          const mr_npy_file_t *offsets, mr_diag_t *diag);

typedef struct mr_npy_rows_conf {
  mr_npy_rows_files_t files; /* peeked; the paths live until close */
  int64_t memory;            /* most bytes of values to keep in memory; -1: half of what is free */
  mr_read_way_t backend;
  bool lenient; /* values that cannot be read fail their fetch instead of open */
} mr_npy_rows_conf_t;

typedef struct mr_npy_rows mr_npy_rows_t;

/* Opens both files, reads the offsets again, and the values if they fit into memory.  The caller
   ends *out with mr_npy_rows_close.  MR_ERR_IO, MR_ERR_NOMEM, MR_ERR_UNAVAILABLE, or MR_ERR_DATA,
   also if the offsets have changed since they were peeked; *out is NULL then. */
mr_err_t mr_npy_rows_open(mr_npy_rows_t **out, const mr_npy_rows_conf_t *conf, mr_diag_t *diag);
void mr_npy_rows_close(mr_npy_rows_t *r); /* NULL is fine */

/* Sets field f of out[i] to the rows of record number[i], in [0,files.n), for n <= MR_BURST
   records.  The data belongs to r and lives until the next fetch of this worker, in
   [0,MR_MAX_READERS).  Several workers may call at once.  Blocks while it reads; fails as open
   does. */
mr_err_t mr_npy_rows_fetch(mr_npy_rows_t *r, int worker, const int64_t *number, int n, int f,
                           mr_rec_t *out, mr_diag_t *diag);

/* True if the values are in memory.  Any thread. */
bool mr_npy_rows_kept(const mr_npy_rows_t *r);

/* Sets the part of the file of values that holds record `number`.  Any thread. */
void mr_npy_rows_place(const mr_npy_rows_t *r, int64_t number, int64_t *at, int64_t *size);

/* Returns whether the values would be kept in memory if they were opened now. */
bool mr_npy_rows_keeps(const mr_npy_rows_conf_t *conf);

/* Writes one line into text[0,n): how the values would be read with the memory free now. */
void mr_npy_rows_explain(const mr_npy_rows_conf_t *conf, char *text, size_t n);

/* MR_ERR_DATA if one of n bools is neither 0 nor 1, else MR_OK; path: of their file, for the
   sentence. */
mr_err_t mr_npy_check_bools(const char *path, const void *bools, size_t n, mr_diag_t *diag);

#endif
