/* Sums over axes, cumulative sums along one axis, and what every reduction shares.  The maximum is
   in reduce_max.c: its rules compute with the ops of other files, those of a sum do not. */
#include "model/ops/lax.h"
#include "model/ops/operands.h"
#include "model/ops/rules.h"

/* ---- what reduce_sum and reduce_max share: in[0] loses the dimensions in attribute axes ---- */

unsigned mr__reduce_mask(const mr_eqn_t *e) {
  const mr_attr_t *axes = mr_attr_get(e, "axes");
  unsigned mask = 0;
  for (int i = 0; i < axes->n; i++) mask |= 1u << axes->i[i];
  return mask;
}

mr_err_t mr__reduce_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  const mr_aval_t *x = &e->in[0]->aval;
  const mr_attr_t *axes = mr_attr_get(e, "axes");
  for (int i = 0; i < axes->n; i++)
    if (axes->i[i] < 0 || axes->i[i] >= x->ndim) return mr_shape_fail(e, diag, "no such axis");
  unsigned mask = mr__reduce_mask(e);
  if (__builtin_popcount(mask) != axes->n) return mr_shape_fail(e, diag, "an axis is repeated");
  *out = mr_aval_scalar(x->dtype);
  for (int i = 0; i < x->ndim; i++)
    if (!(mask >> i & 1)) out->dim[out->ndim++] = x->dim[i];
  return MR_OK;
}

mr_var_t *mr__reduce_spread(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *v) {
  const mr_aval_t *x = &e->in[0]->aval;
  unsigned mask = mr__reduce_mask(e);
  int at[MR_MAX_NDIM], n = 0;
  for (int i = 0; i < x->ndim; i++)
    if (!(mask >> i & 1)) at[n++] = i;
  return mr_lax_broadcast_in_dim(f, v, x->ndim, x->dim, at);
}

bool mr__reduce_range(const mr_aval_t *x, unsigned mask, int *first, int *end) {
  *first = *end = -1;
  for (int i = 0; i < x->ndim; i++) {
    if (x->dim[i] == 1 || !(mask >> i & 1)) continue;
    if (*first >= 0 && mr_aval_span(x, *end, i) > 1) return false;
    if (*first < 0) *first = i;
    *end = i + 1;
  }
  return *first >= 0;
}

bool mr__reduce_unit(const mr_eqn_t *e, mr_unit_t *u) {
  const mr_aval_t *x = &e->in[0]->aval;
  int first, end;
  if (!mr_is_narrow(x->dtype) || !mr_aval_elems(x)) return false;
  if (!mr__reduce_range(x, mr__reduce_mask(e), &first, &end)) return false;
  int64_t after = mr_aval_span(x, end, x->ndim);
  if (after > 1 && mr_aval_span(x, 0, first) > 1) return false;
  u->kind = after > 1 ? MR_UNIT_COLUMNS : MR_UNIT_REDUCE;
  u->inner = after > 1 ? after : mr_aval_span(x, first, end);
  return true;
}

int mr__reduce_batch(const mr_eqn_t *e, const mr_batched_t *in, int *axes, int *axis) {
  const mr_attr_t *old = mr_attr_get(e, "axes");
  *axis = in->axis;
  for (int i = 0; i < old->n; i++) {
    bool before = old->i[i] < in->axis;
    axes[i] = (int)old->i[i] + !before;
    *axis -= before;
  }
  return old->n;
}

/* ---- reduce_sum ---- */

mr_var_t *mr_lax_reduce_sum(mr_fn_t *f, mr_var_t *x, int n, const int *axes) {
  return mr_emit1(f, &mr_op_reduce_sum, 1, &x, 2,
                  (mr_attr_t[]){mr_attr_axes("axes", n, axes), mr_attr_none("out_sharding")});
}

static mr_err_t reduce_sum_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  MR_TRY(mr_check_numbers(e, diag));
  MR_TRY(mr__reduce_shape(e, out, diag));
  if (mr_is_narrow(out->dtype) && mr_attr_find(e, "preferred_element_type")) out->dtype = MR_F32;
  return MR_OK;
}

