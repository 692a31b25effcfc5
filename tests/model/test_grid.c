/* Every op of the table under every transform and pairs of them, on the op's own samples: against
   finite differences in double precision, against each other, and vmap against a loop.  An op
   added to the table is tested here without a line. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include "tests/model/cell.h"

/* (f(x + h t) - f(x - h t)) / 2h in double precision; x, t: inputs and tangents in c->in. */
static void differences(const cell_t *c, const mr_fn_t *f, double **want) {
  const double h = 1e-4;
  double *x[GRID_MAX], *up[GRID_MAX], *down[GRID_MAX];
  for (int i = 0; i < f->n_in; i++) x[i] = c->in[i];
  for (int side = 0; side < 2; side++) {
    for (int i = 0; i < c->n_wrt; i++) {
      int64_t n = elems(c->f->in[c->wrt[i]]);
      double *moved = x[c->wrt[i]] = doubles(n);
      for (int64_t k = 0; k < n; k++)
        moved[k] = c->in[c->wrt[i]][k] + (side ? -h : h) * c->in[c->n_values - c->n_wrt + i][k];
    }
    run_f64(f, x, side ? down : up);
    for (int i = 0; i < c->n_wrt; i++) free(x[c->wrt[i]]);
  }
  for (int i = 0; i < f->n_out; i++) {
    want[i] = doubles(elems(f->out[i]));
    for (int64_t k = 0; k < elems(f->out[i]); k++) want[i][k] = (up[i][k] - down[i][k]) / (2 * h);
  }
  free_all(f->n_out, up);
  free_all(f->n_out, down);
}

/* The graph in f32 with its fused kernels, and in f64 with all of it opened. */
static void assert_fused(const cell_t *c, const char *what, const mr_fn_t *f, double *const *in) {
  double *a[GRID_MAX], *b[GRID_MAX];
  char name[160];
  snprintf(name, sizeof name, "%s: %s in f32", c->name, what);
  run_as_it_is(f, in, a);
  run_f64(f, in, b);
  assert_near(name, f, a, b, 2e-4);
  free_all(f->n_out, a);
  free_all(f->n_out, b);
}

/* in: the values of f's inputs followed by the tangents. */
static void with_tangents(const cell_t *c, const mr_fn_t *f, double **in) {
  for (int i = 0; i < f->n_in; i++) in[i] = c->in[i];
  for (int i = 0; i < c->n_wrt; i++) in[f->n_in + i] = c->in[c->n_values - c->n_wrt + i];
}

static void check_jvp_of(const cell_t *c, const mr_fn_t *f, const char *what) {
  mr_fn_t *j = NULL;
  double *in[GRID_MAX], *got[GRID_MAX], *want[GRID_MAX];
  char name[160];
  snprintf(name, sizeof name, "%s: %s", c->name, what);
  TRY(mr_jvp(f, c->n_wrt, c->wrt, &j, &diag));
  with_tangents(c, f, in);
  run_f64(j, in, got);
  differences(c, f, want);
  for (int i = 0; i < f->n_out; i++) {
    if (mr_is_float(f->out[i]->aval.dtype)) continue;
    for (int64_t k = 0; k < elems(f->out[i]); k++) want[i][k] = 0; /* integers have none */
  }
  assert_near(name, f, got + f->n_out, want, 2e-6);
  assert_fused(c, what, j, in);
  free_all(j->n_out, got);
  free_all(f->n_out, want);
  mr_fn_destroy(j);
}

static void jvp_is_finite_differences(const cell_t *c) {
  assert_fused(c, "the op", c->f, c->in);
  check_jvp_of(c, c->f, "jvp");
}

/* d s along t: by forward mode, by differences where an op has no such rule. */
static double slope_along(const cell_t *c, double **in) {
  mr_fn_t *j = NULL;
  double *both[2], slope;
  if (c->reverse_only) {
    differences(c, c->s, both);
    slope = both[0][0];
    free(both[0]);
    return slope;
  }
  TRY(mr_jvp(c->s, c->n_wrt, c->wrt, &j, &diag));
  run_f64(j, in, both);
  slope = both[1][0];
  free_all(2, both);
  mr_fn_destroy(j);
  return slope;
}

