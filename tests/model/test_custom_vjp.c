/* Rules of one's own that are not the derivatives: every figure tells whether the rule, what it is
   made of or the function itself was differentiated.  The figures are jax 0.10.2's. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include "tests/model/grid.h"

static const double X = 1.5; /* where everything is evaluated */

static mr_fn_t *scalar_fn(mr_var_t **x) {
  mr_fn_t *f = mr_fn_create();
  *x = mr_fn_input(f, mr_aval_scalar(MR_F32));
  return f;
}

static mr_fn_t *returning(mr_fn_t *f, mr_var_t *y) {
  if (mr_fn_return(f, 1, &y) < 0) fail_msg("%s", f->diag.text);
  return f;
}

/* |x|, with the rule fwd: (|x|, x), bwd: 7 ct x^3. */
static mr_var_t *own(mr_fn_t *f, mr_var_t *x) {
  mr_var_t *a, *r, *y = NULL;
  mr_fn_t *body = scalar_fn(&a), *fwd, *bwd;
  returning(body, mr_lax_abs(body, a));
  fwd = scalar_fn(&a);
  mr_fn_return(fwd, 2, (mr_var_t *[]){mr_lax_abs(fwd, a), a});
  bwd = scalar_fn(&r);
  a = mr_fn_input(bwd, mr_aval_scalar(MR_F32));
  returning(bwd, mr_lax_mul(bwd, mr_lax_scale(bwd, 7, a), mr_lax_integer_pow(bwd, r, 3)));
  mr_lax_custom_vjp(f, body, fwd, bwd, &x, &y);
  mr_fn_destroy(body);
  mr_fn_destroy(fwd);
  mr_fn_destroy(bwd);
  return y;
}

static mr_fn_t *own_fn(void) {
  mr_var_t *x;
  mr_fn_t *f = scalar_fn(&x);
  return returning(f, own(f, x));
}

static mr_var_t *square(mr_fn_t *f, mr_var_t *x) { return mr_lax_integer_pow(f, x, 2); }

static mr_var_t *plain(mr_fn_t *f, mr_var_t *x) { return own(f, x); }
static mr_var_t *squared(mr_fn_t *f, mr_var_t *x) { return square(f, own(f, x)); }

static mr_var_t *in_jit(mr_fn_t *f, mr_var_t *x) {
  mr_fn_t *b = own_fn();
  mr_var_t *y = NULL;
  mr_lax_jit(f, "own", b, &x, &y);
  mr_fn_destroy(b);
  return square(f, y);
}

static mr_var_t *in_checkpoint(mr_fn_t *f, mr_var_t *x) {
  mr_fn_t *b = own_fn();
  mr_var_t *y = NULL;
  mr_lax_checkpoint(f, b, 0, &x, &y);
  mr_fn_destroy(b);
  return square(f, y);
}

/* own where x > 0, else x^2. */
static mr_var_t *chosen(mr_fn_t *f, mr_var_t *x, mr_fn_t *b) {
  mr_var_t *a, *y = NULL;
  mr_fn_t *other = scalar_fn(&a);
  returning(other, square(other, a));
  mr_lax_cond(f, mr_lax_gt(f, x, mr_literal(f, MR_F32, 0)), b, other, &x, &y);
  mr_fn_destroy(b);
  mr_fn_destroy(other);
  return y;
}

static mr_var_t *in_cond(mr_fn_t *f, mr_var_t *x) { return square(f, chosen(f, x, own_fn())); }

/* The sum of own(c) over three steps c -> own(c) / 10. */
static mr_var_t *steps(mr_fn_t *f, mr_var_t *x) {
  mr_var_t *c, *y[2] = {NULL};
  mr_fn_t *b = scalar_fn(&c);
  c = own(b, c);
  mr_fn_return(b, 2, (mr_var_t *[]){mr_lax_scale(b, 0.1, c), c});
  mr_lax_scan(f, b, &(mr_scan_t){.length = 3, .n_carry = 1}, &x, y);
  mr_fn_destroy(b);
  return mr_lax_reduce_sum(f, y[1], 1, (int[]){0});
}

static mr_var_t *in_scan(mr_fn_t *f, mr_var_t *x) { return square(f, steps(f, x)); }

