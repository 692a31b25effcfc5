/* What a user may get wrong, one line each: reported while tracing, with scope, op, shapes and
   numbers.
 */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <math.h>
#include <string.h>

#include "model/model.h"

static mr_fn_t *f; /* of the line at work */

static mr_var_t *in(mr_dtype_t t, int n, const int64_t *dim) {
  return mr_fn_input(f, mr_aval(t, n, dim));
}

#define IN(t, ...) in(t, (int)(sizeof((int64_t[]){__VA_ARGS__}) / 8), (int64_t[]){__VA_ARGS__})
#define X IN(MR_F32, 2, 3)
#define SCALAR in(MR_F32, 0, NULL)
#define DIMS(...) \
  (const int64_t[]) { __VA_ARGS__ }
#define AXES(...) \
  (const int[]) { __VA_ARGS__ }

/* call fails with "attn: want". */
#define REFUSED(want, call)                                                   \
  do {                                                                        \
    f = mr_fn_create();                                                       \
    mr_scope_enter(f, "attn");                                                \
    assert_null(call);                                                        \
    assert_int_equal(f->diag.code, MR_ERR_SHAPE);                             \
    if (strncmp(f->diag.text, "attn: ", 6) || strcmp(f->diag.text + 6, want)) \
      fail_msg("told \"%s\", want \"attn: %s\"", f->diag.text, want);         \
    mr_fn_destroy(f);                                                         \
  } while (0)

static void shapes_and_dtypes_that_do_not_go_together(void **state) {
  REFUSED("add f32[2,3] f32[3]: want one shape, or one scalar", mr_lax_add(f, X, IN(MR_F32, 3)));
  REFUSED("mul f32[2,3] bf16[2,3]: want one dtype", mr_lax_mul(f, X, IN(MR_BF16, 2, 3)));
  REFUSED("exp i32[2]: want floats", mr_lax_exp(f, IN(MR_I32, 2)));
  REFUSED("gelu i32[2]: want floats", mr_lax_gelu(f, IN(MR_I32, 2), MR_GELU_TANH));
  REFUSED("linear f32[2,3] f32[4,2]: x's last size is not the kernel's input size",
          mr_lax_linear(f, X, IN(MR_F32, 4, 2), NULL, false));
  REFUSED(
      "dot_general f32[2,3] f32[4,2]: contracted sizes differ "
      "(dimension_numbers=(([1], [0]), ([], [])))",
      mr_lax_dot(f, X, IN(MR_F32, 4, 2)));
  REFUSED("dot_general i32[2] i32[2]: want floats (dimension_numbers=(([0], [0]), ([], [])))",
          mr_lax_dot(f, IN(MR_I32, 2), IN(MR_I32, 2)));
  REFUSED("softmax f32[2,0]: want a last dimension of size >= 1",
          mr_lax_softmax(f, IN(MR_F32, 2, 0)));
  REFUSED("exp: operand 0 has no value", mr_lax_exp(f, NULL));
}

static void axes_and_sizes_that_are_not_there(void **state) {
  REFUSED("reduce_sum f32[2,3]: no such axis (axes=(-1,))", mr_lax_reduce_sum(f, X, 1, AXES(-1)));
  REFUSED("reduce_max f32[2,3]: an axis is repeated (axes=(1, 1))",
          mr_lax_reduce_max(f, X, 2, AXES(1, 1)));
  REFUSED("transpose f32[2,3]: not a permutation (permutation=(0, 5))",
          mr_lax_transpose(f, X, AXES(0, 5)));
  REFUSED("reshape f32[2,3]: the new sizes hold another number of elements (new_sizes=(4, 2))",
          mr_lax_reshape(f, X, 2, DIMS(4, 2)));
  REFUSED("reshape f32[2,3]: a size is negative (new_sizes=(-2, -3))",
          mr_lax_reshape(f, X, 2, DIMS(-2, -3)));
  REFUSED(
      "reshape f32[0]: a value has more bytes than can be counted "
      "(new_sizes=(4294967296, 4294967296))",
      mr_lax_reshape(f, IN(MR_F32, 0), 2, DIMS(1LL << 32, 1LL << 32)));
  REFUSED("broadcast_in_dim f32[]: a size is negative (shape=(-3,))",
          mr_lax_broadcast_in_dim(f, SCALAR, 1, DIMS(-3), NULL));
  REFUSED(
      "broadcast_in_dim f32[]: a value has more than 8 dimensions "
      "(shape=(1, 1, 1, 1, 1, 1, 1, 1, 1))",
      mr_lax_broadcast_in_dim(f, SCALAR, 9, DIMS(1, 1, 1, 1, 1, 1, 1, 1, 1), NULL));
  REFUSED("iota: a size is negative (dimension=1 shape=(-3, -3))", mr_lax_eye(f, MR_F32, -3));
  REFUSED(
      "dot_general f32[2,2] f32[2,2]: a dimension number is out of range or repeated "
      "(dimension_numbers=(([0, 0], [0, 1]), ([], [])))",
      mr_lax_dot_general(f, IN(MR_F32, 2, 2), IN(MR_F32, 2, 2),
                         &(mr_dot_dims_t){.n_contract = 2, .rhs_contract = {0, 1}}, MR_F32));
  REFUSED("dot_general: 9 contracted and 0 batch dimensions, want at most 8 in all",
          mr_lax_dot_general(f, X, X, &(mr_dot_dims_t){.n_contract = 9}, MR_F32));
}

