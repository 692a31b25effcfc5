/* Every pair of transforms, the outer of the inner, on every op's samples in double precision:
   derivatives of what the inner one gives against finite differences and against each other, maps
   against a loop, and what changes no value against the inner one itself.

   MILLRACE_ALL_PAIRS=1 takes every pair with every sample; without, each sample takes its share of
   the pairs, and each pair many samples. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include "tests/model/cell.h"

enum { SIZE = 2 };

/* A function with values for its inputs; in[wrt[n_wrt]] are what it is derived by. */
typedef struct func {
  char name[160];
  mr_fn_t *f;
  int n_wrt, wrt[GRID_MAX];
  double lo[GRID_MAX], hi[GRID_MAX]; /* of inputs, for other values of them */
  double *in[GRID_MAX];
} func_t;

#define DO(p, call)                                           \
  do {                                                        \
    mr_diag_t diag = {0};                                     \
    if ((call) < 0) fail_msg("%s: %s", (p)->name, diag.text); \
  } while (0)

static double *values(const mr_var_t *v, double lo, double hi) {
  double *x = doubles(elems(v));
  for (int64_t k = 0; k < elems(v); k++)
    x[k] = mr_is_float(v->aval.dtype) ? random_in(lo, hi) : floor(random_in(lo, hi + 1));
  return x;
}

static void draw_all(func_t *q) {
  if (q->f->n_in > GRID_MAX) fail_msg("%s: %d inputs", q->name, q->f->n_in);
  for (int i = 0; i < q->f->n_in; i++) q->in[i] = values(q->f->in[i], q->lo[i], q->hi[i]);
}

static void func_fini(func_t *q) {
  free_all(q->f->n_in, q->in);
  mr_fn_destroy(q->f);
}

static func_t func_of(const cell_t *c) {
  func_t p = {.f = mr_fn_copy(c->s, NULL), .n_wrt = c->n_wrt};
  snprintf(p.name, sizeof p.name, "%s", c->name);
  memcpy(p.wrt, c->wrt, sizeof p.wrt);
  for (int i = 0; i < c->s->n_in; i++) {
    bool own = i < c->f->n_in;
    p.lo[i] = own ? c->sample.lo[i] : 0.5, p.hi[i] = own ? c->sample.hi[i] : 1.5;
  }
  draw_all(&p);
  return p;
}

/* ---- the transforms: p's function to another one; its first inputs are p's ---- */

static mr_fn_t *make_jvp(const func_t *p) {
  mr_fn_t *g = NULL;
  DO(p, mr_jvp(p->f, p->n_wrt, p->wrt, &g, &diag));
  return g;
}

static mr_fn_t *make_vjp(const func_t *p) {
  mr_fn_t *g = NULL;
  DO(p, mr_vjp(p->f, p->n_wrt, p->wrt, &g, &diag));
  return g;
}

static mr_fn_t *make_grad(const func_t *p) {
  mr_fn_t *g = NULL;
  DO(p, mr_value_and_grad(p->f, p->n_wrt, p->wrt, &g, &diag));
  return g;
}

static mr_fn_t *make_jacfwd(const func_t *p) {
  mr_fn_t *g = NULL;
  DO(p, mr_jacfwd(p->f, p->n_wrt, p->wrt, &g, &diag));
  return g;
}

static mr_fn_t *make_jacrev(const func_t *p) {
  mr_fn_t *g = NULL;
  DO(p, mr_jacrev(p->f, p->n_wrt, p->wrt, &g, &diag));
  return g;
}

static mr_fn_t *make_hessian(const func_t *p) {
  mr_fn_t *g = NULL;
  DO(p, mr_hessian(p->f, p->n_wrt, p->wrt, &g, &diag));
  return g;
}

static mr_fn_t *make_hvp(const func_t *p) {
  mr_fn_t *g = NULL;
  DO(p, mr_hvp(p->f, p->n_wrt, p->wrt, &g, &diag));
  return g;
}

static mr_fn_t *make_checkpoint(const func_t *p) {
  mr_fn_t *g = NULL;
  DO(p, mr_checkpoint(p->f, mr_save_dots, &g, &diag));
  return g;
}

static mr_fn_t *make_vmap(const func_t *p) {
  mr_fn_t *g = NULL;
  DO(p, mr_vmap(p->f, SIZE, NULL, NULL, &g, &diag));
  return g;
}

