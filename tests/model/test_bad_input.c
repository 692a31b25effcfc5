/* What a user may get wrong, one line each: told while tracing, with scope, op, shapes and numbers.
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
  REFUSED("reduce_max f32[2,3]: an axis stands twice (axes=(1, 1))",
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
      "dot_general f32[2,2] f32[2,2]: a dimension number lies outside or stands twice "
      "(dimension_numbers=(([0, 0], [0, 1]), ([], [])))",
      mr_lax_dot_general(f, IN(MR_F32, 2, 2), IN(MR_F32, 2, 2),
                         &(mr_dot_dims_t){.n_contract = 2, .rhs_contract = {0, 1}}, MR_F32));
  REFUSED("dot_general: 9 contracted and 0 batch dimensions, want at most 8 in all",
          mr_lax_dot_general(f, X, X, &(mr_dot_dims_t){.n_contract = 9}, MR_F32));
}

static void rates_outside_their_range(void **state) {
  REFUSED("dropout f32[2,3] u64[] u32[]: want a rate in [0,1) (site=0)",
          mr_lax_dropout(f, X, 1.5f, 0, in(MR_U64, 0, NULL), in(MR_U32, 0, NULL)));
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
}

/* y of inputs that are not read, compiled: what that says. */
static void expect_compiled(mr_var_t *y, const char *want) {
  mr_exec_t *x = NULL;
  mr_diag_t diag = {0};
  assert_int_equal(mr_fn_return(f, 1, &y), MR_OK);
  mr_jit(f, NULL, &x, &diag);
  assert_string_equal(diag.text, want);
  mr_exec_destroy(x);
  mr_fn_destroy(f);
}

static void what_the_cpu_cannot_is_told_with_op_and_scope_when_it_is_compiled(void **state) {
  f = mr_fn_create();
  mr_scope_enter(f, "attn");
  expect_compiled(mr_lax_add(f, IN(MR_F16, 2), IN(MR_F16, 2)),
                  "attn: add: the CPU computes no f16");
  f = mr_fn_create();
  mr_scope_enter(f, "attn");
  expect_compiled(mr_lax_convert(f, IN(MR_F32, 2), MR_F16),
                  "attn: convert_element_type: the CPU computes no f16");
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
  if (mr_jit(f, NULL, &e, &diag) < 0) fail_msg("%s", diag.text);
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
      cmocka_unit_test(rates_outside_their_range),
      cmocka_unit_test(an_input_that_no_function_takes),
      cmocka_unit_test(what_the_cpu_cannot_is_told_with_op_and_scope_when_it_is_compiled),
      cmocka_unit_test(layers_in_f64_are_computed_in_f64),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
