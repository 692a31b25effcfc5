/* Which values of a run are not finite, and where that began.

   A record of an executable: while it exists, each run looks at every value of a float dtype as
   soon as it is computed, before its memory is reused.  The results do not change; a run takes
   about twice as long. */
#ifndef MR_MODEL_EXEC_FINITE_H
#define MR_MODEL_EXEC_FINITE_H

#include "base/decls.h"
#include "model/exec/exec.h"

MR_BEGIN_DECLS

/* One value of the last run. */
typedef struct mr_seen {
  int64_t bad;   /* elements that are NaN or an infinity */
  int64_t first; /* the first of them, as an index into the row-major elements; -1: none */
  double value;  /* of that element */
  double most;   /* the largest magnitude of the finite elements, 0 without any */
} mr_seen_t;

/* Where a value that is not finite comes from. */
typedef struct mr_fault {
  const mr_fn_t *fn;    /* the graph, or the function inside an equation, that eqn is of */
  const mr_eqn_t *eqn;  /* gave it; NULL: it came in, as an input of the graph */
  int index;            /* of eqn in fn */
  int which;            /* output of eqn, or input of the graph */
  mr_seen_t seen;       /* that output or input */
  const mr_eqn_t *call; /* the equation of the graph that runs fn; NULL: fn is the graph */
  int64_t run;          /* which run of fn, from 0 */
} mr_fault_t;

typedef struct mr_finite mr_finite_t;

/* Begins to look at the runs of x, which may not be running and may have one record at a time.  The
   caller destroys *out before x.  MR_ERR_NOMEM. */
mr_err_t mr_finite_create(mr_exec_t *x, mr_finite_t **out, mr_diag_t *diag);
void mr_finite_destroy(mr_finite_t *w); /* NULL is fine; runs of x are no longer looked at */

/* Returns what the last run saw of v, a value of mr_exec_fn(x) that is not a literal; it belongs to
   w and changes with the next run.  All zeros, with first -1, for what is not of a float dtype. */
const mr_seen_t *mr_finite_seen(const mr_finite_t *w, const mr_var_t *v);

/* Finds the first equation that the value of output number out of the last run goes back to,
   through values that are not finite, whose operands are finite and whose result is not.  If there
   is none, the first such input; if there is no such input, as the infinity is a literal, the first
   equation that makes a NaN of operands without one, or else the first one of all.  In a loop or
   branch it is the equation inside.  Infinities that do not reach the output, such as those of a
   mask ahead of a softmax, are not regarded.  false: the output is finite. */
bool mr_finite_origin(const mr_finite_t *w, int out, mr_fault_t *fault);

MR_END_DECLS

#endif
