/* The op custom_vjp_call: a function with a vjp rule that its author has written.  fwd gives the
   results and residuals; bwd computes the cotangents of the operands from the residuals and the
   cotangents of the results.

   Reverse mode turns the call into a call of fwd, with the residuals as further results ("spends"
   it); from then on both modes differentiate the equations of fwd.  So second derivatives go
   through the rule, as in jax, and the function itself is never differentiated: forward mode
   refuses it. */
#include "model/control/control.h"
#include "model/control/flow.h"
#include "model/ops/call.h"
#include "model/ops/lax.h"
#include "model/ops/rules.h"
#include "model/transforms/transforms.h"

static mr_err_t custom_vjp_call_emit(mr_fn_t *f, const mr_fn_t *body, const mr_fn_t *fwd,
                                     const mr_fn_t *bwd, mr_var_t *const *in, mr_eqn_t **e) {
  mr_attr_t attr[] = {mr_attr_fn("call_jaxpr", body), mr_attr_fn("fwd_jaxpr", fwd),
                      mr_attr_fn("bwd_jaxpr", bwd)};
  *e = mr_emit(f, &mr_op_custom_vjp_call, body->n_in, in, 3, attr, body->n_out);
  return mr_rule_done(f);
}

mr_err_t mr_lax_custom_vjp(mr_fn_t *f, const mr_fn_t *body, const mr_fn_t *fwd, const mr_fn_t *bwd,
                           mr_var_t *const *in, mr_var_t **out) {
  mr_eqn_t *e;
  MR_TRY(mr__call_whole(f, "custom_vjp_call", "the function", body));
  MR_TRY(mr__call_whole(f, "custom_vjp_call", "fwd", fwd));
  MR_TRY(mr__call_whole(f, "custom_vjp_call", "bwd", bwd));
  MR_TRY(custom_vjp_call_emit(f, body, fwd, bwd, in, &e));
  for (int i = 0; i < body->n_out; i++) out[i] = e->out[i];
  return MR_OK;
}

static bool custom_spent(const mr_eqn_t *e) { return mr_attr_find(e, "residuals") != NULL; }

/* The number of e's results that are results of the function; residuals follow them. */
static int own_results(const mr_eqn_t *e) {
  return custom_spent(e) ? e->n_out - (int)mr_attr_get(e, "residuals")->i[0] : e->n_out;
}

static mr_err_t custom_vjp_call_custom_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  const mr_fn_t *fwd = mr_attr_called(e, "fwd_jaxpr"), *bwd = mr_attr_called(e, "bwd_jaxpr");
  int64_t residuals = custom_spent(e) ? mr_attr_get(e, "residuals")->i[0] : 0;
  if (residuals < 0 || residuals > e->n_out)
    return mr_fail(diag, MR_ERR_SHAPE,
                   "%s%scustom_vjp_call: residuals is %lld, want 0 to %d, its results", e->scope,
                   *e->scope ? ": " : "", (long long)residuals, e->n_out);
  int n_out = own_results(e), kept = fwd->n_out - n_out;
  if (fwd->n_in != e->n_in || n_out < 0 || kept < 0 || bwd->n_in != kept + n_out ||
      bwd->n_out != e->n_in)
    return mr_fail(diag, MR_ERR_SHAPE,
                   "%s%scustom_vjp_call: of %d inputs and %d outputs; fwd takes %d and gives %d, "
                   "want the inputs and the outputs, then residuals; bwd takes %d and gives %d, "
                   "want residuals, then a cotangent of each output, and one of each input",
                   e->scope, *e->scope ? ": " : "", e->n_in, n_out, fwd->n_in, fwd->n_out,
                   bwd->n_in, bwd->n_out);
  MR_TRY(mr__call_shape(e, "call_jaxpr", out, diag));
  for (int i = 0; i < e->n_in; i++) {
    const mr_aval_t *x = &e->in[i]->aval;
    MR_TRY(mr__call_fits(e, "what fwd takes as", i, &fwd->in[i]->aval, x, diag));
    MR_TRY(mr__call_fits(e, "what bwd gives as", i, &bwd->out[i]->aval, x, diag));
  }
  for (int k = 0; k < n_out; k++)
    MR_TRY(mr__call_fits(e, "what fwd gives as", k, &fwd->out[k]->aval, &out[k], diag));
  for (int i = 0; i < bwd->n_in; i++)
    MR_TRY(mr__call_fits(e, "what bwd takes as", i, &bwd->in[i]->aval,
                         i < kept ? &fwd->out[n_out + i]->aval : &out[i - kept], diag));
  return MR_OK;
}

