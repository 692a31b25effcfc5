/* One exchange among the ranks of a step, in its graph: a vector of f32 that holds what each rank
   gives, and that all ranks gather at once.  One collective a step is the same one on all ranks,
   whatever order passes give to the equations of graphs that differ.  For step.c alone. */
#ifndef MR_MODEL_OPTIM_EXCHANGE_H
#define MR_MODEL_OPTIM_EXCHANGE_H

#include "model/optim/optim.h"

typedef struct mr__exchange {
  mr_fn_t *f;
  const mr_optim_ranks_t *ranks;
  mr_var_t **piece; /* [n] f32[size] of this rank; belong to f */
  int64_t *at;      /* [n+1] their places in the vector */
  int n, most;
  mr_var_t *all; /* f32[ranks, at[n]], once gathered */
} mr__exchange_t;

/* Starts an exchange of at most `most` pieces in f.  Its memory is f's; f->diag on failure. */
mr__exchange_t mr__exchange_start(mr_fn_t *f, const mr_optim_ranks_t *ranks, int most);
/* Adds what this rank gives: the elements of v, which f32 holds exactly, followed by zeros up to
   size elements; NULL: zeros alone.  All ranks add the same sizes in the same order.  Returns the
   number of the piece. */
int mr__exchange_give(mr__exchange_t *x, mr_var_t *v, int64_t size);
/* Gathers the pieces of all ranks. */
void mr__exchange_gather(mr__exchange_t *x);
/* Returns the elements from `at` on of a rank's piece, as an array of aval; it belongs to f.  NULL
   as mr_lax_add. */
mr_var_t *mr__exchange_take(const mr__exchange_t *x, int piece, int rank, int64_t at,
                            const mr_aval_t *aval);

#endif