static void counts_that_no_shape_has(void **state) {
  const int axes[30] = {0, 1};
  const int64_t sizes[30] = {1};
  REFUSED("reduce_sum: -1 axes, want at least 0", mr_lax_reduce_sum(f, X, -1, axes));
  REFUSED("reduce_max f32[2,3]: an axis is repeated (axes=(0, 1, 0, 0, 0, 0, 0, 0, 0))",
          mr_lax_reduce_max(f, X, 9, axes));
  for (int k = 0; k < 3; k++) {
    f = mr_fn_create();
    mr_var_t *x = X;
    assert_null(k == 0   ? mr_lax_reduce_sum(f, x, 30, axes)
                : k == 1 ? mr_lax_rev(f, x, 30, axes)
                         : mr_lax_squeeze(f, x, 30, axes));
    mr_fn_destroy(f);
  }
  REFUSED(
      "squeeze f32[1,3]: want different dimensions of size 1 "
      "(dimensions=(0, 0, 0, 0, 0, 0, 0, 0, 0))",
      mr_lax_squeeze(f, IN(MR_F32, 1, 3), 9, AXES(0, 0, 0, 0, 0, 0, 0, 0, 0)));
  REFUSED("reshape: -2 new_sizes, want at least 0", mr_lax_reshape(f, X, -2, sizes));
  REFUSED("iota: -2 shape, want at least 0", mr_lax_iota(f, MR_F32, -2, sizes, 0));
  REFUSED("iota: no such dimension (dimension=7 shape=(1, 0))",
          mr_lax_iota(f, MR_F32, 2, sizes, 7));
  REFUSED("concatenate: -1 operands", mr_lax_concatenate(f, -1, (mr_var_t *[]){X}, 0));
  REFUSED("concatenate: want at least one operand (dimension=0)",
          mr_lax_concatenate(f, 0, NULL, 0));
  REFUSED("random_bits: -3 shape, want at least 0",
          mr_lax_random_bits(f, IN(MR_U32, 2), -3, sizes));
  REFUSED(
      "pad f32[2,3]: a size is too large to be counted "
      "(high=(0, 0) low=(9223372036854775807, 0))",
      mr_lax_pad(f, X, DIMS(INT64_MAX, 0), DIMS(0, 0)));
#define HALF IN(MR_U8, (int64_t)1 << 62)
  REFUSED(
      "concatenate u8[4611686018427387904] u8[4611686018427387904]: a size is too large to be "
      "counted (dimension=0)",
      mr_lax_concatenate(f, 2, (mr_var_t *[]){HALF, HALF}, 0));
  REFUSED("convert_element_type f32[2,3]: there is no such dtype",
          mr_lax_convert(f, X, (mr_dtype_t)77));
}