/* <grad s, t> = d s along t: reverse mode against forward mode. */
static void grad_is_the_transpose_of_jvp(const cell_t *c) {
  mr_fn_t *g = NULL;
  double *in[GRID_MAX], *grad[GRID_MAX], sum = 0;
  TRY(mr_grad(c->s, c->n_wrt, c->wrt, &g, &diag));
  with_tangents(c, c->s, in);
  run_f64(g, in, grad);
  double slope = slope_along(c, in);
  for (int i = 0; i < c->n_wrt; i++)
    for (int64_t k = 0; k < elems(g->out[i]); k++) sum += grad[i][k] * in[c->s->n_in + i][k];
  if (fabs(sum - slope) > 1e-6 * (1 + fabs(sum)))
    fail_msg("%s: <grad, t> is %.12g, the slope along t %.12g", c->name, sum, slope);
  assert_fused(c, "grad", g, in);
  free_all(g->n_out, grad);
  mr_fn_destroy(g);
}

/* (x, w, t) -> sum of grad s times t, whose gradient is again the Hessian times t. */
static mr_fn_t *grad_times(const cell_t *c, const mr_fn_t *g) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *d[GRID_MAX], *sum = NULL;
  int axes[MR_MAX_NDIM] = {0, 1, 2, 3, 4, 5, 6, 7};
  for (int i = 0; i < g->n_in; i++) mr_fn_input(f, g->in[i]->aval);
  mr_inline(f, g, f->in, d);
  for (int i = 0; i < c->n_wrt; i++) {
    mr_var_t *v = mr_lax_mul(f, d[i], mr_fn_input(f, d[i]->aval));
    if (v && v->aval.ndim) v = mr_lax_reduce_sum(f, v, v->aval.ndim, axes);
    sum = sum ? mr_lax_add(f, sum, v) : v;
  }
  if (mr_fn_return(f, 1, &sum) < 0) fail_msg("%s: %s", c->name, f->diag.text);
  return f;
}

/* grad(jvp) is h, the hvp; jvp(jvp) by differences. */
static void derivatives_of_jvp_agree(const cell_t *c, const mr_fn_t *h, double *const *in) {
  mr_fn_t *j = NULL, *gj = NULL;
  char name[160];
  TRY(mr_jvp(c->s, c->n_wrt, c->wrt, &j, &diag));
  mr_fn_return(j, 1, j->out + 1);
  TRY(mr_grad(j, c->n_wrt, c->wrt, &gj, &diag));
  snprintf(name, sizeof name, "%s: grad(jvp)", c->name);
  assert_same_fn(name, gj, h, in, 1e-8);
  check_jvp_of(c, c->s, "jvp of the scalar");
  mr_fn_destroy(j);
  mr_fn_destroy(gj);
}

/* jvp(grad) by differences of grad; grad(grad) and grad(jvp) equal to it. */
static void second_derivatives_agree(const cell_t *c) {
  mr_fn_t *g = NULL, *h = NULL, *gt, *gg = NULL;
  double *in[GRID_MAX];
  char name[160];
  TRY(mr_grad(c->s, c->n_wrt, c->wrt, &g, &diag));
  check_jvp_of(c, g, "jvp(grad)");
  TRY(mr_hvp(c->s, c->n_wrt, c->wrt, &h, &diag));
  with_tangents(c, c->s, in);
  gt = grad_times(c, g);
  TRY(mr_grad(gt, c->n_wrt, c->wrt, &gg, &diag));
  snprintf(name, sizeof name, "%s: grad(grad)", c->name);
  assert_same_fn(name, gg, h, in, 1e-8);
  assert_fused(c, "grad(grad)", gg, in);
  if (!c->reverse_only) derivatives_of_jvp_agree(c, h, in);
  mr_fn_t *all[] = {g, h, gt, gg};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) mr_fn_destroy(all[i]);
}

static void linearize_is_jvp(const cell_t *c) {
  mr_fn_t *j = NULL, *point = NULL, *linear = NULL;
  double *in[GRID_MAX], *want[GRID_MAX], *at[GRID_MAX], *rest[GRID_MAX], *got[GRID_MAX];
  TRY(mr_jvp(c->f, c->n_wrt, c->wrt, &j, &diag));
  TRY(mr_linearize(c->f, c->n_wrt, c->wrt, &point, &linear, &diag));
  int n = c->f->n_out, kept = point->n_out - n;
  with_tangents(c, c->f, in);
  run_f64(j, in, want);
  run_f64(point, in, at);
  for (int i = 0; i < kept; i++) rest[i] = at[n + i];
  for (int i = 0; i < c->n_wrt; i++) rest[kept + i] = in[c->f->n_in + i];
  run_f64(linear, rest, got);
  assert_near(c->name, c->f, at, want, 1e-12);
  assert_near(c->name, linear, got, want + n, 1e-12);
  free_all(j->n_out, want);
  free_all(point->n_out, at);
  free_all(n, got);
  mr_fn_destroy(j);
  mr_fn_destroy(point);
  mr_fn_destroy(linear);
}

