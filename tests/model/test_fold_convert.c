/* Conversions of bf16 and f16 that go into the ops beside them: the same values but for one
   rounding less. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include "model/parse/parse.h"
#include "tests/model/grid.h"

enum { M = 6, K = 40, N = 5 };

static mr_dtype_t narrow; /* the one that a test is about */

/* Conversions that f has once it is compiled. */
static int converts(const mr_fn_t *f, const char *skip) {
  mr_exec_t *x = NULL;
  mr_diag_t diag = {0};
  if (mr_compile(f, &(mr_compile_options_t){.skip = skip}, &x, &diag) < 0)
    fail_msg("%s", diag.text);
  int n = 0;
  for (int i = 0; i < mr_exec_fn(x)->n_eqn; i++)
    n += mr_exec_fn(x)->eqn[i]->op == &mr_op_convert_element_type;
  mr_exec_destroy(x);
  return n;
}

static void fill(const mr_fn_t *f, double **in) {
  for (int i = 0; i < f->n_in; i++) {
    in[i] = doubles(elems(f->in[i]));
    for (int64_t k = 0; k < elems(f->in[i]); k++) in[i][k] = random_in(-2, 2);
  }
}

/* f's results without the pass and with it; in, a and b are the caller's. */
static void both(const mr_fn_t *f, double **in, double **a, double **b) {
  fill(f, in);
  setenv("MILLRACE_SKIP_PASSES", "fold-convert,fuse", 1);
  run_as_it_is(f, in, a);
  setenv("MILLRACE_SKIP_PASSES", "fuse", 1);
  run_as_it_is(f, in, b);
  unsetenv("MILLRACE_SKIP_PASSES");
}

static void finish(mr_fn_t *f, double **in, double **a, double **b) {
  free_all(f->n_in, in), free_all(f->n_out, a), free_all(f->n_out, b);
  mr_fn_destroy(f);
}

static mr_var_t *product(mr_fn_t *f) {
  mr_var_t *x = mr_fn_input(f, mr_aval_of(narrow, M, K));
  return mr_lax_dot(f, x, mr_fn_input(f, mr_aval_of(narrow, K, N)));
}

static void a_product_that_is_widened_is_rounded_once(void **state) {
  mr_fn_t *f = mr_fn_create();
  double *in[2], *a[1], *b[1];
  mr_var_t *y = mr_lax_convert(f, product(f), MR_F32);
  assert_int_equal(mr_fn_return(f, 1, &y), MR_OK);
  both(f, in, a, b);
  int finer = 0;
  assert_int_equal(converts(f, "fuse"), 0);
  for (int i = 0; i < M * N; i++) {
    uint16_t rounded;
    mr_set_f64(narrow, &rounded, 0, b[0][i]);
    assert_true(mr_get_f64(narrow, &rounded, 0) == a[0][i]);
    finer += a[0][i] != b[0][i];
  }
  assert_true(finer > 0);
  finish(f, in, a, b);
}

static void a_conversion_with_other_readers_stays_narrow(void **state) {
  mr_fn_t *f = mr_fn_create();
  double *in[2], *a[2], *b[2];
  mr_var_t *p = product(f), *y[] = {mr_lax_convert(f, p, MR_F32), mr_lax_tanh(f, p)};
  assert_int_equal(mr_fn_return(f, 2, y), MR_OK);
  both(f, in, a, b);
  assert_int_equal(converts(f, "fuse"), 1);
  for (int i = 0; i < M * N; i++) assert_true(a[0][i] == b[0][i] && a[1][i] == b[1][i]);
  finish(f, in, a, b);
}

/* An op whose kernel takes bf16 or f16 beside f32 widens it itself, to the same bits. */
static void an_op_that_mixes_reads_it_itself(void **state) {
  mr_fn_t *f = mr_fn_create();
  double *in[2], *a[1], *b[1];
  mr_var_t *x = mr_fn_input(f, mr_aval_of(narrow, M, K));
  mr_var_t *y = mr_fn_input(f, mr_aval_of(MR_F32, M, K));
  y = mr_lax_add(f, y, mr_lax_convert(f, x, MR_F32));
  assert_int_equal(mr_fn_return(f, 1, &y), MR_OK);
  both(f, in, a, b);
  assert_int_equal(converts(f, "fold-convert,fuse"), 1);
  assert_int_equal(converts(f, "fuse"), 0);
  for (int i = 0; i < M * K; i++) assert_true(a[0][i] == b[0][i]);
  finish(f, in, a, b);
}

/* Elements that are only moved between a conversion to f32 and the one back are moved as they are,
   also if the values in f32 have other readers; but not if something reads the moved f32, or if one
   of them has been f32 before. */
