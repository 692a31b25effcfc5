/* Functions called by functions: checkpoint with policies, rules of one's own. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <stdio.h>

#include "tests/model/grid.h"

enum { N = 64, LAYERS = 6 };

/* (x, w1, ..., w6) -> x through six layers tanh(x w), on x (64,64). */
static mr_fn_t *layers(mr_policy_fn *policy, bool wrapped) {
  mr_fn_t *one = mr_fn_create(), *f = mr_fn_create(), *call = NULL;
  mr_aval_t a = mr_aval_of(MR_F32, N, N);
  mr_diag_t diag = {0};
  mr_var_t *x = mr_fn_input(one, a), *w = mr_fn_input(one, a);
  x = mr_lax_tanh(one, mr_lax_exp(one, mr_lax_sin(one, mr_lax_dot(one, x, w))));
  assert_int_equal(mr_fn_return(one, 1, &x), MR_OK);
  if (wrapped) assert_int_equal(mr_checkpoint(one, policy, &call, &diag), MR_OK);
  x = mr_fn_input(f, a);
  for (int i = 0; i < LAYERS; i++) {
    mr_var_t *in[] = {x, mr_fn_input(f, a)};
    assert_int_equal(mr_inline(f, wrapped ? call : one, in, &x), MR_OK);
  }
  x = mr_lax_reduce_sum(f, x, 2, (int[]){0, 1});
  assert_int_equal(mr_fn_return(f, 1, &x), MR_OK);
  mr_fn_destroy(one);
  mr_fn_destroy(call);
  return f;
}

static mr_fn_t *gradients(mr_fn_t *f) {
  mr_fn_t *g = NULL;
  mr_diag_t diag = {0};
  int wrt[LAYERS + 1] = {0, 1, 2, 3, 4, 5, 6};
  if (mr_grad(f, LAYERS + 1, wrt, &g, &diag) < 0) fail_msg("%s", diag.text);
  mr_fn_destroy(f);
  return g;
}

/* The gradients' values, and what the compiled graph needs. */
static size_t run_gradients(mr_fn_t *g, double **out, int *products) {
  mr_exec_t *x = NULL;
  mr_diag_t diag = {0};
  static _Alignas(64) float in[LAYERS + 1][N * N], y[LAYERS + 1][N * N];
  const void *a[LAYERS + 1];
  void *b[LAYERS + 1];
  if (mr_compile(g, &(mr_compile_options_t){.skip = "remat"}, &x, &diag) < 0)
    fail_msg("%s", diag.text);
  for (int i = 0; i <= LAYERS; i++) {
    for (int k = 0; k < N * N; k++) in[i][k] = (float)((k * 37 + i * 11) % 101) / 505 - 0.1f;
    a[i] = in[i], b[i] = y[i];
  }
  mr_exec_run(x, a, b);
  for (int i = 0; i <= LAYERS; i++) {
    out[i] = doubles(N * N);
    for (int k = 0; k < N * N; k++) out[i][k] = (double)y[i][k];
  }
  *products = 0;
  for (int i = 0; i < mr_exec_fn(x)->n_eqn; i++)
    *products += mr_exec_fn(x)->eqn[i]->op == &mr_op_dot_general;
  size_t peak = mr_exec_peak_bytes(x);
  mr_exec_destroy(x);
  return peak;
}

static void checkpoint_gives_the_same_bits_in_less_memory_and_its_policy_holds(void **state) {
  mr_policy_fn *policy[] = {NULL, mr_save_nothing, mr_save_dots, mr_save_everything};
  double *y[4][LAYERS + 1];
  size_t peak[4];
  int products[4];
  for (int i = 0; i < 4; i++) {
    mr_fn_t *g = gradients(layers(policy[i], i > 0));
    peak[i] = run_gradients(g, y[i], &products[i]);
    assert_near("checkpoint", g, y[i], y[0], 0);
    mr_fn_destroy(g);
  }
  assert_int_equal(products[0], 3 * LAYERS);
  assert_true(products[1] >= products[0] + LAYERS - 1); /* all computed again but the last result */
  assert_int_equal(products[2], products[0]);
  assert_int_equal(products[3], products[0]);
  assert_true(peak[1] < peak[2] && peak[2] < peak[0]);
  for (int i = 0; i < 4; i++) free_all(LAYERS + 1, y[i]);
}

