/* Rows of predictions, one a record, as a table, JSON lines, CSV or .npz.  One thread at a time. */
#ifndef MR_APPS_RUN_PREDICT_ROWS_H
#define MR_APPS_RUN_PREDICT_ROWS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "pipeline/spec.h"

/* A record and what is predicted of it. */
typedef struct mr_predict_row {
  uint64_t id;
  const char *file;   /* that holds it, or what makes it; NULL: unknown */
  int64_t offset;     /* of its first byte there; -1: the file is the record, or it is unknown */
  bool bad;           /* it cannot be read; there are no values */
  const float *value; /* [n] shares of classes, numbers or features */
  int64_t n;
} mr_predict_row_t;

typedef struct mr_predict_rows mr_predict_rows_t;

/* Opens the output: file by its ending, .jsonl, .csv or .npz; NULL: a table on standard output.
   top: classes per row, [1,n].  resume: keeps whole rows of a .jsonl or .csv file.  The caller
   closes *out.  MR_ERR_USAGE for another ending; MR_ERR_IO. */
mr_err_t mr_predict_rows_open(const char *file, int64_t top, bool resume, mr_predict_rows_t **out,
                              mr_diag_t *diag);

/* Rows that the file had; at most a multiple of `batch` is kept, the rest is cut off. */
mr_err_t mr_predict_rows_keep(mr_predict_rows_t *r, int64_t batch, int64_t *rows, mr_diag_t *diag);

/* Writes a row.  field: what the values are, with the names of classes; label: they are shares of
   classes.  MR_ERR_IO; MR_ERR_DATA for values that are not finite. */
mr_err_t mr_predict_rows_add(mr_predict_rows_t *r, const mr_field_t *field, bool label,
                             const mr_predict_row_t *row, mr_diag_t *diag);
mr_err_t mr_predict_rows_flush(mr_predict_rows_t *r, mr_diag_t *diag);

/* Writes what is left, if e is no failure, and frees r.  Returns e, or the failure of writing. */
mr_err_t mr_predict_rows_close(mr_predict_rows_t *r, mr_err_t e, mr_diag_t *diag);

#endif
