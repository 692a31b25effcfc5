#include <math.h>

#include "model/ops/lax.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_sign(mr_fn_t *f, mr_var_t *x) { return mr_emit1(f, &mr_op_sign, 1, &x, 0, NULL); }

/* -1, 0 or 1; a NaN and a zero stay what they are. */
static float sign_f1(float x) { return x > 0 ? 1.0f : x < 0 ? -1.0f : x; }
static double sign_d1(double x) { return x > 0 ? 1.0 : x < 0 ? -1.0 : x; }
static int64_t sign_i1(int64_t x) { return (x > 0) - (x < 0); }
static uint64_t sign_u1(uint64_t x) { return x > 0; }

const mr_op_def_t mr_op_sign = {
    MR_RULES_POINTWISE,
    .name = "sign",
    .n_in = 1,
    .n_out = 1,
    .shape = mr_shape_same,
    .jvp = mr_jvp_zero,
    .vjp = mr_vjp_zero,
    .sample = mr_sample_unary_positive,
    .amp = MR_AMP_FOLLOW,
    .at = {.f1 = sign_f1, .d1 = sign_d1, .i1 = sign_i1, .u1 = sign_u1, .lane = MR_LANE_SIGN},
    .inplace = {1},
};
