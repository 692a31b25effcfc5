#include "model/control/axis.h"
#include "model/control/control.h"
#include "model/ops/lax.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_axis_index(mr_fn_t *f, const char *axis_name) {
  mr_attr_t axis = mr_attr_text("axis_name", mr_mem_text(&f->mem, axis_name));
  return mr_emit1(f, &mr_op_axis_index, 0, NULL, 1, &axis);
}

static mr_err_t index_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  out[0] = mr_aval_scalar(MR_I32);
  return MR_OK;
}

static mr_err_t index_batch(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in,
                            mr_batched_t *out) {
  out[0] = (mr_batched_t){mr_lax_iota(f, MR_I32, 1, &f->axis_size, 0), 0};
  return mr_rule_done(f);
}

/* x * index */
static bool index_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  if (k > 0) return false;
  mr_fn_t *b = mr_fn_create();
  mr_var_t *x = mr_fn_input(b, mr_aval_of(MR_F32, 2));
  mr_var_t *i = mr_lax_convert(b, mr_lax_axis_index(b, "i"), MR_F32);
  return mr__axis_sample(s, b, mr_lax_mul(b, x, i));
}

static void index_run(const mr_cpu_call_t *c) {
  *(int32_t *)c->out[0] = ((const mr_axis_state_t *)c->state)->rank;
}

static mr_err_t index_cpu(mr_cpu_call_t *c, mr_diag_t *diag) {
  return mr__axis_lower(c, index_run, diag);
}

const mr_op_def_t mr_op_axis_index = {
    MR_RULES_PRIMITIVE,     .name = "axis_index", .n_in = 0,          .n_out = 1,
    .shape = index_shape,   .jvp = mr_jvp_zero,   .vjp = mr_vjp_zero, .batch = index_batch,
    .sample = index_sample, .amp = MR_AMP_FOLLOW, .cpu = index_cpu,   .collective = true,
};
