/* Reports on an executable's arena: which value occupies which bytes, and when. */
#ifndef MR_MODEL_EXEC_MEM_REPORT_H
#define MR_MODEL_EXEC_MEM_REPORT_H

#include "model/exec/exec.h"

/* A block of the arena and the first value in it; an op in place may put later values there. */
typedef struct mr_mem_row {
  const mr_eqn_t *eqn; /* the equation that writes it; NULL: a literal */
  int out;             /* which output of eqn; -1: scratch of its kernel */
  size_t bytes, offset;
  int first, last; /* equations between which it is alive, both included; -1: from the start */
} mr_mem_row_t;

typedef struct mr_mem_report {
  int n_row, n_time;
  mr_mem_row_t *row; /* in the order of their first equation */
  size_t *alive;     /* [n_time]: bytes alive while equation i runs */
  int peak;          /* the equation with most bytes alive; -1: the graph has no equations */
} mr_mem_report_t;

/* Fills *r, which points into x and must not outlive it.  MR_OK or MR_ERR_NOMEM; the caller frees
 *r with mr_mem_report_fini in both cases. */
mr_err_t mr_mem_report_init(mr_mem_report_t *r, const mr_exec_t *x, mr_diag_t *diag);
void mr_mem_report_fini(mr_mem_report_t *r);

/* Measures the peak: runs x twice (arguments as for mr_exec_run), over an arena filled with one
   pattern and then with another, and returns the offset behind the last byte that changed.  Returns
   0 without memory for a copy of its literals; nothing is run then. */
size_t mr_exec_touched(mr_exec_t *x, const void *const *in, void *const *out);

#endif
