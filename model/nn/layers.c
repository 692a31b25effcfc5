/* Layers of one input: linear, normalization, the MLP of a transformer block; each with the
   parameter names and layouts of flax (kernel [in,out]) and of PyTorch or timm (weight [out,in]).
 */
#include <string.h>

#include "model/nn/nn.h"
#include "model/transforms/amp.h"

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

/* ---- normalization ---- */

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

/* x / sqrt(E[x^2] + eps), scaled by column. */
static mr_var_t *rms_of(mr_fn_t *f, mr_var_t *x, mr_var_t *scale, float eps) {
  const mr_aval_t *a = &x->aval;
  int rows[MR_MAX_NDIM], last = a->ndim - 1;
  for (int i = 0; i < last; i++) rows[i] = i;
  mr_var_t *mean = mr_lax_reduce_sum(f, mr_lax_mul(f, x, x), 1, &last);
  if (!mean || !scale) return NULL;
  mean = mr_lax_scale(f, 1 / (double)a->dim[last], mean);
  mean = mr_lax_rsqrt(f, mr_lax_add(f, mean, mr_literal(f, a->dtype, (double)eps)));
  mr_var_t *y = mr_lax_mul(f, x, mr_lax_broadcast_in_dim(f, mean, a->ndim, a->dim, rows));
  return mr_lax_mul(f, y, mr_lax_broadcast_in_dim(f, scale, a->ndim, a->dim, &last));
}

static mr_var_t *apply_rms(mr_nn_t *s, const char *name, const char *scale_name, mr_var_t *x,
                           float eps) {
  if (!x || !mr_nn_fits(s, "rms_norm", x, 1, MR_MAX_NDIM, 1, "(...,C)")) return NULL;
  size_t mark = mr_nn_enter(s, name);
  int64_t c = x->aval.dim[x->aval.ndim - 1];
  mr_var_t *scale = mr_nn_param_of(s, scale_name, ((mr_init_t){MR_INIT_ONES, 0}), c);
  const char *outer = mr_amp_stop(s->f); /* sums of squares are of f32, as in the other norm */
  mr_var_t *y = rms_of(s->f, x, scale, eps);
  mr_scope_leave(s->f, outer);
  mr_nn_applied_to(s, "RMSNorm", x, y);
  mr_nn_leave(s, mark);
  return y;
}

mr_var_t *mr_nn_rms_norm(mr_nn_t *s, const char *name, mr_var_t *x, float eps) {
  return apply_rms(s, name, "scale", x, eps);
}

mr_var_t *mr_nn_rms_norm_timm(mr_nn_t *s, const char *name, mr_var_t *x, float eps) {
  return apply_rms(s, name, "weight", x, eps);
}

/* ---- the MLP of a transformer block: flax's with tanh-GELU, timm's with erf-GELU ---- */

static mr_var_t *activate_mlp(mr_nn_t *s, mr_gelu_t own, mr_var_t *x) {
  return mr_nn_activate(s->f, s->activation, mr_nn_gelu_of(s->gelu, own), x);
}

mr_var_t *mr_nn_mlp(mr_nn_t *s, mr_var_t *x, int64_t hidden) {
  if (!x || !mr_nn_fits(s, "mlp", x, 1, MR_MAX_NDIM, 1, "(...,E)")) return NULL;
  int64_t out = x->aval.dim[x->aval.ndim - 1];
  x = activate_mlp(s, MR_GELU_TANH, mr_nn_linear(s, "linear1", x, hidden));
  x = mr_nn_linear(s, "linear2", mr_nn_dropout_module(s, "dropout1", x), out);
  return mr_nn_dropout_module(s, "dropout2", x);
}

mr_var_t *mr_nn_mlp_timm(mr_nn_t *s, const char *name, mr_var_t *x, int64_t hidden) {
  if (!x || !mr_nn_fits(s, "mlp", x, 1, MR_MAX_NDIM, 1, "(...,E)")) return NULL;
  int64_t out = x->aval.dim[x->aval.ndim - 1];
  size_t mark = mr_nn_enter(s, name);
  mr_var_t *y = activate_mlp(s, MR_GELU_ERF, mr_nn_linear_timm(s, "fc1", x, hidden));
  y = mr_nn_linear_timm(s, "fc2", mr_nn_dropout(s, y), out);
  mr_nn_applied_to(s, "Mlp", x, y);
  mr_nn_leave(s, mark);
  return mr_nn_dropout(s, y);
}
