/* Slots and average, and with zero=3 values, of a rank that is alone in its process and has a share
   of them (mr_train_config_t.zero): every process lists whole parameters, whose sets, or those
   behind the values, hold numbers for its share alone.  Before a checkpoint or an evaluation rank 0
   receives the others', and gives the memory back when the next run has been exchanged.  Shared by
   train.c and shares.c; one thread calls, all ranks make the same calls. */
#ifndef MR_MODEL_TRAIN_SHARES_H
#define MR_MODEL_TRAIN_SHARES_H

#include "model/exec/collect.h"
#include "model/train/train.h"

typedef struct mr__shares {
  const mr_collect_ops_t *ops;
  mr_collect_t *collect;
  int rank, ranks;
  int *first;        /* heap [ranks+1]: the first parameter of each rank */
  bool others;       /* the sets of this process have the shares of other ranks too */
  bool newer;        /* runs have updated the shares since */
  bool newer_judged; /* those of the set that evaluations read */
  bool values;       /* the values are of shares too */
} mr__shares_t;

/* Settles the shares of config->ranks ranks in list.  MR_OK or MR_ERR_NOMEM; the caller ends *s,
   also then. */
mr_err_t mr__shares_init(const mr_train_config_t *config, const mr_params_t *list, mr__shares_t *s,
                         mr_diag_t *diag);
void mr__shares_fini(mr__shares_t *s); /* zeroed is fine */

/* Rank 0 receives the others' shares, or those of the set that evaluations read alone, unless it
   has the newest.
   MR_OK, or MR_ERR_UNAVAILABLE if a
   rank does not come: params then have slots of two steps. */
mr_err_t mr__shares_gather(mr__shares_t *s, mr_params_t *params, bool judged, mr_diag_t *diag);
/* A run updates the shares: this process has no others from now on, and gives their memory back. */
void mr__shares_updated(mr__shares_t *s, const mr_params_t *params);

#endif