static mr_err_t custom_vjp_call_custom_open(mr_fn_t *f, const mr_eqn_t *e, mr_var_t **out) {
  return mr__call_inline(f, e, "call_jaxpr", out);
}

static mr_err_t custom_vjp_call_custom_jvp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *din,
                                           mr_var_t **dout) {
  if (custom_spent(e)) return mr_jvp_open(f, e, din, dout);
  return mr_fail(&f->diag, MR_ERR_NORULE,
                 "%s%scustom_vjp_call: forward mode (jvp, jacfwd, linearize) cannot go through a "
                 "function whose vjp rule its author has written; use reverse mode, or give it a "
                 "jvp rule (mr_lax_custom_jvp), which serves both",
                 e->scope, *e->scope ? ": " : "");
}

/* Replaces the function by fwd, in the same equation, with the residuals as further results. */
static mr_err_t custom_spend(mr_fn_t *f, mr_eqn_t *e) {
  if (custom_spent(e)) return MR_OK;
  const mr_fn_t *fwd = mr_attr_called(e, "fwd_jaxpr");
  int kept = fwd->n_out - e->n_out;
  mr_aval_t *more = mr_mem_take(&f->mem, (size_t)(kept + 1) * sizeof *more);
  for (int i = 0; i < kept; i++) more[i] = fwd->out[e->n_out + i]->aval;
  MR_TRY(mr_eqn_widen(f, e, mr_attr_fn("call_jaxpr", fwd), kept, more));
  mr_attr_set(f, e, mr_attr_int("residuals", kept));
  return MR_OK;
}

/* Inlines bwd on the residuals of e and the cotangents of its results. */
static mr_err_t apply_bwd(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  const mr_fn_t *bwd = mr_attr_called(e, "bwd_jaxpr");
  int n_out = own_results(e), kept = e->n_out - n_out;
  mr_var_t **in = mr_mem_take(&f->mem, (size_t)(bwd->n_in + 1) * sizeof(mr_var_t *));
  for (int i = 0; i < kept; i++) in[i] = e->out[n_out + i];
  for (int i = 0; i < n_out; i++)
    in[kept + i] = dout[i] ? dout[i] : mr_lax_full(f, &e->out[i]->aval, 0);
  MR_TRY(mr_inline(f, bwd, in, din));
  for (int i = 0; i < e->n_in; i++)
    if (!mr_is_float(e->in[i]->aval.dtype)) din[i] = NULL;
  return mr_rule_done(f);
}

/* Propagates the cotangents of e's residuals through fwd, whose results they are. */
static mr_err_t through_fwd(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  int n_out = own_results(e);
  mr_var_t **d = mr_mem_copy(&f->mem, dout, (size_t)e->n_out, sizeof(mr_var_t *));
  mr_var_t **more = mr_mem_take(&f->mem, (size_t)(e->n_in + 1) * sizeof(mr_var_t *));
  for (int k = 0; k < n_out; k++) d[k] = NULL;
  MR_TRY(mr_backward_open(f, e, d, more));
  for (int i = 0; i < e->n_in; i++) din[i] = mr_tangent_add(f, din[i], more[i]);
  return mr_rule_done(f);
}

static bool has_any(int n, mr_var_t *const *v) {
  for (int i = 0; i < n; i++)
    if (v[i]) return true;
  return false;
}

/* Residuals have cotangents when a graph is differentiated a second time. */
static mr_err_t custom_vjp_call_custom_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout,
                                           mr_var_t **din) {
  int more = custom_spent(e) ? e->n_out - own_results(e) : 0;
  MR_TRY(custom_spend(f, e->out[0]->def));
  int n_out = own_results(e);
  if (has_any(n_out, dout)) MR_TRY(apply_bwd(f, e, dout, din));
  return more && has_any(more, dout + n_out) ? through_fwd(f, e, dout, din) : MR_OK;
}

/* *out: bwd on all examples.  The cotangent of an operand that is not mapped is the sum of theirs;
   one that bwd has made the same for all by a collective over the axis is that sum already. */
