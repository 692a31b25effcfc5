/* Fits a training step into a memory limit.  The search chooses which values of a block the
   backward pass recomputes (mr_compute_t.remat), and how many parts a batch is split into
   (mr_train_config_t.accumulate). */
#ifndef MR_MODEL_FIT_H
#define MR_MODEL_FIT_H

#include "model/train.h"

typedef struct mr_fit {
  mr_nn_remat_t remat;
  int64_t accumulate;
  size_t peak; /* of the arena as planned, <= the limit */
} mr_fit_t;

/* Finds the cheapest choice, by the cost of mr_train_step_plan, whose planned peak is at most limit
   bytes, and writes it to *out.  With remat false the search varies accumulate alone: pass true for
   a loss whose model has mr_model_def_t.remat. t->accumulate and t->compute.remat are ignored.

   Each candidate is planned, which takes about a tenth of a second; nothing is run and no arena is
   taken.  MR_OK; MR_ERR_NOMEM if no choice fits, where the sentence names the smallest reachable
   peak and its settings; or an error of mr_train_step_plan.  On failure *out is unchanged.

   remat does not change the results of a step; accumulate changes which dropout masks are drawn. */
mr_err_t mr_fit(const mr_loss_t *l, bool remat, const mr_train_config_t *t, size_t limit,
                mr_fit_t *out, mr_diag_t *diag);

#endif
