/* which ? b : a, element by element: jax.lax.select_n with two cases.  Both cases are computed; the
   derivative passes to the chosen one and is zero for the other, and `which`, a bool, has none. */
#include "model/ops/lax.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_select_n(mr_fn_t *f, mr_var_t *which, mr_var_t *a, mr_var_t *b) {
  return mr_emit1(f, &mr_op_select_n, 3, (mr_var_t *[]){which, a, b}, 0, NULL);
}

static mr_err_t select_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  const mr_aval_t *which = &e->in[0]->aval, *a = &e->in[1]->aval;
  if (which->dtype != MR_BOOL) return mr_shape_fail(e, diag, "want a bool first");
  if (!mr_aval_equal(a, &e->in[2]->aval)) return mr_shape_fail(e, diag, "the cases differ");
  if (which->ndim && !mr_aval_same_shape(which, a))
    return mr_shape_fail(e, diag, "want a scalar bool or one of the cases' shape");
  out[0] = *a;
  return MR_OK;
}

static mr_err_t select_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  mr_var_t *zero = mr_lax_full(f, &e->out[0]->aval, 0);
  din[1] = mr_lax_select_n(f, e->in[0], dout[0], zero);
  din[2] = mr_lax_select_n(f, e->in[0], zero, dout[0]);
  return mr_rule_done(f);
}

static mr_err_t select_jvp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *din, mr_var_t **dout) {
  mr_var_t *zero = mr_lax_full(f, &e->out[0]->aval, 0);
  if (din[1] || din[2])
    dout[0] = mr_lax_select_n(f, e->in[0], din[1] ? din[1] : zero, din[2] ? din[2] : zero);
  return mr_rule_done(f);
}

/* Mapped scalar cases become tensors (B); a mapped scalar `which` must then be repeated to the
   cases' shape. */
static mr_err_t select_batch(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in,
                             mr_batched_t *out) {
  int64_t size = mr_batch_size(3, in);
  mr_var_t *a = mr_batch_front(f, &in[1], size), *b = mr_batch_front(f, &in[2], size);
  mr_var_t *which = in[0].var;
  if (in[0].axis >= 0 || e->in[0]->aval.ndim) which = mr_batch_front(f, &in[0], size);
  if (which && a && which->aval.ndim == 1 && a->aval.ndim > 1)
    which = mr_lax_broadcast_in_dim(f, which, a->aval.ndim, a->aval.dim, (int[]){0});
  out[0] = (mr_batched_t){mr_lax_select_n(f, which, a, b), 0};
  return mr_rule_done(f);
}

static bool select_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  if (k > 1) return false;
  mr_var_t *which = k ? mr_sample_scalar(s, MR_BOOL, 0, 1) : mr_sample_dims(s, MR_BOOL, 0, 1, 2, 3);
  mr_var_t *a = mr_sample_f32(s, -1, 1, 2, 3);
  return mr_sample_done(s, mr_lax_select_n(s->f, which, a, mr_sample_f32(s, -1, 1, 2, 3)));
}

const mr_op_def_t mr_op_select_n = {
    MR_RULES_PRIMITIVE,
    .name = "select_n",
    .n_in = 3,
    .n_out = 1,
    .shape = select_shape,
    .batch = select_batch,
    .sample = select_sample,
    .ad = {.jvp = select_jvp, .vjp = select_vjp},
    .fuse = {.unit = mr_unit_each, .view = mr_view_each},
    .reuse = {.of = {6}},
    .amp = {MR_AMP_FOLLOW},
    .shard = {mr_shard_each},
};
