/* Predicted times of a step's ranks, by a table of rates (mesh/rates.h): the graphs of its ranks
   are gone through together, equation by equation, and in a collective a rank waits until all that
   it needs have come.  A pipeline's bubble follows from this, as does what a collective hides
   behind, where collectives run beside computation.  Nothing runs. */
#ifndef MR_MODEL_TRAIN_TIMES_H
#define MR_MODEL_TRAIN_TIMES_H

#include "model/ir/fn.h"
#include "model/mesh/mesh.h"
#include "model/mesh/rates.h"

MR_BEGIN_DECLS

/* Whether ranks exchange values in e. */
bool mr_times_exchanges(const mr_eqn_t *e);
/* The axis of m that a collective goes along: its own, or that of the batch, for ranks that share
   it. */
int mr_times_axis(const mr_mesh_t *m, const mr_eqn_t *e);
/* The bytes that rank `rank` of n receives in a collective.  A sum is cut into a part a rank: the
   parts are received, added, and given to all. */
int64_t mr_times_received(const mr_eqn_t *e, int n, int rank);

/* A collective of a rank. */
typedef struct mr_times_call {
  const mr_eqn_t *eqn;
  int64_t bytes;  /* that the rank receives */
  double s;       /* predicted, when all have come */
  double waits_s; /* of the rank, for the others to come and for what nothing hides of s */
  /* Computation between the call and the first equation that reads it, which runs beside it
     where the table says so: its time, and the dearest equation; NULL: none. */
  double beside_s;
  const mr_eqn_t *beside;
} mr_times_call_t;

/* A rank whose graph is gone through. */
typedef struct mr_times_rank {
  const mr_fn_t *f; /* the caller's */
  int rank;         /* its number */
  /* Results. */
  double ends_s;    /* when it has done everything, from the beginning of the step */
  double compute_s; /* in equations */
  int n_call;
  mr_times_call_t *call; /* heap [n_call] in the order of the graph */
} mr_times_rank_t;

/* Fills the results of rank[n], ranks of a step on mesh m, as many as differ: any others are taken
   to come at the same time as these.  MR_OK; MR_ERR_CONFIG if ranks would wait for each other
   forever; MR_ERR_NOMEM.  mr_times_fini in any case. */
mr_err_t mr_times(const mr_rates_t *r, const mr_mesh_t *m, int n, mr_times_rank_t *rank,
                  mr_diag_t *diag);
void mr_times_fini(int n, mr_times_rank_t *rank); /* frees the results; zeroed ones are fine */

MR_END_DECLS

#endif
