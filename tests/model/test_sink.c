/* Slices move up to where they save work, transpositions away: the same values with less to do. */
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

enum { B = 3, T = 9, C = 8, M = 16 };

static mr_var_t *first_token(mr_fn_t *f, mr_var_t *x) {
  return mr_lax_slice(f, x, (int64_t[]){0, 0, 0}, (int64_t[]){B, 1, C});
}

static mr_var_t *input(mr_fn_t *f, int64_t a, int64_t b) {
  return mr_fn_input(f, b ? mr_aval_of(MR_F32, a, b) : mr_aval_of(MR_F32, a));
}

static mr_var_t *norm(mr_fn_t *f, mr_var_t *x) {
  mr_var_t *scale = input(f, C, 0), *bias = input(f, C, 0);
  return mr_lax_layer_norm(f, x, scale, bias, 1e-6f, false, x->aval.dtype);
}

/* The end of a transformer: projection, MLP, both with residuals, a norm, and a head that reads
   token 0; by hand: the slice stands where it saves most. */
static mr_fn_t *head(bool by_hand) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, B, T, C));
  mr_var_t *attended = mr_fn_input(f, x->aval);
  if (by_hand) x = first_token(f, x), attended = first_token(f, attended);
  x = mr_lax_add(f, x, mr_lax_linear(f, attended, input(f, C, C), input(f, C, 0), false));
  mr_var_t *h = mr_lax_linear(f, norm(f, x), input(f, C, M), input(f, M, 0), false);
  h = mr_lax_linear(f, mr_lax_gelu(f, h, MR_GELU_TANH), input(f, M, C), input(f, C, 0), false);
  x = norm(f, mr_lax_add(f, x, h));
  if (!by_hand) x = first_token(f, x);
  mr_var_t *y = mr_lax_reduce_sum(f, mr_lax_mul(f, x, x), 3, (int[]){0, 1, 2});
  if (mr_fn_return(f, 1, &y) < 0) fail_msg("%s", f->diag.text);
  return f;
}

static void fill(const mr_fn_t *f, double **in) {
  for (int i = 0; i < f->n_in; i++) {
    in[i] = doubles(elems(f->in[i]));
    for (int64_t k = 0; k < elems(f->in[i]); k++) in[i][k] = random_in(-1, 1);
  }
}

static void same_values(const mr_fn_t *f, const mr_fn_t *g, double tolerance) {
  double *in[GRID_MAX], *a[GRID_MAX], *b[GRID_MAX];
  fill(f, in);
  run_as_it_is(f, in, a);
  run_as_it_is(g, in, b);
  assert_near("sunk", f, a, b, tolerance);
  free_all(f->n_in, in), free_all(f->n_out, a), free_all(f->n_out, b);
}

static void a_head_that_reads_one_token_costs_what_the_slice_by_hand_costs(void **state) {
  mr_fn_t *whole = head(false), *hand = head(true), *sunk = mr_fn_copy(whole, NULL);
  assert_int_equal(mr_sink(sunk, NULL), MR_OK);
  assert_true(flop_of(whole) > 5 * flop_of(hand));
  assert_true(flop_of(sunk) == flop_of(hand));
  assert_int_equal(count(sunk, "slice"), 2);
  same_values(whole, sunk, 1e-5);
  same_values(whole, hand, 1e-5);
  mr_fn_destroy(whole), mr_fn_destroy(hand), mr_fn_destroy(sunk);
}

static void sunk_before_the_gradient_it_spares_the_backward_pass_too(void **state) {
  mr_fn_t *whole = head(false), *hand = head(true);
  setenv("MILLRACE_SKIP_PASSES", "sink", 1);
  mr_fn_t *g[] = {gradient(whole), gradient(hand), NULL};
  unsetenv("MILLRACE_SKIP_PASSES");
  g[2] = gradient(whole);
  assert_true(flop_of(g[0]) > 5 * flop_of(g[1]));
  assert_true(flop_of(g[2]) == flop_of(g[1]));
  same_values(g[0], g[2], 1e-4);
  for (int i = 0; i < 3; i++) mr_fn_destroy(g[i]);
  mr_fn_destroy(whole), mr_fn_destroy(hand);
}

