/* Loops and branches in a graph: against jax's values and texts, and against the same written
   out. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <stdio.h>

#include "base/npy.h"
#include "tests/model/grid.h"
#include "tests/model/jaxprs.h"
#include "tests/vectors.h"

static mr_diag_t diag;

#define OK(call)                               \
  do {                                         \
    diag = (mr_diag_t){0};                     \
    if ((call) < 0) fail_msg("%s", diag.text); \
  } while (0)

static double *numbers(const char *name, size_t *n) {
  char path[VECTORS_PATH], file_name[128];
  mr_npy_t a = {0};
  snprintf(file_name, sizeof file_name, "transforms/%s.npy", name);
  vectors_path(path, file_name);
  OK(mr_npy_load(path, &a, &diag));
  double *v = doubles((int64_t)a.count);
  for (size_t i = 0; i < a.count; i++) v[i] = (double)((const float *)a.data)[i];
  *n = a.count;
  mr_npy_free(&a);
  return v;
}

/* f at loop.x is the array named want. */
static void gives(const mr_fn_t *f, const char *want) {
  size_t n, m;
  double *x = numbers("loop.x", &n), *w = numbers(want, &m), *y[1];
  run_as_it_is(f, &x, y);
  assert_int_equal(n, m);
  for (size_t i = 0; i < n; i++)
    if (!(fabs(y[0][i] - w[i]) <= 1e-6))
      fail_msg("%s[%zu]: %.9g, want %.9g", want, i, y[0][i], w[i]);
  free(x);
  free(w);
  free(y[0]);
}

/* x -> 0.5 x + 0.1 sin(x), after a counter if it is wanted. */
static mr_fn_t *wave(bool counter) {
  mr_fn_t *b = mr_fn_create();
  if (counter) mr_fn_input(b, mr_aval_scalar(MR_I32));
  mr_var_t *x = mr_fn_input(b, mr_aval_of(MR_F32, 3, 4)), *half = mr_lax_scale(b, 0.5, x);
  x = mr_lax_add(b, half, mr_lax_scale(b, 0.1, mr_lax_sin(b, x)));
  assert_int_equal(mr_fn_return(b, 1, &x), MR_OK);
  return b;
}

static mr_fn_t *ten_waves(void) {
  mr_fn_t *f = mr_fn_create(), *b = wave(true);
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 3, 4));
  if (mr_lax_fori_loop(f, 0, 10, b, 0, &x, &x) < 0) fail_msg("%s", f->diag.text);
  assert_int_equal(mr_fn_return(f, 1, &x), MR_OK);
  mr_fn_destroy(b);
  return f;
}

static void fori_loop_prints_as_in_jax_and_gives_its_values(void **state) {
  mr_fn_t *f = ten_waves();
  assert_jaxpr(f, "fori_loop 10x");
  gives(f, "loop.fori");
  mr_fn_destroy(f);
}

static void the_gradient_through_a_scan_is_that_of_jax(void **state) {
  mr_fn_t *f = mr_fn_create(), *b = wave(false), *g = NULL;
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 3, 4));
  if (mr_lax_scan(f, b, &(mr_scan_t){.length = 10, .n_carry = 1}, &x, &x) < 0)
    fail_msg("%s", f->diag.text);
  x = mr_lax_reduce_sum(f, x, 2, (int[]){0, 1});
  assert_int_equal(mr_fn_return(f, 1, &x), MR_OK);
  OK(mr_grad(f, 1, (int[]){0}, &g, &diag));
  gives(g, "loop.scan_grad");
  mr_fn_destroy(f);
  mr_fn_destroy(b);
  mr_fn_destroy(g);
}

enum { LAYERS = 5, N = 32 };

/* (x, w) -> tanh(sin(exp(x w))) on (32,32). */
static mr_fn_t *layer(void) {
  mr_fn_t *b = mr_fn_create();
  mr_var_t *x = mr_fn_input(b, mr_aval_of(MR_F32, N, N)), *w = mr_fn_input(b, x->aval);
  x = mr_lax_tanh(b, mr_lax_sin(b, mr_lax_exp(b, mr_lax_dot(b, x, w))));
  assert_int_equal(mr_fn_return(b, 1, &x), MR_OK);
  return b;
}

