/* Products that share an operand become one, where it pays: the same values. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include "model/optim/optim.h"
#include "model/transforms/passes.h"
#include "tests/model/grid.h"

enum { B = 2, T = 9, E = 8, H = 2, ROWS = 600, TERMS = 256 };

static mr_var_t *input(mr_fn_t *f, int64_t a, int64_t b) {
  return mr_fn_input(f, b ? mr_aval_of(MR_F32, a, b) : mr_aval_of(MR_F32, a));
}

typedef struct kind {
  bool transposed, bias, narrow;
  mr_precision_t second; /* of k's product */
} kind_t;

static mr_var_t *projected(mr_fn_t *f, mr_var_t *x, const kind_t *k) {
  mr_var_t *w = input(f, E, E), *b = k->bias ? input(f, E, 0) : NULL;
  if (k->narrow) {
    x = mr_lax_convert(f, x, MR_BF16), w = mr_lax_convert(f, w, MR_BF16);
    if (b) b = mr_lax_convert(f, b, MR_BF16);
  }
  mr_var_t *y = mr_lax_linear(f, x, w, b, k->transposed);
  return mr_lax_reshape_to(f, y, B, T, H, E / H);
}

/* sum(attention(x q, x k, x v)^2), in an order in which v is the first. */
static mr_fn_t *self_attention(const kind_t *k) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, B, T, E));
  mr_var_t *v = projected(f, x, k), *q = projected(f, x, k);
  mr_precision_t outer = mr_precision_enter(f, k->second);
  mr_var_t *kk = projected(f, x, k);
  mr_precision_leave(f, outer);
  mr_var_t *o = mr_lax_convert(f, mr_lax_attention(f, q, kk, v, 0.5f), MR_F32);
  mr_var_t *y = mr_lax_reduce_sum(f, mr_lax_mul(f, o, o), 4, (int[]){0, 1, 2, 3});
  if (mr_fn_return(f, 1, &y) < 0) fail_msg("%s", f->diag.text);
  return f;
}

static mr_fn_t *merged(const mr_fn_t *f) {
  mr_fn_t *g = mr_fn_copy(f, NULL);
  mr_diag_t diag = {0};
  if (mr_merge_before_grad(g, &diag) < 0) fail_msg("%s", diag.text);
  return g;
}

static void same_values(const mr_fn_t *f, const mr_fn_t *g, double tolerance) {
  double *in[GRID_MAX], *a[GRID_MAX], *b[GRID_MAX];
  for (int i = 0; i < f->n_in; i++) {
    in[i] = doubles(elems(f->in[i]));
    for (int64_t k = 0; k < elems(f->in[i]); k++) in[i][k] = random_in(-1, 1);
  }
  run_as_it_is(f, in, a);
  run_as_it_is(g, in, b);
  assert_near("merged", f, a, b, tolerance);
  free_all(f->n_in, in), free_all(f->n_out, a), free_all(f->n_out, b);
}

static void q_k_and_v_of_one_attention_are_one_product_that_it_reads_in_place(void **state) {
  for (int i = 0; i < 8; i++) {
    kind_t k = {.transposed = i & 1, .bias = i & 2, .narrow = i & 4};
    mr_fn_t *f = self_attention(&k), *g = merged(f);
    assert_int_equal(count(f, "linear"), 3);
    assert_int_equal(count(g, "linear"), 1);
    assert_int_equal(count(g, "slice"), 0);
    assert_int_equal(count(g, "concatenate"), 1 + k.bias);
    same_values(f, g, k.narrow ? 2e-2 : 1e-5);
    mr_fn_destroy(f), mr_fn_destroy(g);
  }
}

/* f's gradient with nothing moved or merged before. */
static mr_fn_t *gradient_apart(const mr_fn_t *f) {
  setenv("MILLRACE_SKIP_PASSES", "sink,merge-products", 1);
  mr_fn_t *g = gradient(f);
  unsetenv("MILLRACE_SKIP_PASSES");
  return g;
}

/* mr_value_and_grad and mr_vjp do it themselves.  Nine products apart (three forward, six
   backward), three merged; the gradient of a bf16 product with weights of f32 is cut in f32: every
   conversion has gone into a product or comes before one. */
static void before_the_gradient_it_merges_the_backward_products_too(void **state) {
  for (int i = 0; i < 4; i++) {
    kind_t k = {.transposed = i & 1, .bias = true, .narrow = i & 2};
    mr_fn_t *f = self_attention(&k), *v = NULL;
    mr_fn_t *a = gradient_apart(f), *b = gradient(f);
    mr_diag_t diag = {0};
    if (mr_vjp(f, 1, (int[]){0}, &v, &diag) < 0) fail_msg("%s", diag.text);
    assert_int_equal(count(a, "linear") + count(a, "dot_general"), 9);
    assert_int_equal(count(b, "linear") + count(b, "dot_general"), 3);
    assert_int_equal(count(v, "linear") + count(v, "dot_general"), 2); /* of x alone */
    for (int o = 0; o < b->n_eqn; o++)
      if (b->eqn[o]->op == &mr_op_slice) assert_int_equal(b->eqn[o]->out[0]->aval.dtype, MR_F32);
    same_values(a, b, k.narrow ? 5e-2 : 1e-4);
    mr_fn_destroy(f), mr_fn_destroy(v), mr_fn_destroy(a), mr_fn_destroy(b);
  }
}

