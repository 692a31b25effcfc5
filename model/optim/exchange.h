/* One exchange among the ranks of a step, in its graph.  Each rank has a share of a vector, the
   elements of several arrays one behind the other; it receives the others' terms of its share and
   what they post to all, adds, and gives its results to all.  No rank receives more than the vector
   for each of its own terms, however many ranks there are.  Each of the calls of an exchange needs
   what the one before gave, so that they are in the same order on all ranks, whatever passes do to
   graphs that differ; those by which gradients leave earlier (zero=2) keep it because no pass
   changes the order of collectives.  For step.c alone. */
#ifndef MR_MODEL_OPTIM_EXCHANGE_H
#define MR_MODEL_OPTIM_EXCHANGE_H

#include "model/optim/optim.h"

typedef struct mr__exchange {
  mr_fn_t *f;
  const mr_optim_ranks_t *ranks;
  int n;              /* arrays of the vector */
  int64_t *at;        /* [n+1] their places in it */
  int64_t *from;      /* [ranks+1] the shares */
  int64_t width;      /* elements of the largest share */
  mr_var_t **posted;  /* [n_posted] f32 of this rank, posted to all; belong to f */
  int64_t *posted_at; /* [n_posted+1] their places behind the terms */
  int n_posted, most_posted;
  mr_var_t *all; /* f32[ranks, terms * width + posted]: what each rank has sent to this one */
} mr__exchange_t;

/* Starts an exchange of terms of n arrays, of size[i] elements each, in f.  The vector has even
   shares, or rank r has arrays [share[r],share[r+1]), unless share is NULL.  At most `most` are
   posted.  Its memory is f's; f->diag on failure. */
mr__exchange_t mr__exchange_start(mr_fn_t *f, const mr_optim_ranks_t *ranks, int n,
                                  const int64_t *size, const int *share, int most);
/* Adds what this rank posts to all: the elements of v, which f32 holds exactly, followed by zeros
   up to size elements.  All ranks post the same sizes in the same order.  Returns its number. */
int mr__exchange_post(mr__exchange_t *x, mr_var_t *v, int64_t size);
/* Sends to each rank its share of this rank's terms: term[k][i] is of array i, f32 holds it, and
   term[k] is NULL for one that is all zeros.  All ranks send n_terms. */
void mr__exchange_send(mr__exchange_t *x, int n_terms, mr_var_t **const *term);
/* Returns an array of aval from a rank's posted number `posted`, from the element `at` on; it
   belongs to f.  NULL as mr_lax_add, as below. */
mr_var_t *mr__exchange_posted(const mr__exchange_t *x, int posted, int rank, int64_t at,
                              const mr_aval_t *aval);
/* Returns elements [from,to) of the vector, which are in this rank's share, of a rank's term:
   t[to-from]. */
mr_var_t *mr__exchange_term(const mr__exchange_t *x, int term, int rank, int64_t from, int64_t to,
                            mr_dtype_t t);
/* Gives share, f32[elements of this rank's share] or NULL if it has none, to all and returns the
   shares of all, f32[ranks, width]. */
mr_var_t *mr__exchange_gather(const mr__exchange_t *x, mr_var_t *share);
/* Returns array i of gathered shares as aval. */
mr_var_t *mr__exchange_whole(const mr__exchange_t *x, mr_var_t *shares, int i,
                             const mr_aval_t *aval);

/* Moves equations [from,n_eqn) to the first place at which their operands exist, collectives behind
   those before them, so that values which they read need not wait.  f->diag on failure. */
mr_err_t mr__exchange_early(mr_fn_t *f, int from);

#endif