/* As in jax: bool has no arithmetic, integers no powers below 0, unsigned ones no sign. */
static void dtypes_that_an_op_does_not_take(void **state) {
#define BOOL IN(MR_BOOL, 2)
  REFUSED("add bool[2] bool[2]: want numbers", mr_lax_add(f, BOOL, BOOL));
  REFUSED("sub bool[2] bool[2]: want numbers", mr_lax_sub(f, BOOL, BOOL));
  REFUSED("mul bool[2] bool[2]: want numbers", mr_lax_mul(f, BOOL, BOOL));
  REFUSED("div bool[2] bool[2]: want numbers", mr_lax_div(f, BOOL, BOOL));
  REFUSED("neg bool[2]: want numbers", mr_lax_neg(f, BOOL));
  REFUSED("sign bool[2]: want numbers", mr_lax_sign(f, BOOL));
  REFUSED("integer_pow bool[2]: want numbers (y=2)", mr_lax_integer_pow(f, BOOL, 2));
  REFUSED("integer_pow i32[2]: integers want a power >= 0 (y=-1)",
          mr_lax_integer_pow(f, IN(MR_I32, 2), -1));
  REFUSED("reduce_sum bool[2]: want numbers (axes=(0,))", mr_lax_reduce_sum(f, BOOL, 1, AXES(0)));
  REFUSED("cumsum bool[2]: want numbers (axis=0)", mr_lax_cumsum(f, BOOL, 0, false));
  REFUSED("iota: want numbers (dimension=0 shape=(2,))", mr_lax_iota(f, MR_BOOL, 1, DIMS(2), 0));
  REFUSED("abs u32[2]: want numbers with a sign", mr_lax_abs(f, IN(MR_U32, 2)));
  REFUSED("pmean: want floats, not i32", mr_lax_pmean(f, IN(MR_I32, 2), "i"));
  f = mr_fn_create();
  assert_non_null(mr_lax_max(f, BOOL, BOOL));
  assert_non_null(mr_lax_lt(f, IN(MR_U64, 2), IN(MR_U64, 2)));
  assert_non_null(mr_lax_ge(f, BOOL, BOOL));
  mr_fn_destroy(f);
}

/* 2^31 - 1 and 5 in i32, by sums, running sums and powers. */
static void integers_wrap_as_in_jax(void **state) {
  static _Alignas(64) const int32_t x[] = {INT32_MAX, 5};
  static _Alignas(64) int32_t sum[2], running[2], cube[2], most[2];
  mr_exec_t *e = NULL;
  mr_diag_t diag = {0};
  f = mr_fn_create();
  mr_var_t *given = IN(MR_I32, 2);
  mr_var_t *out[] = {mr_lax_reduce_sum(f, given, 1, AXES(0)), mr_lax_cumsum(f, given, 0, false),
                     mr_lax_integer_pow(f, given, 3), mr_lax_reduce_max(f, given, 1, AXES(0))};
  assert_int_equal(mr_fn_return(f, 4, out), MR_OK);
  if (mr_compile(f, NULL, &e, &diag) < 0) fail_msg("%s", diag.text);
  mr_exec_run(e, (const void *[]){x}, (void *[]){sum, running, cube, most});
  assert_int_equal(sum[0], INT32_MIN + 4);
  assert_int_equal(running[1], INT32_MIN + 4);
  assert_true(cube[0] == INT32_MAX && cube[1] == 125 && most[0] == INT32_MAX);
  mr_exec_destroy(e);
  mr_fn_destroy(f);
}

static void rates_outside_their_range(void **state) {
  REFUSED("dropout f32[2,3] u64[] u32[]: want a rate in [0,1) (site=0)",
          mr_lax_dropout(f, X, 1.5f, 0, in(MR_U64, 0, NULL), in(MR_U32, 0, NULL)));
  const mr_dropout_part_t far = {.rows = INT64_C(1) << 41, .row = INT64_C(3) << 22, .run = 3};
  REFUSED(
      "dropout_part f32[2,3] u64[] u32[] i32[2]: want rows of at most 2^62 elements together "
      "(first=0 row=12582912 rows=2199023255552 run=3 site=0)",
      mr_lax_dropout_part(f, X, &far, in(MR_U64, 0, NULL), in(MR_U32, 0, NULL), IN(MR_I32, 2)));
  REFUSED("softmax_cross_entropy f32[2,3] i32[2]: want smoothing in [0,1)",
          mr_lax_softmax_cross_entropy(f, X, IN(MR_I32, 2), 2));
  REFUSED("random_truncated_normal u32[2]: want lower < upper (shape=(3,))",
          mr_lax_random_truncated_normal(f, IN(MR_U32, 2), 2, -2, 1, DIMS(3)));
  REFUSED("random_permutation u32[2]: want one size of at most 2147483647 (shape=(2147483648,))",
          mr_lax_random_permutation(f, IN(MR_U32, 2), 1LL << 31));
}

static void an_input_that_no_function_takes(void **state) {
  f = mr_fn_create();
  assert_null(IN(MR_F32, 2, -2));
  assert_string_equal(f->diag.text, "input 0, f32[2,-2]: a size is negative");
  mr_fn_destroy(f);
  f = mr_fn_create();
  assert_null(IN(MR_F32, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1));
  assert_string_equal(f->diag.text, "input 0, f32[]: a value has more than 8 dimensions");
  mr_fn_destroy(f);
  f = mr_fn_create();
  assert_null(in(MR_F32, -4, NULL));
  assert_string_equal(f->diag.text, "input 0, f32[]: a value has a negative number of dimensions");
  mr_fn_destroy(f);
  f = mr_fn_create();
  assert_null(IN((mr_dtype_t)-1, 2));
  assert_string_equal(f->diag.text, "input 0, no dtype[2]: there is no such dtype");
  mr_fn_destroy(f);
}

