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

#include "tests/model/made.h"

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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_pair_of_transforms_holds_on_every_op),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
