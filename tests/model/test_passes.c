/* The compiler's passes: the same results with and without each. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include "model/exec/backend.h"
#include "model/transforms/passes.h"
#include "tests/model/grid.h"

static void fill(const mr_sample_t *s, double **in) {
  for (int i = 0; i < s->f->n_in; i++) {
    bool whole = s->f->in[i]->aval.dtype != MR_F32 && s->f->in[i]->aval.dtype != MR_BF16;
    in[i] = doubles(elems(s->f->in[i]));
    for (int64_t k = 0; k < elems(s->f->in[i]); k++) {
      double v = random_in(s->lo[i], s->hi[i]);
      in[i][k] = whole ? round(v) : v;
    }
  }
}

/* The op twice on the same operands, times one. */
static mr_fn_t *doubled(const mr_fn_t *f) {
  mr_diag_t diag = {0};
  mr_fn_t *g = mr_fn_create();
  mr_var_t *in[GRID_MAX], *out[GRID_MAX];
  for (int i = 0; i < f->n_in; i++) in[i] = mr_fn_input(g, f->in[i]->aval);
  assert_int_equal(mr_inline(g, f, in, out), MR_OK);
  assert_int_equal(mr_inline(g, f, in, out + f->n_out), MR_OK);
  for (int i = 0; i < 2 * f->n_out; i++)
    if (out[i]->aval.dtype == MR_F32) out[i] = mr_lax_scale(g, 1, out[i]);
  if (mr_fn_return(g, 2 * f->n_out, out) < 0) fail_msg("%s", diag.text);
  return g;
}

static void same_bits_without(const char *skip, const mr_fn_t *f, double *const *in,
                              double *const *all) {
  double *out[GRID_MAX];
  run_without(skip, f, skip, in, out);
  for (int i = 0; i < f->n_out; i++)
    if (memcmp(all[i], out[i], (size_t)elems(f->out[i]) * sizeof(double)))
      fail_msg("without %s output %d differs\n%s", skip, i, mr_fn_text(f));
  free_all(f->n_out, out);
}

/* Without each pass of the table, and without any. */
static void same_with_and_without(const mr_fn_t *f, double *const *in) {
  double *all[GRID_MAX];
  char none[256] = "";
  run_without("all passes", f, "", in, all);
  for (const mr_pass_t *p = mr_passes; p->name; p++) {
    same_bits_without(p->name, f, in, all);
    strcat(strcat(none, *none ? "," : ""), p->name);
  }
  same_bits_without(none, f, in, all);
  free_all(f->n_out, all);
}

/* What the passes leave obeys the ops' own shape rules. */
static void can_be_copied_once_compiled(const mr_fn_t *f) {
  mr_exec_t *x = NULL;
  mr_diag_t diag = {0};
  if (mr_compile(f, NULL, &x, &diag) < 0) fail_msg("%s", diag.text);
  mr_fn_t *copy = mr_fn_copy(mr_exec_fn(x), &diag);
  if (!copy) fail_msg("%s\n%s", diag.text, mr_fn_text(mr_exec_fn(x)));
  mr_fn_destroy(copy);
  mr_exec_destroy(x);
}

static void every_op_written_twice_gives_the_same_bits_with_and_without(void **state) {
  int n = 0;
  for (int i = 0; i < mr_n_ops; i++)
    for (int k = 0;; k++, n++) {
      double *in[GRID_MAX];
      mr_sample_t s = {.f = mr_fn_create()};
      bool there = mr_ops[i]->sample(mr_ops[i], &s, k);
      if (there) {
        mr_fn_t *f = doubled(s.f);
        fill(&s, in);
        same_with_and_without(f, in);
        can_be_copied_once_compiled(f);
        free_all(f->n_in, in);
        mr_fn_destroy(f);
      }
      mr_fn_destroy(s.f);
      if (!there) break;
    }
  assert_true(n > mr_n_ops);
}

static mr_fn_t *chain(void) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 8));
  mr_var_t *a = mr_lax_exp(f, mr_lax_scale(f, 2, x)), *b = mr_lax_exp(f, mr_lax_scale(f, 2, x));
  mr_var_t *c = mr_lax_exp(f, mr_lax_scale(f, 3, x));
  mr_var_t *y = mr_lax_add(f, mr_lax_mul(f, a, b), c);
  assert_int_equal(mr_fn_return(f, 1, &y), MR_OK);
  return f;
}

static void equal_equations_are_computed_once_and_different_ones_stay(void **state) {
  mr_fn_t *f = chain();
  assert_int_equal(mr_cse(f, NULL), MR_OK);
  assert_int_equal(count(f, "exp"), 2);
  assert_int_equal(count(f, "mul"), 3);
  mr_fn_destroy(f);
}

static void a_barrier_keeps_what_is_behind_it_apart(void **state) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 8));
  mr_var_t *y[] = {mr_lax_exp(f, mr_lax_optimization_barrier(f, x)),
                   mr_lax_exp(f, mr_lax_optimization_barrier(f, x))};
  assert_int_equal(mr_fn_return(f, 2, y), MR_OK);
  assert_int_equal(mr_cse(f, NULL), MR_OK);
  assert_int_equal(count(f, "exp"), 2);
  mr_fn_destroy(f);
}

