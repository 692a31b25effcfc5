#include <math.h>

#include "model/ops/lax.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_lt(mr_fn_t *f, mr_var_t *a, mr_var_t *b) {
  return mr_emit1(f, &mr_op_lt, 2, (mr_var_t *[]){a, b}, 0, NULL);
}

static float lt_f2(float a, float b) { return a < b; }
static double lt_d2(double a, double b) { return a < b; }
static int64_t lt_i2(int64_t a, int64_t b) { return a < b; }
static uint64_t lt_u2(uint64_t a, uint64_t b) { return a < b; }

const mr_op_def_t mr_op_lt = {
    MR_RULES_POINTWISE,
    .name = "lt",
    .n_in = 2,
    .n_out = 1,
    .shape = mr_shape_compare,
    .jvp = mr_jvp_zero,
    .vjp = mr_vjp_zero,
    .sample = mr_sample_binary,
    .amp = MR_AMP_FOLLOW,
    .at = {.f2 = lt_f2, .d2 = lt_d2, .i2 = lt_i2, .u2 = lt_u2, .lane = MR_LANE_LT, .bools = true},
    .inplace = {0},
};