static mr_var_t *in_scan_in_checkpoint(mr_fn_t *f, mr_var_t *x) {
  mr_var_t *a, *y = NULL;
  mr_fn_t *b = scalar_fn(&a);
  returning(b, steps(b, a));
  mr_lax_checkpoint(f, b, 0, &x, &y);
  mr_fn_destroy(b);
  return square(f, y);
}

static mr_var_t *in_checkpoint_in_cond_in_jit(mr_fn_t *f, mr_var_t *x) {
  mr_var_t *a, *y = NULL;
  mr_fn_t *b = scalar_fn(&a), *c = own_fn(), *r = NULL;
  mr_diag_t diag = {0};
  assert_int_equal(mr_checkpoint(c, NULL, &r, &diag), MR_OK);
  returning(b, chosen(b, a, r));
  mr_lax_jit(f, "chosen", b, &x, &y);
  mr_fn_destroy(b);
  mr_fn_destroy(c);
  return square(f, y);
}

static mr_var_t *in_vmap(mr_fn_t *f, mr_var_t *x) {
  mr_fn_t *b = own_fn(), *m = NULL;
  mr_diag_t diag = {0};
  mr_var_t *row[2] = {mr_lax_reshape(f, x, 1, (int64_t[]){1})}, *y = NULL;
  row[1] = mr_lax_scale(f, 2, row[0]);
  assert_int_equal(mr_vmap(b, 2, NULL, NULL, &m, &diag), MR_OK);
  x = mr_lax_concatenate(f, 2, row, 0);
  mr_inline(f, m, &x, &y);
  mr_fn_destroy(b);
  mr_fn_destroy(m);
  return square(f, mr_lax_reduce_sum(f, y, 1, (int[]){0}));
}

/* x^3 times a value that is constant for derivatives. */
static mr_var_t *in_stop_gradient(mr_fn_t *f, mr_var_t *x) {
  return mr_lax_mul(f, mr_lax_integer_pow(f, x, 3), mr_lax_stop_gradient(f, own(f, x)));
}

static mr_var_t *in_while(mr_fn_t *f, mr_var_t *x) {
  mr_fn_t *cond = mr_fn_create(), *body = mr_fn_create();
  mr_aval_t i = mr_aval_scalar(MR_I32), a = mr_aval_scalar(MR_F32);
  mr_var_t *n = mr_fn_input(cond, i), *y[2] = {NULL}, *v;
  mr_fn_input(cond, a);
  returning(cond, mr_lax_lt(cond, n, mr_literal(cond, MR_I32, 2)));
  n = mr_fn_input(body, i), v = mr_fn_input(body, a);
  n = mr_lax_add(body, n, mr_literal(body, MR_I32, 1));
  mr_fn_return(body, 2, (mr_var_t *[]){n, own(body, v)});
  mr_lax_while(f, cond, 0, body, 0, (mr_var_t *[]){mr_literal(f, MR_I32, 0), x}, y);
  mr_fn_destroy(cond);
  mr_fn_destroy(body);
  return y[1];
}

/* own with a jvp rule around it: (own(x), 5 dx).  Its second derivative is the rule's again, 50;
   jax's is that of what the rule gives as value, own: 236.25 by grad(grad), refused by hvp. */
static mr_var_t *in_custom_jvp(mr_fn_t *f, mr_var_t *x) {
  mr_var_t *a, *d, *y = NULL;
  mr_fn_t *body = own_fn(), *rule = scalar_fn(&a);
  d = mr_fn_input(rule, mr_aval_scalar(MR_F32));
  mr_fn_return(rule, 2, (mr_var_t *[]){own(rule, a), mr_lax_scale(rule, 5, d)});
  mr_lax_custom_jvp(f, body, rule, &x, &y);
  mr_fn_destroy(body);
  mr_fn_destroy(rule);
  return square(f, y);
}

/* x^2 whose rule calls own: fwd: (own(x), x), bwd: ct own(x). */
static mr_var_t *around(mr_fn_t *f, mr_var_t *x) {
  mr_var_t *a, *r, *y = NULL;
  mr_fn_t *body = scalar_fn(&a), *fwd, *bwd;
  returning(body, square(body, a));
  fwd = scalar_fn(&a);
  mr_fn_return(fwd, 2, (mr_var_t *[]){own(fwd, a), a});
  bwd = scalar_fn(&r);
  a = mr_fn_input(bwd, mr_aval_scalar(MR_F32));
  returning(bwd, mr_lax_mul(bwd, a, own(bwd, r)));
  mr_lax_custom_vjp(f, body, fwd, bwd, &x, &y);
  mr_fn_destroy(body);
  mr_fn_destroy(fwd);
  mr_fn_destroy(bwd);
  return y;
}

