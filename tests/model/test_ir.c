/* The graph itself: building, failing, printing as jax prints. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/model/jaxprs.h"

static void check_text(mr_fn_t *f, mr_var_t *out, const char *title) {
  if (mr_fn_return(f, 1, &out) < 0) fail_msg("%s", f->diag.text);
  assert_jaxpr(f, title);
  mr_fn_destroy(f);
}

static void a_product_prints_as_in_jax(void **state) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 3, 4));
  mr_var_t *y = mr_fn_input(f, mr_aval_of(MR_F32, 4, 1));
  mr_var_t *one = mr_literal(f, MR_F32, 1);
  x = mr_lax_add(f, x, one);
  y = mr_lax_add(f, y, one);
  check_text(f, mr_lax_dot(f, x, y), "dot(x+1, y+1), x f32[3,4], y f32[4,1]");
}

static void a_polynomial_prints_as_in_jax(void **state) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, mr_aval_scalar(MR_F32));
  mr_var_t *square = mr_lax_scale(f, 3, mr_lax_integer_pow(f, x, 2));
  mr_var_t *sum = mr_lax_add(f, square, mr_lax_scale(f, 2, x));
  check_text(f, mr_lax_add(f, sum, mr_literal(f, MR_F32, 5)), "3*x**2 + 2*x + 5, x f32");
}

static void gelu_prints_as_in_jax(void **state) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 3)), *one = mr_literal(f, MR_F32, 1);
  mr_var_t *cube = mr_lax_scale(f, 0.044715, mr_lax_integer_pow(f, x, 3));
  mr_var_t *t = mr_lax_scale(f, 0.7978845608028654, mr_lax_add(f, x, cube));
  t = mr_lax_scale(f, 0.5, mr_lax_add(f, one, mr_lax_tanh(f, t)));
  check_text(f, mr_lax_mul(f, x, t), "gelu(tanh)");
}

static void a_mapped_product_prints_its_transpose(void **state) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *w = mr_fn_input(f, mr_aval_of(MR_F32, 4, 5));
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 3, 5));
  mr_dot_dims_t d = {.n_contract = 1, .lhs_contract = {1}, .rhs_contract = {1}};
  mr_var_t *y = mr_lax_dot_general(f, w, x, &d, MR_F32);
  y = mr_lax_transpose(f, y, (int[]){1, 0});
  assert_int_equal(mr_fn_return(f, 1, &y), MR_OK);
  char *got = mr_fn_text(f), want[4096];
  golden_text("vmap(x -> W x), X f32[3,5], W closed over", want, sizeof want);
  char *body = strstr(want, "let"); /* jax lists closed-over values before the semicolon */
  assert_string_equal(strstr(got, "let"), body);
  free(got);
  mr_fn_destroy(f);
}

static void bf16_conversions_print_as_in_jax(void **state) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 3, 4));
  mr_var_t *w = mr_fn_input(f, mr_aval_of(MR_F32, 4, 1));
  x = mr_lax_convert(f, x, MR_BF16);
  w = mr_lax_convert(f, w, MR_BF16);
  check_text(f, mr_lax_dot(f, x, w), "x.astype(bf16) @ w.astype(bf16)");
}

static void unused_values_print_as_an_underscore_and_dce_removes_them(void **state) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 2)), *y = mr_lax_neg(f, x);
  mr_lax_exp(f, y);
  assert_int_equal(mr_fn_return(f, 1, &y), MR_OK);
  char *text = mr_fn_text(f);
  assert_non_null(strstr(text, "_:f32[2] = exp b"));
  free(text);
  mr_dce(f);
  assert_int_equal(f->n_eqn, 1);
  mr_fn_destroy(f);
}

static void a_shape_error_names_op_shapes_and_scope(void **state) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 3, 4));
  mr_var_t *y = mr_fn_input(f, mr_aval_of(MR_F32, 3, 5));
  const char *outer = mr_scope_enter(f, "block");
  assert_null(mr_lax_add(f, x, y));
  mr_scope_leave(f, outer);
  assert_int_equal(f->diag.code, MR_ERR_SHAPE);
  assert_string_equal(f->diag.text, "block: add f32[3,4] f32[3,5]: want one shape, or one scalar");
  assert_null(mr_lax_neg(f, x)); /* nothing is built on after a failure */
  mr_var_t *none = NULL;
  assert_int_equal(mr_fn_return(f, 1, &none), MR_ERR_SHAPE);
  mr_fn_destroy(f);
}

static void every_shape_rule_refuses_what_does_not_fit(void **state) {
  for (int i = 0; i < 9; i++) {
    mr_fn_t *f = mr_fn_create();
    mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 3, 4)), *got = x;
    mr_var_t *two[] = {x, mr_fn_input(f, mr_aval_of(MR_F32, 2, 5))};
    mr_var_t *h = mr_fn_input(f, mr_aval_of(MR_BF16, 3, 4));
    if (i == 0) got = mr_lax_reshape_to(f, x, 5, 2);
    if (i == 1) got = mr_lax_transpose(f, x, (int[]){0, 0});
    if (i == 2) got = mr_lax_slice(f, x, (int64_t[]){0, 2}, (int64_t[]){3, 5});
    if (i == 3) got = mr_lax_concatenate(f, 2, two, 0);
    if (i == 4) got = mr_lax_dot(f, x, two[1]);
    if (i == 5) got = mr_lax_linear(f, x, two[1], NULL, false);
    if (i == 6) got = mr_lax_attention(f, x, x, x, 1);
    if (i == 7) got = mr_lax_mul(f, x, h);
    if (i == 8) got = mr_lax_reduce_sum(f, x, 1, (int[]){2});
    assert_null(got);
    assert_int_equal(f->diag.code, MR_ERR_SHAPE);
    mr_fn_destroy(f);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_product_prints_as_in_jax),
      cmocka_unit_test(a_polynomial_prints_as_in_jax),
      cmocka_unit_test(gelu_prints_as_in_jax),
      cmocka_unit_test(a_mapped_product_prints_its_transpose),
      cmocka_unit_test(bf16_conversions_print_as_in_jax),
      cmocka_unit_test(unused_values_print_as_an_underscore_and_dce_removes_them),
      cmocka_unit_test(a_shape_error_names_op_shapes_and_scope),
      cmocka_unit_test(every_shape_rule_refuses_what_does_not_fit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