static mr_fn_t *finish(const func_t *p, mr_fn_t *g, int n, mr_var_t *const *out) {
  if (g->diag.code < 0 || mr_fn_return(g, n, out) < 0) fail_msg("%s: %s", p->name, g->diag.text);
  return g;
}

/* A function with the inputs of like. */
static mr_fn_t *begin(const mr_fn_t *like) {
  mr_fn_t *g = mr_fn_create();
  for (int i = 0; i < like->n_in; i++) mr_fn_input(g, like->in[i]->aval);
  return g;
}

/* The point and its linear function, one after the other. */
static mr_fn_t *make_linearize(const func_t *p) {
  mr_fn_t *point = NULL, *linear = NULL, *g = begin(p->f);
  mr_var_t *y[GRID_MAX], *in[GRID_MAX], *out[GRID_MAX];
  int n = p->f->n_out;
  DO(p, mr_linearize(p->f, p->n_wrt, p->wrt, &point, &linear, &diag));
  int kept = point->n_out - n;
  assert_true(point->n_out <= GRID_MAX && linear->n_in <= GRID_MAX && 2 * n <= GRID_MAX);
  mr_inline(g, point, g->in, y);
  for (int i = 0; i < linear->n_in; i++)
    in[i] = i < kept ? y[n + i] : mr_fn_input(g, linear->in[i]->aval);
  mr_inline(g, linear, in, out + n);
  for (int i = 0; i < n; i++) out[i] = y[i];
  mr_fn_destroy(point);
  mr_fn_destroy(linear);
  return finish(p, g, 2 * n, out);
}

static mr_fn_t *make_jit(const func_t *p) {
  mr_fn_t *g = begin(p->f);
  mr_var_t *y[GRID_MAX];
  mr_lax_jit(g, "inner", p->f, g->in, y);
  return finish(p, g, p->f->n_out, y);
}

static mr_fn_t *make_scan(const func_t *p) {
  mr_fn_t *g = mr_fn_create();
  mr_var_t *y[GRID_MAX];
  for (int i = 0; i < p->f->n_in; i++) {
    mr_aval_t a = p->f->in[i]->aval;
    for (int k = a.ndim++; k > 0; k--) a.dim[k] = a.dim[k - 1];
    a.dim[0] = SIZE;
    mr_fn_input(g, a);
  }
  mr_lax_scan(g, p->f, &(mr_scan_t){.length = SIZE}, g->in, y);
  return finish(p, g, p->f->n_out, y);
}

/* p's outputs, or ones where a condition that its author knows to be true is not. */
static mr_fn_t *make_cond(const func_t *p) {
  mr_fn_t *g = begin(p->f), *other = begin(p->f);
  mr_var_t *y[GRID_MAX];
  for (int k = 0; k < p->f->n_out; k++) y[k] = mr_lax_full(other, &p->f->out[k]->aval, 1);
  finish(p, other, p->f->n_out, y);
  mr_lax_cond(g, mr_literal(g, MR_BOOL, 1), p->f, other, g->in, y);
  mr_fn_destroy(other);
  return finish(p, g, p->f->n_out, y);
}

/* (inputs of p, i, outputs of p) -> what build makes of them. */
static mr_fn_t *loop_part(const func_t *p, bool body) {
  const mr_fn_t *f = p->f;
  mr_fn_t *g = body ? begin(f) : mr_fn_create();
  mr_var_t *out[GRID_MAX], *i = mr_fn_input(g, mr_aval_scalar(MR_I32));
  for (int k = 0; k < f->n_out; k++) mr_fn_input(g, f->out[k]->aval);
  if (!body) {
    out[0] = mr_lax_lt(g, i, mr_literal(g, MR_I32, 1));
    return finish(p, g, 1, out);
  }
  out[0] = mr_lax_add(g, i, mr_literal(g, MR_I32, 1));
  mr_inline(g, f, g->in, out + 1);
  return finish(p, g, 1 + f->n_out, out);
}

/* p's outputs by a loop that goes round once. */
static mr_fn_t *make_while(const func_t *p) {
  const mr_fn_t *f = p->f;
  mr_fn_t *g = begin(f), *cond = loop_part(p, false), *body = loop_part(p, true);
  mr_var_t *in[2 * GRID_MAX], *y[GRID_MAX];
  for (int i = 0; i < f->n_in; i++) in[i] = g->in[i];
  in[f->n_in] = mr_literal(g, MR_I32, 0);
  for (int k = 0; k < f->n_out; k++) in[f->n_in + 1 + k] = mr_lax_full(g, &f->out[k]->aval, 0);
  mr_lax_while(g, cond, 0, body, f->n_in, in, y);
  mr_fn_destroy(cond);
  mr_fn_destroy(body);
  return finish(p, g, f->n_out, y + 1);
}

