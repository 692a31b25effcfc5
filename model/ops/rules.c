/* Rules that ops share: shapes of elementwise ops, derivatives of linear and symmetric ones, and
   the rules that refuse by name.  An op without a rule says so with one of those; a forgotten rule,
   NULL, is an error that a test finds. */
#include "model/ops/rules.h"

#include "model/ops/lax.h"

static mr_err_t fail_no_rule(mr_diag_t *diag, const mr_eqn_t *e, const char *rule) {
  return mr_fail(diag, MR_ERR_NORULE, "%s%s%s has no %s rule", e->scope, *e->scope ? ": " : "",
                 e->op->name, rule);
}

mr_err_t mr_no_jvp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *din, mr_var_t **dout) {
  return fail_no_rule(&f->diag, e, "jvp");
}

mr_err_t mr_no_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  return fail_no_rule(&f->diag, e, "vjp");
}

mr_err_t mr_no_batch(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in, mr_batched_t *out) {
  return fail_no_rule(&f->diag, e, "batch");
}

mr_err_t mr_no_open(mr_fn_t *f, const mr_eqn_t *e, mr_var_t **out) {
  return fail_no_rule(&f->diag, e, "open");
}

mr_err_t mr_check_numbers(const mr_eqn_t *e, mr_diag_t *diag) {
  return e->in[0]->aval.dtype == MR_BOOL ? mr_shape_fail(e, diag, "want numbers") : MR_OK;
}

/* An elementwise op refuses integers without an integer function, and bool unless it takes
   bools. */
static mr_err_t check_dtype(const mr_eqn_t *e, mr_diag_t *diag) {
  const mr_pointwise_t *at = &e->op->cpu;
  mr_dtype_t t = e->in[0]->aval.dtype;
  if (e->op->kind != MR_OP_ELEMENTWISE || mr_is_float(t)) return MR_OK;
  if (!(e->n_in == 1 ? at->i1 != NULL : at->i2 != NULL))
    return mr_shape_fail(e, diag, "want floats");
  return at->bools ? MR_OK : mr_check_numbers(e, diag);
}

mr_err_t mr_shape_same(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  MR_TRY(check_dtype(e, diag));
  out[0] = e->in[0]->aval;
  return MR_OK;
}

mr_err_t mr_shape_floats(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  if (!mr_is_float(e->in[0]->aval.dtype)) return mr_shape_fail(e, diag, "want floats");
  return mr_shape_same(e, out, diag);
}

/* With attribute preferred_element_type, bf16 or f16 may be beside f32 (mr_fold_convert sets it).
 */
mr_err_t mr_shape_pointwise(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  const mr_aval_t *a = &e->in[0]->aval, *b = &e->in[1]->aval;
  const mr_attr_t *asked = e->op->amp.mixes ? mr_attr_find(e, "preferred_element_type") : NULL;
  if (asked ? !mr_is_narrow(a->dtype) || !mr_is_narrow(b->dtype) : a->dtype != b->dtype)
    return mr_shape_fail(e, diag, "want one dtype");
  if (a->ndim && b->ndim && !mr_aval_same_shape(a, b))
    return mr_shape_fail(e, diag, "want one shape, or one scalar");
  MR_TRY(check_dtype(e, diag));
  out[0] = a->ndim ? *a : *b;
  if (asked) out[0].dtype = MR_F32;
  return MR_OK;
}

mr_var_t *mr_unbroadcast(mr_fn_t *f, mr_var_t *d, const mr_var_t *operand) {
  if (!d || operand->literal) return NULL;
  if (d->aval.ndim == operand->aval.ndim) return d;
  int axes[MR_MAX_NDIM];
  for (int i = 0; i < d->aval.ndim; i++) axes[i] = i;
  return mr_lax_reduce_sum(f, d, d->aval.ndim, axes);
}

mr_err_t mr_rule_done(const mr_fn_t *f) { return f->diag.code < 0 ? f->diag.code : MR_OK; }

mr_var_t *mr_tangent_add(mr_fn_t *f, mr_var_t *a, mr_var_t *b) {
  return !a ? b : !b ? a : mr_lax_add_any(f, a, b);
}

mr_var_t *mr_tangent_spread(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *d) {
  const mr_aval_t *y = &e->out[0]->aval;
  if (!d || d->aval.ndim == y->ndim) return d;
  return mr_lax_broadcast_in_dim(f, d, y->ndim, y->dim, NULL);
}

