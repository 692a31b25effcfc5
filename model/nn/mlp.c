/* The MLP of a transformer block: flax's with tanh-GELU, timm's with erf-GELU. */
#include "model/nn/nn.h"

mr_var_t *mr_nn_mlp(mr_nn_t *s, mr_var_t *x, int64_t hidden) {
  if (!x) return NULL;
  int64_t out = x->aval.dim[x->aval.ndim - 1];
  x = mr_lax_gelu(s->f, mr_nn_linear(s, "linear1", x, hidden), MR_GELU_TANH);
  return mr_nn_dropout(s, mr_nn_linear(s, "linear2", mr_nn_dropout(s, x), out));
}

mr_var_t *mr_nn_mlp_timm(mr_nn_t *s, const char *name, mr_var_t *x, int64_t hidden) {
  if (!x) return NULL;
  int64_t out = x->aval.dim[x->aval.ndim - 1];
  size_t mark = mr_nn_enter(s, name);
  mr_var_t *y = mr_lax_gelu(s->f, mr_nn_linear_timm(s, "fc1", x, hidden), MR_GELU_ERF);
  y = mr_nn_linear_timm(s, "fc2", mr_nn_dropout(s, y), out);
  mr_nn_applied_to(s, "Mlp", x, y);
  mr_nn_leave(s, mark);
  return mr_nn_dropout(s, y);
}
