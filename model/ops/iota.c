/* Counting along one dimension, and the identity matrix, which compares two counters.  It has no
   operands: nothing is stored, fused loops compute the number from the index, and a slice that
   begins at zero is a smaller counter. */
#include "model/ops/lax.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_iota(mr_fn_t *f, mr_dtype_t dtype, int ndim, const int64_t *dim, int dimension) {
  mr_attr_t attr[] = {mr_attr_int("dimension", dimension), mr_attr_dtype("dtype", dtype),
                      mr_attr_ints("shape", ndim, dim), mr_attr_none("sharding")};
  return mr_emit1(f, &mr_op_iota, 0, NULL, 4, attr);
}

static mr_err_t iota_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  const mr_attr_t *shape = mr_attr_get(e, "shape");
  int64_t d = mr_attr_get(e, "dimension")->i[0];
  if (shape->n > MR_MAX_NDIM || d < 0 || d >= shape->n)
    return mr_shape_fail(e, diag, "no such dimension");
  if (mr_attr_get(e, "dtype")->i[0] == MR_BOOL) return mr_shape_fail(e, diag, "want numbers");
  *out = mr_aval((mr_dtype_t)mr_attr_get(e, "dtype")->i[0], shape->n, shape->i);
  return MR_OK;
}

static bool iota_unit(const mr_eqn_t *e, mr_unit_t *u) {
  const mr_aval_t *y = &e->out[0]->aval;
  int d = (int)mr_attr_get(e, "dimension")->i[0];
  u->kind = MR_UNIT_INDEX;
  u->mid = y->dim[d];
  u->inner = mr_aval_span(y, d + 1, y->ndim);
  return (y->dtype == MR_F32 || y->dtype == MR_I32) && mr_aval_elems(y) > 0;
}

/* A slice is a counter only if it begins at zero in the counted dimension. */
static bool iota_view(const mr_eqn_t *e, const mr_view_t *v, mr_view_t *in) {
  return v->transposes || v->start[mr_attr_get(e, "dimension")->i[0]] == 0;
}

static mr_var_t *iota_viewed(mr_fn_t *f, const mr_eqn_t *e, const mr_view_t *v,
                             mr_var_t *const *in) {
  mr_aval_t y = mr_view_aval(&e->out[0]->aval, v);
  int d = (int)mr_attr_get(e, "dimension")->i[0], at = d;
  for (int i = 0; v->transposes && i < v->ndim; i++)
    if (v->perm[i] == d) at = i;
  return mr_lax_iota(f, y.dtype, y.ndim, y.dim, at);
}

static bool iota_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  if (k > 1) return false;
  return mr_sample_done(s, mr_lax_iota(s->f, k ? MR_I32 : MR_F32, 2, (int64_t[]){2, 3}, k));
}

/* Without operands it has no tangent and is never mapped: derivatives and batch are not called. */
/* The counted dimension would need its start. */
static mr_err_t iota_shard(const mr_eqn_t *e, mr_factors_t *s, mr_diag_t *diag) {
  return mr__shard_but(e, s, 1u << mr_attr_get(e, "dimension")->i[0]);
}

const mr_op_def_t mr_op_iota = {
    MR_RULES_PRIMITIVE,
    .name = "iota",
    .n_in = 0,
    .n_out = 1,
    .shape = iota_shape,
    .batch = mr_no_batch,
    .sample = iota_sample,
    .ad = {.jvp = mr_jvp_zero, .vjp = mr_vjp_zero},
    .fuse = {.unit = iota_unit, .view = iota_view, .viewed = iota_viewed},
    .amp = {MR_AMP_FOLLOW},
    .cost = {.moves = true},
    .shard = {iota_shard, .sizes = "shape"},
};

mr_var_t *mr_lax_eye(mr_fn_t *f, mr_dtype_t dtype, int64_t n) {
  int64_t dim[] = {n, n};
  mr_var_t *same =
      mr_lax_eq(f, mr_lax_iota(f, MR_I32, 2, dim, 0), mr_lax_iota(f, MR_I32, 2, dim, 1));
  return mr_lax_convert(f, same, dtype);
}