static int floats_of(const mr_fn_t *f, int *which) {
  int n = 0;
  for (int i = 0; i < f->n_in; i++)
    if (mr_is_float(f->in[i]->aval.dtype)) which[n++] = i;
  return n;
}

/* p with its own jvp as the rule of its author's. */
static mr_fn_t *make_custom_jvp(const func_t *p) {
  const mr_fn_t *f = p->f;
  mr_fn_t *g = begin(f), *rule = begin(f), *j = NULL;
  int which[GRID_MAX], n = floats_of(f, which);
  mr_var_t *in[GRID_MAX], *y[GRID_MAX];
  for (int i = 0; i < f->n_in; i++) mr_fn_input(rule, f->in[i]->aval);
  DO(p, mr_jvp(f, n, which, &j, &diag));
  for (int i = 0; i < f->n_in; i++) in[i] = rule->in[i];
  for (int i = 0; i < n; i++) in[f->n_in + i] = rule->in[f->n_in + which[i]];
  mr_inline(rule, j, in, y);
  finish(p, rule, 2 * f->n_out, y);
  mr_lax_custom_jvp(g, f, rule, g->in, y);
  mr_fn_destroy(rule);
  mr_fn_destroy(j);
  return finish(p, g, f->n_out, y);
}

/* p with its own vjp as the rule of its author's; the inputs are what it keeps. */
static mr_fn_t *make_custom_vjp(const func_t *p) {
  const mr_fn_t *f = p->f;
  mr_fn_t *g = begin(f), *fwd = begin(f), *bwd = begin(f), *v = NULL;
  int which[GRID_MAX], n = floats_of(f, which);
  mr_var_t *y[GRID_MAX], *d[GRID_MAX], *all[GRID_MAX];
  mr_inline(fwd, f, fwd->in, y);
  for (int i = 0; i < f->n_in; i++) y[f->n_out + i] = fwd->in[i];
  finish(p, fwd, f->n_out + f->n_in, y);
  for (int k = 0; k < f->n_out; k++) mr_fn_input(bwd, f->out[k]->aval);
  DO(p, mr_vjp(f, n, which, &v, &diag));
  mr_inline(bwd, v, bwd->in, d);
  for (int i = 0; i < f->n_in; i++) all[i] = mr_lax_full(bwd, &f->in[i]->aval, 0);
  for (int i = 0; i < n; i++) all[which[i]] = d[i];
  finish(p, bwd, f->n_in, all);
  mr_lax_custom_vjp(g, f, fwd, bwd, g->in, y);
  mr_fn_t *used[] = {fwd, bwd, v};
  for (int i = 0; i < 3; i++) mr_fn_destroy(used[i]);
  return finish(p, g, f->n_out, y);
}

/* ---- what must hold of a function, whichever transform made it ---- */

static void run(const func_t *p, const mr_fn_t *f, double *const *more, double **out) {
  double *in[GRID_MAX];
  assert_true(f->n_in <= GRID_MAX);
  for (int i = 0; i < f->n_in; i++) in[i] = i < p->f->n_in ? p->in[i] : more[i - p->f->n_in];
  run_f64(f, in, out);
}

static void tangents_of(const func_t *p, double **t) {
  for (int i = 0; i < p->n_wrt; i++) t[i] = values(p->f->in[p->wrt[i]], -1, 1);
}

/* p's outputs at x + h t. */
static void run_at(const func_t *p, double *const *t, double h, double **out) {
  double *x[GRID_MAX];
  for (int i = 0; i < p->f->n_in; i++) x[i] = p->in[i];
  for (int i = 0; i < p->n_wrt; i++) {
    int64_t n = elems(p->f->in[p->wrt[i]]);
    double *moved = x[p->wrt[i]] = doubles(n);
    for (int64_t k = 0; k < n; k++) moved[k] = p->in[p->wrt[i]][k] + h * t[i][k];
  }
  run_f64(p->f, x, out);
  for (int i = 0; i < p->n_wrt; i++) free(x[p->wrt[i]]);
}

