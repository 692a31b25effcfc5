/* The op checkpoint: a call whose inner values the backward pass recomputes instead of keeping
   them, except those that are further results of the call (the last n_saved outputs).

   After jax.checkpoint; Chen et al., "Training Deep Nets with Sublinear Memory Cost" (2016). */
#include "model/control/control.h"
#include "model/control/flow.h"
#include "model/ops/call.h"
#include "model/ops/lax.h"
#include "model/ops/rules.h"
#include "model/transforms/build.h"
#include "model/transforms/transforms.h"

static mr_err_t checkpoint_emit(mr_fn_t *f, const mr_fn_t *body, int n_saved, mr_var_t *const *in,
                                mr_eqn_t **e) {
  mr_attr_t attr[] = {mr_attr_fn("jaxpr", body), mr_attr_int("saved", n_saved)};
  *e = mr_emit(f, &mr_op_checkpoint, body->n_in, in, 2, attr, body->n_out);
  return mr_rule_done(f);
}

mr_err_t mr_lax_checkpoint(mr_fn_t *f, const mr_fn_t *body, int n_saved, mr_var_t *const *in,
                           mr_var_t **out) {
  mr_eqn_t *e;
  MR_TRY(mr__call_whole(f, "checkpoint", "the function", body));
  if (n_saved < 0 || n_saved > body->n_out)
    return mr__call_refuse(f, "checkpoint", "the last %d of %d results are to be kept", n_saved,
                           body->n_out);
  MR_TRY(checkpoint_emit(f, body, n_saved, in, &e));
  for (int i = 0; i < body->n_out - n_saved; i++) out[i] = e->out[i];
  return MR_OK;
}

/* Checks the count, as attributes may come from a parsed text. */
static mr_err_t checkpoint_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  int64_t saved = mr_attr_get(e, "saved")->i[0];
  if (saved < 0 || saved > e->n_out)
    return mr_fail(diag, MR_ERR_SHAPE, "%s%scheckpoint: saved is %lld, want 0 to %d, its results",
                   e->scope, *e->scope ? ": " : "", (long long)saved, e->n_out);
  return mr__call_shape(e, "jaxpr", out, diag);
}

static mr_err_t checkpoint_inline(mr_fn_t *f, const mr_eqn_t *e, mr_var_t **out) {
  return mr__call_inline(f, e, "jaxpr", out);
}

/* Lets equations from `from` on, and the cotangents d[n], read the saved value instead of the
   recomputed one. */
static void use_saved(mr_fn_t *f, int from, const mr_var_t *again, mr_var_t *saved, int n,
                      mr_var_t **d) {
  for (int i = from; i < f->n_eqn; i++)
    for (int k = 0; k < f->eqn[i]->n_in; k++)
      if (f->eqn[i]->in[k] == again) f->eqn[i]->in[k] = saved;
  for (int k = 0; k < n; k++)
    if (d[k] == again) d[k] = saved;
}

static mr_err_t checkpoint_spend(mr_fn_t *f, mr_eqn_t *e) {
  return mr__spend_called(f, e, "jaxpr");
}

static mr_err_t checkpoint_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout,
                               mr_var_t **din) {
  const mr_fn_t *body = mr_attr_called(e, "jaxpr");
  int saved = (int)mr_attr_get(e, "saved")->i[0];
  mr_var_t **in = mr_mem_take(&f->mem, (size_t)(e->n_in + 1) * sizeof(mr_var_t *));
  mr_var_t **again = mr_mem_take(&f->mem, (size_t)(e->n_out + 1) * sizeof(mr_var_t *));
  mr_var_t **kept = mr_mem_take(&f->mem, (size_t)(e->n_out + 1) * sizeof(mr_var_t *));
  mr_var_t **wrt = mr_mem_take(&f->mem, (size_t)(2 * e->n_in + 1) * sizeof(mr_var_t *));
  mr_var_t **d = wrt + e->n_in;
  int first = e->n_out - saved, n = 0;
  for (int i = 0; i < e->n_in; i++) {
    in[i] = mr_lax_optimization_barrier(f, e->in[i]);
    if (mr__wants(f, e->in[i])) wrt[n++] = in[i];
  }
  for (int i = first; i < e->n_out; i++) kept[i] = mr_lax_optimization_barrier(f, e->out[i]);
  int from = f->n_eqn;
  MR_TRY(mr_inline(f, body, in, again));
  MR_TRY(mr_backward_range(f, from, e->n_out, again, dout, n, wrt, d));
  for (int i = 0, at = 0; i < e->n_in; i++)
    if (mr__wants(f, e->in[i])) din[i] = d[at++];
  for (int i = first; i < e->n_out; i++)
    if (again[i]->def) use_saved(f, from, again[i], kept[i], e->n_in, din);
  MR_TRY(checkpoint_spend(f, e->out[0]->def));
  return mr_rule_done(f);
}