/* x -> |x| whose slope its author declares to be 7. */
static mr_fn_t *declared(bool forward) {
  mr_fn_t *f = mr_fn_create(), *body = mr_fn_create(), *a = mr_fn_create(), *b = mr_fn_create();
  mr_aval_t s = mr_aval_scalar(MR_F32);
  mr_var_t *x = mr_lax_abs(body, mr_fn_input(body, s)), *y, *in = mr_fn_input(f, s), *out[2];
  mr_fn_return(body, 1, &x);
  x = mr_fn_input(a, s);
  out[0] = mr_lax_abs(a, x);
  if (forward) out[1] = mr_lax_scale(a, 7, mr_fn_input(a, s));
  mr_fn_return(a, forward ? 2 : 1, out);
  y = mr_lax_scale(b, 7, mr_fn_input(b, s));
  mr_fn_return(b, 1, &y);
  mr_err_t err =
      forward ? mr_lax_custom_jvp(f, body, a, &in, &y) : mr_lax_custom_vjp(f, body, a, b, &in, &y);
  if (err < 0) fail_msg("%s", f->diag.text);
  assert_int_equal(mr_fn_return(f, 1, &y), MR_OK);
  mr_fn_destroy(body);
  mr_fn_destroy(a);
  mr_fn_destroy(b);
  return f;
}

static double slope_at(const mr_fn_t *g, double x) {
  double *in[] = {&x}, *y[1];
  run_as_it_is(g, in, y);
  double v = y[0][0];
  free(y[0]);
  return v;
}

static void a_rule_of_ones_own_takes_the_place_of_the_derivative(void **state) {
  for (int forward = 0; forward < 2; forward++) {
    mr_fn_t *f = declared(forward), *g = NULL, *v = NULL, *gv = NULL;
    mr_diag_t diag = {0};
    if (mr_grad(f, 1, (int[]){0}, &g, &diag) < 0) fail_msg("%s", diag.text);
    assert_true(slope_at(f, -3) == 3 && slope_at(g, -3) == 7);
    assert_int_equal(mr_vmap(f, 2, NULL, NULL, &v, &diag), MR_OK); /* the rule is mapped too */
    if (mr_jacrev(v, 1, (int[]){0}, &gv, &diag) < 0) fail_msg("%s", diag.text);
    double x[2] = {-3, 4}, *in[] = {x}, *y[1];
    run_as_it_is(gv, in, y);
    assert_true(y[0][0] == 7 && y[0][1] == 0 && y[0][2] == 0 && y[0][3] == 7);
    free(y[0]);
    mr_fn_t *all[] = {f, g, v, gv};
    for (int i = 0; i < 4; i++) mr_fn_destroy(all[i]);
  }
}

static void stop_gradient_is_constant_in_both_modes(void **state) {
  mr_fn_t *f = mr_fn_create(), *g = NULL, *j = NULL;
  mr_diag_t diag = {0};
  mr_var_t *x = mr_fn_input(f, mr_aval_scalar(MR_F32));
  mr_var_t *y = mr_lax_mul(f, x, mr_lax_stop_gradient(f, x)); /* half of the slope of x x */
  assert_int_equal(mr_fn_return(f, 1, &y), MR_OK);
  assert_int_equal(mr_grad(f, 1, (int[]){0}, &g, &diag), MR_OK);
  assert_true(slope_at(g, 3) == 3);
  assert_int_equal(mr_jvp(f, 1, (int[]){0}, &j, &diag), MR_OK);
  double at = 3, t = 1, *in[] = {&at, &t}, *out[2];
  run_as_it_is(j, in, out);
  assert_true(out[0][0] == 9 && out[1][0] == 3);
  free_all(2, out);
  mr_fn_destroy(f);
  mr_fn_destroy(g);
  mr_fn_destroy(j);
}

static void a_rule_of_another_shape_is_refused(void **state) {
  mr_fn_t *f = mr_fn_create(), *body = mr_fn_create();
  mr_var_t *x = mr_fn_input(body, mr_aval_scalar(MR_F32)), *y, *in;
  mr_fn_return(body, 1, &x);
  in = mr_fn_input(f, mr_aval_scalar(MR_F32));
  assert_int_equal(mr_lax_custom_jvp(f, body, body, &in, &y), MR_ERR_SHAPE);
  assert_non_null(
      strstr(f->diag.text, "custom_jvp_call: the rule takes 1 values and gives 1, want 2 and 2"));
  mr_fn_destroy(f);
  f = mr_fn_create();
  in = mr_fn_input(f, mr_aval_of(MR_F32, 3));
  assert_int_equal(mr_lax_checkpoint(f, body, 0, &in, &y), MR_ERR_SHAPE);
  assert_string_equal(f->diag.text, "checkpoint: operand 0 is f32[3], want f32[]");
  mr_fn_destroy(f);
  mr_fn_destroy(body);
}

