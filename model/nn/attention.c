/* Self-attention with one product for q, k and v.  flax's three kernels are concatenated in f32,
   so that the gradient of the joined kernel is f32 too; the fused op reads q, k and v from the
   result by strides. */
#include <math.h>

#include "model/nn/nn.h"

/* q, k or v (B,T,H,D) of qkv (B,T,3,H,D). */
static mr_var_t *slice_third(mr_nn_t *s, mr_var_t *qkv, int which) {
  const int64_t *d = qkv->aval.dim;
  int64_t start[] = {0, 0, which, 0, 0}, limit[] = {d[0], d[1], which + 1, d[3], d[4]};
  return mr_lax_reshape_to(s->f, mr_lax_slice(s->f, qkv, start, limit), d[0], d[1], d[3], d[4]);
}

/* Attention as primitives: the probabilities are a value (B,H,T,T) of the graph, on which dropout
   acts. */
static mr_var_t *attend_dropping(mr_nn_t *s, mr_var_t *qkv, float scale) {
  static const int heads_last[] = {0, 2, 1, 3};
  const mr_dot_dims_t scores = {1, 2, {3}, {3}, {0, 2}, {0, 2}};
  const mr_dot_dims_t mixes = {1, 2, {3}, {1}, {0, 1}, {0, 2}};
  mr_var_t *q = slice_third(s, qkv, 0), *k = slice_third(s, qkv, 1), *v = slice_third(s, qkv, 2);
  mr_var_t *p = mr_lax_dot_general(s->f, q, k, &scores, MR_F32);
  p = mr_lax_softmax(s->f, mr_lax_scale(s->f, (double)scale, p));
  p = mr_nn_drop(s, p, s->attn_drop);
  mr_var_t *o = mr_lax_dot_general(s->f, p, v, &mixes, MR_F32); /* (B,H,T,D) */
  return mr_lax_transpose(s->f, o, heads_last);
}

mr_var_t *mr_nn_attend(mr_nn_t *s, mr_var_t *qkv) {
  if (!qkv) return NULL;
  float scale = 1.0f / sqrtf((float)qkv->aval.dim[4]);
  if (s->attn_drop > 0) return attend_dropping(s, qkv, scale);
  return mr_lax_attention_packed(s->f, qkv, scale);
}

/* qkv (B,T,3E) -> (B,T,E), or (B,1,E) for token 0 alone. */
static mr_var_t *attention_attend(mr_nn_t *s, mr_var_t *qkv, int64_t heads, bool first_only) {
  if (!qkv) return NULL;
  int64_t B = qkv->aval.dim[0], T = qkv->aval.dim[1], E = qkv->aval.dim[2] / 3, D = E / heads;
  mr_var_t *packed = mr_lax_reshape_to(s->f, qkv, B, T, 3, heads, D);
  mr_var_t *o = mr_nn_attend(s, packed);
  o = mr_lax_reshape_to(s->f, o, B, T, E);
  return first_only ? mr_nn_first_token(s, o) : o;
}

static mr_var_t *attention_join(mr_nn_t *s, mr_var_t *const v[3], int dimension) {
  return mr_lax_concatenate(s->f, 3, v, dimension);
}

mr_var_t *mr_nn_attention(mr_nn_t *s, const char *name, mr_var_t *x, int64_t heads,
                          bool first_only) {
  static const char *const part[] = {"query", "key", "value"};
  if (!x || !mr_nn_fits(s, "attention", x, 3, 3, heads, "(B,T,E) and heads >= 1")) return NULL;
  int64_t E = x->aval.dim[2], D = E / heads;
  mr_init_t lecun = {MR_INIT_LECUN_NORMAL, (float)E}, zeros = {MR_INIT_ZEROS, 0};
  mr_var_t *w[3], *b[3];
  mr_aval_t split = mr_aval_of(MR_F32, x->aval.dim[0], x->aval.dim[1], heads, D);
  size_t mark = mr_nn_enter(s, name);
  for (int i = 0; i < 3; i++) {
    size_t inner = mr_nn_enter(s, part[i]);
    w[i] = mr_nn_param_of(s, "kernel", lecun, E, heads, D);
    b[i] = mr_nn_param_of(s, "bias", zeros, heads, D);
    w[i] = mr_lax_reshape_to(s->f, w[i], E, E);
    b[i] = mr_lax_reshape_to(s->f, b[i], E);
    mr_nn_applied(s, "LinearGeneral", &x->aval, x, &split, x);
    mr_nn_leave(s, inner);
  }
  mr_var_t *qkv = mr_lax_linear(s->f, x, attention_join(s, w, 1), attention_join(s, b, 0), false);
  mr_var_t *o = attention_attend(s, qkv, heads, first_only);
  size_t inner = mr_nn_enter(s, "out");
  mr_var_t *wo = mr_nn_param_of(s, "kernel", lecun, heads, D, E);
  mr_var_t *bo = mr_nn_param_of(s, "bias", zeros, E);
  wo = mr_lax_reshape_to(s->f, wo, E, E);
  mr_var_t *y = bo ? mr_lax_linear(s->f, o, wo, bo, false) : NULL;
  if (y) split.dim[1] = y->aval.dim[1], mr_nn_applied(s, "LinearGeneral", &split, o, &y->aval, y);
  mr_nn_leave(s, inner);
  mr_nn_applied_to(s, "MultiHeadAttention", x, y);
  mr_nn_leave(s, mark);
  return y;
}

mr_var_t *mr_nn_attention_timm(mr_nn_t *s, const char *name, mr_var_t *x, int64_t heads,
                               bool first_only) {
  if (!x || !mr_nn_fits(s, "attention", x, 3, 3, heads, "(B,T,E) and heads >= 1")) return NULL;
  int64_t E = x->aval.dim[2];
  size_t mark = mr_nn_enter(s, name);
  mr_var_t *qkv =
      (s->no_qkv_bias ? mr_nn_linear_timm_no_bias : mr_nn_linear_timm)(s, "qkv", x, 3 * E);
  mr_var_t *o = attention_attend(s, qkv, heads, first_only);
  mr_var_t *y = mr_nn_linear_timm(s, "proj", o, E);
  mr_nn_applied_to(s, "Attention", x, y);
  mr_nn_leave(s, mark);
  return mr_nn_drop(s, y, s->proj_drop);
}