/* (x, W (5,32,32)) -> sum of x through five layers: as a scan, or written out. */
static mr_fn_t *stack(const mr_fn_t *b, bool scan) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, N, N));
  mr_var_t *w = mr_fn_input(f, mr_aval_of(MR_F32, LAYERS, N, N)), *in[] = {x, w};
  if (scan && mr_lax_scan(f, b, &(mr_scan_t){.length = LAYERS, .n_carry = 1}, in, &x) < 0)
    fail_msg("%s", f->diag.text);
  for (int64_t i = 0; i < LAYERS && !scan; i++) {
    int64_t from[] = {i, 0, 0}, to[] = {i + 1, N, N};
    in[0] = x;
    in[1] = mr_lax_reshape_to(f, mr_lax_slice(f, w, from, to), N, N);
    assert_int_equal(mr_inline(f, b, in, &x), MR_OK);
  }
  x = mr_lax_reduce_sum(f, x, 2, (int[]){0, 1});
  assert_int_equal(mr_fn_return(f, 1, &x), MR_OK);
  return f;
}

static size_t peak_of(const mr_fn_t *f) {
  mr_exec_t *x = NULL;
  OK(mr_compile(f, NULL, &x, &diag));
  size_t n = mr_exec_peak_bytes(x);
  mr_exec_destroy(x);
  return n;
}

static void draw(double *v, int64_t n) {
  for (int64_t i = 0; i < n; i++) v[i] = random_in(-0.3, 0.3);
}

static void a_stack_of_layers_as_a_scan_is_the_layers_written_out(void **state) {
  mr_fn_t *b = layer(), *f[2], *g[2];
  double *in[] = {doubles(N * N), doubles(LAYERS * N * N)};
  draw(in[0], N * N);
  draw(in[1], LAYERS * N * N);
  for (int i = 0; i < 2; i++) {
    f[i] = stack(b, i);
    OK(mr_value_and_grad(f[i], 2, (int[]){0, 1}, &g[i], &diag));
  }
  assert_same_fn("five layers", g[1], g[0], in, 1e-12);
  assert_true(g[1]->n_eqn < g[0]->n_eqn / 3);
  assert_true(peak_of(f[1]) <= peak_of(f[0]));
  for (int i = 0; i < 2; i++) {
    mr_fn_destroy(f[i]);
    mr_fn_destroy(g[i]);
  }
  free_all(2, in);
  mr_fn_destroy(b);
}

static void a_step_under_checkpoint_keeps_its_carry_alone(void **state) {
  mr_fn_t *b[2] = {layer()}, *g[2];
  double *in[] = {doubles(N * N), doubles(LAYERS * N * N)};
  draw(in[0], N * N);
  draw(in[1], LAYERS * N * N);
  OK(mr_checkpoint(b[0], NULL, &b[1], &diag));
  for (int i = 0; i < 2; i++) {
    mr_fn_t *f = stack(b[i], true);
    OK(mr_grad(f, 2, (int[]){0, 1}, &g[i], &diag));
    const mr_eqn_t *e = g[i]->eqn[0];
    assert_string_equal(e->op->name, "scan");
    assert_int_equal(e->n_out, i ? 2 : 4); /* the last x; each x; without, each exp and tanh too */
    mr_fn_destroy(f);
  }
  assert_same_fn("checkpoint", g[1], g[0], in, 1e-12);
  assert_true(peak_of(g[1]) < peak_of(g[0]));
  for (int i = 0; i < 2; i++) {
    mr_fn_destroy(b[i]);
    mr_fn_destroy(g[i]);
  }
  free_all(2, in);
}

static void a_scan_of_no_rows_gives_its_carry_back(void **state) {
  mr_fn_t *f = mr_fn_create(), *b = layer();
  mr_var_t *in[] = {mr_fn_input(f, mr_aval_of(MR_F32, N, N)),
                    mr_fn_input(f, mr_aval_of(MR_F32, 0, N, N))};
  mr_var_t *y;
  if (mr_lax_scan(f, b, &(mr_scan_t){.n_carry = 1}, in, &y) < 0) fail_msg("%s", f->diag.text);
  assert_int_equal(mr_fn_return(f, 1, &y), MR_OK);
  double *x[] = {doubles(N * N), doubles(1)}, *out[1];
  draw(x[0], N * N);
  run_f64(f, x, out);
  assert_near("no rows", f, out, x, 0);
  free_all(2, x);
  free_all(1, out);
  mr_fn_destroy(f);
  mr_fn_destroy(b);
}

