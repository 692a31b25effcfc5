/* The communicator of a compiled graph: devices that compute the same graph on parts of the data
   and exchange values in its collectives, through any table of collect.h. */
#ifndef MR_MODEL_EXEC_COMM_H
#define MR_MODEL_EXEC_COMM_H

#include "model/exec/collect.h"

MR_BEGIN_DECLS

/* One device of a communicator, for which a graph is compiled: its collectives over axis are calls
   of that rank, in the order of the graph.  ops and collect belong to the caller and outlive all
   graphs compiled with them. */
typedef struct mr_comm_rank {
  const mr_collect_ops_t *ops;
  mr_collect_t *collect;
  int rank, size; /* rank in [0,size) */
  const char *axis;
  /* Set by an all_gather or all_to_all that has failed, by what it gave, since another rank may
     leave, and make the table fail, when this call has not.  The caller's, who clears it; NULL: it
     is not asked. */
  bool *exchange_failed;
} mr_comm_rank_t;

/* All ranks of a communicator of this process's threads. */
typedef struct mr_comm mr_comm_t;

/* A communicator of size ranks, in [1,1024], whose calls wait limit_s for each other, > 0;
   INFINITY: forever.  It must outlive all graphs compiled with its ranks; the caller destroys it.
   MR_OK, MR_ERR_CONFIG for another size or limit, or MR_ERR_NOMEM. */
mr_err_t mr_comm_create(int size, double limit_s, mr_comm_t **out, mr_diag_t *diag);
void mr_comm_destroy(mr_comm_t *c); /* NULL is fine */
/* Rank number `rank` of c, for the axis of that name, which is the caller's. */
mr_comm_rank_t mr_comm_rank_of(const mr_comm_t *c, int rank, const char *axis);
/* MR_OK; MR_ERR_UNAVAILABLE with the sentence if a rank has not come in time, whose number becomes
 *rank: what ran since then has NaN for results.  Any thread. */
mr_err_t mr_comm_failed(const mr_comm_t *c, int *rank, mr_diag_t *diag);

MR_END_DECLS

#endif