static void moves_between_a_conversion_and_back_are_of_what_was_converted(void **state) {
  enum { READ_TOO = 1, ONE_IN_F32 = 2, OF_ANOTHER = 4, COMPUTED = 8 };
  static const struct {
    int how, converts;
  } is[] = {{0, 1}, {READ_TOO, 3}, {ONE_IN_F32, 2}, {OF_ANOTHER, 3}, {COMPUTED, 3}};
  for (size_t c = 0; c < sizeof is / sizeof *is; c++) {
    int how = is[c].how;
    mr_dtype_t second = how == ONE_IN_F32   ? MR_F32
                        : how != OF_ANOTHER ? narrow
                        : narrow == MR_BF16 ? MR_F16
                                            : MR_BF16;
    mr_fn_t *f = mr_fn_create();
    double *in[2], *a[3], *b[3];
    mr_var_t *x = mr_fn_input(f, mr_aval_of(narrow, M, K)), *wide = mr_lax_convert(f, x, MR_F32);
    mr_var_t *y = mr_fn_input(f, mr_aval_of(second, K, M));
    mr_var_t *turned = mr_lax_transpose(f, mr_lax_convert(f, y, MR_F32), (int[]){1, 0});
    mr_var_t *both_of[] = {mr_lax_reshape(f, wide, 2, (int64_t[]){M, K}), turned};
    if (how == COMPUTED) both_of[0] = mr_lax_tanh(f, wide);
    mr_var_t *moved = mr_lax_concatenate(f, 2, both_of, 1);
    mr_var_t *out[] = {mr_lax_convert(f, moved, narrow), wide, moved};
    int n_out = how == READ_TOO ? 3 : 2;
    assert_int_equal(mr_fn_return(f, n_out, out), MR_OK);
    both(f, in, a, b);
    int n = converts(f, "fuse,remat,sink,merge-products");
    if (n != is[c].converts) fail_msg("case %zu: %d conversions", c, n);
    for (int k = 0; k < n_out; k++)
      for (int64_t i = 0; i < elems(f->out[k]); i++) assert_true(a[k][i] == b[k][i]);
    finish(f, in, a, b);
  }
}

/* What the pass leaves is a graph like others: it can be copied, printed and read back. */
static void a_folded_graph_is_copied_and_read_back(void **state) {
  mr_fn_t *f = mr_fn_create();
  mr_diag_t diag = {0};
  mr_var_t *p = product(f), *x = mr_fn_input(f, mr_aval_of(narrow, M, N));
  mr_var_t *sum = mr_lax_reduce_sum(f, mr_lax_tanh(f, x), 1, (int[]){0});
  mr_var_t *out[] = {mr_lax_add(f, mr_lax_convert(f, x, MR_F32), mr_lax_convert(f, p, MR_F32)),
                     mr_lax_add_any(f, mr_lax_convert(f, x, MR_F32), mr_lax_convert(f, x, MR_F32)),
                     mr_lax_convert(f, sum, MR_F32)};
  assert_int_equal(mr_fn_return(f, 3, out), MR_OK);
  mr_fold_convert(f);
  assert_int_equal(f->n_eqn, 5);
  char *text = mr_fn_text(f), *again, *read;
  mr_fn_t *copy = mr_fn_copy(f, &diag), *back = NULL;
  if (!copy) fail_msg("%s", diag.text);
  if (mr_fn_parse(text, &back, &diag) < 0) fail_msg("%s\n%s", diag.text, text);
  assert_string_equal(text, again = mr_fn_text(copy));
  assert_string_equal(text, read = mr_fn_text(back));
  double *in[3], *a[3], *b[3];
  fill(f, in);
  run_as_it_is(f, in, a);
  run_as_it_is(copy, in, b);
  assert_near("copy", f, a, b, 0);
  free(text), free(again), free(read);
  mr_fn_destroy(copy), mr_fn_destroy(back);
  finish(f, in, a, b);
}

static int take_bf16(void **state) {
  narrow = MR_BF16;
  return 0;
}

static int take_f16(void **state) {
  narrow = MR_F16;
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_product_that_is_widened_is_rounded_once),
      cmocka_unit_test(a_conversion_with_other_readers_stays_narrow),
      cmocka_unit_test(a_folded_graph_is_copied_and_read_back),
      cmocka_unit_test(an_op_that_mixes_reads_it_itself),
      cmocka_unit_test(moves_between_a_conversion_and_back_are_of_what_was_converted),
  };
  return cmocka_run_group_tests(tests, take_bf16, NULL) +
         cmocka_run_group_tests(tests, take_f16, NULL);
}
