#include <math.h>

#include "model/ops/lax.h"
#include "model/ops/rules.h"
#include "model/ops/tie.h"

mr_var_t *mr_lax_max(mr_fn_t *f, mr_var_t *a, mr_var_t *b) {
  return mr_emit1(f, &mr_op_max, 2, (mr_var_t *[]){a, b}, 0, NULL);
}

static float max_f2(float a, float b) { return a > b || isnan(a) ? a : b; }
static double max_d2(double a, double b) { return a > b || isnan(a) ? a : b; }
static int64_t max_i2(int64_t a, int64_t b) { return a > b ? a : b; }
static uint64_t max_u2(uint64_t a, uint64_t b) { return a > b ? a : b; }

const mr_op_def_t mr_op_max = {
    MR_RULES_POINTWISE,
    .name = "max",
    .n_in = 2,
    .n_out = 1,
    .shape = mr_shape_pointwise,
    .jvp = mr__tie_jvp,
    .vjp = mr__tie_vjp,
    .sample = mr_sample_binary,
    .amp = MR_AMP_FOLLOW,
    .at = {.f2 = max_f2,
           .d2 = max_d2,
           .i2 = max_i2,
           .u2 = max_u2,
           .lane = MR_LANE_MAX,
           .bools = true},
    .inplace = {3},
};