/* *out: the jvp of the body with the same saved values; it gives (y, dy, tangents of saved,
   saved). */
static mr_err_t checkpoint_tangent_body(const mr_eqn_t *e, int n, const int *wrt, mr_fn_t **out,
                                        mr_diag_t *diag) {
  mr_fn_t *j;
  MR_TRY(mr_jvp(mr_attr_called(e, "jaxpr"), n, wrt, &j, diag));
  int saved = (int)mr_attr_get(e, "saved")->i[0], y = e->n_out - saved, at = 0;
  mr_var_t **all = mr_mem_take(&j->mem, (size_t)(j->n_out + 1) * sizeof(mr_var_t *));
  for (int i = 0; i < y; i++) all[at++] = j->out[i];
  for (int i = 0; i < e->n_out; i++) all[at++] = j->out[e->n_out + i];
  for (int i = y; i < e->n_out; i++) all[at++] = j->out[i];
  if (mr_fn_return(j, at, all) < 0) {
    mr_err_t err = mr_diag_relay(diag, j->diag.code, &j->diag);
    mr_fn_destroy(j);
    return err;
  }
  mr_dce(j);
  *out = j;
  return MR_OK;
}

static mr_err_t checkpoint_jvp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *din,
                               mr_var_t **dout) {
  mr_diag_t why = {0};
  mr_fn_t *body = NULL;
  mr_eqn_t *c = NULL;
  int n = 0, *wrt = mr_mem_take(&f->mem, (size_t)(e->n_in + 1) * sizeof(int));
  mr_var_t **in = mr_mem_take(&f->mem, (size_t)(2 * e->n_in + 1) * sizeof(mr_var_t *));
  for (int i = 0; i < e->n_in; i++) in[i] = e->in[i];
  for (int i = 0; i < e->n_in; i++) {
    if (!din[i] || !mr_is_float(e->in[i]->aval.dtype)) continue;
    in[e->n_in + n] = din[i];
    wrt[n++] = i;
  }
  if (!n) return MR_OK;
  if (checkpoint_tangent_body(e, n, wrt, &body, &why) < 0) return mr__call_failed(f, &why);
  int saved = (int)mr_attr_get(e, "saved")->i[0], y = e->n_out - saved;
  mr_err_t err = checkpoint_emit(f, body, saved, in, &c);
  mr_fn_destroy(body);
  for (int i = 0; i < e->n_out && err >= 0; i++) dout[i] = c->out[y + i];
  return err;
}

static mr_err_t checkpoint_batch(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in,
                                 mr_batched_t *out) {
  mr_diag_t why = {0};
  mr_fn_t *body;
  mr_eqn_t *c = NULL;
  mr_var_t **v = mr_mem_take(&f->mem, (size_t)(e->n_in + 1) * sizeof(mr_var_t *));
  int *axes = mr_mem_take(&f->mem, (size_t)(e->n_in + 1) * sizeof(int));
  mr__call_front(f, e, in, v, axes);
  if (mr_vmap_axis(mr_attr_called(e, "jaxpr"), f->axis_name, mr__call_size(f, e, in), axes, NULL,
                   &body, &why) < 0)
    return mr__call_failed(f, &why);
  mr_err_t err = checkpoint_emit(f, body, (int)mr_attr_get(e, "saved")->i[0], v, &c);
  mr_fn_destroy(body);
  for (int i = 0; i < e->n_out && err >= 0; i++) out[i] = (mr_batched_t){c->out[i], 0};
  return err;
}

