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

/* J t by forward mode, by differences where an op has no such rule; how near it is. */
static double slopes_along(const func_t *p, double *const *t, double **jt) {
  double *both[GRID_MAX];
  if (p->reverse_only) {
    differences(p, t, jt);
    return 2e-6;
  }
  mr_fn_t *j = make_jvp(p);
  run(p, j, t, both);
  free_all(p->f->n_out, both);
  for (int k = 0; k < p->f->n_out; k++) jt[k] = both[p->f->n_out + k];
  mr_fn_destroy(j);
  return 1e-7;
}

/* <ct, J t> = <J' ct, t>, with all outputs at once. */
static void vjp_is_the_transpose(const func_t *p) {
  double *t[GRID_MAX], *ct[GRID_MAX], *jt[GRID_MAX], *back[GRID_MAX], there = 0, here = 0;
  mr_fn_t *v = make_vjp(p);
  tangents_of(p, t);
  for (int k = 0; k < p->f->n_out; k++) ct[k] = values(p->f->out[k], -1, 1);
  double near = slopes_along(p, t, jt);
  run(p, v, ct, back);
  for (int k = 0; k < p->f->n_out; k++) there += dot(p->f->out[k], ct[k], jt[k]);
  for (int i = 0; i < p->n_wrt; i++) here += dot(v->out[i], back[i], t[i]);
  if (!(fabs(there - here) <= near * (1 + fabs(there))))
    fail_msg("%s: <ct, J t> is %.12g, <J' ct, t> is %.12g", p->name, there, here);
  free_all(p->n_wrt, t);
  free_all(p->f->n_out, ct);
  free_all(p->f->n_out, jt);
  free_all(v->n_out, back);
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

/* What a transform needs of a function, and leaves of its calls. */
typedef enum mode {
  CALLS = 1,   /* calls stay calls */
  FORWARD = 2, /* takes forward mode through them */
  REVERSE = 4, /* takes reverse mode through them */
  SECOND = 8,  /* then forward mode through what ran there */
} modes_t;

typedef struct inner {
  const char *name;
  mr_fn_t *(*make)(const func_t *p);
  int mode;
  bool maps, forward_only, reverse_only; /* inputs get one dimension more; modes through it */
  gives_t gives;
} inner_t;

static const inner_t inner[] = {
    {"jvp", make_jvp, FORWARD, .gives = ALIKE},
    {"vjp", make_vjp, REVERSE, .gives = ALIKE},
    {"grad", make_grad, REVERSE, .gives = ALIKE},
    {"jacfwd", make_jacfwd, FORWARD, .gives = BLOCKS},
    {"jacrev", make_jacrev, REVERSE, .gives = BLOCKS},
    {"hessian", make_hessian, REVERSE, .gives = SQUARES},
    {"hvp", make_hvp, REVERSE, .gives = ALIKE},
    {"linearize", make_linearize, FORWARD, .gives = ALIKE},
    {"vmap", make_vmap, CALLS, .maps = true, .gives = ALIKE},
    {"scan", make_scan, CALLS, .maps = true, .gives = ALIKE},
    {"checkpoint", make_checkpoint, CALLS, .gives = ALIKE},
    {"jit", make_jit, CALLS, .gives = ALIKE},
    {"cond", make_cond, CALLS, .gives = ALIKE},
    {"while", make_while, CALLS, .forward_only = true, .gives = ALIKE},
    {"custom_jvp", make_custom_jvp, FORWARD, .gives = ALIKE},
    {"custom_vjp", make_custom_vjp, REVERSE, .reverse_only = true, .gives = ALIKE},
};

typedef struct outer {
  const char *name;
  void (*check)(const func_t *p);
  int mode;
  bool of_scalar, maps; /* takes a scalar; adds a dimension */
  gives_t gives;
} outer_t;

static const outer_t outer[] = {
    {"jvp", jvp_is_differences, FORWARD, .gives = ALIKE},
    {"vjp", vjp_is_the_transpose, REVERSE, .gives = ALIKE},
    {"grad", grad_is_jacrev_of_a_scalar, REVERSE, .of_scalar = true, .gives = ALIKE},
    {"jacfwd = jacrev", jacfwd_is_jacrev, FORWARD | REVERSE, .gives = BLOCKS},
    {"hessian", hessian_times_a_vector_is_hvp, REVERSE | SECOND, .of_scalar = true,
     .gives = SQUARES},
    {"hvp", hvp_is_differences_of_grad, REVERSE | SECOND, .of_scalar = true, .gives = ALIKE},
    {"linearize", linearize_is_jvp, FORWARD, .gives = ALIKE},
    {"vmap", vmap_is_a_loop, CALLS, .maps = true, .gives = ALIKE},
    {"scan", scan_is_a_loop, CALLS, .maps = true, .gives = ALIKE},
    {"checkpoint", checkpoint_is_itself, CALLS, .gives = ALIKE},
    {"jit", jit_is_itself, CALLS, .gives = ALIKE},
    {"cond", cond_is_its_branch, CALLS, .gives = ALIKE},
    {"while", while_is_its_body, CALLS, .gives = ALIKE},
    {"custom_jvp", custom_jvp_is_itself, FORWARD, .gives = ALIKE},
    {"custom_vjp", custom_vjp_is_itself, REVERSE, .gives = ALIKE},
};

enum {
  INNER = sizeof inner / sizeof *inner,
  OUTER = sizeof outer / sizeof *outer,
  PAIRS = INNER * OUTER,
  SHARE = 8 /* a sample takes one in this many pairs */
};

/* The function that the inner transform makes, with values; its scalar where the outer takes one.
 */
static func_t transformed(const func_t *p, const inner_t *in, const outer_t *out) {
  func_t q = *p;
  int n = snprintf(q.name, sizeof q.name, "%s of %s of %s", out->name, in->name, p->name);
  assert_true(n < (int)sizeof q.name);
  q.f = in->make(p);
  q.reverse_only = in->reverse_only || (p->reverse_only && in->mode == CALLS);
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

/* Forward mode of what has no rule for it says so and names what does, as jax's. */
static void assert_refused(const func_t *p, int mode) {
  mr_fn_t *g = NULL, *h = NULL;
  mr_diag_t diag = {0};
  bool second = mode & SECOND;
  mr_err_t err[] = {second ? mr_hvp(p->f, p->n_wrt, p->wrt, &g, &diag)
                           : mr_jvp(p->f, p->n_wrt, p->wrt, &g, &diag),
                    second ? mr_hessian(p->f, p->n_wrt, p->wrt, &g, &diag)
                           : mr_jacfwd(p->f, p->n_wrt, p->wrt, &g, &diag),
                    second ? MR_ERR_NORULE : mr_linearize(p->f, p->n_wrt, p->wrt, &g, &h, &diag)};
  for (int i = 0; i < 3; i++)
    if (err[i] != MR_ERR_NORULE || !strstr(diag.text, "custom_vjp_call: forward mode") ||
        !strstr(diag.text, "mr_lax_custom_jvp"))
      fail_msg("%s: forward mode gives %d: %s", p->name, err[i], diag.text);
}

/* What outer o needs and the inner i of p does not let through: of a rule around a function that
   has one itself, fwd calls that, so that reverse mode goes through it once. */
static int refused(const func_t *p, int i, int o) {
  bool around = inner[i].make == make_custom_vjp;
  int lacks = around || (p->reverse_only && inner[i].mode == CALLS) ? FORWARD : 0;
  return outer[o].mode & (lacks | (around && p->reverse_only ? SECOND : 0));
}

static bool impossible(int i, int o) { return inner[i].forward_only && (outer[o].mode & REVERSE); }

static void try_pair(const func_t *p, int i, int o) {
  if (!fits(p, &inner[i], &outer[o]) || impossible(i, o)) return;
  tried[i][o]++;
  if (p->reverse_only && (inner[i].mode & FORWARD)) {
    assert_refused(p, FORWARD);
    return;
  }
  func_t q = transformed(p, &inner[i], &outer[o]);
  if (refused(p, i, o))
    assert_refused(&q, outer[o].mode);
  else
    outer[o].check(&q);
  func_fini(&q);
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
      if (!tried[i][o] && !impossible(i, o))
        fail_msg("%s of %s was not tried on any op", outer[o].name, inner[i].name);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_pair_of_transforms_holds_on_every_op),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
