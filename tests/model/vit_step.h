/* A Vision Transformer's steps for tests: the model and how it computes in one struct, and runs
   that are read at once. */
#ifndef TESTS_MODEL_VIT_STEP_H
#define TESTS_MODEL_VIT_STEP_H

#include "model/nn/vit.h"
#include "model/train/train.h"

enum { VIT_DATA = 4 }; /* inputs before the parameters: images, labels, seed, step */

typedef struct vit {
  mr_vit_config_t model;
  mr_compute_t how;
} vit_t;

static inline vit_t vit_default(void) { return (vit_t){mr_vit_default(), {.dtype = MR_BF16}}; }

static inline mr_fn_t *vit_loss(const vit_t *v, int64_t batch, bool train, mr_params_t *list,
                                mr_diag_t *diag) {
  mr_loss_t l = mr_vit_loss(&v->model);
  return mr_loss_fn(&l, &v->how, &(mr_loss_use_t){.batch = batch, .train = train}, list, diag);
}

static inline mr_err_t vit_params(const vit_t *v, uint64_t seed, mr_params_t *p, mr_diag_t *diag) {
  mr_loss_t l = mr_vit_loss(&v->model);
  return mr_loss_params(&l, seed, p, diag);
}

/* v must stand as long as the step is created, not longer. */
static inline mr_err_t vit_step(const vit_t *v, mr_train_config_t t, mr_train_step_t **out,
                                mr_diag_t *diag) {
  mr_loss_t l = mr_vit_loss(&v->model);
  t.compute = v->how;
  return mr_train_step_create(&l, &t, out, diag);
}

static inline mr_err_t vit_eval(const vit_t *v, int64_t batch, mr_train_step_t *lender,
                                mr_eval_step_t **out, mr_diag_t *diag) {
  mr_loss_t l = mr_vit_loss(&v->model);
  return mr_eval_step_create(&l, &v->how, batch, lender, out, diag);
}

static inline mr_err_t vit_run(mr_train_step_t *s, mr_params_t *p, const float *images,
                               const int32_t *labels, float lr, int64_t step, uint64_t seed,
                               mr_train_out_t *out, mr_diag_t *diag) {
  mr_err_t e = mr_train_step_run(s, p, (const void *[]){images, labels},
                                 &(mr_train_in_t){step, seed, lr}, diag);
  return e < 0 ? e : mr_train_step_read(s, true, out, diag);
}

static inline mr_err_t vit_judge(mr_eval_step_t *s, const mr_params_t *p, const float *images,
                                 const int32_t *labels, mr_eval_rows_t *out, mr_diag_t *diag) {
  mr_err_t e = mr_eval_step_run(s, p, (const void *[]){images, labels}, diag);
  return e < 0 ? e : mr_eval_step_read(s, true, out, diag);
}

/* Arenas of f32. */
static inline float *values_of(const mr_params_t *p) { return mr_params_f32(p, MR_SET_VALUES, 0); }
static inline float *slot_of(const mr_params_t *p, int i) {
  return mr_params_f32(p, MR_SET_SLOT, i);
}

#endif
