/* One exchange among the ranks of a step, in its graph.  Each rank has a share of a vector, the
   elements of several arrays one behind the other; it receives the others' terms of its share and
   what they post to all, adds, and gives its results to all.  Shares may be uneven, and a row for
   each rank has the size of the largest, so that all this goes in chunks: what is read of a chunk
   is read behind its call, and no more than a chunk has such rows.  A rank without elements in a
   chunk makes its calls too.  Each call of an exchange has a turn, so that no pass drops or merges
   it on a rank that has nothing to read or zeros to give; and no pass changes the order of
   collectives, which is therefore that of all ranks, in graphs that differ.  For the files of a
   step alone. */
#ifndef MR_MODEL_OPTIM_EXCHANGE_H
#define MR_MODEL_OPTIM_EXCHANGE_H

#include "model/optim/optim.h"

typedef struct mr__piece mr__piece_t; /* of an array that has come in several; exchange.c */

typedef struct mr__exchange {
  mr_fn_t *f;
  const mr_optim_ranks_t *ranks;
  int n;         /* arrays of the vector */
  int64_t *at;   /* [n+1] their places in it */
  int64_t *from; /* [ranks+1] the shares */
  int64_t width; /* elements of the largest share */
  int64_t chunk; /* elements of a share that are exchanged at a time, those of the last fewer */
  int n_chunks;
  int turn;           /* of the next call */
  mr_var_t **posted;  /* [n_posted] f32 of this rank, posted to all; belong to f */
  int64_t *posted_at; /* [n_posted+1] their places */
  int n_posted, most_posted;
  mr_var_t *all;       /* f32[ranks, posted]: what each rank has posted */
  int n_terms;         /* of each rank */
  mr_var_t ***flat;    /* [n_terms][n] this rank's, f32[elements]; a term may be NULL */
  mr_var_t *come;      /* f32[ranks, n_terms * elements of the chunk]: the others' terms of it */
  int newest;          /* that chunk */
  mr__piece_t **piece; /* [n] what has been gathered of each array */
} mr__exchange_t;

/* Starts an exchange of n arrays, of size[i] elements each, in f.  The vector has even
   shares, or rank r has arrays [share[r],share[r+1]), unless share is NULL.  At most `most` are
   posted.  Its memory is f's; f->diag on failure. */
mr__exchange_t mr__exchange_start(mr_fn_t *f, const mr_optim_ranks_t *ranks, int n,
                                  const int64_t *size, const int *share, int most);
/* Adds what this rank posts to all: the elements of v, which f32 holds exactly, followed by zeros
   up to size elements.  All ranks post the same sizes in the same order.  Returns its number. */
int mr__exchange_post(mr__exchange_t *x, mr_var_t *v, int64_t size);
/* The same of a rank that has nothing there: zeros. */
int mr__exchange_post_none(mr__exchange_t *x, int64_t size);
/* Gives to all what this rank has posted. */
void mr__exchange_publish(mr__exchange_t *x);
/* Returns an array of aval from a rank's posted number `posted`, from the element `at` on; it
   belongs to f.  NULL as mr_lax_add, as below. */
mr_var_t *mr__exchange_posted(const mr__exchange_t *x, int posted, int rank, int64_t at,
                              const mr_aval_t *aval);
/* Sets this rank's terms: term[k][i] is of array i, f32 holds it, and term[k] is NULL for one that
   is all zeros.  All ranks have n_terms. */
void mr__exchange_terms(mr__exchange_t *x, int n_terms, mr_var_t **const *term);
/* Sends to each rank chunk c of its share of this rank's terms. */
void mr__exchange_send(mr__exchange_t *x, int c);
/* Sets [*from,*to) to the elements of the vector that chunk c of a rank's share has: none if the
   share ends before. */
void mr__exchange_chunk(const mr__exchange_t *x, int rank, int c, int64_t *from, int64_t *to);
/* Returns elements [from,to) of the vector, which are in this rank's share and in the chunk that
   was sent last, of a rank's term: t[to-from]. */
mr_var_t *mr__exchange_term(const mr__exchange_t *x, int term, int rank, int64_t from, int64_t to,
                            mr_dtype_t t);
/* Gives chunk c of this rank's share, f32[its elements] or NULL if it has none, to all, and keeps
   what all have given of the arrays outside of [lo,hi). */
void mr__exchange_gather(mr__exchange_t *x, int c, mr_var_t *mine, int lo, int hi);
/* Whether chunk c is the last that has elements of array i. */
bool mr__exchange_completes(const mr__exchange_t *x, int c, int i);
/* Returns array i, which the chunk that was gathered last has completed, as aval: what it has come
   in need not wait then. */
mr_var_t *mr__exchange_whole(const mr__exchange_t *x, int i, const mr_aval_t *aval);
/* Returns chunk c of this rank's share of arrays, array[i] for i in [0,n), of which f32 holds those
   that lie in the share; NULL if it has none. */
mr_var_t *mr__exchange_own(const mr__exchange_t *x, int c, mr_var_t *const *array);

/* Returns f64[], the sum of a number of each array in their order: mine[share[rank+1]-share[rank]],
   f64[], are this rank's.  turn: another one for each such call of a graph, since a rank without
   arrays gives the same zeros in all. */
mr_var_t *mr__exchange_sum_each(mr_fn_t *f, const mr_optim_ranks_t *ranks, const int *share,
                                mr_var_t *const *mine, int turn);

/* Moves equations [from,n_eqn) to the first place at which their operands exist, collectives behind
   those before them, so that values which they read need not wait.  f->diag on failure. */
mr_err_t mr__exchange_early(mr_fn_t *f, int from);

#endif
