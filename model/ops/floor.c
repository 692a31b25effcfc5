#include <math.h>

#include "model/ops/lax.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_floor(mr_fn_t *f, mr_var_t *x) {
  return mr_emit1(f, &mr_op_floor, 1, &x, 0, NULL);
}

const mr_op_def_t mr_op_floor = {
    MR_RULES_POINTWISE,
    .name = "floor",
    .n_in = 1,
    .n_out = 1,
    .shape = mr_shape_same,
    .jvp = mr_jvp_zero,
    .vjp = mr_vjp_zero,
    .sample = mr_sample_unary_positive,
    .amp = MR_AMP_FOLLOW,
    .at = {.f1 = floorf, .d1 = floor, .lane = MR_LANE_FLOOR},
    .inplace = {1},
};
