/* Layers of one input: linear, layer normalization, the MLP of a transformer block; each with the
   parameter names and layouts of flax (kernel [in,out]) and of PyTorch or timm (weight [out,in]).
 */
#include <string.h>

#include "model/nn/nn.h"

mr_var_t *mr_nn_linear(mr_nn_t *s, const char *name, mr_var_t *x, int64_t out) {
  if (!x || !mr_nn_fits(s, "linear", x, 1, MR_MAX_NDIM, 1, "(...,in)")) return NULL;
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
  if (!x || !mr_nn_fits(s, "linear", x, 1, MR_MAX_NDIM, 1, "(...,in)")) return NULL;
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

/* ---- layer normalization ---- */

/* flax computes the variance in one pass over a row ("fast variance"), PyTorch in two. */
static mr_var_t *apply_norm(mr_nn_t *s, const char *name, const char *scale_name, mr_var_t *x,
                            float eps, bool two_pass) {
  if (!x || !mr_nn_fits(s, "layer_norm", x, 1, MR_MAX_NDIM, 1, "(...,C)")) return NULL;
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
  return apply_norm(s, name, "scale", x, eps, false);
}

mr_var_t *mr_nn_layer_norm_timm(mr_nn_t *s, const char *name, mr_var_t *x, float eps) {
  return apply_norm(s, name, "weight", x, eps, true);
}

/* ---- the MLP of a transformer block: flax's with tanh-GELU, timm's with erf-GELU ---- */

static mr_gelu_t gelu_kind(const mr_nn_t *s, mr_gelu_t own) {
  if (s->gelu == MR_NN_GELU_OWN) return own;
  return s->gelu == MR_NN_GELU_ERF ? MR_GELU_ERF : MR_GELU_TANH;
}

mr_var_t *mr_nn_mlp(mr_nn_t *s, mr_var_t *x, int64_t hidden) {
  if (!x || !mr_nn_fits(s, "mlp", x, 1, MR_MAX_NDIM, 1, "(...,E)")) return NULL;
  int64_t out = x->aval.dim[x->aval.ndim - 1];
  x = mr_lax_gelu(s->f, mr_nn_linear(s, "linear1", x, hidden), gelu_kind(s, MR_GELU_TANH));
  return mr_nn_dropout(s, mr_nn_linear(s, "linear2", mr_nn_dropout(s, x), out));
}

mr_var_t *mr_nn_mlp_timm(mr_nn_t *s, const char *name, mr_var_t *x, int64_t hidden) {
  if (!x || !mr_nn_fits(s, "mlp", x, 1, MR_MAX_NDIM, 1, "(...,E)")) return NULL;
  int64_t out = x->aval.dim[x->aval.ndim - 1];
  size_t mark = mr_nn_enter(s, name);
  mr_var_t *y =
      mr_lax_gelu(s->f, mr_nn_linear_timm(s, "fc1", x, hidden), gelu_kind(s, MR_GELU_ERF));
  y = mr_nn_linear_timm(s, "fc2", mr_nn_dropout(s, y), out);
  mr_nn_applied_to(s, "Mlp", x, y);
  mr_nn_leave(s, mark);
  return mr_nn_dropout(s, y);
}
