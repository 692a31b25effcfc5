#include "model/ops/attention.h"

#include "model/ops/lax.h"
#include "model/ops/rules.h"

static mr_var_t *emit(mr_fn_t *f, int n, mr_var_t *const *in, float scale) {
  mr_eqn_t *e =
      mr_emit(f, &mr_op_attention, n, in, 1, (mr_attr_t[]){mr_attr_float("scale", scale)}, 2);
  return e ? e->out[0] : NULL;
}

mr_var_t *mr_lax_attention(mr_fn_t *f, mr_var_t *q, mr_var_t *k, mr_var_t *v, float scale) {
  return emit(f, 3, (mr_var_t *[]){q, k, v}, scale);
}

mr_var_t *mr_lax_attention_packed(mr_fn_t *f, mr_var_t *qkv, float scale) {
  return emit(f, 1, &qkv, scale);
}

bool mr__attention_packed(const mr_eqn_t *e) { return e->in[0]->aval.ndim == 5; }

mr_attention_spec_t mr__attention_spec(const mr_eqn_t *e) {
  const mr_aval_t *q = &e->in[0]->aval;
  int packed = mr__attention_packed(e);
  int64_t H = q->dim[2 + packed], D = q->dim[3 + packed], token = H * D;
  int64_t stride = packed ? 3 * token : token;
  return (mr_attention_spec_t){.B = q->dim[0],
                               .T = q->dim[1],
                               .H = H,
                               .D = D,
                               .q_tok = stride,
                               .k_tok = stride,
                               .v_tok = stride,
                               .o_tok = token,
                               .scale = (float)mr_attr_get(e, "scale")->f,
                               .t = q->dtype};
}

void mr__attention_split(const mr_eqn_t *e, const mr_attention_spec_t *s, void *const *in,
                         void **qkv) {
  size_t token = (size_t)(s->H * s->D) * mr_dtype_size(s->t);
  bool packed = mr__attention_packed(e);
  for (size_t i = 0; i < 3; i++) qkv[i] = packed ? (char *)in[0] + i * token : in[i];
}

static mr_err_t attention_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  const mr_aval_t *q = &e->in[0]->aval;
  if (e->n_in == 1) {
    if (q->ndim != 5 || q->dim[2] != 3) return mr_shape_fail(e, diag, "want (B,T,3,H,D)");
  } else if (e->n_in != 3 || q->ndim != 4 || !mr_aval_equal(q, &e->in[1]->aval) ||
             !mr_aval_equal(q, &e->in[2]->aval)) {
    return mr_shape_fail(e, diag, "want q, k, v of one shape (B,T,H,D)");
  }
  mr_attention_spec_t s = mr__attention_spec(e);
  out[0] = mr_aval_of(q->dtype, s.B, s.T, s.H, s.D);
  out[1] = mr_aval_of(MR_F32, s.B, s.H, s.T); /* log of the sum of exponents, for backward */
  return MR_OK;
}

static void attention_run(const mr_cpu_call_t *c) {
  mr_attention_spec_t s = mr__attention_spec(c->eqn);
  void *qkv[3];
  mr__attention_split(c->eqn, &s, c->in, qkv);
  mr_attention_fwd(&s, qkv[0], qkv[1], qkv[2], c->out[0], c->out[1]);
}

static mr_err_t attention_cpu(mr_cpu_call_t *c, mr_diag_t *diag) {
  c->run = attention_run;
  return MR_OK;
}

static mr_err_t attention_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout,
                              mr_var_t **din) {
  if (dout[1]) return mr_no_vjp(f, e, dout, din); /* through the saved sums */
  if (!dout[0]) return MR_OK;
  mr_var_t *in[6];
  int n = 0;
  for (; n < e->n_in; n++) in[n] = e->in[n];
  in[n++] = e->out[0];
  in[n++] = e->out[1];
  in[n++] = dout[0];
  mr_eqn_t *b = mr_emit(f, &mr_op_attention_vjp, n, in, 1, mr_attr_get(e, "scale"), e->n_in);
  for (int i = 0; b && i < e->n_in; i++) din[i] = b->out[i];
  return mr_rule_done(f);
}

const mr_op_def_t mr_op_attention = {
    MR_RULES_NONE_YET,        .name = "attention",  .n_in = -1,           .n_out = 2,
    .shape = attention_shape, .vjp = attention_vjp, .amp = MR_AMP_NARROW, .cpu = attention_cpu,
};
