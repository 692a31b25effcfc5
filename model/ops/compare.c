/* Comparisons of two values, element by element.  The result is bool and constant almost
   everywhere, so derivatives are zero.  Each has its functions for f32, f64 and integers written
   out; integers without sign need their own where the order differs. */
#include "model/ops/lax.h"
#include "model/ops/rules.h"

#define COMPARISON                                                                  \
  MR_RULES_POINTWISE, .n_in = 2, .n_out = 1, .shape = mr_shape_compare,             \
                      .ad = {mr_jvp_zero, mr_vjp_zero}, .sample = mr_sample_binary, \
                      .amp = {MR_AMP_FOLLOW}

mr_var_t *mr_lax_eq(mr_fn_t *f, mr_var_t *a, mr_var_t *b) {
  return mr_emit1(f, &mr_op_eq, 2, (mr_var_t *[]){a, b}, 0, NULL);
}

static float eq_f2(float a, float b) { return a == b; }
static double eq_d2(double a, double b) { return a == b; }
static int64_t eq_i2(int64_t a, int64_t b) { return a == b; }

const mr_op_def_t mr_op_eq = {
    COMPARISON,
    .name = "eq",
    .cpu = {.f2 = eq_f2, .d2 = eq_d2, .i2 = eq_i2, .bools = true},
    .device = {.real = "a == b", .whole = "a == b"},
};

mr_var_t *mr_lax_ne(mr_fn_t *f, mr_var_t *a, mr_var_t *b) {
  return mr_emit1(f, &mr_op_ne, 2, (mr_var_t *[]){a, b}, 0, NULL);
}

static float ne_f2(float a, float b) { return a != b; }
static double ne_d2(double a, double b) { return a != b; }
static int64_t ne_i2(int64_t a, int64_t b) { return a != b; }

const mr_op_def_t mr_op_ne = {
    COMPARISON,
    .name = "ne",
    .cpu = {.f2 = ne_f2, .d2 = ne_d2, .i2 = ne_i2, .bools = true},
    .device = {.real = "a != b", .whole = "a != b"},
};

mr_var_t *mr_lax_lt(mr_fn_t *f, mr_var_t *a, mr_var_t *b) {
  return mr_emit1(f, &mr_op_lt, 2, (mr_var_t *[]){a, b}, 0, NULL);
}

static float lt_f2(float a, float b) { return a < b; }
static double lt_d2(double a, double b) { return a < b; }
static int64_t lt_i2(int64_t a, int64_t b) { return a < b; }
static uint64_t lt_u2(uint64_t a, uint64_t b) { return a < b; }

const mr_op_def_t mr_op_lt = {
    COMPARISON,
    .name = "lt",
    .cpu = {.f2 = lt_f2, .d2 = lt_d2, .i2 = lt_i2, .u2 = lt_u2, .bools = true},
    .device = {.real = "a < b", .whole = "a < b"},
};

mr_var_t *mr_lax_le(mr_fn_t *f, mr_var_t *a, mr_var_t *b) {
  return mr_emit1(f, &mr_op_le, 2, (mr_var_t *[]){a, b}, 0, NULL);
}

static float le_f2(float a, float b) { return a <= b; }
static double le_d2(double a, double b) { return a <= b; }
static int64_t le_i2(int64_t a, int64_t b) { return a <= b; }
static uint64_t le_u2(uint64_t a, uint64_t b) { return a <= b; }

const mr_op_def_t mr_op_le = {
    COMPARISON,
    .name = "le",
    .cpu = {.f2 = le_f2, .d2 = le_d2, .i2 = le_i2, .u2 = le_u2, .bools = true},
    .device = {.real = "a <= b", .whole = "a <= b"},
};

mr_var_t *mr_lax_gt(mr_fn_t *f, mr_var_t *a, mr_var_t *b) {
  return mr_emit1(f, &mr_op_gt, 2, (mr_var_t *[]){a, b}, 0, NULL);
}

static float gt_f2(float a, float b) { return a > b; }
static double gt_d2(double a, double b) { return a > b; }
static int64_t gt_i2(int64_t a, int64_t b) { return a > b; }
static uint64_t gt_u2(uint64_t a, uint64_t b) { return a > b; }

const mr_op_def_t mr_op_gt = {
    COMPARISON,
    .name = "gt",
    .cpu = {.f2 = gt_f2, .d2 = gt_d2, .i2 = gt_i2, .u2 = gt_u2, .bools = true},
    .device = {.real = "a > b", .whole = "a > b"},
};

mr_var_t *mr_lax_ge(mr_fn_t *f, mr_var_t *a, mr_var_t *b) {
  return mr_emit1(f, &mr_op_ge, 2, (mr_var_t *[]){a, b}, 0, NULL);
}

static float ge_f2(float a, float b) { return a >= b; }
static double ge_d2(double a, double b) { return a >= b; }
static int64_t ge_i2(int64_t a, int64_t b) { return a >= b; }
static uint64_t ge_u2(uint64_t a, uint64_t b) { return a >= b; }

const mr_op_def_t mr_op_ge = {
    COMPARISON,
    .name = "ge",
    .cpu = {.f2 = ge_f2, .d2 = ge_d2, .i2 = ge_i2, .u2 = ge_u2, .bools = true},
    .device = {.real = "a >= b", .whole = "a >= b"},
};