static mr_var_t *around_squared(mr_fn_t *f, mr_var_t *x) { return square(f, around(f, x)); }

#define REFUSED (-1.0) /* by forward mode of a custom_vjp */
#define NO_VJP (-2.0)  /* reverse mode of a loop of unknown length */

typedef struct row {
  const char *name;
  mr_var_t *(*build)(mr_fn_t *f, mr_var_t *x);
  double value, jvp, grad, value_under_grad, grad_grad, hvp;
} row_t;

static const row_t rows[] = {
    {"the call", plain, 1.5, REFUSED, 23.625, 1.5, 47.25, 47.25},
    {"its square", squared, 2.25, REFUSED, 70.875, 2.25, 189, 189},
    {"jit", in_jit, 2.25, REFUSED, 70.875, 2.25, 189, 189},
    {"checkpoint", in_checkpoint, 2.25, REFUSED, 70.875, 2.25, 189, 189},
    {"cond", in_cond, 2.25, REFUSED, 70.875, 2.25, 189, 189},
    {"scan", in_scan, 2.772225, REFUSED, 78.85712, 2.772225, 210.6573, 210.6573},
    {"scan in checkpoint", in_scan_in_checkpoint, 2.772225, REFUSED, 78.85712, 2.772225, 210.6573,
     210.6573},
    {"checkpoint in cond in jit", in_checkpoint_in_cond_in_jit, 2.25, REFUSED, 70.875, 2.25, 189,
     189},
    {"vmap", in_vmap, 20.25, REFUSED, 3614.625, 20.25, 9639, 9639},
    {"stop_gradient", in_stop_gradient, 5.0625, REFUSED, 10.125, 5.0625, 13.5, 13.5},
    {"while", in_while, 1.5, REFUSED, NO_VJP, NO_VJP, NO_VJP, NO_VJP},
    {"custom_jvp", in_custom_jvp, 2.25, 15, 15, 2.25, 50, 50},
    {"custom_vjp", around, 2.25, REFUSED, 1.5, 1.5, 23.625, REFUSED},
    {"the square of custom_vjp", around_squared, 5.0625, REFUSED, 4.5, 2.25, 141.75, REFUSED},
};

/* Output k of g at X, with the tangent 1 where it takes one; g is destroyed. */
static double at_x(mr_fn_t *g, int k) {
  double x = X, t = 1, *in[] = {&x, &t}, *y[4];
  run_as_it_is(g, in, y);
  double v = y[k][0];
  free_all(g->n_out, y);
  mr_fn_destroy(g);
  return v;
}

/* err: of what made g; its output k, or which refusal it was. */
static double figure(const char *what, mr_err_t err, mr_fn_t *g, int k, mr_diag_t *diag) {
  mr_diag_t why = *diag;
  *diag = (mr_diag_t){0};
  if (err >= 0) return at_x(g, k);
  assert_int_equal(err, MR_ERR_NORULE);
  if (strstr(why.text, "while has no vjp rule")) return NO_VJP;
  if (!strstr(why.text,
              "custom_vjp_call: forward mode (jvp, jacfwd, linearize) cannot go through "
              "a function whose vjp rule its author has written"))
    fail_msg("%s: %s", what, why.text);
  return REFUSED;
}

static void expect(const row_t *r, const char *what, double got, double want) {
  if (fabs(got - want) > 1e-5 * (1 + fabs(want)))
    fail_msg("%s of %s is %.9g, want %.9g", what, r->name, got, want);
}

static void grad_of_grad(const row_t *r, const mr_fn_t *f) {
  mr_fn_t *g = NULL, *gg = NULL;
  mr_diag_t diag = {0};
  mr_err_t err = mr_grad(f, 1, (int[]){0}, &g, &diag);
  if (err >= 0) err = mr_grad(g, 1, (int[]){0}, &gg, &diag);
  expect(r, "grad(grad)", figure(r->name, err, gg, 0, &diag), r->grad_grad);
  mr_fn_destroy(g);
}