/* The derivative along t by four points. */
static void differences(const func_t *p, double *const *t, double **want) {
  static const double at[4] = {1, -1, 2, -2}, weight[4] = {8, -8, -1, 1};
  const double h = 2e-5; /* a kink so near is unlikely */
  for (int k = 0; k < p->f->n_out; k++) {
    want[k] = doubles(elems(p->f->out[k]));
    for (int64_t e = 0; e < elems(p->f->out[k]); e++) want[k][e] = 0;
  }
  for (int i = 0; i < 4; i++) {
    double *y[GRID_MAX];
    run_at(p, t, at[i] * h, y);
    for (int k = 0; k < p->f->n_out; k++)
      for (int64_t e = 0; e < elems(p->f->out[k]); e++)
        want[k][e] += weight[i] * y[k][e] / (12 * h);
    free_all(p->f->n_out, y);
  }
}

static void jvp_is_differences(const func_t *p) {
  double *t[GRID_MAX], *want[GRID_MAX], *got[GRID_MAX];
  mr_fn_t *j = make_jvp(p);
  tangents_of(p, t);
  run(p, j, t, got);
  differences(p, t, want);
  assert_near(p->name, p->f, got + p->f->n_out, want, 2e-6);
  free_all(p->n_wrt, t);
  free_all(p->f->n_out, want);
  free_all(j->n_out, got);
  mr_fn_destroy(j);
}

static double dot(const mr_var_t *v, const double *a, const double *b) {
  double sum = 0;
  for (int64_t k = 0; k < elems(v); k++) sum += a[k] * b[k];
  return sum;
}

/* <ct, J t> = <J' ct, t>, with all outputs at once. */
static void vjp_is_the_transpose(const func_t *p) {
  double *t[GRID_MAX], *ct[GRID_MAX], *jt[GRID_MAX], *back[GRID_MAX], there = 0, here = 0;
  mr_fn_t *j = make_jvp(p), *v = make_vjp(p);
  tangents_of(p, t);
  for (int k = 0; k < p->f->n_out; k++) ct[k] = values(p->f->out[k], -1, 1);
  run(p, j, t, jt);
  run(p, v, ct, back);
  for (int k = 0; k < p->f->n_out; k++) there += dot(p->f->out[k], ct[k], jt[p->f->n_out + k]);
  for (int i = 0; i < p->n_wrt; i++) here += dot(v->out[i], back[i], t[i]);
  if (!(fabs(there - here) <= 1e-7 * (1 + fabs(there))))
    fail_msg("%s: <ct, J t> is %.12g, <J' ct, t> is %.12g", p->name, there, here);
  free_all(p->n_wrt, t);
  free_all(p->f->n_out, ct);
  free_all(j->n_out, jt);
  free_all(v->n_out, back);
  mr_fn_destroy(j);
  mr_fn_destroy(v);
}

static void same(const func_t *p, mr_fn_t *f, mr_fn_t *g, double tolerance) {
  assert_same_fn(p->name, f, g, p->in, tolerance);
  mr_fn_destroy(f);
  mr_fn_destroy(g);
}

static void jacfwd_is_jacrev(const func_t *p) { same(p, make_jacfwd(p), make_jacrev(p), 1e-8); }

static void grad_is_jacrev_of_a_scalar(const func_t *p) {
  mr_fn_t *g = make_grad(p);
  mr_fn_return(g, p->n_wrt, g->out + p->f->n_out);
  same(p, g, make_jacrev(p), 1e-10);
}

/* The Hessian by jacfwd of jacrev; times a vector as hvp says. */
static void hessian_times_a_vector_is_hvp(const func_t *p) {
  mr_fn_t *h = make_hessian(p), *v = make_hvp(p);
  double *t[GRID_MAX], *block[GRID_MAX], *want[GRID_MAX];
  tangents_of(p, t);
  run(p, h, NULL, block);
  run(p, v, t, want);
  for (int k = 0; k < p->n_wrt; k++)
    for (int64_t r = 0; r < elems(v->out[k]); r++) {
      double sum = 0;
      for (int i = 0; i < p->n_wrt; i++) {
        int64_t n = elems(p->f->in[p->wrt[i]]);
        for (int64_t c = 0; c < n; c++) sum += block[k * p->n_wrt + i][r * n + c] * t[i][c];
      }
      if (!(fabs(sum - want[k][r]) <= 1e-7 * (1 + fabs(sum))))
        fail_msg("%s: row %lld of the Hessian times t is %.12g, hvp %.12g", p->name, (long long)r,
                 sum, want[k][r]);
    }
  free_all(p->n_wrt, t);
  free_all(h->n_out, block);
  free_all(v->n_out, want);
  mr_fn_destroy(h);
  mr_fn_destroy(v);
}

