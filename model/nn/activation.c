/* Activations.  GELU is an op of its own; the others are written with elementwise ops, which
   differentiate and fuse as any. */
#include "model/nn/activation.h"

#include "model/ops/lax.h"

const mr_hint_t mr_activation_hints[] = {
    {"geluerf gelunone gelutanh gelunew gelufast gelupytorchtanh", "gelu", NULL},
    {"swish", "silu", NULL},
    {0}};

const char *mr_activation_name(mr_activation_t a) {
  static const char *const name[] = {"gelu", "quick-gelu", "relu", "silu", "tanh"};
  _Static_assert(sizeof name / sizeof *name == MR_ACTIVATIONS, "a name for each");
  return name[a];
}

mr_gelu_t mr_nn_gelu_of(mr_nn_gelu_t gelu, mr_gelu_t own) {
  return gelu == MR_NN_GELU_OWN ? own : gelu == MR_NN_GELU_ERF ? MR_GELU_ERF : MR_GELU_TANH;
}

/* NaN stays. */
static mr_var_t *cut_below_0(mr_fn_t *f, mr_var_t *x) {
  mr_var_t *zeros = mr_lax_full(f, &x->aval, 0);
  return mr_lax_select_n(f, mr_lax_le(f, x, zeros), x, zeros);
}

static mr_var_t *times_sigmoid_of(mr_fn_t *f, double by, mr_var_t *x) {
  return mr_lax_mul(f, x, mr_lax_logistic(f, by == 1 ? x : mr_lax_scale(f, by, x)));
}

mr_var_t *mr_nn_activate(mr_fn_t *f, mr_activation_t a, mr_gelu_t gelu, mr_var_t *x) {
  if (!x) return NULL;
  switch (a) {
    case MR_ACTIVATION_QUICK_GELU: return times_sigmoid_of(f, 1.702, x);
    case MR_ACTIVATION_RELU: return cut_below_0(f, x);
    case MR_ACTIVATION_SILU: return times_sigmoid_of(f, 1, x);
    case MR_ACTIVATION_TANH: return mr_lax_tanh(f, x);
    case MR_ACTIVATION_GELU:
    case MR_ACTIVATIONS: break;
  }
  return mr_lax_gelu(f, x, gelu);
}
