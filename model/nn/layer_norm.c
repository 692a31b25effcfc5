/* Layer normalization with the parameter names of flax and of timm. */
#include "model/nn/nn.h"

/* flax computes the variance in one pass over a row ("fast variance"), PyTorch in two. */
static mr_var_t *norm(mr_nn_t *s, const char *name, const char *scale_name, mr_var_t *x, float eps,
                      bool two_pass) {
  if (!x) return NULL;
  size_t mark = mr_nn_enter(s, name);
  int64_t c = x->aval.dim[x->aval.ndim - 1];
  mr_var_t *scale = mr_nn_param_of(s, scale_name, ((mr_init_t){MR_INIT_ONES, 0}), c);
  mr_var_t *bias = mr_nn_param_of(s, "bias", ((mr_init_t){MR_INIT_ZEROS, 0}), c);
  mr_var_t *y = mr_lax_layer_norm(s->f, x, scale, bias, eps, two_pass, MR_F32);
  mr_nn_applied_to(s, "LayerNorm", x, y);
  mr_nn_leave(s, mark);
  return y;
}

mr_var_t *mr_nn_layer_norm(mr_nn_t *s, const char *name, mr_var_t *x, float eps) {
  return norm(s, name, "scale", x, eps, false);
}

mr_var_t *mr_nn_layer_norm_timm(mr_nn_t *s, const char *name, mr_var_t *x, float eps) {
  return norm(s, name, "weight", x, eps, true);
}