static void hvp_is_differences_of_grad(const func_t *p) {
  func_t g = *p;
  mr_fn_t *h = make_hvp(p);
  double *t[GRID_MAX], *got[GRID_MAX], *want[GRID_MAX];
  DO(p, mr_grad(p->f, p->n_wrt, p->wrt, &g.f, &diag));
  tangents_of(p, t);
  run(p, h, t, got);
  differences(&g, t, want);
  assert_near(p->name, g.f, got, want, 2e-6);
  free_all(p->n_wrt, t);
  free_all(h->n_out, got);
  free_all(g.f->n_out, want);
  mr_fn_destroy(g.f);
  mr_fn_destroy(h);
}

static void linearize_is_jvp(const func_t *p) {
  mr_fn_t *l = make_linearize(p), *j = make_jvp(p);
  double *t[GRID_MAX], *got[GRID_MAX], *want[GRID_MAX];
  tangents_of(p, t);
  run(p, l, t, got);
  run(p, j, t, want);
  assert_near(p->name, j, got, want, 1e-10);
  free_all(p->n_wrt, t);
  free_all(l->n_out, got);
  free_all(j->n_out, want);
  mr_fn_destroy(l);
  mr_fn_destroy(j);
}

/* Example e of SIZE that lie one after the other. */
static void examples(const mr_fn_t *f, double *const *whole, int e, double **one) {
  for (int i = 0; i < f->n_in; i++) one[i] = whole[i] + e * elems(f->in[i]);
}

/* m has a row an example. */
static void is_a_loop(const func_t *p, mr_fn_t *m) {
  double *in[GRID_MAX], *got[GRID_MAX], *one[GRID_MAX], *want[GRID_MAX], *row[GRID_MAX];
  for (int i = 0; i < m->n_in; i++) in[i] = values(m->in[i], p->lo[i], p->hi[i]);
  run_f64(m, in, got);
  for (int e = 0; e < SIZE; e++) {
    examples(p->f, in, e, one);
    run_f64(p->f, one, want);
    for (int k = 0; k < m->n_out; k++) row[k] = got[k] + e * elems(p->f->out[k]);
    assert_near(p->name, p->f, row, want, 1e-9);
    free_all(p->f->n_out, want);
  }
  free_all(m->n_in, in);
  free_all(m->n_out, got);
  mr_fn_destroy(m);
}

static void vmap_is_a_loop(const func_t *p) { is_a_loop(p, make_vmap(p)); }
static void scan_is_a_loop(const func_t *p) { is_a_loop(p, make_scan(p)); }

static void is_itself(const func_t *p, mr_fn_t *g) {
  assert_same_fn(p->name, g, p->f, p->in, 1e-12);
  mr_fn_destroy(g);
}

static void checkpoint_is_itself(const func_t *p) { is_itself(p, make_checkpoint(p)); }
static void jit_is_itself(const func_t *p) { is_itself(p, make_jit(p)); }
static void cond_is_its_branch(const func_t *p) { is_itself(p, make_cond(p)); }
static void while_is_its_body(const func_t *p) { is_itself(p, make_while(p)); }
static void custom_jvp_is_itself(const func_t *p) { is_itself(p, make_custom_jvp(p)); }
static void custom_vjp_is_itself(const func_t *p) { is_itself(p, make_custom_vjp(p)); }

/* ---- the pairs ---- */

typedef enum gives {
  ALIKE,  /* of the dimensions of inputs */
  BLOCKS, /* input by output */
  SQUARES /* input by input by output */
} gives_t;

typedef struct inner {
  const char *name;
  mr_fn_t *(*make)(const func_t *p);
  bool maps, forward; /* inputs get one dimension more; no reverse mode through it */
  gives_t gives;
} inner_t;

