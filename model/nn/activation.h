/* What an MLP computes between its two products, by name: what a model's settings `activation` and
   `gelu` choose. */
#ifndef MR_MODEL_NN_ACTIVATION_H
#define MR_MODEL_NN_ACTIVATION_H

#include "base/decls.h"
#include "base/hint.h"
#include "model/ir/fn.h"
#include "model/ops/operands.h"

MR_BEGIN_DECLS

/* GELU: by tanh or erf (mr_nn_gelu_t).  RELU: x, or 0 where x is negative; its slope at 0 is 0.
   SILU: x sigmoid(x), also called swish.  QUICK_GELU: x sigmoid(1.702 x), that of CLIP.  Source:
   torch.nn, jax.nn; Radford et al., "Learning Transferable Visual Models" (2021). */
typedef enum mr_activation {
  MR_ACTIVATION_GELU,
  MR_ACTIVATION_QUICK_GELU,
  MR_ACTIVATION_RELU,
  MR_ACTIVATION_SILU,
  MR_ACTIVATION_TANH,
  MR_ACTIVATIONS
} mr_activation_t;

/* The names, in their order, as a setting has them. */
#define MR_ACTIVATION_CHOICES "gelu|quick-gelu|relu|silu|tanh"
/* Other frameworks' words for them, for such a setting's values.  Static; ends at {0}. */
extern const mr_hint_t mr_activation_hints[];
/* Returns one of MR_ACTIVATION_CHOICES; static. */
const char *mr_activation_name(mr_activation_t a);

/* Which GELU: that which is usual where it stands, or one of the two. */
typedef enum mr_nn_gelu { MR_NN_GELU_OWN, MR_NN_GELU_ERF, MR_NN_GELU_TANH } mr_nn_gelu_t;
#define MR_NN_GELU_CHOICES "auto|erf|tanh"
/* Returns which one `gelu` is where `own` is usual. */
mr_gelu_t mr_nn_gelu_of(mr_nn_gelu_t gelu, mr_gelu_t own);

/* The activation of each element of x, floats; gelu: of MR_ACTIVATION_GELU.  The result has x's
   shape and dtype and belongs to f; NULL for a NULL x, and with the failure in f->diag as the
   ops. */
mr_var_t *mr_nn_activate(mr_fn_t *f, mr_activation_t a, mr_gelu_t gelu, mr_var_t *x);

MR_END_DECLS

#endif