static void jacfwd_is_jacrev(const cell_t *c) {
  mr_fn_t *fwd = NULL, *rev = NULL;
  for (int i = 0; i < c->f->n_out; i++)
    if (!mr_is_float(c->f->out[i]->aval.dtype)) return;
  for (int i = 0; i < c->n_wrt;
       i++) /* a block of an attention's operand by its output is too deep */
    if (c->f->in[c->wrt[i]]->aval.ndim + c->f->out[0]->aval.ndim > MR_MAX_NDIM) return;
  TRY(mr_jacfwd(c->f, c->n_wrt, c->wrt, &fwd, &diag));
  TRY(mr_jacrev(c->f, c->n_wrt, c->wrt, &rev, &diag));
  assert_same_fn(c->name, fwd, rev, c->in, 1e-9);
  mr_fn_destroy(fwd);
  mr_fn_destroy(rev);
}

/* ---- vmap ---- */

enum { SIZE = 3 };

/* Example i of a whose dimension axis (of aval v with that dimension) is mapped, taken or put. */
static void move_example(const mr_aval_t *v, int axis, int64_t i, double *whole, double *one,
                         bool put) {
  int64_t outer = mr_aval_span(v, 0, axis), inner = mr_aval_span(v, axis + 1, v->ndim);
  for (int64_t o = 0; o < outer; o++)
    for (int64_t k = 0; k < inner; k++) {
      double *at = &whole[(o * v->dim[axis] + i) * inner + k], *el = &one[o * inner + k];
      *(put ? at : el) = *(put ? el : at);
    }
}

/* Values for the inputs of the mapped graph m of f, within the sample's ranges. */
static void draw_mapped(const cell_t *c, const mr_fn_t *f, const mr_fn_t *m, double **in) {
  for (int i = 0; i < m->n_in; i++) {
    int64_t n = elems(m->in[i]);
    in[i] = doubles(n);
    bool real = mr_is_float(f->in[i]->aval.dtype), own = i < c->f->n_in;
    double lo = own ? c->sample.lo[i] : 0.5, hi = own ? c->sample.hi[i] : 1.5;
    for (int64_t k = 0; k < n; k++)
      in[i][k] = real ? random_in(lo, hi) : floor(random_in(lo, hi + 1));
  }
}

static void check_vmap(const cell_t *c, const mr_fn_t *f, const int *in_axes, const int *out_axes,
                       const char *what) {
  mr_fn_t *m = NULL;
  double *in[GRID_MAX], *got[GRID_MAX], *one[GRID_MAX], *y[GRID_MAX];
  char name[160];
  snprintf(name, sizeof name, "%s: %s", c->name, what);
  TRY(mr_vmap(f, SIZE, in_axes, out_axes, &m, &diag));
  draw_mapped(c, f, m, in);
  run_f64(m, in, got);
  assert_fused(c, what, m, in);
  for (int64_t e = 0; e < SIZE; e++) {
    for (int i = 0; i < f->n_in; i++) {
      one[i] = doubles(elems(m->in[i]));
      if (in_axes[i] == MR_UNMAPPED)
        memcpy(one[i], in[i], (size_t)elems(m->in[i]) * sizeof(double));
      else
        move_example(&m->in[i]->aval, in_axes[i], e, in[i], one[i], false);
    }
    run_f64(f, one, y);
    free_all(f->n_in, one);
    for (int k = 0; k < f->n_out; k++) {
      one[k] = doubles(elems(f->out[k]));
      move_example(&m->out[k]->aval, out_axes[k], e, got[k], one[k], false);
    }
    assert_near(name, f, one, y, 1e-9);
    free_all(f->n_out, one);
    free_all(f->n_out, y);
  }
  free_all(m->n_in, in);
  free_all(m->n_out, got);
  mr_fn_destroy(m);
}