static void products_of_another_precision_stay_apart(void **state) {
  mr_fn_t *f = self_attention(&(kind_t){.second = MR_PRECISION_HIGH}), *g = merged(f);
  assert_int_equal(count(g, "linear"), 3);
  assert_int_equal(count(g, "concatenate"), 0);
  mr_fn_destroy(f), mr_fn_destroy(g);
}

/* Two or three products of few columns, the third of them by a matrix that the first product has
   made: it cannot be beside it. */
static mr_fn_t *heads(int64_t rows, int64_t columns, bool chained) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = input(f, rows, TERMS), *y[3];
  y[0] = mr_lax_dot(f, x, input(f, TERMS, columns));
  y[1] = mr_lax_dot(f, x, mr_lax_sin(f, input(f, TERMS, columns)));
  mr_var_t *w = mr_lax_slice(f, y[0], (int64_t[]){0, 0}, (int64_t[]){TERMS, columns});
  y[2] = mr_lax_dot(f, x, chained ? w : input(f, TERMS, 2));
  if (mr_fn_return(f, 3, y) < 0) fail_msg("%s", f->diag.text);
  return f;
}

static void few_columns_of_many_rows_are_merged_and_cut(void **state) {
  mr_fn_t *f = heads(ROWS, 3, false), *g = merged(f);
  assert_int_equal(count(g, "dot_general"), 1);
  assert_int_equal(count(g, "slice"), 3);
  same_values(f, g, 1e-5);
  mr_fn_destroy(f), mr_fn_destroy(g);
}

static void products_that_depend_on_each_other_stay_apart(void **state) {
  mr_fn_t *f = heads(ROWS, 3, true), *g = merged(f);
  assert_int_equal(count(g, "dot_general"), 2);
  same_values(f, g, 1e-5);
  mr_fn_destroy(f), mr_fn_destroy(g);
}

static void where_slices_cost_more_than_they_save_nothing_changes(void **state) {
  const int64_t size[][2] = {{ROWS, 64}, {300, 3}};
  for (int i = 0; i < 2; i++) {
    mr_fn_t *f = heads(size[i][0], size[i][1], false), *g = merged(f);
    assert_int_equal(count(g, "dot_general"), 3);
    assert_int_equal(count(g, "concatenate"), 0);
    mr_fn_destroy(f), mr_fn_destroy(g);
  }
}

static void the_compiler_merges_unless_the_pass_is_skipped(void **state) {
  mr_fn_t *f = heads(ROWS, 3, false);
  const char *skip[] = {"", "merge-products"};
  const int want[] = {1, 3};
  for (int i = 0; i < 2; i++) {
    mr_exec_t *x = NULL;
    mr_diag_t diag = {0};
    if (mr_compile(f, &(mr_compile_options_t){.skip = skip[i]}, &x, &diag) < 0)
      fail_msg("%s", diag.text);
    assert_int_equal(count(mr_exec_fn(x), "dot_general"), want[i]);
    mr_exec_destroy(x);
  }
  mr_fn_destroy(f);
}

static void an_attention_that_is_not_differentiated_stays_as_it_is(void **state) {
  mr_fn_t *f = self_attention(&(kind_t){.bias = true}), *g = mr_fn_copy(f, NULL);
  assert_int_equal(mr_merge_products(g, NULL), MR_OK);
  assert_int_equal(count(g, "linear"), 3);
  mr_fn_destroy(f), mr_fn_destroy(g);
}

/* The loss of a step is merged before it is differentiated. */
static void a_training_step_multiplies_q_k_and_v_at_once(void **state) {
  mr_fn_t *f = self_attention(&(kind_t){.bias = true}), *g[2];
  const mr_fn_t *part[] = {f};
  mr_optim_t o = mr_optim_of("sgd");
  mr_optim_loss_t loss = {.n_data = 1, .parts = 1, .part = part, .split = (bool[]){false}};
  for (int i = 0; i < 2; i++) {
    mr_diag_t diag = {0};
    setenv("MILLRACE_SKIP_PASSES", i ? "merge-products" : "", 1);
    if (mr_optim_step_fn(&loss, &o, &g[i], &diag) < 0) fail_msg("%s", diag.text);
  }
  unsetenv("MILLRACE_SKIP_PASSES");
  assert_int_equal(count(g[0], "linear") + count(g[0], "dot_general"), 2); /* x needs none */
  assert_int_equal(count(g[1], "linear") + count(g[1], "dot_general"), 6);
  same_values(g[0], g[1], 1e-4);
  mr_fn_destroy(f), mr_fn_destroy(g[0]), mr_fn_destroy(g[1]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(q_k_and_v_of_one_attention_are_one_product_that_it_reads_in_place),
      cmocka_unit_test(before_the_gradient_it_merges_the_backward_products_too),
      cmocka_unit_test(products_of_another_precision_stay_apart),
      cmocka_unit_test(few_columns_of_many_rows_are_merged_and_cut),
      cmocka_unit_test(products_that_depend_on_each_other_stay_apart),
      cmocka_unit_test(where_slices_cost_more_than_they_save_nothing_changes),
      cmocka_unit_test(the_compiler_merges_unless_the_pass_is_skipped),
      cmocka_unit_test(an_attention_that_is_not_differentiated_stays_as_it_is),
      cmocka_unit_test(a_training_step_multiplies_q_k_and_v_at_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
