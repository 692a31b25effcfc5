/* Losses of classifiers.  The cross-entropy of classes is an op of its own; the others are written
   with elementwise ops and sums, which differentiate and fuse as any, in the dtypes as written:
   mixed precision leaves them alone, as it does the op. */
#include "model/nn/class_loss.h"

#include "base/dataset.h"
#include "model/nn/loss.h"
#include "model/ops/lax.h"
#include "model/transforms/amp.h"

const mr_hint_t mr_class_loss_hints[] = {
    {"ce xent crossentropyloss softmaxcrossentropy categoricalcrossentropy", "cross-entropy", NULL},
    {"focalloss", "focal", NULL},
    {"mseloss l2 l2loss squarederror meansquarederror", "mse", NULL},
    {0}};

/* x[b] for each class of record b. */
static mr_var_t *spread_records(mr_fn_t *f, mr_var_t *x, const mr_aval_t *a) {
  return mr_lax_broadcast_in_dim(f, x, 2, a->dim, (int[]){0});
}

/* Rows with 1 at the class, in the dtype of a, and in *mask 1 for each record that has one. */
static mr_var_t *one_hot_rows(mr_fn_t *f, mr_var_t *labels, const mr_aval_t *a, mr_var_t **mask) {
  mr_var_t *none = mr_lax_full(f, &labels->aval, MR_LABEL_NONE);
  mr_var_t *at = mr_lax_iota(f, MR_I32, 2, a->dim, 1);
  *mask = mr_lax_convert(f, mr_lax_ne(f, labels, none), a->dtype);
  return mr_lax_convert(f, mr_lax_eq(f, at, spread_records(f, labels, a)), a->dtype);
}

/* log softmax(z), at most 0. */
static mr_var_t *log_shares(mr_fn_t *f, mr_var_t *z) {
  const mr_aval_t *a = &z->aval;
  const int last[] = {1};
  mr_var_t *top = mr_lax_stop_gradient(f, mr_lax_reduce_max(f, z, 1, last));
  mr_var_t *x = mr_lax_sub(f, z, spread_records(f, top, a));
  mr_var_t *lse = mr_lax_log(f, mr_lax_reduce_sum(f, mr_lax_exp(f, x), 1, last));
  return mr_lax_sub(f, x, spread_records(f, lse, a));
}

static mr_var_t *focal_terms(mr_fn_t *f, mr_var_t *z, mr_var_t *targets, double gamma) {
  mr_var_t *log_p = log_shares(f, z);
  if (!log_p) return NULL;
  mr_var_t *terms = mr_lax_mul(f, targets, mr_lax_neg(f, log_p));
  if (gamma == 0) return terms;
  mr_var_t *rest = mr_lax_neg(f, mr_lax_expm1(f, log_p)); /* 1 - p, exact where p is near 1 */
  rest = mr_lax_pow(f, rest, mr_literal(f, z->aval.dtype, gamma));
  return mr_lax_mul(f, rest, terms);
}

static mr_var_t *mse_terms(mr_fn_t *f, mr_var_t *z, mr_var_t *targets) {
  mr_var_t *d = mr_lax_sub(f, z, targets);
  return d ? mr_lax_scale(f, 1 / (double)z->aval.dim[1], mr_lax_mul(f, d, d)) : NULL;
}

/* A loss of other kinds than cross-entropy. */
static mr_var_t *written_losses(mr_fn_t *f, const mr_class_loss_t *l, mr_var_t *logits,
                                mr_var_t *labels, mr_var_t *mask) {
  bool shares = labels->aval.dtype != MR_I32;
  const mr_aval_t *a = &logits->aval;
  mr_var_t *targets = shares ? labels : one_hot_rows(f, labels, a, &mask);
  if (l->smoothing > 0 && targets) {
    mr_var_t *even = mr_lax_full(f, &targets->aval, l->smoothing / (double)a->dim[1]);
    targets = mr_lax_add(f, mr_lax_scale(f, 1 - l->smoothing, targets), even);
  }
  if (!targets) return NULL;
  mr_var_t *terms = l->kind == MR_CLASS_LOSS_FOCAL ? focal_terms(f, logits, targets, l->gamma)
                                                   : mse_terms(f, logits, targets);
  if (!terms) return NULL;
  return mr_lax_mul(f, mr_lax_reduce_sum(f, terms, 1, (int[]){1}), mask);
}

mr_var_t *mr_class_losses(mr_fn_t *f, const mr_class_loss_t *l, mr_var_t *logits, mr_var_t *labels,
                          mr_var_t *mask) {
  if (!logits || !labels) return NULL;
  if (l->kind == MR_CLASS_LOSS_CROSS_ENTROPY)
    return labels->aval.dtype != MR_I32
               ? mr_loss_of_targets(f, logits, labels, mask, l->smoothing)
               : mr_lax_softmax_cross_entropy(f, logits, labels, (float)l->smoothing);
  const char *outer = mr_amp_stop(f);
  mr_var_t *losses = written_losses(f, l, logits, labels, mask);
  mr_scope_leave(f, outer);
  return losses;
}
