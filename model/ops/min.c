#include <math.h>

#include "model/ops/lax.h"
#include "model/ops/rules.h"
#include "model/ops/tie.h"

mr_var_t *mr_lax_min(mr_fn_t *f, mr_var_t *a, mr_var_t *b) {
  return mr_emit1(f, &mr_op_min, 2, (mr_var_t *[]){a, b}, 0, NULL);
}

static float min_f2(float a, float b) { return a < b || isnan(a) ? a : b; }
static double min_d2(double a, double b) { return a < b || isnan(a) ? a : b; }
static int64_t min_i2(int64_t a, int64_t b) { return a < b ? a : b; }
static uint64_t min_u2(uint64_t a, uint64_t b) { return a < b ? a : b; }

const mr_op_def_t mr_op_min = {
    MR_RULES_POINTWISE,
    .name = "min",
    .n_in = 2,
    .n_out = 1,
    .shape = mr_shape_pointwise,
    .jvp = mr__tie_jvp,
    .vjp = mr__tie_vjp,
    .sample = mr_sample_binary,
    .amp = MR_AMP_FOLLOW,
    .at = {.f2 = min_f2,
           .d2 = min_d2,
           .i2 = min_i2,
           .u2 = min_u2,
           .lane = MR_LANE_MIN,
           .bools = true},
    .inplace = {3},
};
