#include <string.h>

#include "model/control/axis.h"
#include "model/control/control.h"
#include "model/ops/add.h"
#include "model/ops/lax.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_psum(mr_fn_t *f, mr_var_t *x, const char *axis_name) {
  mr_attr_t axis = mr_attr_text("axis_name", mr_mem_text(&f->mem, axis_name));
  return mr_emit1(f, &mr_op_psum, 1, &x, 1, &axis);
}

mr_var_t *mr_lax_pmean(mr_fn_t *f, mr_var_t *x, const char *axis_name) {
  if (!x) return NULL;
  if (!mr_is_float(x->aval.dtype)) {
    mr_fail(&f->diag, MR_ERR_SHAPE, "%s%spmean: want floats, not %s", f->scope,
            *f->scope ? ": " : "", mr_dtype_name(x->aval.dtype));
    return NULL;
  }
  mr_var_t *n = mr_lax_psum(f, mr_literal(f, x->aval.dtype, 1), axis_name);
  return mr_lax_div(f, mr_lax_psum(f, x, axis_name), n);
}

/* The transpose of a sum that all examples get is the sum of what they send back. */
static mr_err_t psum_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  din[0] = mr_lax_psum(f, dout[0], mr_attr_get(e, "axis_name")->text);
  return mr_rule_done(f);
}

static mr_err_t psum_batch(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in,
                           mr_batched_t *out) {
  if (!mr_axis_bound(f, e)) return mr_batch_pointwise(f, e, in, out);
  out[0].axis = -1;
  out[0].var = in[0].axis < 0 ? mr_lax_scale(f, (double)f->axis_size, in[0].var)
                              : mr_lax_reduce_sum(f, in[0].var, 1, &in[0].axis);
  return mr_rule_done(f);
}

/* out = out + x, element by element in the dtype's own arithmetic. */
static void add_to(mr_dtype_t t, void *out, const void *x, int64_t n) {
  if (t == MR_F32) {
    float *y = out;
    for (int64_t i = 0; i < n; i++) y[i] += ((const float *)x)[i];
    return;
  }
  for (int64_t i = 0; i < n; i++)
    if (mr_is_float(t))
      mr_cpu_set_f64(t, out, i, mr_cpu_get_f64(t, out, i) + mr_cpu_get_f64(t, x, i));
    else
      mr_cpu_set_i64(t, out, i, mr__add_i2(mr_cpu_get_i64(t, out, i), mr_cpu_get_i64(t, x, i)));
}

/* Each device adds all values for itself, in the order of ranks: the same bits on all. */
static void psum_run(const mr_cpu_call_t *c) {
  const mr_axis_state_t *s = c->state;
  const mr_aval_t *a = &c->eqn->out[0]->aval;
  const void *const *all = mr__comm_meet(s->comm, s->rank, c->in[0]);
  memcpy(c->out[0], all[0], mr_aval_bytes(a));
  for (int r = 1; r < mr_comm_size(s->comm); r++)
    add_to(a->dtype, c->out[0], all[r], mr_aval_elems(a));
  mr__comm_leave(s->comm);
}

static mr_err_t psum_cpu(mr_cpu_call_t *c, mr_diag_t *diag) {
  return mr__axis_lower(c, psum_run, diag);
}

/* x psum(sin(x)) + pmean(x) */
static bool psum_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  if (k > 0) return false;
  mr_fn_t *b = mr_fn_create();
  mr_var_t *x = mr_fn_input(b, mr_aval_of(MR_F32, 2));
  mr_var_t *y = mr_lax_mul(b, x, mr_lax_psum(b, mr_lax_sin(b, x), "i"));
  return mr__axis_sample(s, b, mr_lax_add(b, y, mr_lax_pmean(b, x, "i")));
}

const mr_op_def_t mr_op_psum = {
    MR_RULES_PRIMITIVE,     .name = "psum",       .n_in = 1,       .n_out = 1,
    .shape = mr_shape_same, .jvp = mr_jvp_linear, .vjp = psum_vjp, .batch = psum_batch,
    .sample = psum_sample,  .amp = MR_AMP_FOLLOW, .cpu = psum_cpu, .collective = true,
};
