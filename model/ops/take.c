#include "model/ops/take.h"

#include <string.h>

#include "model/ops/lax.h"
#include "model/ops/rules.h"

mr_take_t mr__take_sizes(const mr_aval_t *x, const mr_aval_t *index, int batch) {
  return (mr_take_t){.batch = mr_aval_span(x, 0, batch),
                     .n = x->dim[batch],
                     .at = mr_aval_span(index, batch, index->ndim),
                     .row = mr_aval_span(x, batch + 1, x->ndim)};
}

int64_t mr__take_row(const void *index, int64_t k, int64_t n) {
  int64_t i = ((const int32_t *)index)[k];
  return i < 0 ? 0 : i >= n ? n - 1 : i;
}

int mr__take_batch(const mr_eqn_t *e) { return (int)mr_attr_get(e, "batch")->i[0]; }

mr_var_t *mr__take_emit(mr_fn_t *f, mr_var_t *x, mr_var_t *index, int batch) {
  mr_attr_t attr = mr_attr_int("batch", batch);
  return mr_emit1(f, &mr_op_take, 2, (mr_var_t *[]){x, index}, 1, &attr);
}

mr_var_t *mr_lax_take(mr_fn_t *f, mr_var_t *x, mr_var_t *index) {
  return mr__take_emit(f, x, index, 0);
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

static void take_run(const mr_cpu_call_t *c) {
  const mr_aval_t *x = &c->eqn->in[0]->aval;
  mr_take_t s = mr__take_sizes(x, &c->eqn->in[1]->aval, mr__take_batch(c->eqn));
  size_t row = (size_t)s.row * mr_dtype_size(x->dtype);
  for (int64_t k = 0; k < s.batch * s.at; k++) {
    int64_t from = k / s.at * s.n + mr__take_row(c->in[1], k, s.n);
    memcpy((char *)c->out[0] + (size_t)k * row, (const char *)c->in[0] + (size_t)from * row, row);
  }
}

static mr_err_t take_cpu(mr_cpu_call_t *c, mr_diag_t *diag) {
  c->run = take_run;
  return MR_OK;
}

static mr_err_t take_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  din[0] = mr__take_back(f, dout[0], e->in[1], &e->in[0]->aval, mr__take_batch(e));
  return mr_rule_done(f);
}

static mr_err_t take_jvp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *din, mr_var_t **dout) {
  if (din[0]) dout[0] = mr__take_emit(f, din[0], e->in[1], mr__take_batch(e));
  return mr_rule_done(f);
}

static mr_err_t take_batch(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in,
                           mr_batched_t *out) {
  int64_t size = mr_batch_size(2, in);
  mr_var_t *x = mr_batch_front(f, &in[0], size), *index = mr_batch_front(f, &in[1], size);
  out[0] = (mr_batched_t){mr__take_emit(f, x, index, mr__take_batch(e) + 1), 0};
  return mr_rule_done(f);
}

static bool take_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  if (k > 1) return false;
  mr_var_t *x = mr_sample_f32(s, -1, 1, 4, 3);
  mr_var_t *index = k ? mr_sample_dims(s, MR_I32, -1, 5, 2, 3) : mr_sample_scalar(s, MR_I32, 0, 3);
  return mr_sample_done(s, mr_lax_take(s->f, x, index));
}

const mr_op_def_t mr_op_take = {
    MR_RULES_PRIMITIVE,    .name = "take",       .n_in = 2,       .n_out = 1,
    .shape = take_shape,   .jvp = take_jvp,      .vjp = take_vjp, .batch = take_batch,
    .sample = take_sample, .amp = MR_AMP_FOLLOW, .moves = true,   .cpu = take_cpu,
};