static double flop_of_step(const mr_fn_t *loss) {
  const mr_fn_t *part[] = {loss};
  mr_optim_t o = mr_optim_of("adamw");
  mr_optim_loss_t l = {.n_data = 2, .parts = 1, .part = part, .split = (bool[]){false, false}};
  mr_fn_t *g = NULL;
  mr_diag_t diag = {0};
  if (mr_optim_step_fn(&l, &o, &g, &diag) < 0) fail_msg("%s", diag.text);
  double flop = flop_of(g);
  mr_fn_destroy(g);
  return flop;
}

static void a_training_step_sinks_its_loss_before_the_gradient(void **state) {
  mr_fn_t *whole = head(false), *hand = head(true);
  double by_hand = flop_of_step(hand);
  assert_true(flop_of_step(whole) == by_hand);
  setenv("MILLRACE_SKIP_PASSES", "sink", 1);
  assert_true(flop_of_step(whole) > 3 * by_hand); /* the optimizer's part is the same */
  unsetenv("MILLRACE_SKIP_PASSES");
  mr_fn_destroy(whole), mr_fn_destroy(hand);
}

static void the_compiler_sinks_slices_unless_the_pass_is_skipped(void **state) {
  mr_fn_t *f = head(false);
  mr_exec_t *with = NULL, *without = NULL;
  mr_diag_t diag = {0};
  assert_int_equal(mr_compile(f, &(mr_compile_options_t){.skip = ""}, &with, &diag), MR_OK);
  assert_int_equal(mr_compile(f, &(mr_compile_options_t){.skip = "sink"}, &without, &diag), MR_OK);
  assert_true(flop_of(mr_exec_fn(without)) > 5 * flop_of(mr_exec_fn(with)));
  mr_exec_destroy(with), mr_exec_destroy(without);
  mr_fn_destroy(f);
}

static void a_value_that_others_read_whole_is_not_computed_twice(void **state) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, B, T, C));
  mr_var_t *h = mr_lax_linear(f, x, input(f, C, C), NULL, false);
  mr_var_t *y[] = {mr_lax_tanh(f, first_token(f, h)), h};
  assert_int_equal(mr_fn_return(f, 2, y), MR_OK);
  mr_fn_t *g = mr_fn_copy(f, NULL);
  assert_int_equal(mr_sink(g, NULL), MR_OK);
  assert_int_equal(count(g, "linear"), 1);
  assert_true(flop_of(g) == flop_of(f));
  mr_fn_destroy(f), mr_fn_destroy(g);
}

/* The last dimension of a norm or a product is not made of independent parts. */
static void a_slice_of_the_last_dimension_stays_below_a_norm(void **state) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *y = norm(f, mr_fn_input(f, mr_aval_of(MR_F32, B, T, C)));
  y = mr_lax_slice(f, y, (int64_t[]){0, 0, 1}, (int64_t[]){B, T, 3});
  assert_int_equal(mr_fn_return(f, 1, &y), MR_OK);
  mr_fn_t *g = mr_fn_copy(f, NULL);
  assert_int_equal(mr_sink(g, NULL), MR_OK);
  assert_ptr_equal(g->out[0]->def->op, &mr_op_slice);
  same_values(f, g, 0);
  mr_fn_destroy(f), mr_fn_destroy(g);
}

/* Broadcasts, counters, masks and sums of them, cut or turned round: the same bits. */
static void views_of_broadcasts_and_counters_are_made_small_at_once(void **state) {
  for (int turned = 0; turned < 2; turned++) {
    mr_fn_t *f = mr_fn_create();
    int64_t dim[] = {T, C};
    mr_var_t *row = mr_lax_broadcast_in_dim(f, input(f, C, 0), 2, dim, (int[]){1});
    mr_var_t *column = mr_lax_broadcast_in_dim(f, input(f, T, 0), 2, dim, (int[]){0});
    mr_var_t *place = mr_lax_iota(f, MR_F32, 2, dim, 1), *line = mr_lax_iota(f, MR_F32, 2, dim, 0);
    mr_var_t *mask = mr_lax_lt(f, mr_lax_add(f, row, place), mr_lax_scale(f, 0.5, line));
    mr_var_t *y = mr_lax_select_n(f, mask, mr_lax_mul(f, row, column), mr_lax_sin(f, column));
    y = turned ? mr_lax_transpose(f, y, (int[]){1, 0})
               : mr_lax_slice(f, y, (int64_t[]){0, 0}, (int64_t[]){4, 5});
    if (mr_fn_return(f, 1, &y) < 0) fail_msg("%s", f->diag.text);
    mr_fn_t *g = mr_fn_copy(f, NULL);
    assert_int_equal(mr_sink(g, NULL), MR_OK);
    assert_int_equal(count(g, "transpose"), 0);
    assert_int_equal(count(g, "slice"), turned ? 0 : 2); /* of the row and of the column */
    same_values(f, g, 0);
    mr_fn_destroy(f), mr_fn_destroy(g);
  }
}