/* All inputs mapped, then each alone, at the first and at the last place. */
static void vmap_is_a_loop(const cell_t *c, const mr_fn_t *f, const char *what) {
  int in_axes[GRID_MAX], out_axes[GRID_MAX];
  for (int i = 0; i < f->n_in; i++)
    if (f->in[i]->aval.ndim >= MR_MAX_NDIM) return;
  for (int only = -1; only < f->n_in; only++)
    for (int last = 0; last < 2; last++) {
      for (int i = 0; i < f->n_in; i++) {
        in_axes[i] = last ? f->in[i]->aval.ndim : 0;
        if (only >= 0 && only != i) in_axes[i] = MR_UNMAPPED;
      }
      for (int k = 0; k < f->n_out; k++) out_axes[k] = last ? f->out[k]->aval.ndim : 0;
      check_vmap(c, f, in_axes, out_axes, what);
    }
}

static void vmap_of_transforms(const cell_t *c) {
  mr_fn_t *g = NULL, *h = NULL, *v = NULL;
  vmap_is_a_loop(c, c->f, "vmap");
  if (!c->s || !c->n_wrt || c->forward_only) return;
  int in_axes[GRID_MAX] = {0}, out_axes[GRID_MAX] = {0};
  TRY(mr_grad(c->s, c->n_wrt, c->wrt, &g, &diag));
  check_vmap(c, g, in_axes, out_axes, "vmap(grad)");
  TRY(mr_hvp(c->s, c->n_wrt, c->wrt, &h, &diag));
  check_vmap(c, h, in_axes, out_axes, "vmap(hvp)");
  TRY(mr_vmap(c->f, 2, NULL, NULL, &v, &diag));
  vmap_is_a_loop(c, v, "vmap(vmap)");
  mr_fn_destroy(g);
  mr_fn_destroy(h);
  mr_fn_destroy(v);
}

/* The gradient of the sum over examples is the gradients of the examples. */
static void grad_of_vmap_is_vmap_of_grad(const cell_t *c) {
  mr_fn_t *m = NULL, *g = NULL, *gm = NULL, *mg = NULL, *sum = mr_fn_create();
  int axes[GRID_MAX] = {0};
  double *in[GRID_MAX];
  mr_var_t *y;
  TRY(mr_vmap(c->s, SIZE, axes, axes, &m, &diag));
  for (int i = 0; i < m->n_in; i++) mr_fn_input(sum, m->in[i]->aval);
  mr_inline(sum, m, sum->in, &y);
  y = mr_lax_reduce_sum(sum, y, 1, (int[]){0});
  assert_int_equal(mr_fn_return(sum, 1, &y), MR_OK);
  TRY(mr_grad(sum, c->n_wrt, c->wrt, &gm, &diag));
  TRY(mr_grad(c->s, c->n_wrt, c->wrt, &g, &diag));
  TRY(mr_vmap(g, SIZE, axes, axes, &mg, &diag));
  draw_mapped(c, c->s, m, in);
  assert_same_fn(c->name, gm, mg, in, 1e-9);
  free_all(m->n_in, in);
  mr_fn_t *all[] = {m, g, gm, mg, sum};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) mr_fn_destroy(all[i]);
}

/* The scalar computed again in the backward pass, mapped and derived: as without. */
static void grad_of_vmap_of_checkpoint_is_that_of_the_scalar(const cell_t *c) {
  mr_fn_t *r = NULL, *m[2] = {NULL}, *g[2] = {NULL}, *h[2] = {NULL};
  double *in[GRID_MAX];
  TRY(mr_checkpoint(c->s, mr_save_dots, &r, &diag));
  for (int i = 0; i < 2; i++) {
    mr_var_t *y;
    mr_fn_t *sum = mr_fn_create();
    TRY(mr_vmap(i ? r : c->s, SIZE, NULL, NULL, &m[i], &diag));
    for (int k = 0; k < m[i]->n_in; k++) mr_fn_input(sum, m[i]->in[k]->aval);
    mr_inline(sum, m[i], sum->in, &y);
    y = mr_lax_reduce_sum(sum, y, 1, (int[]){0});
    assert_int_equal(mr_fn_return(sum, 1, &y), MR_OK);
    TRY(mr_grad(sum, c->n_wrt, c->wrt, &g[i], &diag));
    TRY(mr_hvp(i ? r : c->s, c->n_wrt, c->wrt, &h[i], &diag));
    mr_fn_destroy(sum);
  }
  draw_mapped(c, c->s, m[0], in);
  assert_same_fn(c->name, g[1], g[0], in, 1e-12);
  free_all(m[0]->n_in, in);
  with_tangents(c, c->s, in);
  assert_same_fn(c->name, h[1], h[0], in, 1e-12);
  mr_fn_destroy(r);
  for (int i = 0; i < 2; i++) {
    mr_fn_destroy(m[i]);
    mr_fn_destroy(g[i]);
    mr_fn_destroy(h[i]);
  }
}