static mr_err_t reduce_sum_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout,
                               mr_var_t **din) {
  din[0] = mr__reduce_spread(f, e, dout[0]);
  return mr_rule_done(f);
}

static mr_err_t reduce_sum_batch(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in,
                                 mr_batched_t *out) {
  int axes[MR_MAX_NDIM], n = mr__reduce_batch(e, &in[0], axes, &out[0].axis);
  out[0].var = mr_lax_reduce_sum(f, in[0].var, n, axes);
  return mr_rule_done(f);
}

static bool reduce_sum_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  if (k > 2) return false;
  mr_var_t *x = mr_sample_f32(s, -1, 1, 3, 4, 2);
  const int axes[3][2] = {{1}, {0, 1}, {0, 2}};
  return mr_sample_done(s, mr_lax_reduce_sum(s->f, x, k ? 2 : 1, axes[k]));
}

const mr_op_def_t mr_op_reduce_sum = {
    MR_RULES_PRIMITIVE,
    .batch = reduce_sum_batch,
    .sample = reduce_sum_sample,
    .name = "reduce_sum",
    .n_in = 1,
    .n_out = 1,
    .shape = reduce_sum_shape,
    .ad = {.jvp = mr_jvp_linear, .vjp = reduce_sum_vjp},
    .fuse = {.unit = mr__reduce_unit},
    .amp = {MR_AMP_WIDE, .widens = true},
    .shard = {mr_shard_reduce, .folds = MR_CUT_SUM, .linear = true},
};

/* ---- cumsum ---- */

mr_var_t *mr_lax_cumsum(mr_fn_t *f, mr_var_t *x, int axis, bool reverse) {
  mr_attr_t attr[] = {mr_attr_int("axis", axis), mr_attr_bool("reverse", reverse)};
  return mr_emit1(f, &mr_op_cumsum, 1, &x, 2, attr);
}

static mr_err_t cumsum_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  int64_t axis = mr_attr_get(e, "axis")->i[0];
  if (axis < 0 || axis >= e->in[0]->aval.ndim) return mr_shape_fail(e, diag, "no such axis");
  MR_TRY(mr_check_numbers(e, diag));
  return mr_shape_same(e, out, diag);
}

/* The transpose is the cumulative sum from the other end. */
static mr_err_t cumsum_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  bool reverse = mr_attr_get(e, "reverse")->i[0] != 0;
  din[0] = mr_lax_cumsum(f, dout[0], (int)mr_attr_get(e, "axis")->i[0], !reverse);
  return mr_rule_done(f);
}

static mr_err_t cumsum_batch(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in,
                             mr_batched_t *out) {
  mr_var_t *x = mr_batch_front(f, &in[0], 1);
  int axis = (int)mr_attr_get(e, "axis")->i[0] + 1;
  out[0].var = mr_lax_cumsum(f, x, axis, mr_attr_get(e, "reverse")->i[0] != 0);
  out[0].axis = 0;
  return mr_rule_done(f);
}

static bool cumsum_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  if (k > 1) return false;
  return mr_sample_done(s, mr_lax_cumsum(s->f, mr_sample_f32(s, -1, 1, 2, 4, 3), k + 1, k == 1));
}

static mr_err_t cumsum_shard(const mr_eqn_t *e, mr_factors_t *s, mr_diag_t *diag) {
  return mr__shard_but(e, s, 1u << mr_attr_get(e, "axis")->i[0]);
}

const mr_op_def_t mr_op_cumsum = {
    MR_RULES_PRIMITIVE,
    .name = "cumsum",
    .n_in = 1,
    .n_out = 1,
    .shape = cumsum_shape,
    .batch = cumsum_batch,
    .sample = cumsum_sample,
    .ad = {.jvp = mr_jvp_linear, .vjp = cumsum_vjp},
    .reuse = {.of = {1}},
    .amp = {MR_AMP_WIDE},
    .shard = {cumsum_shard, .linear = true},
};
