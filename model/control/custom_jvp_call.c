/* The op custom_jvp_call: a function with a jvp rule that its author has written.  A jaxpr
   printed by jax does not show the rule; such a call has no attribute jvp_jaxpr, and runs but has
   no derivatives. */
#include "model/control/control.h"
#include "model/control/flow.h"
#include "model/ops/call.h"
#include "model/ops/lax.h"
#include "model/ops/rules.h"
#include "model/transforms/transforms.h"

static mr_err_t custom_jvp_call_emit(mr_fn_t *f, const mr_fn_t *body, const mr_fn_t *rule,
                                     mr_var_t *const *in, mr_eqn_t **e) {
  mr_attr_t attr[] = {mr_attr_fn("call_jaxpr", body), mr_attr_fn("jvp_jaxpr", rule)};
  *e = mr_emit(f, &mr_op_custom_jvp_call, body->n_in, in, rule ? 2 : 1, attr, body->n_out);
  return mr_rule_done(f);
}

mr_err_t mr_lax_custom_jvp(mr_fn_t *f, const mr_fn_t *body, const mr_fn_t *rule,
                           mr_var_t *const *in, mr_var_t **out) {
  mr_eqn_t *e;
  MR_TRY(mr__call_whole(f, "custom_jvp_call", "the function", body));
  MR_TRY(mr__call_whole(f, "custom_jvp_call", "the rule", rule));
  MR_TRY(custom_jvp_call_emit(f, body, rule, in, &e));
  for (int i = 0; i < body->n_out; i++) out[i] = e->out[i];
  return MR_OK;
}

static mr_err_t custom_jvp_call_custom_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  if (!mr_attr_find(e, "jvp_jaxpr")) return mr__call_shape(e, "call_jaxpr", out, diag);
  const mr_fn_t *rule = mr_attr_called(e, "jvp_jaxpr");
  if (rule->n_in != 2 * e->n_in || rule->n_out != 2 * e->n_out)
    return mr_fail(diag, MR_ERR_SHAPE,
                   "%s%scustom_jvp_call: the rule takes %d values and gives %d, want %d and %d: "
                   "values and as many tangents",
                   e->scope, *e->scope ? ": " : "", rule->n_in, rule->n_out, 2 * e->n_in,
                   2 * e->n_out);
  MR_TRY(mr__call_shape(e, "call_jaxpr", out, diag));
  for (int i = 0; i < rule->n_in; i++)
    MR_TRY(mr__call_fits(e, "what the rule takes as", i, &rule->in[i]->aval,
                         &e->in[i % e->n_in]->aval, diag));
  for (int k = 0; k < rule->n_out; k++)
    MR_TRY(mr__call_fits(e, "what the rule gives as", k, &rule->out[k]->aval, &out[k % e->n_out],
                         diag));
  return MR_OK;
}

static mr_err_t custom_jvp_call_custom_open(mr_fn_t *f, const mr_eqn_t *e, mr_var_t **out) {
  return mr__call_inline(f, e, "call_jaxpr", out);
}

/* Inlines the rule on e's operands and tangents d (zeros for NULL); dy[n_out] receives the
   tangents of the results. */
static mr_err_t apply_rule(mr_fn_t *f, const mr_eqn_t *e, mr_var_t **d, mr_var_t **dy) {
  if (!mr_attr_find(e, "jvp_jaxpr"))
    return mr_fail(&f->diag, MR_ERR_NORULE,
                   "%s%scustom_jvp_call: its author's rule is not in the jaxpr it was read from; "
                   "take derivatives before printing it",
                   e->scope, *e->scope ? ": " : "");
  mr_var_t **in = mr_mem_take(&f->mem, (size_t)(2 * e->n_in + 1) * sizeof(mr_var_t *));
  mr_var_t **out = mr_mem_take(&f->mem, (size_t)(2 * e->n_out + 1) * sizeof(mr_var_t *));
  for (int i = 0; i < e->n_in; i++) {
    if (!d[i]) d[i] = mr_lax_full(f, &e->in[i]->aval, 0);
    in[i] = e->in[i];
    in[e->n_in + i] = d[i];
  }
  MR_TRY(mr_inline(f, mr_attr_called(e, "jvp_jaxpr"), in, out));
  for (int i = 0; i < e->n_out; i++) dy[i] = out[e->n_out + i];
  return mr_rule_done(f);
}

static mr_err_t custom_jvp_call_custom_jvp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *din,
                                           mr_var_t **dout) {
  mr_var_t **d = mr_mem_copy(&f->mem, din, (size_t)e->n_in, sizeof(mr_var_t *));
  return apply_rule(f, e, d, dout);
}

