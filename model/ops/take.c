/* Rows by index, and the transpose, which adds rows to those that they were taken from.  Both may
   have leading mapped dimensions: the first `batch` (an attribute) dimensions of x and index pair
   up. */
#include "model/ops/lax.h"
#include "model/ops/operands.h"
#include "model/ops/rules.h"

static int take_mapped(const mr_eqn_t *e) { return (int)mr_attr_get(e, "batch")->i[0]; }

mr_take_sizes_t mr__take_sizes(const mr_eqn_t *e, const mr_aval_t *x) {
  const mr_aval_t *index = &e->in[1]->aval;
  int batch = take_mapped(e);
  return (mr_take_sizes_t){.batch = mr_aval_span(x, 0, batch),
                           .n = x->dim[batch],
                           .at = mr_aval_span(index, batch, index->ndim),
                           .row = mr_aval_span(x, batch + 1, x->ndim)};
}

static mr_var_t *take_emit(mr_fn_t *f, mr_var_t *x, mr_var_t *index, int batch) {
  mr_attr_t attr = mr_attr_int("batch", batch);
  return mr_emit1(f, &mr_op_take, 2, (mr_var_t *[]){x, index}, 1, &attr);
}

/* Returns dy's rows added into zeros of x's shape; NULL on failure. */
static mr_var_t *take_back(mr_fn_t *f, mr_var_t *dy, mr_var_t *index, const mr_aval_t *x,
                           int batch) {
  mr_attr_t attr[] = {mr_attr_int("batch", batch), mr_attr_int("rows", x->dim[batch])};
  return mr_emit1(f, &mr_op_take_vjp, 2, (mr_var_t *[]){dy, index}, 2, attr);
}

mr_var_t *mr_lax_take(mr_fn_t *f, mr_var_t *x, mr_var_t *index) {
  return take_emit(f, x, index, 0);
}

static mr_err_t take_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  const mr_aval_t *x = &e->in[0]->aval, *index = &e->in[1]->aval;
  int64_t batch = mr_attr_get(e, "batch")->i[0];
  if (index->dtype != MR_I32) return mr_shape_fail(e, diag, "want an index of i32");
  if (batch < 0 || x->ndim <= batch || index->ndim < batch)
    return mr_shape_fail(e, diag, "want rows to take");
  if (index->ndim + x->ndim - 1 - batch > MR_MAX_NDIM)
    return mr_shape_fail(e, diag, "the result has too many dimensions");
  for (int i = 0; i < batch; i++)
    if (x->dim[i] != index->dim[i]) return mr_shape_fail(e, diag, "mapped sizes differ");
  if (!x->dim[batch] && mr_aval_elems(index)) return mr_shape_fail(e, diag, "x has no row");
  *out = *index;
  out->dtype = x->dtype;
  for (int i = (int)batch + 1; i < x->ndim; i++) out->dim[out->ndim++] = x->dim[i];
  return MR_OK;
}

static mr_err_t take_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  din[0] = take_back(f, dout[0], e->in[1], &e->in[0]->aval, take_mapped(e));
  return mr_rule_done(f);
}

static mr_err_t take_jvp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *din, mr_var_t **dout) {
  if (din[0]) dout[0] = take_emit(f, din[0], e->in[1], take_mapped(e));
  return mr_rule_done(f);
}

static mr_err_t take_batch(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in,
                           mr_batched_t *out) {
  int64_t size = mr_batch_size(2, in);
  mr_var_t *x = mr_batch_front(f, &in[0], size), *index = mr_batch_front(f, &in[1], size);
  out[0] = (mr_batched_t){take_emit(f, x, index, take_mapped(e) + 1), 0};
  return mr_rule_done(f);
}

static bool take_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  if (k > 1) return false;
  mr_var_t *x = mr_sample_f32(s, -1, 1, 4, 3);
  mr_var_t *index = k ? mr_sample_dims(s, MR_I32, -1, 5, 2, 3) : mr_sample_scalar(s, MR_I32, 0, 3);
  return mr_sample_done(s, mr_lax_take(s->f, x, index));
}

/* The dimensions of index are rows of the result; x's rows are WHOLE, as an index may name any. */
static mr_err_t take_cuts(const mr_eqn_t *e, mr_factors_t *s, mr_diag_t *diag) {
  const mr_aval_t *x = &e->in[0]->aval, *index = &e->in[1]->aval;
  int batch = take_mapped(e);
  for (int d = 0; d < index->ndim; d++) {
    int k = mr_factor_add(s, index->dim[d], MR_CUT_EACH);
    if (d < batch) mr_factor_in(s, 0, d, k);
    mr_factor_in(s, 1, d, k), mr_factor_out(s, 0, d, k);
  }
  for (int d = batch + 1; d < x->ndim; d++) {
    int k = mr_factor_add(s, x->dim[d], MR_CUT_EACH);
    mr_factor_in(s, 0, d, k), mr_factor_out(s, 0, index->ndim + d - batch - 1, k);
  }
  return MR_OK;
}