/* ---- control flow around every op ---- */

/* f once a row of its stacked inputs, by scan. */
static mr_fn_t *scanned(const cell_t *c, const mr_fn_t *f) {
  mr_fn_t *s = mr_fn_create();
  mr_var_t *y[GRID_MAX];
  for (int i = 0; i < f->n_in; i++) {
    mr_aval_t a = f->in[i]->aval;
    for (int k = a.ndim++; k > 0; k--) a.dim[k] = a.dim[k - 1];
    a.dim[0] = SIZE;
    mr_fn_input(s, a);
  }
  if (mr_lax_scan(s, f, &(mr_scan_t){.length = SIZE}, s->in, y) < 0 ||
      mr_fn_return(s, f->n_out, y) < 0)
    fail_msg("%s: %s", c->name, s->diag.text);
  return s;
}

/* f, chosen by an index that is 1 among two others that give zeros. */
static mr_fn_t *chosen(const cell_t *c, const mr_fn_t *f) {
  mr_fn_t *s = mr_fn_create(), *zeros = mr_fn_create();
  mr_var_t *y[GRID_MAX];
  for (int i = 0; i < f->n_in; i++) mr_fn_input(s, f->in[i]->aval);
  for (int i = 0; i < f->n_in; i++) mr_fn_input(zeros, f->in[i]->aval);
  for (int k = 0; k < f->n_out; k++) y[k] = mr_lax_full(zeros, &f->out[k]->aval, 0);
  mr_fn_return(zeros, f->n_out, y);
  const mr_fn_t *branch[] = {zeros, f, zeros};
  if (mr_lax_switch(s, mr_literal(s, MR_I32, 1), 3, branch, s->in, y) < 0 ||
      mr_fn_return(s, f->n_out, y) < 0)
    fail_msg("%s: %s", c->name, s->diag.text);
  mr_fn_destroy(zeros);
  return s;
}

static void scan_is_vmap_and_cond_its_branch(const cell_t *c) {
  mr_fn_t *m = NULL, *s, *b = chosen(c, c->f);
  double *in[GRID_MAX];
  assert_same_fn(c->name, b, c->f, c->in, 0);
  mr_fn_destroy(b);
  for (int i = 0; i < c->f->n_in; i++)
    if (c->f->in[i]->aval.ndim == MR_MAX_NDIM) return;
  for (int k = 0; k < c->f->n_out; k++)
    if (c->f->out[k]->aval.ndim == MR_MAX_NDIM) return;
  TRY(mr_vmap(c->f, SIZE, NULL, NULL, &m, &diag));
  s = scanned(c, c->f);
  draw_mapped(c, c->f, m, in);
  assert_same_fn(c->name, s, m, in, 1e-9);
  free_all(m->n_in, in);
  mr_fn_destroy(m);
  mr_fn_destroy(s);
}

static void jvp_goes_through_cond(const cell_t *c, const mr_fn_t *b) {
  mr_fn_t *j = NULL, *jb = NULL;
  double *in[GRID_MAX];
  TRY(mr_jvp(c->s, c->n_wrt, c->wrt, &j, &diag));
  TRY(mr_jvp(b, c->n_wrt, c->wrt, &jb, &diag));
  with_tangents(c, c->s, in);
  assert_same_fn(c->name, jb, j, in, 1e-12);
  mr_fn_destroy(j);
  mr_fn_destroy(jb);
}