static void operands_that_do_not_fit_a_scan_are_named(void **state) {
  mr_fn_t *f = mr_fn_create(), *b = layer();
  const char *outer = mr_scope_enter(f, "stack");
  mr_var_t *in[] = {mr_fn_input(f, mr_aval_of(MR_F32, N, N)),
                    mr_fn_input(f, mr_aval_of(MR_F32, 3, N, 7))};
  mr_var_t *y;
  assert_int_equal(mr_lax_scan(f, b, &(mr_scan_t){.length = 3, .n_carry = 1}, in, &y),
                   MR_ERR_SHAPE);
  assert_string_equal(f->diag.text,
                      "stack: scan: operand 1 is f32[3,32,7], the function wants f32[3,32,32]");
  mr_scope_leave(f, outer);
  mr_fn_destroy(f);
  mr_fn_destroy(b);
  b = mr_fn_create();
  f = mr_fn_create();
  y = mr_lax_convert(b, mr_fn_input(b, mr_aval_scalar(MR_F32)), MR_BF16);
  mr_fn_return(b, 1, &y);
  in[0] = mr_fn_input(f, mr_aval_scalar(MR_F32));
  assert_int_equal(mr_lax_scan(f, b, &(mr_scan_t){.length = 3, .n_carry = 1}, in, &y),
                   MR_ERR_SHAPE);
  assert_string_equal(f->diag.text, "scan: carry 0 enters a step as f32[] and leaves it as bf16[]");
  mr_fn_destroy(f);
  mr_fn_destroy(b);
}

/* One of x + 1 and 2 x on f32[3]. */
static mr_fn_t *branch(bool add) {
  mr_fn_t *b = mr_fn_create();
  mr_var_t *x = mr_fn_input(b, mr_aval_of(MR_F32, 3));
  x = add ? mr_lax_add(b, x, mr_literal(b, MR_F32, 1)) : mr_lax_mul(b, x, mr_literal(b, MR_F32, 2));
  assert_int_equal(mr_fn_return(b, 1, &x), MR_OK);
  return b;
}

static void cond_prints_as_in_jax_and_runs_one_branch(void **state) {
  mr_fn_t *f = mr_fn_create(), *yes = branch(true), *no = branch(false);
  mr_var_t *pred = mr_fn_input(f, mr_aval_scalar(MR_BOOL));
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 3));
  if (mr_lax_cond(f, pred, yes, no, &x, &x) < 0) fail_msg("%s", f->diag.text);
  assert_int_equal(mr_fn_return(f, 1, &x), MR_OK);
  assert_jaxpr(f, "cond");
  for (int which = 0; which < 2; which++) {
    double p = which, v[] = {1, 2, 4}, *in[] = {&p, v}, *y[1];
    run_as_it_is(f, in, y);
    for (int i = 0; i < 3; i++) assert_true(y[0][i] == (which ? v[i] + 1 : 2 * v[i]));
    free(y[0]);
  }
  mr_fn_destroy(f);
  mr_fn_destroy(yes);
  mr_fn_destroy(no);
}

static int times_in(const char *text, const char *what) {
  int n = 0;
  for (; (text = strstr(text, what)); text += strlen(what)) n++;
  return n;
}

