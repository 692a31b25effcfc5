/* The same elements in the same row-major order with other dimensions.  No bytes move: the result
   is an alias of its operand, and only shapes are computed, derivatives and batching included. */
#include "model/ops/lax.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_reshape(mr_fn_t *f, mr_var_t *x, int ndim, const int64_t *dim) {
  return mr_emit1(f, &mr_op_reshape, 1, &x, 2,
                  (mr_attr_t[]){mr_attr_none("dimensions"), mr_attr_ints("new_sizes", ndim, dim)});
}

static mr_err_t reshape_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  const mr_attr_t *to = mr_attr_get(e, "new_sizes");
  if (to->n > MR_MAX_NDIM) return mr_shape_fail(e, diag, "too many new dimensions");
  out[0] = mr_aval(e->in[0]->aval.dtype, to->n, to->i);
  if (mr_aval_elems(out) != mr_aval_elems(&e->in[0]->aval))
    return mr_shape_fail(e, diag, "the new sizes hold another number of elements");
  return MR_OK;
}

static mr_err_t reshape_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  din[0] = mr_lax_reshape(f, dout[0], e->in[0]->aval.ndim, e->in[0]->aval.dim);
  return mr_rule_done(f);
}

static mr_err_t reshape_batch(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in,
                              mr_batched_t *out) {
  int64_t size = mr_batch_size(1, in), dim[MR_MAX_NDIM] = {size};
  const mr_aval_t *y = &e->out[0]->aval;
  if (y->ndim == MR_MAX_NDIM) return mr_shape_fail(e, &f->diag, "vmap: too many dimensions");
  for (int i = 0; i < y->ndim; i++) dim[i + 1] = y->dim[i];
  out[0].var = mr_lax_reshape(f, mr_batch_front(f, &in[0], size), y->ndim + 1, dim);
  out[0].axis = 0;
  return mr_rule_done(f);
}

/* Only a reshape to the same shape, which is its operand. */
static bool reshape_view(const mr_eqn_t *e, const mr_view_t *v, mr_view_t *in) {
  in[0] = *v;
  return mr_aval_equal(&e->in[0]->aval, &e->out[0]->aval);
}

static mr_var_t *reshape_viewed(mr_fn_t *f, const mr_eqn_t *e, const mr_view_t *v,
                                mr_var_t *const *in) {
  return in[0];
}

static bool reshape_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  if (k > 1) return false;
  mr_var_t *x = mr_sample_f32(s, -1, 1, 2, 6);
  return mr_sample_done(s,
                        k ? mr_lax_reshape_to(s->f, x, 12) : mr_lax_reshape_to(s->f, x, 4, 1, 3));
}

const mr_op_def_t mr_op_reshape = {
    MR_RULES_PRIMITIVE,
    .batch = reshape_batch,
    .sample = reshape_sample,
    .name = "reshape",
    .n_in = 1,
    .n_out = 1,
    .shape = reshape_shape,
    .kind = MR_OP_ALIAS,
    .ad = {.jvp = mr_jvp_linear, .vjp = reshape_vjp},
    .fuse = {.unit = mr_unit_same, .view = reshape_view, .viewed = reshape_viewed},
    .amp = {MR_AMP_FOLLOW},
    .cost = {.moves = true},
    .shard = {mr_shard_reshape, .sizes = "new_sizes", .linear = true},
};

mr_var_t *mr_lax_squeeze(mr_fn_t *f, mr_var_t *x, int n, const int *dims) {
  return mr_emit1(f, &mr_op_squeeze, 1, &x, 1, (mr_attr_t[]){mr_attr_axes("dimensions", n, dims)});
}

static mr_err_t squeeze_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  const mr_aval_t *x = &e->in[0]->aval;
  const mr_attr_t *dims = mr_attr_get(e, "dimensions");
  unsigned dropped = 0;
  for (int k = 0; k < dims->n; k++) {
    int64_t d = dims->i[k];
    if (d < 0 || d >= x->ndim || x->dim[d] != 1 || (dropped >> d & 1))
      return mr_shape_fail(e, diag, "want different dimensions of size 1");
    dropped |= 1u << d;
  }
  *out = mr_aval_scalar(x->dtype);
  for (int i = 0; i < x->ndim; i++)
    if (!(dropped >> i & 1)) out->dim[out->ndim++] = x->dim[i];
  return MR_OK;
}

static mr_err_t squeeze_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  din[0] = mr_lax_reshape(f, dout[0], e->in[0]->aval.ndim, e->in[0]->aval.dim);
  return mr_rule_done(f);
}

static mr_err_t squeeze_batch(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in,
                              mr_batched_t *out) {
  const mr_attr_t *dims = mr_attr_get(e, "dimensions");
  int d[MR_MAX_NDIM];
  for (int k = 0; k < dims->n; k++) d[k] = (int)dims->i[k] + 1;
  out[0].var = mr_lax_squeeze(f, mr_batch_front(f, &in[0], 1), dims->n, d);
  out[0].axis = 0;
  return mr_rule_done(f);
}

static bool squeeze_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  if (k > 0) return false;
  mr_var_t *x = mr_sample_f32(s, -1, 1, 1, 3, 1);
  return mr_sample_done(s, mr_lax_squeeze(s->f, x, 2, (int[]){0, 2}));
}

const mr_op_def_t mr_op_squeeze = {
    MR_RULES_PRIMITIVE,
    .name = "squeeze",
    .n_in = 1,
    .n_out = 1,
    .shape = squeeze_shape,
    .batch = squeeze_batch,
    .sample = squeeze_sample,
    .kind = MR_OP_ALIAS,
    .ad = {.jvp = mr_jvp_linear, .vjp = squeeze_vjp},
    .fuse = {.unit = mr_unit_same},
    .amp = {MR_AMP_FOLLOW},
    .cost = {.moves = true},
    .shard = {mr_shard_reshape, .linear = true},
};