/* The transpose of the rule.  The rule is linear in the tangents, so its transpose does not
   depend on them: it is taken at zero. */
static mr_err_t custom_jvp_call_custom_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout,
                                           mr_var_t **din) {
  mr_var_t **d = mr_mem_take(&f->mem, (size_t)(e->n_in + 1) * sizeof(mr_var_t *));
  mr_var_t **dy = mr_mem_take(&f->mem, (size_t)(e->n_out + 1) * sizeof(mr_var_t *));
  for (int i = 0; i < e->n_in; i++) d[i] = mr_lax_full(f, &e->in[i]->aval, 0);
  int from = f->n_eqn;
  MR_TRY(apply_rule(f, e, d, dy));
  MR_TRY(mr_backward_range(f, from, e->n_out, dy, dout, e->n_in, d, din));
  for (int i = 0; i < e->n_in; i++)
    if (!mr_is_float(e->in[i]->aval.dtype)) din[i] = NULL;
  return mr_rule_done(f);
}

static mr_err_t custom_jvp_call_custom_batch(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in,
                                             mr_batched_t *out) {
  mr_diag_t why = {0};
  mr_fn_t *body = NULL, *rule = NULL;
  mr_eqn_t *c = NULL;
  int64_t size = mr__call_size(f, e, in);
  mr_var_t **v = mr_mem_take(&f->mem, (size_t)(e->n_in + 1) * sizeof(mr_var_t *));
  int *axes = mr_mem_take(&f->mem, (size_t)(2 * e->n_in + 1) * sizeof(int));
  mr__call_front(f, e, in, v, axes);
  for (int i = 0; i < e->n_in; i++) axes[e->n_in + i] = axes[i];
  mr_err_t err =
      mr_vmap_axis(mr_attr_called(e, "call_jaxpr"), f->axis_name, size, axes, NULL, &body, &why);
  if (err >= 0 && mr_attr_find(e, "jvp_jaxpr"))
    err = mr_vmap_axis(mr_attr_called(e, "jvp_jaxpr"), f->axis_name, size, axes, NULL, &rule, &why);
  err = err < 0 ? mr__call_failed(f, &why) : custom_jvp_call_emit(f, body, rule, v, &c);
  for (int i = 0; i < e->n_out && err >= 0; i++) out[i] = (mr_batched_t){c->out[i], 0};
  mr_fn_destroy(body);
  mr_fn_destroy(rule);
  return err;
}

/* A sample: log(1 + exp(x)) y, whose rule uses the logistic function as its slope. */
static bool custom_jvp_call_custom_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  if (k > 0) return false;
  mr_fn_t *b = mr_fn_create(), *r = mr_fn_create();
  mr_aval_t a = mr_aval_of(MR_F32, 2, 3);
  mr_var_t *x = mr_fn_input(b, a), *y = mr_fn_input(b, a), *out, *p[4], *all[2];
  out = mr_lax_mul(b, mr_lax_log1p(b, mr_lax_exp(b, x)), y);
  mr_fn_return(b, 1, &out);
  for (int i = 0; i < 4; i++) p[i] = mr_fn_input(r, a);
  mr_var_t *soft = mr_lax_log1p(r, mr_lax_exp(r, p[0]));
  all[0] = mr_lax_mul(r, soft, p[1]);
  all[1] = mr_lax_mul(r, mr_lax_mul(r, mr_lax_logistic(r, p[0]), p[1]), p[2]);
  all[1] = mr_lax_add(r, all[1], mr_lax_mul(r, soft, p[3]));
  mr_fn_return(r, 2, all);
  mr_var_t *in[] = {mr_sample_f32(s, -1, 1, 2, 3), mr_sample_f32(s, -1, 1, 2, 3)};
  mr_lax_custom_jvp(s->f, b, r, in, &out);
  mr_fn_destroy(b);
  mr_fn_destroy(r);
  return mr_sample_done(s, out);
}

const mr_op_def_t mr_op_custom_jvp_call = {
    .name = "custom_jvp_call",
    .n_in = -1,
    .n_out = -1,
    .shape = custom_jvp_call_custom_shape,
    .batch = custom_jvp_call_custom_batch,
    .open = custom_jvp_call_custom_open,
    .sample = custom_jvp_call_custom_sample,
    .kind = MR_OP_CALL,
    .ad = {.jvp = custom_jvp_call_custom_jvp, .vjp = custom_jvp_call_custom_vjp, .own_rule = true},
    .amp = {MR_AMP_FOLLOW},
    .shard = {mr_shard_open},
};
