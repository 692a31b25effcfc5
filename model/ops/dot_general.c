/* Products of matrices with any contracted and batch dimensions, in einsum's generality.  The
   derivatives are products again, with a transposition where the order of dimensions differs. */
#include <string.h>

#include "model/ops/lax.h"
#include "model/ops/operands.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_dot_general(mr_fn_t *f, mr_var_t *a, mr_var_t *b, const mr_dot_dims_t *d,
                             mr_dtype_t out) {
  if (d->n_contract < 0 || d->n_batch < 0 || d->n_contract + d->n_batch > MR_MAX_NDIM) {
    mr_fail(&f->diag, MR_ERR_SHAPE,
            "%s%sdot_general: %d contracted and %d batch dimensions, want at most %d in all",
            f->scope, *f->scope ? ": " : "", d->n_contract, d->n_batch, MR_MAX_NDIM);
    return NULL;
  }
  return mr_emit1(f, &mr_op_dot_general, 2, (mr_var_t *[]){a, b}, 2,
                  (mr_attr_t[]){mr_attr_dot("dimension_numbers", d),
                                mr_attr_dtype("preferred_element_type", out)});
}

mr_var_t *mr_lax_dot(mr_fn_t *f, mr_var_t *a, mr_var_t *b) {
  if (!a || !b) return NULL;
  mr_dot_dims_t d = {.n_contract = 1, .lhs_contract = {a->aval.ndim - 1}};
  return mr_lax_dot_general(f, a, b, &d, a->aval.dtype);
}

static void dot_general_groups(const mr_aval_t *x, const int *contract, int n_contract,
                               const int *batch, int n_batch, mr_side_t *s) {
  unsigned taken = 0;
  *s = (mr_side_t){.n_batch = n_batch, .n_contract = n_contract};
  for (int i = 0; i < n_contract; i++) taken |= 1u << (s->contract[i] = contract[i]);
  for (int i = 0; i < n_batch; i++) taken |= 1u << (s->batch[i] = batch[i]);
  for (int i = 0; i < x->ndim; i++)
    if (!(taken >> i & 1)) s->free[s->n_free++] = i;
}

void mr__dot_sides(const mr_eqn_t *e, mr_side_t *a, mr_side_t *b) {
  mr_dot_dims_t d = mr_attr_as_dot(mr_attr_get(e, "dimension_numbers"));
  dot_general_groups(&e->in[0]->aval, d.lhs_contract, d.n_contract, d.lhs_batch, d.n_batch, a);
  dot_general_groups(&e->in[1]->aval, d.rhs_contract, d.n_contract, d.rhs_batch, d.n_batch, b);
}

/* Whether these are different dimensions of x. */
static bool are_within(const mr_aval_t *x, const int *contract, int n_contract, const int *batch,
                       int n_batch) {
  unsigned taken = 0;
  for (int i = 0; i < n_contract + n_batch; i++) {
    int d = i < n_contract ? contract[i] : batch[i - n_contract];
    if (d < 0 || d >= x->ndim || taken >> d & 1) return false;
    taken |= 1u << d;
  }
  return true;
}

static mr_err_t dot_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  const mr_aval_t *x = &e->in[0]->aval, *w = &e->in[1]->aval;
  mr_dot_dims_t d = mr_attr_as_dot(mr_attr_get(e, "dimension_numbers"));
  mr_side_t a, b;
  if (!are_within(x, d.lhs_contract, d.n_contract, d.lhs_batch, d.n_batch) ||
      !are_within(w, d.rhs_contract, d.n_contract, d.rhs_batch, d.n_batch))
    return mr_shape_fail(e, diag, "a dimension number is out of range or repeated");
  if (!mr_is_float(x->dtype) ||
      !mr_is_float((mr_dtype_t)mr_attr_get(e, "preferred_element_type")->i[0]))
    return mr_shape_fail(e, diag, "want floats");
  if (x->dtype != w->dtype) return mr_shape_fail(e, diag, "want one dtype");
  for (int i = 0; i < d.n_contract; i++)
    if (x->dim[d.lhs_contract[i]] != w->dim[d.rhs_contract[i]])
      return mr_shape_fail(e, diag, "contracted sizes differ");
  for (int i = 0; i < d.n_batch; i++)
    if (x->dim[d.lhs_batch[i]] != w->dim[d.rhs_batch[i]])
      return mr_shape_fail(e, diag, "batch sizes differ");
  mr__dot_sides(e, &a, &b);
  if (a.n_batch + a.n_free + b.n_free > MR_MAX_NDIM)
    return mr_shape_fail(e, diag, "the result has too many dimensions");
  *out = mr_aval_scalar((mr_dtype_t)mr_attr_get(e, "preferred_element_type")->i[0]);
  for (int i = 0; i < a.n_batch; i++) out->dim[out->ndim++] = x->dim[a.batch[i]];
  for (int i = 0; i < a.n_free; i++) out->dim[out->ndim++] = x->dim[a.free[i]];
  for (int i = 0; i < b.n_free; i++) out->dim[out->ndim++] = w->dim[b.free[i]];
  return MR_OK;
}

