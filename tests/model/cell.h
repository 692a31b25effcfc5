/* An op's sample as tests over the table of ops take it: its graph, a scalar made of that, and
   values for both. */
#ifndef MR_TESTS_MODEL_CELL_H
#define MR_TESTS_MODEL_CELL_H

#include <stdio.h>

#include "tests/model/grid.h"

/* One sample: the op's graph f, a scalar made of it, and values for the inputs of both. */
typedef struct cell {
  char name[96];
  mr_fn_t *f;        /* (x...) -> (y...) */
  mr_fn_t *s;        /* (x..., w...) -> (sum of w y + y^2/2 over the float outputs) */
  bool forward_only; /* the op has no vjp: while, as in jax */
  bool reverse_only; /* its author gave it a vjp alone: custom_vjp, as in jax */
  int n_wrt, wrt[GRID_MAX];
  mr_sample_t sample;
  double *in[GRID_MAX]; /* of s, then of a tangent for each wrt */
  int n_values;
} cell_t;

#define TRY(call)                                           \
  do {                                                      \
    mr_diag_t diag = {0};                                   \
    if ((call) < 0) fail_msg("%s: %s", c->name, diag.text); \
  } while (0)

static inline mr_fn_t *scalar_of(const mr_fn_t *f) {
  mr_fn_t *s = mr_fn_create();
  mr_var_t *y[GRID_MAX], *sum = NULL;
  int axes[MR_MAX_NDIM] = {0, 1, 2, 3, 4, 5, 6, 7};
  for (int i = 0; i < f->n_in; i++) mr_fn_input(s, f->in[i]->aval);
  mr_inline(s, f, s->in, y);
  for (int i = 0; i < f->n_out; i++) {
    if (!mr_is_float(y[i]->aval.dtype)) continue;
    mr_var_t *w = mr_fn_input(s, y[i]->aval);
    mr_var_t *v = mr_lax_mul(s, y[i], mr_lax_add(s, w, mr_lax_scale(s, 0.5, y[i])));
    if (v && v->aval.ndim) v = mr_lax_reduce_sum(s, v, v->aval.ndim, axes);
    v = mr_lax_convert(s, v, MR_F32);
    sum = sum ? mr_lax_add(s, sum, v) : v;
  }
  if (!sum) {
    mr_fn_destroy(s);
    return NULL;
  }
  if (mr_fn_return(s, 1, &sum) < 0) fail_msg("%s", s->diag.text);
  return s;
}

static inline void draw(cell_t *c, const mr_var_t *v, double lo, double hi) {
  double *p = c->in[c->n_values++] = doubles(elems(v));
  for (int64_t k = 0; k < elems(v); k++)
    p[k] = mr_is_float(v->aval.dtype) ? random_in(lo, hi) : floor(random_in(lo, hi + 1));
}

static inline bool cell_init(cell_t *c, const mr_op_def_t *op, int k) {
  *c = (cell_t){.f = mr_fn_create(),
                .forward_only = op->ad.vjp == mr_no_vjp,
                .reverse_only = op == &mr_op_custom_vjp_call};
  c->sample.f = c->f;
  if (!op->sample) fail_msg("%s has no samples: give it mr_op_def.sample", op->name);
  snprintf(c->name, sizeof c->name, "%s sample %d", op->name, k);
  if (!op->sample(op, &c->sample, k)) {
    mr_fn_destroy(c->f);
    return false;
  }
  if (c->f->diag.code < 0 || !c->f->n_out) fail_msg("%s: %s", c->name, c->f->diag.text);
  c->s = scalar_of(c->f);
  for (int i = 0; i < c->f->n_in; i++) {
    draw(c, c->f->in[i], c->sample.lo[i], c->sample.hi[i]);
    if (mr_is_float(c->f->in[i]->aval.dtype)) c->wrt[c->n_wrt++] = i;
  }
  for (int i = c->f->n_in; c->s && i < c->s->n_in; i++) draw(c, c->s->in[i], 0.5, 1.5);
  for (int i = 0; i < c->n_wrt; i++) draw(c, c->f->in[c->wrt[i]], -1, 1);
  return true;
}

static inline void cell_fini(cell_t *c) {
  free_all(c->n_values, c->in);
  mr_fn_destroy(c->f);
  mr_fn_destroy(c->s);
}

#endif
