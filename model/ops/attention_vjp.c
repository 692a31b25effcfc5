/* q, k, v (or qkv), out, lse, dout -> dq, dk, dv (or dqkv). */
#include "model/ops/attention.h"
#include "model/ops/rules.h"

static mr_err_t shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  int n = mr__attention_packed(e) ? 1 : 3;
  if (e->n_in != n + 3 || e->n_out != n)
    return mr_shape_fail(e, diag, "want qkv or q, k, v; then out, lse, dout");
  if (!mr_aval_equal(&e->in[n]->aval, &e->in[n + 2]->aval))
    return mr_shape_fail(e, diag, "dout must be as out");
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
  return MR_OK;
}

const mr_op_def_t mr_op_attention_vjp = {
    MR_RULES_NONE_YET, .name = "attention_vjp", .n_in = -1,           .n_out = -1,
    .shape = shape,    .vjp = mr_no_vjp,        .amp = MR_AMP_NARROW, .cpu = cpu,
};