static void check_row(const row_t *r, const mr_fn_t *f) {
  const int wrt[] = {0};
  mr_fn_t *g = NULL;
  mr_diag_t diag = {0};
  expect(r, "the value", at_x(mr_fn_copy(f, NULL), 0), r->value);
  mr_err_t err = mr_jvp(f, 1, wrt, &g, &diag);
  expect(r, "jvp", figure(r->name, err, g, 1, &diag), r->jvp);
  err = mr_value_and_grad(f, 1, wrt, &g, &diag);
  expect(r, "grad", figure(r->name, err, g, 1, &diag), r->grad);
  err = mr_value_and_grad(f, 1, wrt, &g, &diag);
  expect(r, "the value under grad", figure(r->name, err, g, 0, &diag), r->value_under_grad);
  err = mr_hvp(f, 1, wrt, &g, &diag);
  expect(r, "hvp", figure(r->name, err, g, 0, &diag), r->hvp);
  err = mr_jacrev(f, 1, wrt, &g, &diag);
  expect(r, "jacrev", figure(r->name, err, g, 0, &diag), r->grad);
  grad_of_grad(r, f);
}

static void every_derivative_of_a_rule_of_ones_own_is_that_of_jax_or_refused_as_there(void **s) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    mr_var_t *x;
    mr_fn_t *f = scalar_fn(&x);
    returning(f, rows[i].build(f, x));
    check_row(&rows[i], f);
    mr_fn_destroy(f);
  }
}

static void the_refusal_names_the_scope_and_what_to_use(void **s) {
  mr_var_t *x;
  mr_fn_t *f = scalar_fn(&x), *g = NULL;
  mr_diag_t diag = {0};
  mr_scope_enter(f, "model");
  mr_scope_enter(f, "head");
  returning(f, own(f, x));
  assert_int_equal(mr_jvp(f, 1, (int[]){0}, &g, &diag), MR_ERR_NORULE);
  assert_string_equal(diag.text,
                      "model/head: custom_vjp_call: forward mode (jvp, jacfwd, linearize) cannot "
                      "go through a function whose vjp rule its author has written; use reverse "
                      "mode, or give it a jvp rule (mr_lax_custom_jvp), which serves both");
  mr_fn_destroy(f);
}

/* What does not depend on a tangent is no business of forward mode. */
static void forward_mode_beside_the_call_is_none_through_it(void **s) {
  mr_var_t *x, *y;
  mr_fn_t *f = scalar_fn(&x), *j = NULL;
  mr_diag_t diag = {0};
  y = mr_fn_input(f, mr_aval_scalar(MR_F32));
  returning(f, mr_lax_mul(f, own(f, x), y));
  assert_int_equal(mr_jvp(f, 1, (int[]){1}, &j, &diag), MR_OK);
  double in[] = {3, 2, 1}, *at[] = {&in[0], &in[1], &in[2]}, *out[2];
  run_as_it_is(j, at, out);
  assert_true(out[0][0] == 6 && out[1][0] == 3);
  free_all(2, out);
  mr_fn_destroy(f);
  mr_fn_destroy(j);
}

/* Two sweeps over one graph, as of two losses: the rule serves both. */
static void the_rule_holds_for_a_second_sweep_over_the_same_graph(void **s) {
  mr_var_t *x, *y, *d[3];
  mr_fn_t *f = scalar_fn(&x);
  y = own(f, x);
  d[0] = y;
  assert_int_equal(mr_backward(f, y, mr_literal(f, MR_F32, 1), 1, &x, &d[1]), MR_OK);
  assert_int_equal(mr_backward(f, square(f, y), mr_literal(f, MR_F32, 1), 1, &x, &d[2]), MR_OK);
  assert_int_equal(mr_fn_return(f, 3, d), MR_OK);
  double at = X, *in[] = {&at}, *out[3];
  run_as_it_is(f, in, out);
  assert_true(out[0][0] == 1.5 && out[1][0] == 23.625 && out[2][0] == 70.875);
  free_all(3, out);
  mr_fn_destroy(f);
}