static void minus_zero_is_no_zero(void **state) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 2));
  mr_var_t *y[] = {mr_lax_add(f, x, mr_literal(f, MR_F32, 0.0)),
                   mr_lax_add(f, x, mr_literal(f, MR_F32, -0.0))};
  assert_int_equal(mr_fn_return(f, 2, y), MR_OK);
  assert_int_equal(mr_cse(f, NULL), MR_OK);
  assert_int_equal(mr_fold_constants(
                       f, mr_device_default()->backend->compile->target(mr_device_default()), NULL),
                   MR_OK);
  assert_int_equal(count(f, "add"), 2);
  mr_fn_destroy(f);
}

static void constants_are_computed_when_compiling(void **state) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 2));
  mr_var_t *four = mr_lax_add(f, mr_literal(f, MR_F32, 1), mr_literal(f, MR_F32, 3));
  mr_var_t *one = mr_lax_sub(f, mr_lax_sqrt(f, four), mr_literal(f, MR_F32, 1));
  mr_var_t *y[] = {mr_lax_mul(f, one, x), mr_lax_mul(f, four, x), four};
  assert_int_equal(mr_fn_return(f, 3, y), MR_OK);
  assert_int_equal(mr_fold_constants(
                       f, mr_device_default()->backend->compile->target(mr_device_default()), NULL),
                   MR_OK);
  assert_int_equal(f->n_eqn, 1);
  assert_ptr_equal(f->out[0], x);
  assert_true(f->out[2]->literal && f->out[2]->value == 4);
  mr_fn_destroy(f);
}

static void ones_of_any_shape_multiply_nothing(void **state) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 2, 3)),
           *row = mr_fn_input(f, mr_aval_of(MR_F32, 3));
  mr_var_t *ones = mr_lax_full(f, &row->aval, 1);
  ones = mr_lax_broadcast_in_dim(f, ones, 2, x->aval.dim, (int[]){1});
  mr_var_t *spread = mr_lax_broadcast_in_dim(f, row, 2, x->aval.dim, (int[]){1});
  mr_var_t *y[] = {mr_lax_mul(f, ones, x), mr_lax_mul(f, x, spread)};
  assert_int_equal(mr_fn_return(f, 2, y), MR_OK);
  assert_int_equal(mr_fold_constants(
                       f, mr_device_default()->backend->compile->target(mr_device_default()), NULL),
                   MR_OK);
  assert_ptr_equal(f->out[0], x);
  assert_ptr_equal(f->out[1], y[1]);
  assert_int_equal(count(f, "mul"), 1);
  mr_fn_destroy(f);
}

/* x + x, beside e^x that no result needs; the number of e^x that the passes but `skip` leave. */
static int dead_exps(const char *skip, double *out) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 3));
  mr_lax_exp(f, x);
  mr_var_t *sum = mr_lax_add(f, x, x);
  assert_int_equal(mr_fn_return(f, 1, &sum), MR_OK);
  mr_diag_t diag = {0};
  assert_int_equal(
      mr_passes_run(f, mr_device_default()->backend->compile->target(mr_device_default()), skip,
                    &diag),
      MR_OK);
  double *in[] = {(double[]){1, -2, 3}}, *ran[1];
  run_without(skip, f, skip, in, ran);
  memcpy(out, ran[0], 3 * sizeof *out);
  free_all(1, ran);
  int n = count(f, "exp");
  mr_fn_destroy(f);
  return n;
}

static void dropping_dead_equations_changes_no_result(void **state) {
  double with[3], without[3];
  /* The others drop what they leave behind themselves. */
  assert_int_equal(dead_exps("fold-convert,sink,merge-products,fuse,dead-code", without), 1);
  assert_int_equal(dead_exps("fold-convert,sink,merge-products,fuse", with), 0);
  assert_memory_equal(with, without, sizeof with);
}

static void a_pass_can_be_skipped_and_a_wrong_name_is_reported(void **state) {
  mr_fn_t *f = chain();
  mr_exec_t *x = NULL;
  mr_diag_t diag = {0};
  assert_int_equal(mr_compile(f, &(mr_compile_options_t){.skip = "remat,cse,sink,fuse"}, &x, &diag),
                   MR_OK);
  assert_int_equal(count(mr_exec_fn(x), "exp"), 3);
  mr_exec_destroy(x);
  assert_int_equal(mr_compile(f, &(mr_compile_options_t){.skip = "remat,sink,fuse"}, &x, &diag),
                   MR_OK);
  assert_int_equal(count(mr_exec_fn(x), "exp"), 2);
  mr_exec_destroy(x);
  assert_int_equal(mr_compile(f, &(mr_compile_options_t){.skip = "cse,inline"}, &x, &diag),
                   MR_ERR_CONFIG);
  assert_non_null(strstr(diag.text, "\"inline\" is not a pass; known: fold-constants"));
  mr_fn_destroy(f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_op_written_twice_gives_the_same_bits_with_and_without),
      cmocka_unit_test(equal_equations_are_computed_once_and_different_ones_stay),
      cmocka_unit_test(a_barrier_keeps_what_is_behind_it_apart),
      cmocka_unit_test(minus_zero_is_no_zero),
      cmocka_unit_test(constants_are_computed_when_compiling),
      cmocka_unit_test(ones_of_any_shape_multiply_nothing),
      cmocka_unit_test(dropping_dead_equations_changes_no_result),
      cmocka_unit_test(a_pass_can_be_skipped_and_a_wrong_name_is_reported),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