mr_err_t mr_shape_compare(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  MR_TRY(mr_shape_pointwise(e, out, diag));
  out[0].dtype = MR_BOOL;
  return MR_OK;
}

mr_err_t mr_jvp_zero(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *din, mr_var_t **dout) {
  return MR_OK;
}

mr_err_t mr_vjp_zero(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  return MR_OK;
}

mr_err_t mr_jvp_linear(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *din, mr_var_t **dout) {
  mr_var_t **d = mr_mem_take(&f->mem, (size_t)(e->n_in + 1) * sizeof(mr_var_t *));
  for (int i = 0; i < e->n_in; i++) d[i] = din[i] ? din[i] : mr_lax_full(f, &e->in[i]->aval, 0);
  mr_eqn_t *t = mr_emit_like(f, e, d);
  for (int i = 0; t && i < e->n_out; i++) dout[i] = t->out[i];
  return mr_rule_done(f);
}

mr_err_t mr_jvp_symmetric(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *din, mr_var_t **dout) {
  if (!din[0]) return MR_OK;
  mr_var_t **d = mr_mem_take(&f->mem, (size_t)(e->n_in + 1) * sizeof(mr_var_t *));
  mr_err_t err = e->op->ad.vjp(f, e, &din[0], d);
  dout[0] = d[0];
  return err == MR_OK ? mr_rule_done(f) : err;
}

mr_err_t mr_jvp_product(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *din, mr_var_t **dout) {
  for (int i = 0; i < 2; i++) {
    if (!din[i]) continue;
    mr_var_t *in[2] = {e->in[0], e->in[1]};
    in[i] = din[i];
    mr_eqn_t *t = mr_emit_like(f, e, in);
    dout[0] = mr_tangent_add(f, dout[0], t ? t->out[0] : NULL);
  }
  return mr_rule_done(f);
}

mr_err_t mr_jvp_open(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *din, mr_var_t **dout) {
  return MR_OPEN;
}

mr_err_t mr_vjp_open(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  return MR_OPEN;
}

bool mr_unit_pointwise(const mr_eqn_t *e, mr_unit_t *u) {
  const mr_pointwise_t *at = &e->op->cpu;
  mr_dtype_t t = e->in[0]->aval.dtype;
  bool one = e->n_in == 1;
  u->kind = MR_UNIT_EACH;
  if (mr_is_narrow(t)) return one ? at->f1 != NULL : at->f2 != NULL;
  if (t == MR_F64) return one ? at->d1 != NULL : at->d2 != NULL;
  if (mr_is_storage(t)) return false;
  if (t == MR_U64 && (one ? at->u1 != NULL : at->u2 != NULL)) return true;
  return one ? at->i1 != NULL : at->i2 != NULL;
}

bool mr_unit_each(const mr_eqn_t *e, mr_unit_t *u) {
  u->kind = MR_UNIT_EACH;
  return true;
}

bool mr_unit_same(const mr_eqn_t *e, mr_unit_t *u) {
  u->kind = MR_UNIT_SAME;
  return true;
}

bool mr_view_each(const mr_eqn_t *e, const mr_view_t *v, mr_view_t *in) {
  for (int k = 0; k < e->n_in; k++) {
    if (mr_aval_same_shape(&e->in[k]->aval, &e->out[0]->aval))
      in[k] = *v;
    else if (e->in[k]->aval.ndim)
      return false;
  }
  return true;
}

bool mr_view_rows(const mr_eqn_t *e, const mr_view_t *v, mr_view_t *in) {
  const mr_aval_t *x = &e->in[0]->aval, *y = &e->out[0]->aval;
  int last = y->ndim - 1;
  if (v->transposes || x->ndim != y->ndim || last < 1) return false;
  if (v->start[last] != 0 || v->limit[last] != y->dim[last]) return false;
  in[0] = *v;
  in[0].limit[last] = x->dim[last];
  return true;
}

mr_aval_t mr_view_aval(const mr_aval_t *x, const mr_view_t *v) {
  mr_aval_t y = *x;
  for (int i = 0; i < v->ndim; i++)
    y.dim[i] = v->transposes ? x->dim[v->perm[i]] : v->limit[i] - v->start[i];
  return y;
}