/* The cotangent of one side: dout times the other side, contracted over the other's free
   dimensions, then transposed to the side's own order.  left: mine is the left operand. */
static mr_var_t *one_side(mr_fn_t *f, mr_var_t *dout, mr_var_t *other, const mr_side_t *mine,
                          const mr_side_t *its, bool left, mr_dtype_t dtype) {
  int nb = mine->n_batch, perm[MR_MAX_NDIM], at = 0;
  mr_dot_dims_t d = {.n_batch = nb, .n_contract = its->n_free};
  for (int i = 0; i < nb; i++) {
    d.lhs_batch[i] = i;
    d.rhs_batch[i] = its->batch[i];
  }
  for (int i = 0; i < its->n_free; i++) {
    d.lhs_contract[i] = nb + i + (left ? mine->n_free : 0);
    d.rhs_contract[i] = its->free[i];
  }
  /* The product has batch dimensions, mine's free ones, then the contracted ones in other's
     order. */
  for (int i = 0; i < nb; i++) perm[mine->batch[i]] = at++;
  for (int i = 0; i < mine->n_free; i++) perm[mine->free[i]] = at++;
  bool ordered = true;
  for (int i = 0; i < mine->n_contract; i++) {
    int rank = 0;
    for (int k = 0; k < its->n_contract; k++) rank += its->contract[k] < its->contract[i];
    perm[mine->contract[i]] = at + rank;
  }
  for (int i = 0; i < at + mine->n_contract; i++) ordered &= perm[i] == i;
  mr_var_t *r = mr_lax_dot_general(f, dout, other, &d, dtype);
  return ordered ? r : mr_lax_transpose(f, r, perm);
}

/* dw of a plain product x (..., k) by w (k, n): x' dout, which is in w's order. */
static mr_var_t *weight_side(mr_fn_t *f, mr_var_t *x, mr_var_t *dout, const mr_side_t *a,
                             mr_dtype_t dtype) {
  mr_dot_dims_t d = {.n_contract = a->n_free};
  for (int i = 0; i < a->n_free; i++) {
    d.lhs_contract[i] = a->free[i];
    d.rhs_contract[i] = i;
  }
  return mr_lax_dot_general(f, x, dout, &d, dtype);
}

static mr_err_t dot_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  mr_var_t *x = e->in[0], *w = e->in[1];
  mr_side_t a, b;
  mr__dot_sides(e, &a, &b);
  mr_var_t *g = mr_lax_convert(f, dout[0], x->aval.dtype);
  din[0] = one_side(f, g, w, &a, &b, true, x->aval.dtype);
  if (!b.n_batch && b.n_contract == 1 && b.contract[0] == 0)
    din[1] = weight_side(f, x, g, &a, w->aval.dtype);
  else
    din[1] = one_side(f, g, x, &b, &a, false, w->aval.dtype);
  return mr_rule_done(f);
}

/* Shifts the dimension numbers of an operand by the mapped dimension in front. */
static void shift_dims(int *dims, int n) {
  for (int i = 0; i < n; i++) dims[i]++;
}

/* Both mapped: one more batch dimension, first in the result.  One mapped: one more free dimension;
   in the result it follows the batch dimensions (left) or the left side's free ones (right). */
static mr_err_t dot_batch(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in,
                          mr_batched_t *out) {
  mr_dot_dims_t d = mr_attr_as_dot(mr_attr_get(e, "dimension_numbers"));
  int ndim = e->in[0]->aval.ndim;
  bool left = in[0].axis >= 0, right = in[1].axis >= 0;
  int64_t size = mr_batch_size(2, in);
  if (left) shift_dims(d.lhs_contract, d.n_contract), shift_dims(d.lhs_batch, d.n_batch);
  if (right) shift_dims(d.rhs_contract, d.n_contract), shift_dims(d.rhs_batch, d.n_batch);
  out[0].axis = left ? d.n_batch : d.n_batch + ndim - d.n_batch - d.n_contract;
  if (left && right) {
    for (int i = d.n_batch++; i > 0; i--) {
      d.lhs_batch[i] = d.lhs_batch[i - 1];
      d.rhs_batch[i] = d.rhs_batch[i - 1];
    }
    d.lhs_batch[0] = d.rhs_batch[0] = out[0].axis = 0;
  }
  mr_var_t *a = left ? mr_batch_front(f, &in[0], size) : in[0].var;
  mr_var_t *b = right ? mr_batch_front(f, &in[1], size) : in[1].var;
  out[0].var = mr_lax_dot_general(f, a, b, &d, e->out[0]->aval.dtype);
  return mr_rule_done(f);
}

/* A transposition that puts the right side's free dimensions before the left's is the product with
   its sides exchanged. */
static bool dot_view(const mr_eqn_t *e, const mr_view_t *v, mr_view_t *in) {
  mr_side_t a, b;
  mr__dot_sides(e, &a, &b);
  for (int i = 0; i < v->ndim; i++) {
    int at = i - a.n_batch;
    int from = at < 0 ? i : at < b.n_free ? i + a.n_free : i - b.n_free;
    if (!v->transposes || v->perm[i] != from) return false;
  }
  return true;
}

