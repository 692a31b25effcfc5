#include <math.h>

#include "model/ops/lax.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_neg(mr_fn_t *f, mr_var_t *x) { return mr_emit1(f, &mr_op_neg, 1, &x, 0, NULL); }

static float neg_f1(float x) { return -x; }
static double neg_d1(double x) { return -x; }
static int64_t neg_i1(int64_t x) { return (int64_t)(0 - (uint64_t)x); }

static mr_err_t neg_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  din[0] = mr_lax_neg(f, dout[0]);
  return mr_rule_done(f);
}

const mr_op_def_t mr_op_neg = {
    MR_RULES_POINTWISE,
    .name = "neg",
    .n_in = 1,
    .n_out = 1,
    .shape = mr_shape_same,
    .jvp = mr_jvp_symmetric,
    .vjp = neg_vjp,
    .sample = mr_sample_unary,
    .amp = MR_AMP_FOLLOW,
    .at = {.f1 = neg_f1, .d1 = neg_d1, .i1 = neg_i1, .lane = MR_LANE_NEG},
    .inplace = {1},
};