static void a_hessian_of_squares_turns_nothing_round(void **state) {
  mr_fn_t *f = mr_fn_create(), *g = NULL, *h;
  mr_var_t *x = input(f, 20, 0);
  mr_var_t *y = mr_lax_reduce_sum(f, mr_lax_mul(f, x, x), 1, (int[]){0});
  assert_int_equal(mr_fn_return(f, 1, &y), MR_OK);
  assert_int_equal(mr_hessian(f, 1, (int[]){0}, &g, NULL), MR_OK);
  h = mr_fn_copy(g, NULL);
  assert_int_equal(count(g, "transpose"), 1);
  assert_int_equal(mr_sink(h, NULL), MR_OK);
  assert_int_equal(count(h, "transpose"), 0);
  same_values(g, h, 0);
  mr_fn_destroy(f), mr_fn_destroy(g), mr_fn_destroy(h);
}

/* a (2,3,4,5) by b (2,6,5), batched over 2: (2,3,4,6), turned as perm says. */
static mr_fn_t *turned_product(const int *perm, bool read_twice) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *a = mr_fn_input(f, mr_aval_of(MR_F32, 2, 3, 4, 5));
  mr_var_t *b = mr_fn_input(f, mr_aval_of(MR_F32, 2, 6, 5)), *y[2];
  mr_dot_dims_t d = {.n_batch = 1, .n_contract = 1, .lhs_contract = {3}, .rhs_contract = {2}};
  y[1] = mr_lax_dot_general(f, a, b, &d, MR_F32);
  y[0] = mr_lax_transpose(f, y[1], perm);
  if (mr_fn_return(f, 1 + read_twice, y) < 0) fail_msg("%s", f->diag.text);
  return f;
}

static void a_product_turned_round_is_that_of_its_sides_exchanged(void **state) {
  const struct {
    int perm[4];
    bool read_twice, goes;
  } c[] = {{{0, 3, 1, 2}, false, true},
           {{0, 3, 1, 2}, true, false},  /* both orders are read */
           {{0, 3, 2, 1}, false, false}, /* the left's own dimensions change places */
           {{1, 0, 2, 3}, false, false}};
  for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
    mr_fn_t *f = turned_product(c[i].perm, c[i].read_twice), *sunk = mr_fn_copy(f, NULL);
    assert_int_equal(mr_sink(sunk, NULL), MR_OK);
    assert_int_equal(count(sunk, "transpose"), !c[i].goes);
    assert_int_equal(count(sunk, "dot_general"), 1);
    same_values(f, sunk, 1e-6);
    mr_fn_destroy(f), mr_fn_destroy(sunk);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_head_that_reads_one_token_costs_what_the_slice_by_hand_costs),
      cmocka_unit_test(sunk_before_the_gradient_it_spares_the_backward_pass_too),
      cmocka_unit_test(a_training_step_sinks_its_loss_before_the_gradient),
      cmocka_unit_test(the_compiler_sinks_slices_unless_the_pass_is_skipped),
      cmocka_unit_test(a_value_that_others_read_whole_is_not_computed_twice),
      cmocka_unit_test(a_slice_of_the_last_dimension_stays_below_a_norm),
      cmocka_unit_test(views_of_broadcasts_and_counters_are_made_small_at_once),
      cmocka_unit_test(a_hessian_of_squares_turns_nothing_round),
      cmocka_unit_test(a_product_turned_round_is_that_of_its_sides_exchanged),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