static mr_err_t map_bwd(mr_fn_t *f, const mr_eqn_t *e, int64_t size, const int *axes,
                        mr_fn_t **out) {
  const mr_fn_t *bwd = mr_attr_called(e, "bwd_jaxpr");
  bool *in = mr_mem_take(&f->mem, (size_t)(bwd->n_in + bwd->n_out) + 1);
  bool *mapped = in + bwd->n_in;
  for (int i = 0; i < bwd->n_in; i++) in[i] = true;
  for (int i = 0; i < e->n_in; i++) mapped[i] = axes[i] != MR_UNMAPPED;
  MR_TRY(mr__call_mapped(f, bwd, size, in, mapped, out));
  mr_fn_t *g = *out;
  mr_var_t **d = mr_mem_copy(&g->mem, g->out, (size_t)g->n_out, sizeof(mr_var_t *));
  for (int i = 0; i < e->n_in && g->diag.code >= 0; i++) {
    if (axes[i] != MR_UNMAPPED || (!mapped[i] && mr_axis_bound(f, e))) continue;
    d[i] = mr_batch_front(g, &(mr_batched_t){d[i], mapped[i] ? 0 : -1}, size);
    d[i] = mr_lax_reduce_sum(g, d[i], 1, (int[]){0});
  }
  return mr_fn_return(g, e->n_in, d) < 0 ? mr__call_failed(f, &g->diag) : MR_OK;
}

static mr_err_t custom_vjp_call_custom_batch(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in,
                                             mr_batched_t *out) {
  mr_diag_t why = {0};
  mr_fn_t *body = NULL, *fwd = NULL, *bwd = NULL;
  mr_eqn_t *c = NULL;
  if (custom_spent(e)) return mr_batch_open(f, e, in, out);
  int64_t size = mr__call_size(f, e, in);
  mr_var_t **v = mr_mem_take(&f->mem, (size_t)(e->n_in + 1) * sizeof(mr_var_t *));
  int *axes = mr_mem_take(&f->mem, (size_t)(e->n_in + 1) * sizeof(int));
  mr__call_front(f, e, in, v, axes);
  mr_err_t err =
      mr_vmap_axis(mr_attr_called(e, "call_jaxpr"), f->axis_name, size, axes, NULL, &body, &why);
  if (err >= 0)
    err = mr_vmap_axis(mr_attr_called(e, "fwd_jaxpr"), f->axis_name, size, axes, NULL, &fwd, &why);
  err = err < 0 ? mr__call_failed(f, &why) : map_bwd(f, e, size, axes, &bwd);
  if (err >= 0) err = custom_vjp_call_emit(f, body, fwd, bwd, v, &c);
  for (int i = 0; i < e->n_out && err >= 0; i++) out[i] = (mr_batched_t){c->out[i], 0};
  mr_fn_destroy(body);
  mr_fn_destroy(fwd);
  mr_fn_destroy(bwd);
  return err;
}

/* A sample: sin(x) y with its gradient. */
static bool custom_vjp_call_custom_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  if (k > 0) return false;
  mr_fn_t *body = mr_fn_create(), *fwd = mr_fn_create(), *bwd = mr_fn_create();
  mr_aval_t a = mr_aval_of(MR_F32, 2, 3);
  mr_var_t *x = mr_fn_input(body, a), *y = mr_fn_input(body, a), *out, *p[3], *d[2];
  out = mr_lax_mul(body, mr_lax_sin(body, x), y);
  mr_fn_return(body, 1, &out);
  for (int i = 0; i < 2; i++) p[i] = mr_fn_input(fwd, a);
  mr_fn_return(fwd, 3, (mr_var_t *[]){mr_lax_mul(fwd, mr_lax_sin(fwd, p[0]), p[1]), p[0], p[1]});
  for (int i = 0; i < 3; i++) p[i] = mr_fn_input(bwd, a);
  d[0] = mr_lax_mul(bwd, p[2], mr_lax_mul(bwd, p[1], mr_lax_cos(bwd, p[0])));
  d[1] = mr_lax_mul(bwd, p[2], mr_lax_sin(bwd, p[0]));
  mr_fn_return(bwd, 2, d);
  mr_var_t *in[] = {mr_sample_f32(s, -1, 1, 2, 3), mr_sample_f32(s, -1, 1, 2, 3)};
  mr_lax_custom_vjp(s->f, body, fwd, bwd, in, &out);
  mr_fn_destroy(body);
  mr_fn_destroy(fwd);
  mr_fn_destroy(bwd);
  return mr_sample_done(s, out);
}

const mr_op_def_t mr_op_custom_vjp_call = {
    .name = "custom_vjp_call",
    .n_in = -1,
    .n_out = -1,
    .shape = custom_vjp_call_custom_shape,
    .batch = custom_vjp_call_custom_batch,
    .open = custom_vjp_call_custom_open,
    .sample = custom_vjp_call_custom_sample,
    .kind = MR_OP_CALL,
    .ad = {.jvp = custom_vjp_call_custom_jvp,
           .vjp = custom_vjp_call_custom_vjp,
           .spend = custom_spend,
           .spent = custom_spent,
           .own_rule = true},
    .amp = {MR_AMP_FOLLOW},
    .shard = {mr_shard_open},
};
