/* Making a training step fit into memory: which of a block's values are computed again
   (mr_compute_t.remat), and in how many parts a batch is worked through. */
#ifndef MR_MODEL_FIT_H
#define MR_MODEL_FIT_H

#include "model/train.h"

typedef struct mr_fit {
  mr_nn_remat_t remat;
  int64_t accumulate;
  size_t peak; /* of the arena as planned, <= the limit */
} mr_fit_t;

/* remat: the loss has parts that are computed again where it says so (mr_model_def_t.remat).  The
   cheapest choice, by mr_train_step_plan's cost, whose planned peak is at most limit bytes;
   remat and accumulate of t are not looked at.  Plans step after step, about a tenth of a
   second each.  MR_ERR_NOMEM if none fits: the sentence says the smallest peak that can be
   reached, and how.  remat does not change what a step computes; accumulate draws other dropout
   masks. */
mr_err_t mr_fit(const mr_loss_t *l, bool remat, const mr_train_config_t *t, size_t limit,
                mr_fit_t *out, mr_diag_t *diag);

#endif
