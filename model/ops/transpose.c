/* The same elements in another order: dimensions permuted (transpose), or one or more reversed
   (rev).  A transposition that a product or another transposition can absorb is removed by the pass
   sink; what remains is a strided copy. */
#include "model/ops/lax.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_transpose(mr_fn_t *f, mr_var_t *x, const int *perm) {
  if (!x) return NULL;
  int64_t p[MR_MAX_NDIM];
  for (int i = 0; i < x->aval.ndim; i++) p[i] = perm[i];
  return mr_emit1(f, &mr_op_transpose, 1, &x, 1,
                  (mr_attr_t[]){mr_attr_ints("permutation", x->aval.ndim, p)});
}

static mr_err_t transpose_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  const mr_aval_t *x = &e->in[0]->aval;
  const mr_attr_t *p = mr_attr_get(e, "permutation");
  unsigned seen = 0;
  *out = *x;
  if (p->n != x->ndim) return mr_shape_fail(e, diag, "permutation of another length");
  for (int i = 0; i < x->ndim; i++) {
    if (p->i[i] < 0 || p->i[i] >= x->ndim || (seen >> p->i[i] & 1))
      return mr_shape_fail(e, diag, "not a permutation");
    seen |= 1u << p->i[i];
    out->dim[i] = x->dim[p->i[i]];
  }
  return MR_OK;
}

/* The inverse permutation. */
static mr_err_t transpose_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout,
                              mr_var_t **din) {
  const mr_attr_t *p = mr_attr_get(e, "permutation");
  int back[MR_MAX_NDIM];
  for (int i = 0; i < p->n; i++) back[p->i[i]] = i;
  din[0] = mr_lax_transpose(f, dout[0], back);
  return mr_rule_done(f);
}

static mr_err_t transpose_batch(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in,
                                mr_batched_t *out) {
  const mr_attr_t *p = mr_attr_get(e, "permutation");
  int perm[MR_MAX_NDIM] = {0};
  for (int i = 0; i < p->n; i++) perm[i + 1] = (int)p->i[i] + 1;
  out[0].var = mr_lax_transpose(f, mr_batch_front(f, &in[0], 1), perm);
  out[0].axis = 0;
  return mr_rule_done(f);
}

static bool transpose_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  if (k > 1) return false;
  mr_var_t *x = mr_sample_f32(s, -1, 1, 2, 3, 4);
  return mr_sample_done(s, mr_lax_transpose(s->f, x, k ? (int[]){0, 2, 1} : (int[]){2, 0, 1}));
}

static bool transpose_is_view(const mr_eqn_t *e, mr_view_t *v) {
  v->ndim = e->out[0]->aval.ndim;
  v->transposes = true;
  for (int i = 0; i < v->ndim; i++) v->perm[i] = (int)mr_attr_get(e, "permutation")->i[i];
  return true;
}

static mr_err_t transpose_shard(const mr_eqn_t *e, mr_factors_t *s, mr_diag_t *diag) {
  const mr_aval_t *y = &e->out[0]->aval;
  for (int d = 0; d < y->ndim; d++) {
    int k = mr_factor_add(s, y->dim[d], MR_CUT_EACH);
    mr_factor_in(s, 0, (int)mr_attr_get(e, "permutation")->i[d], k);
    mr_factor_out(s, 0, d, k);
  }
  return MR_OK;
}

const mr_op_def_t mr_op_transpose = {
    MR_RULES_PRIMITIVE,
    .batch = transpose_batch,
    .sample = transpose_sample,
    .name = "transpose",
    .n_in = 1,
    .n_out = 1,
    .shape = transpose_shape,
    .ad = {.jvp = mr_jvp_linear, .vjp = transpose_vjp},
    .amp = {MR_AMP_FOLLOW},
    .cost = {.moves = true},
    .fuse = {.is_view = transpose_is_view},
    .shard = {transpose_shard, .linear = true},
};

/* ---- rev ---- */

mr_var_t *mr_lax_rev(mr_fn_t *f, mr_var_t *x, int n, const int *dims) {
  return mr_emit1(f, &mr_op_rev, 1, &x, 1, (mr_attr_t[]){mr_attr_axes("dimensions", n, dims)});
}

static mr_err_t rev_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  const mr_attr_t *dims = mr_attr_get(e, "dimensions");
  unsigned seen = 0;
  for (int k = 0; k < dims->n; k++) {
    if (dims->i[k] < 0 || dims->i[k] >= e->in[0]->aval.ndim || (seen >> dims->i[k] & 1))
      return mr_shape_fail(e, diag, "want different dimensions of x");
    seen |= 1u << dims->i[k];
  }
  return mr_shape_same(e, out, diag);
}

/* Its own transpose. */
static mr_err_t rev_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  mr_eqn_t *r = mr_emit_like(f, e, dout);
  din[0] = r ? r->out[0] : NULL;
  return mr_rule_done(f);
}

static mr_err_t rev_batch(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in,
                          mr_batched_t *out) {
  const mr_attr_t *dims = mr_attr_get(e, "dimensions");
  int d[MR_MAX_NDIM];
  for (int k = 0; k < dims->n; k++) d[k] = (int)dims->i[k] + 1;
  out[0].var = mr_lax_rev(f, mr_batch_front(f, &in[0], 1), dims->n, d);
  out[0].axis = 0;
  return mr_rule_done(f);
}

static bool rev_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  if (k > 1) return false;
  return mr_sample_done(s,
                        mr_lax_rev(s->f, mr_sample_f32(s, -1, 1, 2, 3, 4), k + 1, (int[]){2, 0}));
}

static mr_err_t rev_shard(const mr_eqn_t *e, mr_factors_t *s, mr_diag_t *diag) {
  const mr_attr_t *dims = mr_attr_get(e, "dimensions");
  unsigned turned = 0;
  for (int k = 0; k < dims->n; k++) turned |= 1u << dims->i[k];
  return mr__shard_but(e, s, turned);
}

const mr_op_def_t mr_op_rev = {
    MR_RULES_PRIMITIVE,
    .name = "rev",
    .n_in = 1,
    .n_out = 1,
    .shape = rev_shape,
    .batch = rev_batch,
    .sample = rev_sample,
    .ad = {.jvp = mr_jvp_linear, .vjp = rev_vjp},
    .amp = {MR_AMP_FOLLOW},
    .cost = {.moves = true},
    .shard = {rev_shard, .linear = true},
};
