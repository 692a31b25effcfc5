#include "model/ops/lax.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_squeeze(mr_fn_t *f, mr_var_t *x, int n, const int *dims) {
  return mr_emit1(f, &mr_op_squeeze, 1, &x, 1, (mr_attr_t[]){mr_attr_axes("dimensions", n, dims)});
}

static bool dropped(const mr_attr_t *dims, int i) {
  for (int k = 0; k < dims->n; k++)
    if (dims->i[k] == i) return true;
  return false;
}

static mr_err_t squeeze_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  const mr_aval_t *x = &e->in[0]->aval;
  const mr_attr_t *dims = mr_attr_get(e, "dimensions");
  for (int k = 0; k < dims->n; k++)
    if (dims->i[k] < 0 || dims->i[k] >= x->ndim || x->dim[dims->i[k]] != 1)
      return mr_shape_fail(e, diag, "want dimensions of size 1");
  *out = mr_aval_scalar(x->dtype);
  for (int i = 0; i < x->ndim; i++)
    if (!dropped(dims, i)) out->dim[out->ndim++] = x->dim[i];
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
    MR_RULES_PRIMITIVE,       .name = "squeeze",    .n_in = 1,          .n_out = 1,
    .shape = squeeze_shape,   .jvp = mr_jvp_linear, .vjp = squeeze_vjp, .batch = squeeze_batch,
    .sample = squeeze_sample, .amp = MR_AMP_FOLLOW, .moves = true,      .cpu = mr_cpu_alias,
    .unit = mr_unit_same,
};