const mr_op_def_t mr_op_take = {
    MR_RULES_PRIMITIVE,
    .name = "take",
    .n_in = 2,
    .n_out = 1,
    .shape = take_shape,
    .batch = take_batch,
    .sample = take_sample,
    .ad = {.jvp = take_jvp, .vjp = take_vjp},
    .amp = {MR_AMP_FOLLOW},
    .cost = {.moves = true},
    .shard = {take_cuts},
};

/* ---- take_vjp: dy, index -> zeros like x, with dy's rows added by index ---- */

static mr_err_t take_vjp_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  const mr_aval_t *dy = &e->in[0]->aval, *index = &e->in[1]->aval;
  int64_t batch = mr_attr_get(e, "batch")->i[0], rows = mr_attr_get(e, "rows")->i[0];
  if (index->dtype != MR_I32 || batch < 0 || index->ndim < batch || dy->ndim < index->ndim)
    return mr_shape_fail(e, diag, "want dy of the shape of index and rows");
  for (int i = 0; i < index->ndim; i++)
    if (dy->dim[i] != index->dim[i]) return mr_shape_fail(e, diag, "dy does not begin as index");
  if (rows < 0 || (!rows && mr_aval_elems(index)) ||
      batch + 1 + dy->ndim - index->ndim > MR_MAX_NDIM)
    return mr_shape_fail(e, diag, "want rows to add to");
  *out = mr_aval(dy->dtype, (int)batch, index->dim);
  out->dim[out->ndim++] = rows;
  for (int i = index->ndim; i < dy->ndim; i++) out->dim[out->ndim++] = dy->dim[i];
  return MR_OK;
}

static mr_err_t take_vjp_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  din[0] = take_emit(f, dout[0], e->in[1], take_mapped(e));
  return mr_rule_done(f);
}

static mr_err_t take_vjp_jvp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *din, mr_var_t **dout) {
  mr_eqn_t *t = din[0] ? mr_emit_like(f, e, (mr_var_t *[]){din[0], e->in[1]}) : NULL;
  dout[0] = t ? t->out[0] : NULL;
  return mr_rule_done(f);
}

static mr_err_t take_vjp_batch(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in,
                               mr_batched_t *out) {
  int64_t size = mr_batch_size(2, in);
  mr_attr_t attr[] = {mr_attr_int("batch", take_mapped(e) + 1),
                      mr_attr_int("rows", mr_attr_get(e, "rows")->i[0])};
  mr_var_t *v[] = {mr_batch_front(f, &in[0], size), mr_batch_front(f, &in[1], size)};
  out[0] = (mr_batched_t){mr_emit1(f, &mr_op_take_vjp, 2, v, 2, attr), 0};
  return mr_rule_done(f);
}

static bool take_vjp_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  if (k > 0) return false;
  mr_var_t *dy = mr_sample_f32(s, -1, 1, 5, 3), *index = mr_sample_dims(s, MR_I32, -1, 4, 5);
  mr_aval_t x = mr_aval_of(MR_F32, 4, 3);
  return mr_sample_done(s, take_back(s->f, dy, index, &x, 0));
}

/* A part of the index adds its rows to all of the result. */
static mr_err_t take_vjp_shard(const mr_eqn_t *e, mr_factors_t *s, mr_diag_t *diag) {
  const mr_aval_t *dy = &e->in[0]->aval, *index = &e->in[1]->aval;
  int batch = take_mapped(e);
  for (int d = 0; d < dy->ndim; d++) {
    bool adds = d >= batch && d < index->ndim;
    int k = mr_factor_add(s, dy->dim[d], adds ? MR_CUT_SUM : MR_CUT_EACH);
    mr_factor_in(s, 0, d, k);
    if (d < index->ndim) mr_factor_in(s, 1, d, k);
    if (!adds) mr_factor_out(s, 0, d < batch ? d : batch + 1 + d - index->ndim, k);
  }
  return MR_OK;
}

const mr_op_def_t mr_op_take_vjp = {
    MR_RULES_PRIMITIVE,
    .name = "take_vjp",
    .n_in = 2,
    .n_out = 1,
    .shape = take_vjp_shape,
    .batch = take_vjp_batch,
    .sample = take_vjp_sample,
    .ad = {.jvp = take_vjp_jvp, .vjp = take_vjp_vjp},
    .amp = {MR_AMP_WIDE},
    .shard = {take_vjp_shard},
};
