/* q, k, v (or qkv), out, lse, dout -> dq, dk, dv (or dqkv). */
#include "model/ops/attention.h"
#include "model/ops/lax.h"
#include "model/ops/rows.h"
#include "model/ops/rules.h"

static mr_err_t shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  int n = e->n_in - 3;
  const mr_aval_t *q = n > 0 ? &e->in[0]->aval : NULL;
  if ((n != 1 && n != 3) || e->n_out != n || q->ndim != (n == 1 ? 5 : 4))
    return mr_shape_fail(e, diag, "want qkv or q, k, v; then out, lse, dout");
  mr_attention_spec_t s = mr__attention_spec(e);
  mr_aval_t o = mr_aval_of(s.t, s.B, s.T, s.H, s.D),
            lse = mr_aval_of(mr_sum_dtype(s.t), s.B, s.H, s.T);
  for (int i = 1; i < n; i++)
    if (!mr_aval_equal(q, &e->in[i]->aval)) return mr_shape_fail(e, diag, "want q, k, v alike");
  if ((n == 1 && q->dim[2] != 3) || !mr_aval_equal(&e->in[n]->aval, &o) ||
      !mr_aval_equal(&e->in[n + 1]->aval, &lse) || !mr_aval_equal(&e->in[n + 2]->aval, &o))
    return mr_shape_fail(e, diag, "out, lse and dout must be as attention gives them");
  for (int i = 0; i < n; i++) out[i] = e->in[i]->aval;
  return MR_OK;
}

static void run(const mr_cpu_call_t *c) {
  mr_attention_spec_t s = mr__attention_spec(c->eqn);
  int n = c->eqn->n_out;
  void *qkv[3], *d[3];
  mr__attention_split(c->eqn, &s, c->in, qkv);
  mr__attention_split(c->eqn, &s, c->out, d);
  mr_attention_bwd(&s, qkv[0], qkv[1], qkv[2], c->in[n], c->in[n + 1], c->in[n + 2], d[0], d[1],
                   d[2]);
}

static mr_err_t cpu(mr_cpu_call_t *c, mr_diag_t *diag) {
  c->run = run;
  c->how = mr__attention_how(c->eqn);
  return MR_OK;
}

/* (B,T,H,D) of each -> the one gradient of the packed operand. */
static mr_var_t *pack(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const d[3]) {
  const mr_aval_t *a = &e->in[0]->aval;
  mr_var_t *one[3];
  for (int i = 0; i < 3; i++)
    one[i] = mr_lax_reshape_to(f, d[i], a->dim[0], a->dim[1], 1, a->dim[3], a->dim[4]);
  return mr_lax_concatenate(f, 3, one, 2);
}

/* w = exp(s - lse), dv = w' dout, ds = w (dout v' - sum(dout out)) scale, dq = ds k, dk = ds' q. */
static mr_err_t attention_vjp_open(mr_fn_t *f, const mr_eqn_t *e, mr_var_t **out) {
  mr_var_t *qkv[3], *d[3];
  int n = e->n_out;
  mr_dtype_t t = e->in[0]->aval.dtype, wide = mr_sum_dtype(t);
  mr__attention_operands(f, e, qkv);
  mr_var_t *s = mr__attention_scores(f, e, qkv), *o = e->in[n], *lse = e->in[n + 1],
           *g = e->in[n + 2];
  if (!s) return mr_rule_done(f);
  mr_var_t *w = mr_lax_exp(f, mr_lax_sub(f, s, mr_rows_spread(f, lse, &s->aval)));
  mr_dot_dims_t rows = {.n_batch = 2,
                        .lhs_batch = {0, 2},
                        .rhs_batch = {0, 2},
                        .n_contract = 1,
                        .lhs_contract = {3},
                        .rhs_contract = {3}};
  mr_var_t *dw = mr_lax_dot_general(f, g, qkv[2], &rows, wide);
  mr_var_t *go = mr_lax_mul(f, mr_lax_convert(f, g, wide), mr_lax_convert(f, o, wide));
  mr_var_t *dot = mr_lax_transpose(f, mr_lax_reduce_sum(f, go, 1, (int[]){3}), (int[]){0, 2, 1});
  mr_var_t *ds = mr_lax_mul(f, w, mr_lax_sub(f, dw, mr_rows_spread(f, dot, &s->aval)));
  ds = mr_lax_convert(f, mr_lax_scale(f, mr_attr_get(e, "scale")->f, ds), t);
  const int turn[] = {0, 1, 3, 2};
  d[0] = mr__attention_mix(f, ds, qkv[1]);
  d[1] = mr__attention_mix(f, mr_lax_transpose(f, ds, turn), qkv[0]);
  d[2] = mr__attention_mix(f, mr_lax_transpose(f, mr_lax_convert(f, w, t), turn), g);
  if (n == 1) d[0] = pack(f, e, d);
  for (int i = 0; i < n; i++) out[i] = d[i];
  return mr_rule_done(f);
}

/* out and lse are those of q, k, v: the fused kernel relies on it. */
static bool attention_vjp_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  if (k > 1) return false;
  mr_var_t *in[6], *dout = mr_sample_f32(s, -1, 1, 2, 3, 2, 4);
  int n = k ? 1 : 3;
  if (k) in[0] = mr_sample_f32(s, -1, 1, 2, 3, 3, 2, 4);
  for (int i = 0; !k && i < 3; i++) in[i] = mr_sample_f32(s, -1, 1, 2, 3, 2, 4);
  mr_attr_t scale = mr_attr_float("scale", 0.5);
  mr_eqn_t *a = mr_emit(s->f, &mr_op_attention, n, in, 1, &scale, 2);
  in[n] = a ? a->out[0] : NULL;
  in[n + 1] = a ? a->out[1] : NULL;
  in[n + 2] = dout;
  mr_eqn_t *e = mr_emit(s->f, op, n + 3, in, 1, &scale, n);
  return mr_sample_done(s, e ? e->out[0] : NULL);
}

/* Scores again, and the cotangents of weights, v, q and k. */
static double flop(const mr_eqn_t *e) { return 5 * mr__attention_product(e); }

const mr_op_def_t mr_op_attention_vjp = {
    MR_RULES_COMPOSITE,
    .open = attention_vjp_open,
    .jvp = mr_jvp_open,
    .batch = mr_batch_merge,
    .sample = attention_vjp_sample,
    .name = "attention_vjp",
    .n_in = -1,
    .n_out = -1,
    .shape = shape,
    .vjp = mr_vjp_open,
    .amp = MR_AMP_NARROW,
    .cpu = cpu,
    .f32_alone = true,
    .flop = flop,
};
