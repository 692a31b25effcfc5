/* What a checkpoint or a replay file says of the precision that its run computes in, and the state
   of fp8 in it: tensors "fp8/scale" f32 (n,3) and "fp8/amax" f32 (history,n,3), as
   model/train/train.h has them.  One thread at a time for one stage or file. */
#ifndef MR_STAGES_TRAIN_COMPUTES_H
#define MR_STAGES_TRAIN_COMPUTES_H

#include "base/safetensors.h"
#include "stages/train/amp.h"
#include "stages/train/state.h"

enum { MR__COMPUTES_TENSORS = 2 };

/* Writes the settings, "dtype=bf16 fp8=hybrid fp8-history=1024 fp8-margin=0 fp8-amax=max"; without
   fp8 the dtype alone.  Cannot fail. */
void mr__computes_text(const mr_compute_t *c, char text[MR_TRAIN_COMPUTES]);

/* Returns a hash of amp= and amp-rule=, which settle the products that scales of fp8 belong to.
   Never 0. */
uint64_t mr__computes_rules(const mr_train_amp_t *a);

/* Writes the tensors of a state to t[MR__COMPUTES_TENSORS], which then point at it, and returns
   their number, 0 for a state of n 0.  Cannot fail. */
int mr__computes_pack(const mr_train_fp8_t *fp8, mr_st_tensor_t *t);

/* Copies the state of fp8 out of a file; the caller frees out->scale, which out->amax is a part of.
   MR_ERR_DATA with path and tensor if one is missing, is not of that history, or holds values that
   no run produces; MR_ERR_NOMEM; *out is then not set. */
mr_err_t mr__computes_load_fp8(const mr_safetensors_t *f, const char *path, int history,
                               mr_train_fp8_t *out, mr_diag_t *diag);

/* Copies a state into a step, which has begun no run; MR_ERR_DATA, beginning with `where`, if the
   step has another number of products or history. */
mr_err_t mr__computes_set_fp8(const char *where, const mr_train_fp8_t *from, mr_train_step_t *step,
                              mr_diag_t *diag);

/* For the stage train-step, whose step is compiled and whose progress is that of the checkpoint it
   resumes from: compares the settings, and restores the state of fp8.  A change that a run may
   make is a notice.  MR_OK; MR_ERR_CONFIG for settings of fp8, amp= or amp-rule= that do not fit
   its state; or MR_ERR_IO, MR_ERR_DATA, MR_ERR_NOMEM. */
mr_err_t mr__computes_resume(mr_stage_t *s);

#endif
