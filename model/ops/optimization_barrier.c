/* The same value under a name that no pass takes for the old one: what is computed from it is
   computed again. */
#include "model/ops/lax.h"
#include "model/ops/rules.h"

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
    .jvp = mr_jvp_linear,
    .vjp = barrier_vjp,
    .batch = mr_batch_pointwise,
    .sample = mr_sample_unary,
    .amp = MR_AMP_FOLLOW,
    .moves = true,
    .cpu = mr_cpu_alias,
};