/* (n inputs, of f32[] but input `odd` of f32[2]) -> its first m inputs, all but one of f32[]. */
static mr_fn_t *passes_on(int n, int odd, int m, int odd_out) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *v[8], *out[8];
  for (int i = 0; i < n; i++)
    v[i] = mr_fn_input(f, i == odd ? mr_aval_of(MR_F32, 2) : mr_aval_scalar(MR_F32));
  for (int i = 0; i < m; i++)
    out[i] = i == odd_out ? mr_lax_full(f, &(mr_aval_t){MR_F32, 1, {5}}, 0) : v[i];
  assert_int_equal(mr_fn_return(f, m, out), MR_OK);
  return f;
}

/* Each of the functions that are given, destroyed, in place of a rule: what that says. */
static void expect_refused(mr_fn_t *jvp, mr_fn_t *fwd, mr_fn_t *bwd, const char *want) {
  mr_fn_t *f = mr_fn_create(), *body = passes_on(1, -1, 1, -1);
  mr_var_t *in = mr_fn_input(f, mr_aval_scalar(MR_F32)), *y;
  mr_scope_enter(f, "own");
  mr_err_t err = jvp ? mr_lax_custom_jvp(f, body, jvp, &in, &y)
                     : mr_lax_custom_vjp(f, body, fwd, bwd, &in, &y);
  assert_int_equal(err, MR_ERR_SHAPE);
  assert_string_equal(f->diag.text, want);
  mr_fn_t *all[] = {f, body, jvp, fwd, bwd};
  for (int i = 0; i < 5; i++) mr_fn_destroy(all[i]);
}

static void a_rule_with_wrong_operands_or_results_is_refused_with_both_shapes(void **state) {
  const char *own = "own: custom_vjp_call: ";
  char want[96];
  expect_refused(passes_on(2, 1, 2, -1), NULL, NULL,
                 "own: custom_jvp_call: what the rule takes as 1 is f32[2], want f32[]");
  expect_refused(passes_on(2, -1, 2, 1), NULL, NULL,
                 "own: custom_jvp_call: what the rule gives as 1 is f32[5], want f32[]");
  const struct {
    int fwd_in, fwd_out, bwd_in, bwd_out;
    const char *says;
  } row[] = {{0, 0, -1, -1, "what fwd takes as 0 is f32[2], want f32[]"},
             {-1, 0, -1, -1, "what fwd gives as 0 is f32[5], want f32[]"},
             {-1, -1, 0, 0, "what bwd gives as 0 is f32[5], want f32[]"},
             {-1, -1, 1, -1, "what bwd takes as 1 is f32[2], want f32[]"},
             {-1, 1, -1, -1, "what bwd takes as 0 is f32[], want f32[5]"}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    mr_fn_t *fwd = mr_fn_create(), *bwd = passes_on(2, row[i].bwd_in, 1, row[i].bwd_out);
    mr_var_t *out[2], *x;
    mr_aval_t wrong = mr_aval_of(MR_F32, 5);
    x = mr_fn_input(fwd, row[i].fwd_in == 0 ? mr_aval_of(MR_F32, 2) : mr_aval_scalar(MR_F32));
    for (int k = 0; k < 2; k++) out[k] = row[i].fwd_out == k ? mr_lax_full(fwd, &wrong, 0) : x;
    assert_int_equal(mr_fn_return(fwd, 2, out), MR_OK);
    snprintf(want, sizeof want, "%s%s", own, row[i].says);
    expect_refused(NULL, fwd, bwd, want);
  }
}

/* What a text says is saved must be among the results. */
static void a_checkpoint_cannot_save_more_than_it_gives(void **state) {
  const char *text =
      "{ lambda ; a:f32[2] b:f32[2]. let c:f32[2] _:f32[2] = checkpoint[jaxpr={ lambda ; d:f32[2] "
      "e:f32[2]. let f:f32[2] = sin d\n g:f32[2] = mul f e\n in (g, f) }\n saved=%s] a b\n"
      "in (c,) }";
  const char *saved[] = {"0", "2", "3", "9", "1000000", "-1", "4294967297"};
  for (int i = 0; i < 7; i++) {
    char whole[512];
    mr_fn_t *f = NULL, *g = NULL;
    mr_diag_t diag = {0};
    snprintf(whole, sizeof whole, text, saved[i]);
    mr_err_t err = mr_fn_parse(whole, &f, &diag);
    if (i > 1) {
      assert_true(err < 0 && !f);
      assert_non_null(strstr(diag.text, "want 0 to 2, its results"));
      continue;
    }
    if (err < 0 || mr_vjp(f, 2, (int[]){0, 1}, &g, &diag) < 0) fail_msg("%s", diag.text);
    mr_fn_destroy(f), mr_fn_destroy(g);
  }
}