static const inner_t inner[] = {
    {"jvp", make_jvp, false, false, ALIKE},
    {"vjp", make_vjp, false, false, ALIKE},
    {"grad", make_grad, false, false, ALIKE},
    {"jacfwd", make_jacfwd, false, false, BLOCKS},
    {"jacrev", make_jacrev, false, false, BLOCKS},
    {"hessian", make_hessian, false, false, SQUARES},
    {"hvp", make_hvp, false, false, ALIKE},
    {"linearize", make_linearize, false, false, ALIKE},
    {"vmap", make_vmap, true, false, ALIKE},
    {"scan", make_scan, true, false, ALIKE},
    {"checkpoint", make_checkpoint, false, false, ALIKE},
    {"jit", make_jit, false, false, ALIKE},
    {"cond", make_cond, false, false, ALIKE},
    {"while", make_while, false, true, ALIKE},
    {"custom_jvp", make_custom_jvp, false, false, ALIKE},
    {"custom_vjp", make_custom_vjp, false, false, ALIKE},
};

typedef struct outer {
  const char *name;
  void (*check)(const func_t *p);
  bool of_scalar, reverse, maps; /* takes a scalar; needs reverse mode; adds a dimension */
  gives_t gives;
} outer_t;

static const outer_t outer[] = {
    {"jvp", jvp_is_differences, false, false, false, ALIKE},
    {"vjp", vjp_is_the_transpose, false, true, false, ALIKE},
    {"grad", grad_is_jacrev_of_a_scalar, true, true, false, ALIKE},
    {"jacfwd = jacrev", jacfwd_is_jacrev, false, true, false, BLOCKS},
    {"hessian", hessian_times_a_vector_is_hvp, true, true, false, SQUARES},
    {"hvp", hvp_is_differences_of_grad, true, true, false, ALIKE},
    {"linearize", linearize_is_jvp, false, false, false, ALIKE},
    {"vmap", vmap_is_a_loop, false, false, true, ALIKE},
    {"scan", scan_is_a_loop, false, false, true, ALIKE},
    {"checkpoint", checkpoint_is_itself, false, false, false, ALIKE},
    {"jit", jit_is_itself, false, false, false, ALIKE},
    {"cond", cond_is_its_branch, false, false, false, ALIKE},
    {"while", while_is_its_body, false, false, false, ALIKE},
    {"custom_jvp", custom_jvp_is_itself, false, false, false, ALIKE},
    {"custom_vjp", custom_vjp_is_itself, false, true, false, ALIKE},
};

enum {
  INNER = sizeof inner / sizeof *inner,
  OUTER = sizeof outer / sizeof *outer,
  PAIRS = INNER * OUTER,
  SHARE = 8 /* a sample takes one in so many pairs */
};

/* The function that the inner transform makes, with values; its scalar where the outer takes one.
 */
static func_t transformed(const func_t *p, const inner_t *in, const outer_t *out) {
  func_t q = *p;
  int n = snprintf(q.name, sizeof q.name, "%s of %s of %s", out->name, in->name, p->name);
  assert_true(n < (int)sizeof q.name);
  q.f = in->make(p);
  if (out->of_scalar) {
    mr_fn_t *s = scalar_of(q.f);
    mr_fn_destroy(q.f);
    q.f = s;
  }
  for (int i = p->f->n_in; i < q.f->n_in && i < GRID_MAX; i++) q.lo[i] = 0.5, q.hi[i] = 1.5;
  draw_all(&q);
  return q;
}

/* Whether all values stay within MR_MAX_NDIM dimensions. */
static bool fits(const func_t *p, const inner_t *in, const outer_t *out) {
  int x = 0;
  for (int i = 0; i < p->n_wrt; i++)
    if (p->f->in[p->wrt[i]]->aval.ndim > x) x = p->f->in[p->wrt[i]]->aval.ndim;
  for (int i = 0; i < p->f->n_in; i++)
    if (p->f->in[i]->aval.ndim + in->maps + out->maps + 1 > MR_MAX_NDIM) return false;
  int y = in->gives == SQUARES ? 2 * x : x + in->maps;
  int deepest = out->gives == SQUARES  ? 2 * (x + in->maps)
                : out->gives == BLOCKS ? y + x + in->maps
                                       : y + out->maps;
  return deepest + 1 <= MR_MAX_NDIM; /* unit vectors are a dimension more */
}

static int tried[INNER][OUTER];