/* The sweep over a gradient in the same graph goes through bwd and the residual it reads. */
static void a_gradient_in_a_graph_can_be_swept_again(void **s) {
  mr_var_t *x, *d, *dd;
  mr_fn_t *f = scalar_fn(&x), *parsed = NULL;
  mr_diag_t diag = {0};
  assert_int_equal(mr_backward(f, own(f, x), mr_literal(f, MR_F32, 1), 1, &x, &d), MR_OK);
  assert_int_equal(mr_backward(f, d, mr_literal(f, MR_F32, 1), 1, &x, &dd), MR_OK);
  returning(f, dd);
  char *text = mr_fn_text(f);
  assert_non_null(strstr(text, "residuals=1")); /* what has been swept is printed and read so */
  if (mr_fn_parse(text, &parsed, &diag) < 0) fail_msg("%s", diag.text);
  expect(&rows[0], "the second sweep", at_x(f, 0), 47.25);
  expect(&rows[0], "the second sweep, read back,", at_x(parsed, 0), 47.25);
  free(text);
}

/* A text may claim residuals that the call does not have: more, or fewer than none. */
static void residuals_that_a_call_cannot_have_are_refused(void **s) {
  static const char text[] =
      "{ lambda ; a:f32[]. let\n"
      "    b:f32[] c:f32[] = custom_vjp_call[\n"
      "      bwd_jaxpr={ lambda ; a:f32[] b:f32[] c:f32[]. let  in (a,) }\n"
      "      call_jaxpr={ lambda ; a:f32[]. let  in (a, a) }\n"
      "      fwd_jaxpr={ lambda ; a:f32[]. let  in (a, a, a) }\n"
      "      residuals=%d\n"
      "    ] a\n"
      "  in (b,) }";
  const int wrong[] = {-1, 3};
  for (int i = 0; i < 2; i++) {
    char full[sizeof text + 8];
    mr_fn_t *f = NULL;
    mr_diag_t diag = {0};
    snprintf(full, sizeof full, text, wrong[i]);
    assert_int_equal(mr_fn_parse(full, &f, &diag), MR_ERR_DATA);
    assert_non_null(strstr(diag.text, "want 0 to 2"));
  }
}

/* sin(x), whose author says that its slope is 5. */
static mr_fn_t *own_jvp_fn(void) {
  mr_var_t *x, *t, *y = NULL, *all[2];
  mr_fn_t *f, *body = scalar_fn(&x), *rule;
  returning(body, mr_lax_sin(body, x));
  rule = scalar_fn(&x);
  t = mr_fn_input(rule, x->aval);
  all[0] = mr_lax_sin(rule, x), all[1] = mr_lax_scale(rule, 5, t);
  mr_fn_return(rule, 2, all);
  f = scalar_fn(&x);
  mr_lax_custom_jvp(f, body, rule, &x, &y);
  mr_fn_destroy(body), mr_fn_destroy(rule);
  return returning(f, y);
}

static void a_graph_written_as_primitives_keeps_its_authors_rules(void **state) {
  mr_fn_t *made[] = {own_fn(), own_jvp_fn()}, *open = NULL, *g = NULL;
  const double want[] = {7 * X * X * X, 5};
  mr_diag_t diag = {0};
  for (int i = 0; i < 4; i++) {
    mr_err_t err = (i < 2 ? mr_open : mr_in_f64)(made[i % 2], &open, &diag);
    if (err < 0 || mr_grad(open, 1, (int[]){0}, &g, &diag) < 0) fail_msg("%s", diag.text);
    assert_true(fabs(at_x(g, 0) - want[i % 2]) < 1e-5);
    mr_fn_destroy(open);
  }
  mr_fn_destroy(made[0]), mr_fn_destroy(made[1]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_derivative_of_a_rule_of_ones_own_is_that_of_jax_or_refused_as_there),
      cmocka_unit_test(the_refusal_names_the_scope_and_what_to_use),
      cmocka_unit_test(forward_mode_beside_the_call_is_none_through_it),
      cmocka_unit_test(the_rule_holds_for_a_second_sweep_over_the_same_graph),
      cmocka_unit_test(a_graph_written_as_primitives_keeps_its_authors_rules),
      cmocka_unit_test(a_gradient_in_a_graph_can_be_swept_again),
      cmocka_unit_test(residuals_that_a_call_cannot_have_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
