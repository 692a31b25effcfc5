#include <string.h>

#include "model/control/axis.h"
#include "model/control/control.h"
#include "model/ops/lax.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_all_gather(mr_fn_t *f, mr_var_t *x, const char *axis_name, int64_t size) {
  mr_attr_t attr[] = {mr_attr_text("axis_name", mr_mem_text(&f->mem, axis_name)),
                      mr_attr_int("axis_size", size)};
  return mr_emit1(f, &mr_op_all_gather, 1, &x, 2, attr);
}

static mr_err_t gather_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  const mr_aval_t *x = &e->in[0]->aval;
  int64_t size = mr_attr_get(e, "axis_size")->i[0];
  if (x->ndim == MR_MAX_NDIM || size < 0)
    return mr_shape_fail(e, diag, "want a size >= 0 and at most 7 dimensions");
  *out = mr_aval_scalar(x->dtype);
  out->dim[out->ndim++] = size;
  for (int i = 0; i < x->ndim; i++) out->dim[out->ndim++] = x->dim[i];
  return MR_OK;
}

/* Each example gets the sum of what all examples send to its own place. */
static mr_err_t gather_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  const char *axis = mr_attr_get(e, "axis_name")->text;
  const mr_aval_t *y = &e->out[0]->aval;
  mr_var_t *place = mr_lax_iota(f, MR_I32, y->ndim, y->dim, 0);
  mr_var_t *own = mr_lax_eq(f, place, mr_lax_axis_index(f, axis));
  mr_var_t *all = mr_lax_psum(f, dout[0], axis);
  all = mr_lax_mul(f, all, mr_lax_convert(f, own, y->dtype));
  din[0] = mr_lax_reduce_sum(f, all, 1, (int[]){0});
  return mr_rule_done(f);
}

static mr_err_t gather_batch(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in,
                             mr_batched_t *out) {
  int64_t size = mr_attr_get(e, "axis_size")->i[0];
  if (!mr_axis_bound(f, e)) { /* another axis is mapped: it goes behind the gathered one */
    mr_var_t *x = mr_batch_front(f, &in[0], 1);
    mr_eqn_t *b = mr_emit_like(f, e, &x);
    out[0] = (mr_batched_t){b ? b->out[0] : NULL, 1};
    return mr_rule_done(f);
  }
  if (size != f->axis_size)
    return mr_fail(&f->diag, MR_ERR_SHAPE, "all_gather: axis \"%s\" has size %lld, not %lld",
                   f->axis_name, (long long)f->axis_size, (long long)size);
  out[0] = (mr_batched_t){mr_batch_front(f, &in[0], size), -1};
  return mr_rule_done(f);
}

static void gather_run(const mr_cpu_call_t *c) {
  const mr_axis_state_t *s = c->state;
  size_t n = mr_aval_bytes(&c->eqn->in[0]->aval);
  const void *const *all = mr__comm_meet(s->comm, s->rank, c->in[0]);
  for (int r = 0; r < mr_comm_size(s->comm); r++)
    memcpy((char *)c->out[0] + (size_t)r * n, all[r], n);
  mr__comm_leave(s->comm);
}

static mr_err_t gather_cpu(mr_cpu_call_t *c, mr_diag_t *diag) {
  MR_TRY(mr__axis_lower(c, gather_run, diag));
  const mr_axis_state_t *s = c->state;
  int64_t size = mr_attr_get(c->eqn, "axis_size")->i[0];
  if (size == mr_comm_size(s->comm)) return MR_OK;
  return mr_fail(diag, MR_ERR_SHAPE, "all_gather: axis \"%s\" has %d devices, not %lld",
                 mr_attr_get(c->eqn, "axis_name")->text, mr_comm_size(s->comm), (long long)size);
}

/* x + sum of sin over what is gathered, weighted by its place */
static bool gather_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  if (k > 0) return false;
  mr_fn_t *b = mr_fn_create();
  mr_var_t *x = mr_fn_input(b, mr_aval_of(MR_F32, 2));
  mr_var_t *all = mr_lax_sin(b, mr_lax_all_gather(b, x, "i", 3));
  mr_var_t *place = mr_lax_iota(b, MR_F32, 2, (int64_t[]){3, 2}, 0);
  all = mr_lax_reduce_sum(b, mr_lax_mul(b, all, place), 1, (int[]){0});
  return mr__axis_sample(s, b, mr_lax_mul(b, x, all));
}

const mr_op_def_t mr_op_all_gather = {
    MR_RULES_PRIMITIVE,      .name = "all_gather", .n_in = 1,         .n_out = 1,
    .shape = gather_shape,   .jvp = mr_jvp_linear, .vjp = gather_vjp, .batch = gather_batch,
    .sample = gather_sample, .amp = MR_AMP_FOLLOW, .moves = true,     .cpu = gather_cpu,
    .collective = true,
};