/* sum(cond(p, tanh(x), exp(x) sin(x))): one branch keeps one value, the other two. */
static void the_way_back_of_cond_computes_nothing_again(void **state) {
  mr_fn_t *f = mr_fn_create(), *b[2] = {mr_fn_create(), mr_fn_create()}, *g = NULL;
  for (int i = 0; i < 2; i++) {
    mr_var_t *x = mr_fn_input(b[i], mr_aval_of(MR_F32, 3));
    x = i ? mr_lax_tanh(b[i], x) : mr_lax_mul(b[i], mr_lax_exp(b[i], x), mr_lax_sin(b[i], x));
    assert_int_equal(mr_fn_return(b[i], 1, &x), MR_OK);
  }
  mr_var_t *pred = mr_fn_input(f, mr_aval_scalar(MR_BOOL));
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 3));
  assert_int_equal(mr_lax_cond(f, pred, b[1], b[0], &x, &x), MR_OK);
  x = mr_lax_reduce_sum(f, x, 1, (int[]){0});
  assert_int_equal(mr_fn_return(f, 1, &x), MR_OK);
  OK(mr_grad(f, 1, (int[]){1}, &g, &diag));
  char *text = mr_fn_text(g);
  assert_int_equal(times_in(text, " = tanh "), 1);
  assert_int_equal(times_in(text, " = exp "), 1);
  assert_int_equal(times_in(text, " = sin "), 1);
  for (int i = 0; i < g->n_eqn; i++)
    if (g->eqn[i]->op == &mr_op_cond && g->eqn[i]->n_in == 2)
      assert_int_equal(g->eqn[i]->n_out, 3); /* the result and two places, shared by both */
  for (int which = 0; which < 2; which++) {
    double p = which, v[] = {0.5, -1, 2}, *in[] = {&p, v}, *y[1];
    run_as_it_is(g, in, y);
    for (int i = 0; i < 3; i++) {
      double want = which ? 1 - tanh(v[i]) * tanh(v[i]) : exp(v[i]) * (sin(v[i]) + cos(v[i]));
      assert_true(fabs(y[0][i] - want) < 1e-5);
    }
    free(y[0]);
  }
  free(text);
  mr_fn_destroy(f), mr_fn_destroy(g), mr_fn_destroy(b[0]), mr_fn_destroy(b[1]);
}

static void branches_that_differ_are_named(void **state) {
  mr_fn_t *f = mr_fn_create(), *b[2] = {branch(true), mr_fn_create()};
  mr_var_t *x = mr_lax_reduce_sum(b[1], mr_fn_input(b[1], mr_aval_of(MR_F32, 3)), 1, (int[]){0});
  assert_int_equal(mr_fn_return(b[1], 1, &x), MR_OK);
  x = mr_fn_input(f, mr_aval_of(MR_F32, 3));
  assert_int_equal(mr_lax_cond(f, mr_literal(f, MR_F32, 1), b[0], b[1], &x, &x), MR_ERR_SHAPE);
  assert_string_equal(f->diag.text, "cond: the predicate is f32[], want bool[]");
  mr_fn_destroy(f);
  f = mr_fn_create();
  x = mr_fn_input(f, mr_aval_of(MR_F32, 3));
  assert_int_equal(mr_lax_cond(f, mr_literal(f, MR_BOOL, 1), b[0], b[1], &x, &x), MR_ERR_SHAPE);
  assert_string_equal(f->diag.text, "cond: result 0 is f32[] in branch 0, f32[3] in branch 1");
  mr_fn_destroy(f);
  for (int i = 0; i < 2; i++) mr_fn_destroy(b[i]);
}

/* x -> x halved until it is at most the bound; and how often. */
static mr_fn_t *halved(void) {
  mr_fn_t *f = mr_fn_create(), *c = mr_fn_create(), *b = mr_fn_create();
  mr_aval_t s = mr_aval_scalar(MR_F32), n = mr_aval_scalar(MR_I32);
  mr_var_t *bound = mr_fn_input(c, s), *y[2], *in[3];
  y[0] = mr_lax_gt(c, mr_fn_input(c, s), bound);
  mr_fn_input(c, n);
  mr_fn_return(c, 1, y);
  y[0] = mr_lax_scale(b, 0.5, mr_fn_input(b, s));
  y[1] = mr_lax_add(b, mr_fn_input(b, n), mr_literal(b, MR_I32, 1));
  mr_fn_return(b, 2, y);
  in[1] = mr_fn_input(f, s);
  in[0] = mr_fn_input(f, s);
  in[2] = mr_literal(f, MR_I32, 0);
  if (mr_lax_while(f, c, 1, b, 0, in, y) < 0) fail_msg("%s", f->diag.text);
  assert_int_equal(mr_fn_return(f, 2, y), MR_OK);
  mr_fn_destroy(c);
  mr_fn_destroy(b);
  return f;
}

