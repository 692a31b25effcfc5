#include <math.h>

#include "model/ops/lax.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_ge(mr_fn_t *f, mr_var_t *a, mr_var_t *b) {
  return mr_emit1(f, &mr_op_ge, 2, (mr_var_t *[]){a, b}, 0, NULL);
}

static float ge_f2(float a, float b) { return a >= b; }
static double ge_d2(double a, double b) { return a >= b; }
static int64_t ge_i2(int64_t a, int64_t b) { return a >= b; }
static uint64_t ge_u2(uint64_t a, uint64_t b) { return a >= b; }

const mr_op_def_t mr_op_ge = {
    MR_RULES_POINTWISE,
    .name = "ge",
    .n_in = 2,
    .n_out = 1,
    .shape = mr_shape_compare,
    .jvp = mr_jvp_zero,
    .vjp = mr_vjp_zero,
    .sample = mr_sample_binary,
    .amp = MR_AMP_FOLLOW,
    .at = {.f2 = ge_f2, .d2 = ge_d2, .i2 = ge_i2, .u2 = ge_u2, .lane = MR_LANE_GE, .bools = true},
    .inplace = {0},
};
