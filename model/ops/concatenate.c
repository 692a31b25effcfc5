/* Values side by side along one dimension; the transpose cuts a cotangent into slices. */
#include "model/ops/lax.h"
#include "model/ops/move.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_concatenate(mr_fn_t *f, int n, mr_var_t *const *x, int dimension) {
  return mr_emit1(f, &mr_op_concatenate, n, x, 1,
                  (mr_attr_t[]){mr_attr_int("dimension", dimension)});
}

static mr_err_t concatenate_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  int64_t d = mr_attr_get(e, "dimension")->i[0];
  if (e->n_in < 1) return mr_shape_fail(e, diag, "want at least one operand");
  *out = e->in[0]->aval;
  if (d < 0 || d >= out->ndim) return mr_shape_fail(e, diag, "no such dimension");
  for (int k = 1; k < e->n_in; k++) {
    mr_aval_t a = e->in[k]->aval;
    int64_t more = d < a.ndim ? a.dim[d] : 0;
    if (d < a.ndim) a.dim[d] = out->dim[d];
    if (!mr_aval_equal(&a, out))
      return mr_shape_fail(e, diag, "operands differ beside the joined dimension");
    out->dim[d] += more;
  }
  return MR_OK;
}

static mr_err_t concatenate_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout,
                                mr_var_t **din) {
  int64_t d = mr_attr_get(e, "dimension")->i[0], start[MR_MAX_NDIM] = {0}, limit[MR_MAX_NDIM];
  const mr_aval_t *y = &e->out[0]->aval;
  for (int i = 0; i < y->ndim; i++) limit[i] = y->dim[i];
  for (int k = 0; k < e->n_in; k++) {
    limit[d] = start[d] + e->in[k]->aval.dim[d];
    din[k] = mr_lax_slice(f, dout[0], start, limit);
    start[d] = limit[d];
  }
  return mr_rule_done(f);
}

static mr_err_t concatenate_batch(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in,
                                  mr_batched_t *out) {
  int64_t size = mr_batch_size(e->n_in, in);
  mr_var_t **x = mr_mem_take(&f->mem, (size_t)(e->n_in + 1) * sizeof(mr_var_t *));
  for (int i = 0; i < e->n_in; i++) x[i] = mr_batch_front(f, &in[i], size);
  out[0].var = mr_lax_concatenate(f, e->n_in, x, (int)mr_attr_get(e, "dimension")->i[0] + 1);
  out[0].axis = 0;
  return mr_rule_done(f);
}

static bool concatenate_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  if (k > 0) return false;
  mr_var_t *x[] = {mr_sample_f32(s, -1, 1, 2, 1), mr_sample_f32(s, -1, 1, 2, 3),
                   mr_sample_f32(s, -1, 1, 2, 2)};
  return mr_sample_done(s, mr_lax_concatenate(s->f, 3, x, 1));
}

const mr_op_def_t mr_op_concatenate = {
    MR_RULES_PRIMITIVE,
    .jvp = mr_jvp_linear,
    .batch = concatenate_batch,
    .sample = concatenate_sample,
    .name = "concatenate",
    .n_in = -1,
    .n_out = 1,
    .shape = concatenate_shape,
    .vjp = concatenate_vjp,
    .amp = MR_AMP_FOLLOW,
    .moves = true,
};