/* The scalar's gradient through scan and cond, by jvp too. */
static void grad_goes_through_scan_and_cond(const cell_t *c) {
  mr_fn_t *g = NULL, *s = scanned(c, c->s), *gs = NULL, *sg, *b = chosen(c, c->s), *gb = NULL;
  mr_fn_t *sum = mr_fn_create();
  double *in[GRID_MAX];
  mr_var_t *y;
  for (int i = 0; i < s->n_in; i++) mr_fn_input(sum, s->in[i]->aval);
  mr_inline(sum, s, sum->in, &y);
  y = mr_lax_reduce_sum(sum, y, 1, (int[]){0});
  assert_int_equal(mr_fn_return(sum, 1, &y), MR_OK);
  TRY(mr_grad(c->s, c->n_wrt, c->wrt, &g, &diag));
  TRY(mr_grad(sum, c->n_wrt, c->wrt, &gs, &diag));
  TRY(mr_grad(b, c->n_wrt, c->wrt, &gb, &diag));
  sg = scanned(c, g);
  draw_mapped(c, c->s, s, in);
  assert_same_fn(c->name, gs, sg, in, 1e-9);
  free_all(s->n_in, in);
  assert_same_fn(c->name, gb, g, c->in, 1e-12);
  if (!c->reverse_only) jvp_goes_through_cond(c, b);
  mr_fn_t *all[] = {g, s, gs, sg, b, gb, sum};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) mr_fn_destroy(all[i]);
}

/* ---- the walk ---- */

typedef void check_fn(const cell_t *c);
typedef enum need { ANY, FORWARD, REVERSE, BOTH } need_t; /* what a cell must allow */

static bool allows(const cell_t *c, need_t need) {
  if (need == ANY) return true;
  return c->s && c->n_wrt && (need == FORWARD || !c->forward_only) &&
         (need == REVERSE || !c->reverse_only);
}

static void walk(check_fn *check, need_t need) {
  for (int i = 0; i < mr_n_ops; i++) {
    const mr_op_def_t *op = mr_ops[i];
    cell_t c;
    int k = 0;
    for (; cell_init(&c, op, k); k++) {
      if (allows(&c, need)) check(&c);
      cell_fini(&c);
    }
    if (!k) fail_msg("%s has no sample", op->name);
  }
}

static void forward_mode_of_every_op_agrees_with_finite_differences(void **state) {
  walk(jvp_is_finite_differences, FORWARD);
}

static void reverse_mode_of_every_op_is_the_transpose_of_forward_mode(void **state) {
  walk(grad_is_the_transpose_of_jvp, REVERSE);
}

static void second_derivatives_of_every_op_agree_in_all_orders(void **state) {
  walk(second_derivatives_agree, REVERSE);
}

static void linearize_of_every_op_is_its_jvp(void **state) { walk(linearize_is_jvp, FORWARD); }

static void jacfwd_of_every_op_is_jacrev(void **state) { walk(jacfwd_is_jacrev, BOTH); }

static void vmap_of_every_op_and_of_its_derivatives_is_a_loop(void **state) {
  walk(vmap_of_transforms, ANY);
}

static void grad_of_vmap_of_every_op_is_vmap_of_grad(void **state) {
  walk(grad_of_vmap_is_vmap_of_grad, REVERSE);
}

static void grad_of_vmap_of_checkpoint_of_every_op_is_that_without(void **state) {
  walk(grad_of_vmap_of_checkpoint_is_that_of_the_scalar, REVERSE);
}

static void scan_of_every_op_is_its_vmap_and_cond_is_the_branch_it_takes(void **state) {
  walk(scan_is_vmap_and_cond_its_branch, ANY);
}

static void derivatives_of_every_op_go_through_scan_and_cond(void **state) {
  walk(grad_goes_through_scan_and_cond, REVERSE);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(forward_mode_of_every_op_agrees_with_finite_differences),
      cmocka_unit_test(reverse_mode_of_every_op_is_the_transpose_of_forward_mode),
      cmocka_unit_test(second_derivatives_of_every_op_agree_in_all_orders),
      cmocka_unit_test(linearize_of_every_op_is_its_jvp),
      cmocka_unit_test(jacfwd_of_every_op_is_jacrev),
      cmocka_unit_test(vmap_of_every_op_and_of_its_derivatives_is_a_loop),
      cmocka_unit_test(grad_of_vmap_of_every_op_is_vmap_of_grad),
      cmocka_unit_test(grad_of_vmap_of_checkpoint_of_every_op_is_that_without),
      cmocka_unit_test(scan_of_every_op_is_its_vmap_and_cond_is_the_branch_it_takes),
      cmocka_unit_test(derivatives_of_every_op_go_through_scan_and_cond),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
