/* The losses of classifiers, by name: what a model's setting `loss` chooses. */
#ifndef MR_MODEL_NN_CLASS_LOSS_H
#define MR_MODEL_NN_CLASS_LOSS_H

#include "base/decls.h"
#include "base/hint.h"
#include "model/ir/fn.h"

MR_BEGIN_DECLS

/* Of a record with logits z, p = softmax(z) and targets t, a share for each of C classes:
   CROSS_ENTROPY: -sum of t log p.  FOCAL: -sum of t (1 - p)^gamma log p, for one class that of Lin
   et al., "Focal Loss for Dense Object Detection" (2017), without its alpha, which class weights
   are.  MSE: the mean of (z - t)^2 over the classes, as torch's mse_loss of logits and one-hot rows
   (Hui and Belkin, 2021). */
typedef enum mr_class_loss_kind {
  MR_CLASS_LOSS_CROSS_ENTROPY,
  MR_CLASS_LOSS_FOCAL,
  MR_CLASS_LOSS_MSE
} mr_class_loss_kind_t;

/* The names of the kinds, in their order, as a setting has them. */
#define MR_CLASS_LOSS_CHOICES "cross-entropy|focal|mse"
/* Other frameworks' words for them, for such a setting's values.  Static; ends at {0}. */
extern const mr_hint_t mr_class_loss_hints[];

/* A loss of classes.  Zero-initialised: the cross-entropy. */
typedef struct mr_class_loss {
  mr_class_loss_kind_t kind;
  double gamma;     /* FOCAL: 0, or [1,100]: below 1 the slope at p = 1 is infinite */
  double smoothing; /* [0,1): the share of a target that is spread evenly over all classes */
} mr_class_loss_t;

/* The losses of records, f32 (B) or the dtype of logits (B,C).  labels: i32 (B), classes, where a
   record of MR_LABEL_NONE has loss 0, and mask is not read; or f32 (B,C), shares, and mask f32 (B),
   0 for a record with loss 0.  The result belongs to f; NULL with the failure in f->diag:
   MR_ERR_SHAPE as the ops. */
mr_var_t *mr_class_losses(mr_fn_t *f, const mr_class_loss_t *l, mr_var_t *logits, mr_var_t *labels,
                          mr_var_t *mask);

MR_END_DECLS

#endif