static mr_var_t *dot_viewed(mr_fn_t *f, const mr_eqn_t *e, const mr_view_t *v,
                            mr_var_t *const *in) {
  mr_dot_dims_t d = mr_attr_as_dot(mr_attr_get(e, "dimension_numbers")), turned = d;
  memcpy(turned.lhs_contract, d.rhs_contract, sizeof d.lhs_contract);
  memcpy(turned.rhs_contract, d.lhs_contract, sizeof d.lhs_contract);
  memcpy(turned.lhs_batch, d.rhs_batch, sizeof d.lhs_batch);
  memcpy(turned.rhs_batch, d.lhs_batch, sizeof d.lhs_batch);
  return mr_lax_dot_general(f, in[1], in[0], &turned, e->out[0]->aval.dtype);
}

static bool dot_general_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  mr_dot_dims_t d = {.n_contract = 1, .lhs_contract = {2}};
  mr_var_t *a, *b;
  switch (k) {
    case 0: /* abc,cd->abd */
      a = mr_sample_f32(s, -1, 1, 2, 3, 4);
      b = mr_sample_f32(s, -1, 1, 4, 2);
      return mr_sample_done(s, mr_lax_dot_general(s->f, a, b, &d, MR_F32));
    case 1: /* bqhd,bkhd->bhqk */
      d = (mr_dot_dims_t){.n_batch = 2,
                          .lhs_batch = {0, 2},
                          .rhs_batch = {0, 2},
                          .n_contract = 1,
                          .lhs_contract = {3},
                          .rhs_contract = {3}};
      a = mr_sample_f32(s, -1, 1, 2, 3, 2, 2);
      b = mr_sample_f32(s, -1, 1, 2, 2, 2, 2);
      return mr_sample_done(s, mr_lax_dot_general(s->f, a, b, &d, MR_F32));
    case 2: /* abc,cxb->ax */
      d = (mr_dot_dims_t){.n_contract = 2, .lhs_contract = {1, 2}, .rhs_contract = {2, 0}};
      a = mr_sample_f32(s, -1, 1, 2, 3, 2);
      b = mr_sample_f32(s, -1, 1, 2, 4, 3);
      return mr_sample_done(s, mr_lax_dot_general(s->f, a, b, &d, MR_F32));
    case 3: /* i,i-> */
      d = (mr_dot_dims_t){.n_contract = 1};
      a = mr_sample_f32(s, -1, 1, 4);
      b = mr_sample_f32(s, -1, 1, 4);
      return mr_sample_done(s, mr_lax_dot_general(s->f, a, b, &d, MR_F32));
  }
  return false;
}

static double dot_general_flop(const mr_eqn_t *e) {
  mr_dot_dims_t d = mr_attr_as_dot(mr_attr_get(e, "dimension_numbers"));
  double k = 2;
  for (int i = 0; i < d.n_contract; i++) k *= (double)e->in[0]->aval.dim[d.lhs_contract[i]];
  return k * (double)mr_aval_elems(&e->out[0]->aval);
}

static mr_err_t dot_shard(const mr_eqn_t *e, mr_factors_t *s, mr_diag_t *diag) {
  const mr_aval_t *x = &e->in[0]->aval, *w = &e->in[1]->aval;
  mr_side_t a, b;
  int to = 0;
  mr__dot_sides(e, &a, &b);
  for (int i = 0; i < a.n_batch; i++) {
    int k = mr_factor_add(s, x->dim[a.batch[i]], MR_CUT_EACH);
    mr_factor_in(s, 0, a.batch[i], k), mr_factor_in(s, 1, b.batch[i], k);
    mr_factor_out(s, 0, to++, k);
  }
  for (int i = 0; i < a.n_free + b.n_free; i++) {
    bool left = i < a.n_free;
    int d = left ? a.free[i] : b.free[i - a.n_free];
    int k = mr_factor_add(s, left ? x->dim[d] : w->dim[d], MR_CUT_EACH);
    mr_factor_in(s, left ? 0 : 1, d, k);
    mr_factor_out(s, 0, to++, k);
  }
  for (int i = 0; i < a.n_contract; i++) {
    int k = mr_factor_add(s, x->dim[a.contract[i]], MR_CUT_SUM);
    mr_factor_in(s, 0, a.contract[i], k), mr_factor_in(s, 1, b.contract[i], k);
  }
  return MR_OK;
}

const mr_op_def_t mr_op_dot_general = {
    MR_RULES_PRIMITIVE,
    .batch = dot_batch,
    .sample = dot_general_sample,
    .name = "dot_general",
    .n_in = 2,
    .n_out = 1,
    .shape = dot_shape,
    .ad = {.jvp = mr_jvp_product, .vjp = dot_vjp},
    .fuse = {.view = dot_view, .viewed = dot_viewed, .sides = mr__dot_sides},
    .amp = {MR_AMP_NARROW, .widens = true},
    .cost = {.product = true, .flop = dot_general_flop},
    .shard = {dot_shard},
};
