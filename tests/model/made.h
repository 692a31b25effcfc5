/* A function with values for its inputs, and the functions that each transform makes of it. */
#ifndef MR_TESTS_MODEL_MADE_H
#define MR_TESTS_MODEL_MADE_H

#include "tests/model/cell.h"

enum { SIZE = 2 };

/* A function with values for its inputs; in[wrt[n_wrt]] are what it is derived by. */
typedef struct func {
  char name[160];
  mr_fn_t *f;
  bool reverse_only; /* calls what has a vjp of its author's alone */
  bool forward_only; /* runs a loop whose length is not known before */
  int n_wrt, wrt[GRID_MAX];
  double lo[GRID_MAX], hi[GRID_MAX]; /* of inputs, for other values of them */
  double *in[GRID_MAX];
} func_t;

#define DO(p, call)                                           \
  do {                                                        \
    mr_diag_t diag = {0};                                     \
    if ((call) < 0) fail_msg("%s: %s", (p)->name, diag.text); \
  } while (0)

static inline double *values(const mr_var_t *v, double lo, double hi) {
  double *x = doubles(elems(v));
  for (int64_t k = 0; k < elems(v); k++)
    x[k] = mr_is_float(v->aval.dtype) ? random_in(lo, hi) : floor(random_in(lo, hi + 1));
  return x;
}

static inline void draw_all(func_t *q) {
  if (q->f->n_in > GRID_MAX) fail_msg("%s: %d inputs", q->name, q->f->n_in);
  for (int i = 0; i < q->f->n_in; i++) q->in[i] = values(q->f->in[i], q->lo[i], q->hi[i]);
}

static inline void func_fini(func_t *q) {
  free_all(q->f->n_in, q->in);
  mr_fn_destroy(q->f);
}

static inline func_t func_of(const cell_t *c) {
  func_t p = {.f = mr_fn_copy(c->s, NULL), .reverse_only = c->reverse_only, .n_wrt = c->n_wrt};
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

static inline mr_fn_t *make_jvp(const func_t *p) {
  mr_fn_t *g = NULL;
  DO(p, mr_jvp(p->f, p->n_wrt, p->wrt, &g, &diag));
  return g;
}

static inline mr_fn_t *make_vjp(const func_t *p) {
  mr_fn_t *g = NULL;
  DO(p, mr_vjp(p->f, p->n_wrt, p->wrt, &g, &diag));
  return g;
}

static inline mr_fn_t *make_grad(const func_t *p) {
  mr_fn_t *g = NULL;
  DO(p, mr_value_and_grad(p->f, p->n_wrt, p->wrt, &g, &diag));
  return g;
}

static inline mr_fn_t *make_jacfwd(const func_t *p) {
  mr_fn_t *g = NULL;
  DO(p, mr_jacfwd(p->f, p->n_wrt, p->wrt, &g, &diag));
  return g;
}

static inline mr_fn_t *make_jacrev(const func_t *p) {
  mr_fn_t *g = NULL;
  DO(p, mr_jacrev(p->f, p->n_wrt, p->wrt, &g, &diag));
  return g;
}

static inline mr_fn_t *make_hessian(const func_t *p) {
  mr_fn_t *g = NULL;
  DO(p, mr_hessian(p->f, p->n_wrt, p->wrt, &g, &diag));
  return g;
}

static inline mr_fn_t *make_hvp(const func_t *p) {
  mr_fn_t *g = NULL;
  DO(p, mr_hvp(p->f, p->n_wrt, p->wrt, &g, &diag));
  return g;
}

static inline mr_fn_t *make_checkpoint(const func_t *p) {
  mr_fn_t *g = NULL;
  DO(p, mr_checkpoint(p->f, mr_save_dots, &g, &diag));
  return g;
}

static inline mr_fn_t *make_vmap(const func_t *p) {
  mr_fn_t *g = NULL;
  DO(p, mr_vmap(p->f, SIZE, NULL, NULL, &g, &diag));
  return g;
}

static inline mr_fn_t *finish(const func_t *p, mr_fn_t *g, int n, mr_var_t *const *out) {
  if (g->diag.code < 0 || mr_fn_return(g, n, out) < 0) fail_msg("%s: %s", p->name, g->diag.text);
  return g;
}

/* A function with the inputs of like. */
static inline mr_fn_t *begin(const mr_fn_t *like) {
  mr_fn_t *g = mr_fn_create();
  for (int i = 0; i < like->n_in; i++) mr_fn_input(g, like->in[i]->aval);
  return g;
}

/* The point and its linear function, one after the other. */
static inline mr_fn_t *make_linearize(const func_t *p) {
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

static inline mr_fn_t *make_jit(const func_t *p) {
  mr_fn_t *g = begin(p->f);
  mr_var_t *y[GRID_MAX];
  mr_lax_jit(g, "inner", p->f, g->in, y);
  return finish(p, g, p->f->n_out, y);
}

static inline mr_fn_t *make_scan(const func_t *p) {
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
static inline mr_fn_t *make_cond(const func_t *p) {
  mr_fn_t *g = begin(p->f), *other = begin(p->f);
  mr_var_t *y[GRID_MAX];
  for (int k = 0; k < p->f->n_out; k++) y[k] = mr_lax_full(other, &p->f->out[k]->aval, 1);
  finish(p, other, p->f->n_out, y);
  mr_lax_cond(g, mr_literal(g, MR_BOOL, 1), p->f, other, g->in, y);
  mr_fn_destroy(other);
  return finish(p, g, p->f->n_out, y);
}

/* (inputs of p, i, outputs of p) -> what build makes of them. */
static inline mr_fn_t *loop_part(const func_t *p, bool body) {
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
static inline mr_fn_t *make_while(const func_t *p) {
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

static inline int floats_of(const mr_fn_t *f, int *which) {
  int n = 0;
  for (int i = 0; i < f->n_in; i++)
    if (mr_is_float(f->in[i]->aval.dtype)) which[n++] = i;
  return n;
}

/* p with its own jvp as the rule of its author's. */
static inline mr_fn_t *make_custom_jvp(const func_t *p) {
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
static inline mr_fn_t *make_custom_vjp(const func_t *p) {
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

#endif