static void try_pair(const func_t *p, int i, int o) {
  if (!fits(p, &inner[i], &outer[o]) || (inner[i].forward && outer[o].reverse)) return;
  func_t q = transformed(p, &inner[i], &outer[o]);
  outer[o].check(&q);
  func_fini(&q);
  tried[i][o]++;
}

static void every_pair_of_transforms_holds_on_every_op(void **state) {
  bool all = getenv("MILLRACE_ALL_PAIRS") != NULL;
  cell_t c;
  for (int op = 0, turn = 0; op < mr_n_ops; op++)
    for (int k = 0; cell_init(&c, mr_ops[op], k); k++) {
      if (c.s && c.n_wrt && !c.forward_only) {
        func_t p = func_of(&c);
        for (int pair = all ? 0 : turn++ % SHARE; pair < PAIRS; pair += all ? 1 : SHARE)
          try_pair(&p, pair / OUTER, pair % OUTER);
        func_fini(&p);
      }
      cell_fini(&c);
    }
  for (int i = 0; i < INNER; i++)
    for (int o = 0; o < OUTER; o++)
      if (!tried[i][o] && !(inner[i].forward && outer[o].reverse))
        fail_msg("%s of %s was not tried on any op", outer[o].name, inner[i].name);
}

/* g on inputs of no examples: its outputs are shaped so, and running it does no harm. */
static void runs_empty(const char *name, const char *what, mr_fn_t *g) {
  double *in[GRID_MAX], *out[GRID_MAX];
  assert_true(g->n_in <= GRID_MAX && g->n_out <= GRID_MAX);
  for (int i = 0; i < g->n_in; i++) in[i] = values(g->in[i], 0, 0);
  run_as_it_is(g, in, out);
  for (int k = 0; k < g->n_out; k++)
    if (elems(g->out[k])) fail_msg("%s: %s of no examples gives %s", name, what, mr_fn_text(g));
  free_all(g->n_in, in);
  free_all(g->n_out, out);
  mr_fn_destroy(g);
}

static bool has_room(const mr_fn_t *f) {
  for (int i = 0; i < f->n_in; i++)
    if (f->in[i]->aval.ndim + 2 > MR_MAX_NDIM) return false;
  return true;
}

/* The first input mapped, the others shared: what fused kernels take as rows. */
static void try_first_alone(const cell_t *c) {
  int axes[GRID_MAX], out_axes[GRID_MAX] = {0};
  mr_fn_t *m = NULL;
  if (!c->f->n_in) return;
  for (int i = 0; i < c->f->n_in; i++) axes[i] = i ? MR_UNMAPPED : 0;
  DO(c, mr_vmap(c->f, 0, axes, out_axes, &m, &diag));
  runs_empty(c->name, "vmap over the first", m);
}

static void maps_and_loops_over_no_examples_run_on_every_op(void **state) {
  cell_t c;
  for (int op = 0; op < mr_n_ops; op++)
    for (int k = 0; cell_init(&c, mr_ops[op], k); k++) {
      mr_fn_t *m = NULL, *g = NULL, *mg = NULL, *s = mr_fn_create();
      mr_var_t *y[GRID_MAX];
      if (has_room(c.f)) {
        DO(&c, mr_vmap(c.f, 0, NULL, NULL, &m, &diag));
        runs_empty(c.name, "vmap", m);
        try_first_alone(&c);
        for (int i = 0; i < c.f->n_in; i++) {
          mr_aval_t a = c.f->in[i]->aval;
          for (int d = a.ndim++; d > 0; d--) a.dim[d] = a.dim[d - 1];
          a.dim[0] = 0;
          mr_fn_input(s, a);
        }
        mr_lax_scan(s, c.f, &(mr_scan_t){.length = 0}, s->in, y);
        if (mr_fn_return(s, c.f->n_out, y) < 0) fail_msg("%s: %s", c.name, s->diag.text);
        runs_empty(c.name, "scan", mr_fn_copy(s, NULL));
        if (c.s && c.n_wrt && !c.forward_only) {
          DO(&c, mr_grad(c.s, c.n_wrt, c.wrt, &g, &diag));
          DO(&c, mr_vmap(g, 0, NULL, NULL, &mg, &diag));
          runs_empty(c.name, "vmap of grad", mg);
        }
      }
      mr_fn_destroy(g);
      mr_fn_destroy(s);
      cell_fini(&c);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_pair_of_transforms_holds_on_every_op),
      cmocka_unit_test(maps_and_loops_over_no_examples_run_on_every_op),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
