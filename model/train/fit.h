/* Fits a training step into a memory limit.  The search chooses which values of a block the
   backward pass recomputes (mr_compute_t.remat), and how many parts a batch is split into
   (mr_train_config_t.accumulate). */
#ifndef MR_MODEL_TRAIN_FIT_H
#define MR_MODEL_TRAIN_FIT_H

#include "model/train/train.h"

typedef struct mr_fit {
  mr_nn_remat_t remat;
  int64_t accumulate;
  size_t peak; /* of the arena as planned, <= the limit */
  double byte; /* operations that a byte was counted as */
} mr_fit_t;

/* Finds the cheapest choice whose planned peak is at most limit bytes, and writes it to *out.  The
   cost of a plan is its operations, and mr_fit_byte_cost operations for each byte that it moves.
   With remat false the search varies accumulate alone: pass true for a loss whose model has
   mr_model_def_t.remat. t->accumulate and t->compute.remat are ignored;
   MR_ERR_CONFIG with t->ordered.

   Each candidate is planned, which takes about a tenth of a second; nothing is run and no arena is
   taken.  MR_OK; MR_ERR_NOMEM if no choice fits, where the sentence names the smallest reachable
   peak and its settings; or an error of mr_train_step_plan.  On failure *out is unchanged.

   remat does not change the results of a step; accumulate changes which dropout masks are drawn. */
mr_err_t mr_fit(const mr_loss_t *l, bool remat, const mr_train_config_t *t, size_t limit,
                mr_fit_t *out, mr_diag_t *diag);
/* The same, with a byte that costs `byte` operations. */
mr_err_t mr_fit_at(const mr_loss_t *l, bool remat, const mr_train_config_t *t, size_t limit,
                   double byte, mr_fit_t *out, mr_diag_t *diag);

#define MR_FIT_BYTE 10.0 /* a byte's operations on processors with a few cores */

/* How many operations of products in dtype the device does in the time in which it moves a byte:
   the ratio of its limits (mr_limit_ops_t), rounded by mr_fit_byte_round.
   MR_FIT_BYTE for the CPU, or NULL, so that every machine chooses the same, and for a device whose
   limits cannot be measured.  The first call for a device and dtype measures, which takes a second
   or so; the device is open.  Any thread. */
double mr_fit_byte_cost(const struct mr_device *device, mr_dtype_t dtype);
/* Rounds gflops/gbs to MR_FIT_BYTE times a power of 4, from 1/256 to 256: measured limits differ
   from run to run, and a choice should not.  MR_FIT_BYTE if one of them is 0 or no number.  Pure.
 */
double mr_fit_byte_round(double gflops, double gbs);

#endif