/* sin within cos within sin ...: each function calls the next.  The vjp costs the square of the
   depth, as copies do. */
static void functions_may_call_one_another_a_hundred_deep(void **state) {
  for (int how = 0; how < 2; how++) {
    mr_fn_t *f = mr_fn_create(), *g = NULL;
    mr_diag_t diag = {0};
    mr_var_t *x = mr_fn_input(f, mr_aval_scalar(MR_F32)), *y = mr_lax_sin(f, x);
    double at = 0.75, ct = 1, want = 1, v = at, *in[] = {&at, &ct}, *got[1];
    mr_fn_return(f, 1, &y);
    for (int i = 0; i < 100; i++) {
      mr_fn_t *outer = mr_fn_create();
      x = mr_lax_sin(outer, mr_fn_input(outer, mr_aval_scalar(MR_F32)));
      if (how)
        mr_lax_checkpoint(outer, f, 0, &x, &y);
      else
        mr_lax_jit(outer, "f", f, &x, &y);
      if (mr_fn_return(outer, 1, &y) < 0) fail_msg("%s", outer->diag.text);
      mr_fn_destroy(f);
      f = outer;
    }
    for (int i = 0; i <= 100; i++) want *= cos(v), v = sin(v);
    if (mr_vjp(f, 1, (int[]){0}, &g, &diag) < 0) fail_msg("%s", diag.text);
    run_f64(g, in, got);
    assert_true(fabs(got[0][0] - want) < 1e-9 * (1 + fabs(want)));
    free(got[0]);
    mr_fn_destroy(f), mr_fn_destroy(g);
  }
}

static void powers_reach_as_far_as_an_int(void **state) {
  const int powers[] = {INT_MIN, INT_MIN + 1, INT_MAX};
  for (int i = 0; i < 3; i++) {
    mr_fn_t *f = mr_fn_create(), *g = NULL;
    mr_diag_t diag = {0};
    mr_var_t *y = mr_lax_integer_pow(f, mr_fn_input(f, mr_aval_of(MR_F32, 2)), powers[i]);
    double x[] = {1, -1}, ct[] = {1, 1}, *in[] = {x, ct}, *got[1];
    if (mr_fn_return(f, 1, &y) < 0) fail_msg("%s", f->diag.text);
    if (mr_vjp(f, 1, (int[]){0}, &g, &diag) < 0) fail_msg("%s", diag.text);
    run_f64(g, in, got);
    double slope = (double)(float)powers[i]; /* as a literal of f32 */
    assert_true(got[0][0] == slope);
    assert_true(got[0][1] == (powers[i] % 2 ? slope : -slope));
    free(got[0]);
    mr_fn_destroy(f), mr_fn_destroy(g);
  }
}

static void a_checkpoint_of_a_graph_that_failed_fails_as_it_did(void **state) {
  mr_fn_t *f = mr_fn_create(), *c = NULL;
  mr_diag_t diag = {0};
  mr_lax_add(f, mr_fn_input(f, mr_aval_of(MR_F32, 2)), mr_fn_input(f, mr_aval_of(MR_F32, 3)));
  assert_int_equal(mr_checkpoint(f, NULL, &c, &diag), MR_ERR_SHAPE);
  assert_string_equal(diag.text, f->diag.text);
  mr_fn_destroy(f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(checkpoint_gives_the_same_bits_in_less_memory_and_its_policy_holds),
      cmocka_unit_test(a_rule_of_ones_own_takes_the_place_of_the_derivative),
      cmocka_unit_test(a_checkpoint_cannot_save_more_than_it_gives),
      cmocka_unit_test(functions_may_call_one_another_a_hundred_deep),
      cmocka_unit_test(powers_reach_as_far_as_an_int),
      cmocka_unit_test(stop_gradient_is_constant_in_both_modes),
      cmocka_unit_test(a_rule_of_another_shape_is_refused),
      cmocka_unit_test(a_checkpoint_of_a_graph_that_failed_fails_as_it_did),
      cmocka_unit_test(a_rule_with_wrong_operands_or_results_is_refused_with_both_shapes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
