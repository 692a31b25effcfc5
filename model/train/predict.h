/* A compiled forward pass that gives what a model predicts for each record, instead of losses: its
   first output, or what its last product takes.  One thread at a time. */
#ifndef MR_MODEL_TRAIN_PREDICT_H
#define MR_MODEL_TRAIN_PREDICT_H

#include "model/train/train.h"

MR_BEGIN_DECLS

typedef enum mr_predicts {
  MR_PREDICTS_VALUES,   /* the numbers of the first output */
  MR_PREDICTS_SHARES,   /* their softmax: a share for each class */
  MR_PREDICTS_FEATURES, /* the operand of the last product that the first output comes from */
} mr_predicts_t;

typedef struct mr_predict_step mr_predict_step_t;

/* Compiles it for batches of `batch` records and parameters kept in c->values.  The caller destroys
   *out.  MR_ERR_CONFIG if the loss has no outputs, or no product for features; else fails as
   mr_eval_step_create. */
mr_err_t mr_predict_step_create(const mr_loss_t *l, const mr_compute_t *c, int64_t batch,
                                mr_predicts_t what, mr_predict_step_t **out, mr_diag_t *diag);
void mr_predict_step_destroy(mr_predict_step_t *s); /* NULL is fine */
/* Returns its compiled function, which lives as long as it.  Cannot fail. */
const mr_exec_t *mr_predict_step_exec(const mr_predict_step_t *s);

/* What a prediction takes and gives. */
typedef struct mr_predict_form {
  int64_t width;                  /* numbers for each record, from 1 */
  bool reads[MR_LOSS_FIELDS + 1]; /* whether it depends on field i of the loss; then the mask */
} mr_predict_form_t;

/* Finds that without compiling.  Fails as mr_predict_step_create. */
mr_err_t mr_predict_form(const mr_loss_t *l, mr_predicts_t what, mr_predict_form_t *out,
                         mr_diag_t *diag);

/* As mr_eval_step_run.  Fields that it does not read may hold anything that is valid for them. */
mr_err_t mr_predict_step_run(mr_predict_step_t *s, const mr_params_t *params,
                             const void *const *field, mr_diag_t *diag);
/* Points *values at f32 (B,width) of the oldest run that is not read, which belong to the step and
   are valid until MR_TRAIN_RING more runs have begun.  Returns as mr_train_step_read does. */
mr_err_t mr_predict_step_read(mr_predict_step_t *s, bool wait, const float **values,
                              mr_diag_t *diag);

MR_END_DECLS

#endif
