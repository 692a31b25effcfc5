/* What stands in an executable's arena, and when. */
#ifndef MR_MODEL_EXEC_MEM_REPORT_H
#define MR_MODEL_EXEC_MEM_REPORT_H

#include "model/exec/exec.h"

/* One piece of the arena and the value that first stands there (later ones may take its place). */
typedef struct mr_mem_row {
  const mr_eqn_t *eqn; /* what writes it; NULL: a literal */
  int out;             /* which output of eqn; -1: scratch of its kernel */
  size_t bytes, offset;
  int first, last; /* equations between which it is alive, both included; -1: from the start */
} mr_mem_row_t;

typedef struct mr_mem_report {
  int n_row, n_time;
  mr_mem_row_t *row; /* in the order of their first equation */
  size_t *alive;     /* [n_time]: bytes alive while equation i runs */
  int peak;          /* the equation with most; -1: there is none */
} mr_mem_report_t;

/* x outlives the report.  MR_ERR_NOMEM; mr_mem_report_fini frees, also after a failure. */
mr_err_t mr_mem_report_init(mr_mem_report_t *r, const mr_exec_t *x, mr_diag_t *diag);
void mr_mem_report_fini(mr_mem_report_t *r);

/* Runs x twice (arguments as for mr_exec_run) over an arena painted with two patterns, and returns
   the end of the last byte that changed: the peak as measured.  0 without memory for two copies of
   the arena. */
size_t mr_exec_touched(mr_exec_t *x, const void *const *in, void *const *out);

#endif