/* Samples: sin(x)^2 y, without and with sin(x) saved. */
static bool checkpoint_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  if (k > 1) return false;
  mr_fn_t *b = mr_fn_create();
  mr_var_t *x = mr_fn_input(b, mr_aval_of(MR_F32, 2, 3)), *y = mr_fn_input(b, x->aval);
  mr_var_t *wave = mr_lax_sin(b, x), *all[2] = {NULL, wave};
  all[0] = mr_lax_mul(b, mr_lax_mul(b, wave, wave), y);
  mr_fn_return(b, 1 + k, all);
  mr_var_t *in[] = {mr_sample_f32(s, -1, 1, 2, 3), mr_sample_f32(s, -1, 1, 2, 3)}, *out = NULL;
  mr_lax_checkpoint(s->f, b, k, in, &out);
  mr_fn_destroy(b);
  mr_fn_return(s->f, 1, &out);
  return true;
}

const mr_op_def_t mr_op_checkpoint = {
    .name = "checkpoint",
    .n_in = -1,
    .n_out = -1,
    .shape = checkpoint_shape,
    .batch = checkpoint_batch,
    .open = checkpoint_inline,
    .sample = checkpoint_sample,
    .kind = MR_OP_CALL,
    .ad = {.jvp = checkpoint_jvp,
           .vjp = checkpoint_vjp,
           .reach = mr__call_reach,
           .spend = checkpoint_spend},
    .amp = {MR_AMP_FOLLOW, .passes = true},
    .shard = {mr_shard_open},
};

bool mr_save_nothing(const mr_eqn_t *e) { return false; }
bool mr_save_dots(const mr_eqn_t *e) { return e->op->cost.product; }
bool mr_save_everything(const mr_eqn_t *e) { return true; }

/* f with the values that the policy saves as further outputs; *n_saved is their number. */
static mr_fn_t *add_saved_outputs(const mr_fn_t *f, mr_policy_fn *policy, int *n_saved,
                                  mr_diag_t *diag) {
  mr_fn_t *b = mr_fn_copy(f, diag);
  if (!b) return NULL;
  mr_var_t **all = mr_mem_take(&b->mem, (size_t)(b->n_out + b->n_var + 1) * sizeof(mr_var_t *));
  int n = 0;
  for (; n < b->n_out; n++) all[n] = b->out[n];
  for (int i = 0; i < b->n_eqn; i++)
    for (int k = 0; policy(b->eqn[i]) && k < b->eqn[i]->n_out; k++) all[n++] = b->eqn[i]->out[k];
  *n_saved = n - f->n_out;
  mr_fn_return(b, n, all);
  return b;
}

mr_err_t mr_checkpoint(const mr_fn_t *f, mr_policy_fn *policy, mr_fn_t **out, mr_diag_t *diag) {
  int n_saved = 0;
  if (f->diag.code < 0) return mr_diag_relay(diag, f->diag.code, &f->diag);
  mr_fn_t *b = add_saved_outputs(f, policy ? policy : mr_save_nothing, &n_saved, diag);
  mr_fn_t *g = b ? mr_fn_create() : NULL;
  if (!g) {
    mr_fn_destroy(b);
    return mr_no_memory(diag, "checkpoint");
  }
  mr_var_t **y = mr_mem_take(&g->mem, (size_t)(f->n_out + 1) * sizeof(mr_var_t *));
  for (int i = 0; i < f->n_in; i++) mr_fn_input(g, f->in[i]->aval);
  mr_lax_checkpoint(g, b, n_saved, g->in, y);
  mr_fn_destroy(b);
  return mr__finish(g, f->n_out, y, out, diag);
}
