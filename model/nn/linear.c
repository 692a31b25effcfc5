/* Linear layers: flax's kernel [in,out], and PyTorch's weight [out,in]. */
#include <string.h>

#include "model/nn/nn.h"

mr_var_t *mr_nn_linear(mr_nn_t *s, const char *name, mr_var_t *x, int64_t out) {
  if (!x) return NULL;
  size_t mark = mr_nn_enter(s, name);
  int64_t in = x->aval.dim[x->aval.ndim - 1];
  mr_var_t *w =
      mr_nn_param_of(s, "kernel", ((mr_init_t){MR_INIT_LECUN_NORMAL, (float)in}), in, out);
  mr_var_t *b = mr_nn_param_of(s, "bias", ((mr_init_t){MR_INIT_ZEROS, 0}), out);
  mr_var_t *y = b ? mr_lax_linear(s->f, x, w, b, false) : NULL;
  mr_nn_applied_to(s, "Linear", x, y);
  mr_nn_leave(s, mark);
  return y;
}

static mr_var_t *linear_timm(mr_nn_t *s, const char *name, mr_var_t *x, int64_t out, bool bias) {
  if (!x) return NULL;
  size_t mark = mr_nn_enter(s, name);
  int64_t in = x->aval.dim[x->aval.ndim - 1];
  mr_var_t *w = mr_nn_param_of(s, "weight", ((mr_init_t){MR_INIT_TRUNC_NORMAL, .02f}), out, in);
  mr_var_t *b = bias ? mr_nn_param_of(s, "bias", ((mr_init_t){MR_INIT_ZEROS, 0}), out) : NULL;
  mr_var_t *y = w && (b || !bias) ? mr_lax_linear(s->f, x, w, b, true) : NULL;
  mr_nn_applied_to(s, "Linear", x, y);
  mr_nn_leave(s, mark);
  return y;
}

mr_var_t *mr_nn_linear_timm(mr_nn_t *s, const char *name, mr_var_t *x, int64_t out) {
  return linear_timm(s, name, x, out, true);
}

mr_var_t *mr_nn_linear_timm_no_bias(mr_nn_t *s, const char *name, mr_var_t *x, int64_t out) {
  return linear_timm(s, name, x, out, false);
}
