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
  MR_CLASS_LOSS_MSE,
  MR_CLASS_LOSS_ADDED /* and those above it: losses that plug-ins brought, in their order */
} mr_class_loss_kind_t;

/* A loss of one's own, which a plug-in brings (plugins/plugin.h): a model's setting loss=NAME. */
typedef struct mr_class_loss_def {
  const char *name; /* small letters, digits and - */
  const char *help; /* one sentence, ends with a period */
  /* Traces the losses of records, (B) in the dtype of logits, from logits (B,C) and targets (B,C)
     of the same dtype: shares of the classes, rows of one-hot smoothed as the settings say.  They
     are added up without records that do not count, and in f32 under mixed precision.  The result
     belongs to f; NULL with the failure in f->diag. */
  mr_var_t *(*losses)(mr_fn_t *f, mr_var_t *logits, mr_var_t *targets);
} mr_class_loss_def_t;

enum { MR_CLASS_LOSSES_ADDED_MAX = 16, MR_CLASS_LOSS_TEXT = 512 };

/* Checks whether every loss of a NULL-ended table of a plug-in can be added: it is whole, its name
   is free, and there is room.  MR_OK, or MR_ERR_CONFIG, which names the loss and its fault. */
mr_err_t mr_class_losses_check(const mr_class_loss_def_t *const *table, const char *origin,
                               mr_diag_t *diag);
/* Adds a table that has passed mr_class_losses_check.  It is not copied and must live as long as
   the process.  For the thread that builds graphs. */
void mr_class_losses_add(const mr_class_loss_def_t *const *table);

/* The names of the kinds, in their order, as a setting has them, behind "auto|"; it grows when
   losses are added. */
extern char mr_class_loss_auto_choices[MR_CLASS_LOSS_TEXT];
#define MR_CLASS_LOSS_CHOICES (mr_class_loss_auto_choices + sizeof "auto")
/* Other frameworks' words for them, for such a setting's values.  Static; ends at {0}. */
extern const mr_hint_t mr_class_loss_hints[];

/* A loss of classes.  Zero-initialised: the cross-entropy. */
typedef struct mr_class_loss {
  mr_class_loss_kind_t kind; /* or MR_CLASS_LOSS_ADDED and a number of losses behind it */
  double gamma;              /* FOCAL: 0, or [1,100]: below 1 the slope at p = 1 is infinite */
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