static void a_mapped_while_continues_until_all_examples_are_done(void **state) {
  mr_fn_t *f = halved(), *m = NULL;
  OK(mr_vmap(f, 4, (int[]){0, MR_UNMAPPED}, NULL, &m, &diag));
  double x[] = {0.5, 8, 100, NAN}, bound = 1, *in[] = {x, &bound}, *y[2];
  double want[] = {0.5, 1, 0.78125, NAN}, steps[] = {0, 3, 7, 0};
  run_as_it_is(m, in, y);
  for (int i = 0; i < 4; i++) {
    assert_true(y[0][i] == want[i] || (isnan(y[0][i]) && isnan(want[i])));
    assert_true(y[1][i] == steps[i]);
  }
  free_all(2, y);
  mr_fn_destroy(f);
  mr_fn_destroy(m);
}

static void while_has_forward_mode_and_says_that_it_has_no_other(void **state) {
  mr_fn_t *f = halved(), *j = NULL, *g = NULL;
  double x = 100, bound = 1, t = 1, *in[] = {&x, &bound, &t}, *y[4];
  OK(mr_jvp(f, 1, (int[]){0}, &j, &diag));
  run_as_it_is(j, in, y);
  assert_true(y[0][0] == 0.78125 && y[1][0] == 7 && y[2][0] == 1.0 / 128);
  free_all(4, y);
  diag = (mr_diag_t){0};
  assert_int_equal(mr_grad(f, 1, (int[]){0}, &g, &diag), MR_ERR_NORULE);
  assert_string_equal(diag.text, "while has no vjp rule");
  mr_fn_destroy(f);
  mr_fn_destroy(j);
}

/* (x, k) -> sin(x) times what k, or a value of x that has no slope, is halved to. */
static mr_fn_t *beside_a_constant_loop(int how) {
  mr_fn_t *f = mr_fn_create(), *h = halved();
  mr_var_t *x = mr_fn_input(f, mr_aval_scalar(MR_F32)), *k = mr_fn_input(f, x->aval), *y[2];
  mr_var_t *start[] = {k, mr_lax_stop_gradient(f, x), mr_lax_sign(f, x), mr_lax_floor(f, x)};
  assert_int_equal(mr_inline(f, h, (mr_var_t *[]){start[how], mr_literal(f, MR_F32, 0.75)}, y),
                   MR_OK);
  y[0] = mr_lax_mul(f, mr_lax_sin(f, x), y[0]);
  if (mr_fn_return(f, 2, y) < 0) fail_msg("%s", f->diag.text);
  mr_fn_destroy(h);
  return f;
}

enum { PLAIN, IN_JIT, IN_CHECKPOINT, IN_COND, IN_SCAN, N_AROUND };

static mr_fn_t *inside(const mr_fn_t *b, int around) {
  mr_fn_t *f = mr_fn_create(), *saved = NULL;
  mr_var_t *y[3], *in[] = {mr_fn_input(f, b->in[0]->aval), mr_fn_input(f, b->in[1]->aval)};
  mr_var_t *of_step[] = {in[1], in[0]}; /* k is a constant, x a row */
  mr_fn_t *step = mr_fn_create();
  of_step[1] = mr_lax_reshape_to(f, in[0], 1);
  mr_var_t *k = mr_fn_input(step, b->in[1]->aval), *x = mr_fn_input(step, b->in[0]->aval);
  mr_inline(step, b, (mr_var_t *[]){x, k}, y);
  mr_fn_return(step, 2, y);
  switch (around) {
    case IN_JIT: mr_lax_jit(f, "inner", b, in, y); break;
    case IN_CHECKPOINT:
      OK(mr_checkpoint(b, NULL, &saved, &diag));
      mr_inline(f, saved, in, y);
      break;
    case IN_COND: mr_lax_cond(f, mr_literal(f, MR_BOOL, 1), b, b, in, y); break;
    case IN_SCAN:
      mr_lax_scan(f, step, &(mr_scan_t){.length = 1, .n_consts = 1}, of_step, y);
      y[0] = mr_lax_reshape(f, y[0], 0, NULL);
      break;
    default: mr_inline(f, b, in, y); break;
  }
  if (mr_fn_return(f, 1, y) < 0) fail_msg("%s", f->diag.text);
  mr_fn_destroy(saved);
  mr_fn_destroy(step);
  return f;
}

