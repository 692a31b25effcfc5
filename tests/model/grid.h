/* What the tests over the table of ops share: graphs run on arrays of doubles. */
#ifndef MR_TESTS_MODEL_GRID_H
#define MR_TESTS_MODEL_GRID_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/model.h"
#include "model/ops/operands.h"
#include "model/ops/rules.h"

#define GRID_MAX 2048 /* values a graph may take or give here */

static uint32_t grid_state = 12345; /* a test with seeds sets it */

static inline uint32_t grid_random(void) {
  grid_state = grid_state * 1664525u + 1013904223u;
  return grid_state >> 8;
}

static inline double random_in(double lo, double hi) {
  return lo + (hi - lo) * (double)grid_random() / 16777216.0;
}

static inline int64_t elems(const mr_var_t *v) { return mr_aval_elems(&v->aval); }

static inline void *grid_bytes(size_t n) {
  void *p = aligned_alloc(64, (n + 127) & ~(size_t)63);
  assert_non_null(p);
  return p;
}

static inline double *doubles(int64_t n) { return grid_bytes((size_t)n * sizeof(double)); }

/* How many of f's own equations are of that op. */
static inline int count(const mr_fn_t *f, const char *op) {
  int n = 0;
  for (int i = 0; i < f->n_eqn; i++) n += !strcmp(f->eqn[i]->op->name, op);
  return n;
}

static inline double flop_of(const mr_fn_t *f) {
  double sum = 0;
  for (int i = 0; i < f->n_eqn; i++) sum += mr_cost_of(f->eqn[i]).flop;
  return sum;
}

/* Output 0 with its gradient by every input. */
static inline mr_fn_t *gradient(const mr_fn_t *f) {
  int wrt[GRID_MAX];
  mr_fn_t *g = NULL;
  mr_diag_t diag = {0};
  for (int i = 0; i < f->n_in; i++) wrt[i] = i;
  if (mr_value_and_grad(f, f->n_in, wrt, &g, &diag) < 0) fail_msg("%s", diag.text);
  return g;
}

/* f's outputs for in[f->n_in], compiled without the passes in skip (NULL: as the environment says),
   each as new doubles in out[f->n_out]; the caller frees them.  A failure begins with `what`. */
static inline void run_without(const char *what, const mr_fn_t *f, const char *skip,
                               double *const *in, double **out) {
  mr_diag_t diag = {0};
  mr_compile_options_t o = {.skip = skip};
  mr_exec_t *x = NULL;
  void *a[GRID_MAX], *y[GRID_MAX];
  assert_true(f->n_in <= GRID_MAX && f->n_out <= GRID_MAX);
  if (mr_compile(f, &o, &x, &diag) < 0) fail_msg("%s: %s\n%s", what, diag.text, mr_fn_text(f));
  for (int i = 0; i < f->n_in; i++) {
    a[i] = grid_bytes(mr_aval_bytes(&f->in[i]->aval));
    for (int64_t k = 0; k < elems(f->in[i]); k++)
      mr_set_f64(f->in[i]->aval.dtype, a[i], k, in[i][k]);
  }
  for (int i = 0; i < f->n_out; i++) y[i] = grid_bytes(mr_aval_bytes(&f->out[i]->aval));
  mr_exec_run(x, (const void *const *)a, y);
  for (int i = 0; i < f->n_out; i++) {
    out[i] = doubles(elems(f->out[i]));
    for (int64_t k = 0; k < elems(f->out[i]); k++)
      out[i][k] = mr_get_f64(f->out[i]->aval.dtype, y[i], k);
    free(y[i]);
  }
  for (int i = 0; i < f->n_in; i++) free(a[i]);
  mr_exec_destroy(x);
}

static inline void run_as_it_is(const mr_fn_t *f, double *const *in, double **out) {
  run_without("jit", f, NULL, in, out);
}

/* The same in double precision, every composite written as primitives. */
static inline void run_f64(const mr_fn_t *f, double *const *in, double **out) {
  mr_diag_t diag = {0};
  mr_fn_t *wide = NULL;
  if (mr_in_f64(f, &wide, &diag) < 0) fail_msg("%s\n%s", diag.text, mr_fn_text(f));
  run_as_it_is(wide, in, out);
  mr_fn_destroy(wide);
}

static inline void free_all(int n, double **v) {
  for (int i = 0; i < n; i++) free(v[i]);
}

static inline void assert_near(const char *what, const mr_fn_t *f, double *const *got,
                               double *const *want, double tolerance) {
  for (int i = 0; i < f->n_out; i++)
    for (int64_t k = 0; k < elems(f->out[i]); k++) {
      double a = got[i][k], b = want[i][k];
      if (a == b || (isnan(a) && isnan(b))) continue;
      if (!(fabs(a - b) <= tolerance * (1 + fabs(b))))
        fail_msg("%s: output %d element %lld is %.12g, want %.12g\n%s", what, i, (long long)k, a, b,
                 mr_fn_text(f));
    }
}

/* Both graphs take the same inputs; their outputs agree. */
static inline void assert_same_fn(const char *what, const mr_fn_t *f, const mr_fn_t *g,
                                  double *const *in, double tolerance) {
  double *a[GRID_MAX], *b[GRID_MAX];
  assert_int_equal(f->n_in, g->n_in);
  assert_int_equal(f->n_out, g->n_out);
  run_f64(f, in, a);
  run_f64(g, in, b);
  assert_near(what, f, a, b, tolerance);
  free_all(f->n_out, a);
  free_all(g->n_out, b);
}

#endif