/* y of inputs that are not read, compiled: what that says. */
static void expect_compiled(mr_var_t *y, const char *want) {
  mr_exec_t *x = NULL;
  mr_diag_t diag = {0};
  assert_int_equal(mr_fn_return(f, 1, &y), MR_OK);
  mr_compile(f, NULL, &x, &diag);
  assert_string_equal(diag.text, want);
  mr_exec_destroy(x);
  mr_fn_destroy(f);
}

static void compiling_an_op_that_the_cpu_lacks_names_op_and_scope(void **state) {
  f = mr_fn_create();
  mr_scope_enter(f, "attn");
  mr_var_t *q = IN(MR_BF16, 2, 2);
  mr_dot_dims_t d = {.n_contract = 1};
  expect_compiled(mr_lax_dot_general(f, q, q, &d, MR_F64),
                  "attn: dot_general: matmul: no product of bf16 by bf16 into f64 for sizes 1 x "
                  "(2,2) (2,2)");
}

/* Composites whose kernels know f32 and bf16 are computed as primitives. */
static void layers_in_f64_are_computed_in_f64(void **state) {
  static _Alignas(64) const double x[] = {1, 2, 4, 8, 16, 33};
  static _Alignas(64) const double w[] = {1, 2, 3, 5, 7, 1.0 / 3};
  static _Alignas(64) double got[4][12];
  mr_exec_t *e = NULL;
  mr_diag_t diag = {0};
  f = mr_fn_create();
  mr_var_t *given[] = {IN(MR_F64, 2, 3), IN(MR_F64, 3, 2)}, *one = mr_literal(f, MR_F32, 1);
  mr_var_t *row = mr_lax_full(f, &(mr_aval_t){.dtype = MR_F32, .ndim = 1, .dim = {3}}, 1);
  mr_var_t *narrow = mr_lax_broadcast_in_dim(f, one, 2, given[0]->aval.dim, NULL);
  mr_var_t *q = mr_lax_reshape_to(f, given[0], 1, 2, 1, 3);
  mr_var_t *out[] = {mr_lax_softmax(f, given[0]), mr_lax_linear(f, given[0], given[1], NULL, false),
                     mr_lax_attention(f, q, q, q, 1),
                     mr_lax_layer_norm(f, narrow, row, row, 1, true, MR_F64)};
  assert_int_equal(mr_fn_return(f, 4, out), MR_OK);
  if (mr_compile(f, NULL, &e, &diag) < 0) fail_msg("%s", diag.text);
  mr_exec_run(e, (const void *[]){x, w}, (void *[]){got[0], got[1], got[2], got[3]});
  for (int i = 0; i < 6; i++) {
    double sum = 0, product = 0;
    for (int k = 0; k < 3; k++) sum += exp(x[i / 3 * 3 + k] - x[i]);
    assert_true(fabs(got[0][i] * sum - 1) < 1e-14);
    for (int k = 0; i < 4 && k < 3; k++) product += x[i / 2 * 3 + k] * w[2 * k + i % 2];
    if (i < 4) assert_true(fabs(got[1][i] - product) < 1e-13 * product);
  }
  /* Each token looks at the larger one alone: e^-151 vanishes beside 1. */
  for (int i = 0; i < 6; i++) assert_true(fabs(got[2][i] - x[3 + i % 3]) < 1e-13 * x[3 + i % 3]);
  for (int i = 0; i < 6; i++) assert_true(got[3][i] == 1);
  mr_exec_destroy(e);
  mr_fn_destroy(f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(shapes_and_dtypes_that_do_not_go_together),
      cmocka_unit_test(axes_and_sizes_that_are_not_there),
      cmocka_unit_test(counts_that_no_shape_has),
      cmocka_unit_test(dtypes_that_an_op_does_not_take),
      cmocka_unit_test(integers_wrap_as_in_jax),
      cmocka_unit_test(rates_outside_their_range),
      cmocka_unit_test(an_input_that_no_function_takes),
      cmocka_unit_test(compiling_an_op_that_the_cpu_lacks_names_op_and_scope),
      cmocka_unit_test(layers_in_f64_are_computed_in_f64),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
