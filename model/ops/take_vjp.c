/* dy, index -> the rows of dy added to those of x's shape that they were taken from. */
#include <string.h>

#include "model/ops/lax.h"
#include "model/ops/rules.h"
#include "model/ops/take.h"

mr_var_t *mr__take_back(mr_fn_t *f, mr_var_t *dy, mr_var_t *index, const mr_aval_t *x, int batch) {
  mr_attr_t attr[] = {mr_attr_int("batch", batch), mr_attr_int("rows", x->dim[batch])};
  return mr_emit1(f, &mr_op_take_vjp, 2, (mr_var_t *[]){dy, index}, 2, attr);
}

static mr_err_t back_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
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

static void back_run(const mr_cpu_call_t *c) {
  const mr_aval_t *x = &c->eqn->out[0]->aval;
  mr_take_t s = mr__take_sizes(x, &c->eqn->in[1]->aval, mr__take_batch(c->eqn));
  memset(c->out[0], 0, mr_aval_bytes(x));
  for (int64_t k = 0; k < s.batch * s.at; k++) {
    int64_t to = (k / s.at * s.n + mr__take_row(c->in[1], k, s.n)) * s.row;
    for (int64_t i = 0; i < s.row; i++) {
      double sum = mr_cpu_get_f64(x->dtype, c->out[0], to + i);
      sum += mr_cpu_get_f64(x->dtype, c->in[0], k * s.row + i);
      mr_cpu_set_f64(x->dtype, c->out[0], to + i, sum);
    }
  }
}

static mr_err_t back_cpu(mr_cpu_call_t *c, mr_diag_t *diag) {
  c->run = back_run;
  return MR_OK;
}

static mr_err_t back_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  din[0] = mr__take_emit(f, dout[0], e->in[1], mr__take_batch(e));
  return mr_rule_done(f);
}

static mr_err_t back_jvp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *din, mr_var_t **dout) {
  mr_eqn_t *t = din[0] ? mr_emit_like(f, e, (mr_var_t *[]){din[0], e->in[1]}) : NULL;
  dout[0] = t ? t->out[0] : NULL;
  return mr_rule_done(f);
}

static mr_err_t back_batch(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in,
                           mr_batched_t *out) {
  int64_t size = mr_batch_size(2, in);
  mr_attr_t attr[] = {mr_attr_int("batch", mr__take_batch(e) + 1),
                      mr_attr_int("rows", mr_attr_get(e, "rows")->i[0])};
  mr_var_t *v[] = {mr_batch_front(f, &in[0], size), mr_batch_front(f, &in[1], size)};
  out[0] = (mr_batched_t){mr_emit1(f, &mr_op_take_vjp, 2, v, 2, attr), 0};
  return mr_rule_done(f);
}

static bool back_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  if (k > 0) return false;
  mr_var_t *dy = mr_sample_f32(s, -1, 1, 5, 3), *index = mr_sample_dims(s, MR_I32, -1, 4, 5);
  mr_aval_t x = mr_aval_of(MR_F32, 4, 3);
  return mr_sample_done(s, mr__take_back(s->f, dy, index, &x, 0));
}

const mr_op_def_t mr_op_take_vjp = {
    MR_RULES_PRIMITIVE,    .name = "take_vjp", .n_in = 2,       .n_out = 1,
    .shape = back_shape,   .jvp = back_jvp,    .vjp = back_vjp, .batch = back_batch,
    .sample = back_sample, .amp = MR_AMP_WIDE, .cpu = back_cpu,
};