static void reverse_mode_passes_a_while_that_no_tangent_reaches(void **state) {
  const double held[] = {0.5, 0.625, 0.5, 0.5}; /* 1, 1.25, sign and floor of it, halved once */
  for (int i = 0; i < 4 * N_AROUND; i++) {
    mr_fn_t *b = beside_a_constant_loop(i / N_AROUND), *f = inside(b, i % N_AROUND), *g = NULL;
    double x = 1.25, k = 1, ct = 2, *in[] = {&x, &k, &ct}, *y[1];
    OK(mr_vjp(f, 1, (int[]){0}, &g, &diag));
    run_as_it_is(g, in, y);
    assert_true(fabs(y[0][0] - 2 * cos(x) * held[i / N_AROUND]) < 1e-6);
    free(y[0]);
    mr_fn_destroy(b), mr_fn_destroy(f), mr_fn_destroy(g);
  }
}

/* (x, p) -> cond(x > 0, sqrt(p x), 2 p x) */
static mr_fn_t *root_or_double(void) {
  mr_fn_t *f = mr_fn_create(), *b[2] = {mr_fn_create(), mr_fn_create()};
  mr_aval_t a = mr_aval_scalar(MR_F32);
  for (int i = 0; i < 2; i++) {
    mr_var_t *x = mr_fn_input(b[i], a), *y = mr_lax_mul(b[i], x, mr_fn_input(b[i], a));
    y = i ? mr_lax_sqrt(b[i], y) : mr_lax_scale(b[i], 2, y);
    assert_int_equal(mr_fn_return(b[i], 1, &y), MR_OK);
  }
  mr_var_t *in[] = {mr_fn_input(f, a), mr_fn_input(f, a)}, *y;
  mr_var_t *pred = mr_lax_gt(f, in[0], mr_literal(f, MR_F32, 0));
  assert_int_equal(mr_lax_cond(f, pred, b[1], b[0], in, &y), MR_OK);
  assert_int_equal(mr_fn_return(f, 1, &y), MR_OK);
  mr_fn_destroy(b[0]), mr_fn_destroy(b[1]);
  return f;
}

/* The root has no finite slope at 0 and none below, where the other branch is taken. */
static void slopes_of_a_branch_not_taken_stay_out_of_a_mapped_cond(void **state) {
  mr_fn_t *f = root_or_double(), *m = NULL, *g[2] = {NULL, NULL};
  double x[] = {1, -1, 0, 4}, p = 1, ct[] = {1, 1, 1, 1}, *in[] = {x, &p, ct}, *y[3];
  const double dx[] = {0.5, 2, 2, 0.25}, dp = 0.5 - 2 + 0 + 1;
  OK(mr_vmap(f, 4, (int[]){0, MR_UNMAPPED}, NULL, &m, &diag));
  OK(mr_vjp(m, 2, (int[]){0, 1}, &g[0], &diag));
  run_as_it_is(g[0], in, y);
  for (int i = 0; i < 4; i++) assert_true(fabs(y[0][i] - dx[i]) < 1e-6);
  assert_true(fabs(y[1][0] - dp) < 1e-6);
  free_all(2, y);
  OK(mr_jvp(m, 1, (int[]){0}, &g[1], &diag));
  run_as_it_is(g[1], in, y);
  for (int i = 0; i < 4; i++) assert_true(fabs(y[1][i] - dx[i]) < 1e-6);
  free_all(2, y);
  mr_fn_destroy(f), mr_fn_destroy(m), mr_fn_destroy(g[0]), mr_fn_destroy(g[1]);
}

/* x -> cond(true, 2 x, x) beside the root of x as an integer: whose slope at 0 is infinite, and
   does not matter. */
