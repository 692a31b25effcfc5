/* Patch embeddings.  A convolution whose stride equals its kernel size is a matrix product of the
   patches and the kernel. */
#include <math.h>

#include "model/nn/nn.h"

mr_var_t *mr_nn_patches(mr_nn_t *s, mr_var_t *x, int64_t P, bool channel_first) {
  if (!x || !mr_nn_fits(s, "patches", x, 4, 4, P, "(B,H,W,C) and P >= 1")) return NULL;
  static const int rows_first[] = {0, 1, 3, 2, 4, 5}, channels_first[] = {0, 1, 3, 5, 2, 4};
  int64_t B = x->aval.dim[0], R = x->aval.dim[1] / P, Q = x->aval.dim[2] / P, C = x->aval.dim[3];
  x = mr_lax_reshape_to(s->f, x, B, R, P, Q, P, C);
  x = mr_lax_transpose(s->f, x, channel_first ? channels_first : rows_first);
  return mr_lax_reshape_to(s->f, x, B, R * Q, P * P * C);
}

mr_var_t *mr_nn_embed(mr_nn_t *s, mr_var_t *x, mr_var_t *cls, mr_var_t *pos) {
  if (!x || !cls || !pos) return NULL;
  static const int at[] = {0, 1, 2};
  int64_t B = x->aval.dim[0], N = x->aval.dim[1], E = x->aval.dim[2];
  mr_var_t *part[] = {mr_lax_broadcast_in_dim(s->f, cls, 3, (int64_t[]){B, 1, E}, at), x};
  x = mr_lax_concatenate(s->f, 2, part, 1);
  return mr_lax_add(s->f, x, mr_lax_broadcast_in_dim(s->f, pos, 3, (int64_t[]){B, N + 1, E}, at));
}

/* Records the module; its output is shown as a picture whose sides are P times smaller, as the
   convolution that it is. */
static void record_applied(mr_nn_t *s, const char *type, const mr_var_t *x, const mr_var_t *y,
                           int64_t P) {
  if (!y) return;
  const int64_t *d = x->aval.dim;
  mr_aval_t out = mr_aval_of(y->aval.dtype, d[0], d[1] / P, d[2] / P, y->aval.dim[2]);
  mr_nn_applied(s, type, &x->aval, x, &out, y);
}

/* flax's convolution: kernel [P,P,C,E]. */
mr_var_t *mr_nn_patch_embed(mr_nn_t *s, const char *name, mr_var_t *x, int64_t P, int64_t E) {
  if (!x || !mr_nn_fits(s, "patch_embed", x, 4, 4, P, "(B,H,W,C) and P >= 1")) return NULL;
  int64_t C = x->aval.dim[3];
  size_t mark = mr_nn_enter(s, name);
  mr_init_t lecun = {MR_INIT_LECUN_NORMAL, (float)(P * P * C)};
  mr_var_t *w = mr_nn_param_of(s, "kernel", lecun, P, P, C, E);
  mr_var_t *b = mr_nn_param_of(s, "bias", ((mr_init_t){MR_INIT_ZEROS, 0}), E);
  mr_var_t *y = mr_nn_patches(s, x, P, false);
  w = mr_lax_reshape_to(s->f, w, P * P * C, E);
  y = mr_lax_linear(s->f, y, w, b, false);
  record_applied(s, "Conv", x, y, P);
  mr_nn_leave(s, mark);
  return y;
}

/* PyTorch's convolution: weight [E,C,P,P], drawn uniformly within 1/sqrt(fan_in). */
mr_var_t *mr_nn_patch_embed_timm(mr_nn_t *s, const char *name, mr_var_t *x, int64_t P, int64_t E) {
  if (!x || !mr_nn_fits(s, "patch_embed", x, 4, 4, P, "(B,H,W,C) and P >= 1")) return NULL;
  int64_t C = x->aval.dim[3];
  size_t mark = mr_nn_enter(s, name);
  mr_init_t uniform = {MR_INIT_UNIFORM, 1.0f / sqrtf((float)(P * P * C))};
  mr_var_t *w = mr_nn_param_of(s, "weight", uniform, E, C, P, P);
  mr_var_t *b = mr_nn_param_of(s, "bias", uniform, E);
  mr_var_t *y = mr_nn_patches(s, x, P, true);
  w = mr_lax_reshape_to(s->f, w, E, P * P * C);
  y = mr_lax_linear(s->f, y, w, b, true);
  record_applied(s, "Conv2d", x, y, P);
  mr_nn_leave(s, mark);
  return y;
}
