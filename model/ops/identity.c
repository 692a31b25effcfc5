/* Ops that return their operand unchanged and only affect transforms or passes: stop_gradient has
   no derivative, optimization_barrier hides from cse that two values are equal.  Neither moves a
   byte; the result is an alias. */
#include "model/ops/lax.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_stop_gradient(mr_fn_t *f, mr_var_t *x) {
  return mr_emit1(f, &mr_op_stop_gradient, 1, &x, 0, NULL);
}

static bool stop_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  if (k > 0) return false;
  mr_var_t *x = mr_sample_f32(s, 0.6, 1.9, 2,
                              3); /* sign(x) is constant, so that numerical differences agree */
  return mr_sample_done(s, mr_lax_stop_gradient(s->f, mr_lax_sign(s->f, x)));
}

const mr_op_def_t mr_op_stop_gradient = {
    MR_RULES_PRIMITIVE,
    .name = "stop_gradient",
    .n_in = 1,
    .n_out = 1,
    .shape = mr_shape_same,
    .batch = mr_batch_pointwise,
    .sample = stop_sample,
    .kind = MR_OP_ALIAS,
    .ad = {.jvp = mr_jvp_zero, .vjp = mr_vjp_zero},
    .fuse = {.unit = mr_unit_same},
    .amp = {MR_AMP_FOLLOW},
    .cost = {.moves = true},
    .shard = {mr_shard_each},
};

/* ---- optimization_barrier: the same value in a var that passes take for another one, so that what
   is computed from it is computed again ---- */
mr_var_t *mr_lax_optimization_barrier(mr_fn_t *f, mr_var_t *x) {
  return mr_emit1(f, &mr_op_optimization_barrier, 1, &x, 0, NULL);
}

static mr_err_t barrier_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  din[0] = dout[0];
  return MR_OK;
}

const mr_op_def_t mr_op_optimization_barrier = {
    MR_RULES_PRIMITIVE,
    .name = "optimization_barrier",
    .n_in = 1,
    .n_out = 1,
    .shape = mr_shape_same,
    .batch = mr_batch_pointwise,
    .sample = mr_sample_unary,
    .kind = MR_OP_ALIAS,
    .ad = {.jvp = mr_jvp_linear, .vjp = barrier_vjp},
    .amp = {MR_AMP_FOLLOW},
    .cost = {.moves = true},
    .shard = {mr_shard_each},
    .fuse = {.apart = true},
};