static void an_operand_of_cond_that_has_no_slope_in_any_branch_gets_none(void **state) {
  mr_fn_t *f = mr_fn_create(), *b[2] = {mr_fn_create(), mr_fn_create()}, *g = NULL;
  mr_aval_t a = mr_aval_scalar(MR_F32);
  for (int i = 0; i < 2; i++) {
    mr_var_t *x = mr_fn_input(b[i], a), *root = mr_fn_input(b[i], a);
    mr_var_t *y[] = {i ? mr_lax_scale(b[i], 2, x) : x, mr_lax_convert(b[i], root, MR_I32)};
    assert_int_equal(mr_fn_return(b[i], 2, y), MR_OK);
  }
  mr_var_t *x = mr_fn_input(f, a), *y[2];
  assert_int_equal(mr_lax_cond(f, mr_literal(f, MR_BOOL, 1), b[1], b[0],
                               (mr_var_t *[]){x, mr_lax_sqrt(f, x)}, y),
                   MR_OK);
  assert_int_equal(mr_fn_return(f, 1, y), MR_OK);
  OK(mr_grad(f, 1, (int[]){0}, &g, &diag));
  double at = 0, *in[] = {&at}, *dx[1];
  run_as_it_is(g, in, dx);
  assert_true(dx[0][0] == 2);
  free(dx[0]);
  mr_fn_destroy(f), mr_fn_destroy(g), mr_fn_destroy(b[0]), mr_fn_destroy(b[1]);
}

/* A named axis inside a step: psum over examples, bound by the vmap around the scan. */
static void a_step_may_speak_over_the_axis_that_is_mapped_around_the_loop(void **state) {
  mr_fn_t *b = mr_fn_create(), *f = mr_fn_create(), *m = NULL;
  mr_var_t *x = mr_fn_input(b, mr_aval_scalar(MR_F32));
  mr_var_t *i = mr_lax_convert(b, mr_lax_axis_index(b, "i"), MR_F32);
  x = mr_lax_add(b, i, mr_lax_psum(b, x, "i"));
  assert_int_equal(mr_fn_return(b, 1, &x), MR_OK);
  x = mr_fn_input(f, mr_aval_scalar(MR_F32));
  if (mr_lax_scan(f, b, &(mr_scan_t){.length = 2, .n_carry = 1}, &x, &x) < 0)
    fail_msg("%s", f->diag.text);
  assert_int_equal(mr_fn_return(f, 1, &x), MR_OK);
  OK(mr_vmap_axis(f, "i", 3, NULL, NULL, &m, &diag));
  double v[] = {1, 2, 4}, *in[] = {v}, *y[1];
  run_as_it_is(m, in, y);
  for (int k = 0; k < 3; k++) assert_true(y[0][k] == (7 + 8 + 9) + k);
  free(y[0]);
  mr_fn_destroy(b);
  mr_fn_destroy(f);
  mr_fn_destroy(m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(fori_loop_prints_as_in_jax_and_gives_its_values),
      cmocka_unit_test(the_gradient_through_a_scan_is_that_of_jax),
      cmocka_unit_test(a_stack_of_layers_as_a_scan_is_the_layers_written_out),
      cmocka_unit_test(a_step_under_checkpoint_keeps_its_carry_alone),
      cmocka_unit_test(a_scan_of_no_rows_gives_its_carry_back),
      cmocka_unit_test(operands_that_do_not_fit_a_scan_are_named),
      cmocka_unit_test(cond_prints_as_in_jax_and_runs_one_branch),
      cmocka_unit_test(the_way_back_of_cond_computes_nothing_again),
      cmocka_unit_test(branches_that_differ_are_named),
      cmocka_unit_test(a_mapped_while_continues_until_all_examples_are_done),
      cmocka_unit_test(while_has_forward_mode_and_says_that_it_has_no_other),
      cmocka_unit_test(reverse_mode_passes_a_while_that_no_tangent_reaches),
      cmocka_unit_test(slopes_of_a_branch_not_taken_stay_out_of_a_mapped_cond),
      cmocka_unit_test(an_operand_of_cond_that_has_no_slope_in_any_branch_gets_none),
      cmocka_unit_test(a_step_may_speak_over_the_axis_that_is_mapped_around_the_loop),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
