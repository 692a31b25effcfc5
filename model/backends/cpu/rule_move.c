/* Ops that move elements and compute little or nothing: strided copies, whose strides are fixed
   by lowering, rows by index, and counters. */
#include <stdlib.h>
#include <string.h>

#include "model/backends/cpu/kernels.h"
#include "model/backends/cpu/rules.h"
#include "model/ir/element.h"
#include "model/ops/operands.h"
#include "model/ops/rules.h"

typedef struct moved {
  mr_move_t m;
  int64_t from, to; /* offsets in bytes of the first element, in the operand and the result */
  size_t zero;      /* bytes of the result to clear before; 0: none */
} moved_t;

static void move_run(const mr_call_t *c) {
  const moved_t *s = c->state;
  if (s->zero) memset(c->out[0], 0, s->zero);
  mr__move(&s->m, (const char *)c->in[0] + s->from, (char *)c->out[0] + s->to);
}

static mr_err_t lower_move(mr_call_t *c, const moved_t *s, mr_diag_t *diag) {
  c->run = move_run;
  return mr__call_state(c, s, sizeof *s, diag);
}

mr_err_t mr__cpu_transpose(mr_call_t *c, mr_diag_t *diag) {
  const mr_aval_t *x = &c->eqn->in[0]->aval, *y = &c->eqn->out[0]->aval;
  const mr_attr_t *p = mr_attr_get(c->eqn, "permutation");
  int64_t from[MR_MAX_NDIM];
  moved_t s = {.m = {.ndim = y->ndim, .size = mr_dtype_size(y->dtype)}};
  mr__strides(x, from);
  mr__strides(y, s.m.to);
  for (int i = 0; i < y->ndim; i++) {
    s.m.dim[i] = y->dim[i];
    s.m.from[i] = from[p->i[i]];
  }
  return lower_move(c, &s, diag);
}

mr_err_t mr__cpu_broadcast_in_dim(mr_call_t *c, mr_diag_t *diag) {
  const mr_aval_t *x = &c->eqn->in[0]->aval, *y = &c->eqn->out[0]->aval;
  const mr_attr_t *at = mr_attr_get(c->eqn, "broadcast_dimensions");
  int64_t from[MR_MAX_NDIM];
  moved_t s = {.m = {.ndim = y->ndim, .size = mr_dtype_size(y->dtype)}};
  mr__strides(x, from);
  mr__strides(y, s.m.to);
  for (int i = 0; i < y->ndim; i++) s.m.dim[i] = y->dim[i];
  for (int i = 0; i < x->ndim; i++)
    if (x->dim[i] != 1) s.m.from[at->i[i]] = from[i];
  return lower_move(c, &s, diag);
}

mr_err_t mr__cpu_slice(mr_call_t *c, mr_diag_t *diag) {
  const mr_aval_t *x = &c->eqn->in[0]->aval, *y = &c->eqn->out[0]->aval;
  const int64_t *start = mr_attr_get(c->eqn, "start_indices")->i;
  moved_t s = {.m = {.ndim = y->ndim, .size = mr_dtype_size(y->dtype)}};
  mr__strides(x, s.m.from);
  mr__strides(y, s.m.to);
  for (int i = 0; i < y->ndim; i++) {
    s.m.dim[i] = y->dim[i];
    s.from += start[i] * s.m.from[i] * (int64_t)s.m.size;
  }
  return lower_move(c, &s, diag);
}

mr_err_t mr__cpu_pad(mr_call_t *c, mr_diag_t *diag) {
  const mr_aval_t *x = &c->eqn->in[0]->aval, *y = &c->eqn->out[0]->aval;
  const int64_t *low = mr_attr_get(c->eqn, "low")->i;
  moved_t s = {.m = {.ndim = x->ndim, .size = mr_dtype_size(x->dtype)}, .zero = mr_aval_bytes(y)};
  mr__strides(x, s.m.from);
  mr__strides(y, s.m.to);
  for (int i = 0; i < x->ndim; i++) {
    s.m.dim[i] = x->dim[i];
    s.to += low[i] * s.m.to[i] * (int64_t)s.m.size;
  }
  return lower_move(c, &s, diag);
}

mr_err_t mr__cpu_rev(mr_call_t *c, mr_diag_t *diag) {
  const mr_aval_t *x = &c->eqn->in[0]->aval;
  const mr_attr_t *dims = mr_attr_get(c->eqn, "dimensions");
  moved_t s = {.m = {.ndim = x->ndim, .size = mr_dtype_size(x->dtype)}};
  mr__strides(x, s.m.from);
  mr__strides(x, s.m.to);
  for (int i = 0; i < x->ndim; i++) s.m.dim[i] = x->dim[i];
  for (int k = 0; k < dims->n && mr_aval_elems(x); k++) {
    int64_t d = dims->i[k];
    s.from += (x->dim[d] - 1) * s.m.from[d] * (int64_t)s.m.size;
    s.m.from[d] = -s.m.from[d];
  }
  return lower_move(c, &s, diag);
}

static void concatenate_run(const mr_call_t *c) {
  const moved_t *s = c->state;
  for (int k = 0; k < c->eqn->n_in; k++) mr__move(&s[k].m, c->in[k], (char *)c->out[0] + s[k].to);
}

mr_err_t mr__cpu_concatenate(mr_call_t *c, mr_diag_t *diag) {
  const mr_aval_t *y = &c->eqn->out[0]->aval;
  int64_t d = mr_attr_get(c->eqn, "dimension")->i[0], at = 0;
  moved_t *s = calloc((size_t)c->eqn->n_in, sizeof *s);
  if (!s) return mr_no_memory(diag, "the lowering of concatenate");
  for (int k = 0; k < c->eqn->n_in; k++) {
    const mr_aval_t *x = &c->eqn->in[k]->aval;
    mr_move_t *m = &s[k].m;
    *m = (mr_move_t){.ndim = y->ndim, .size = mr_dtype_size(y->dtype)};
    mr__strides(y, m->to);
    mr__strides(x, m->from);
    for (int i = 0; i < y->ndim; i++) m->dim[i] = x->dim[i];
    s[k].to = at * m->to[d] * (int64_t)m->size;
    at += x->dim[d];
  }
  c->state = s;
  c->fini = free;
  c->run = concatenate_run;
  return MR_OK;
}

/* ---- rows by index ---- */
/* Element k of an i32 index, clamped to [0,n). */
static int64_t take_row(const void *index, int64_t k, int64_t n) {
  int64_t i = ((const int32_t *)index)[k];
  return i < 0 ? 0 : i >= n ? n - 1 : i;
}

static void take_run(const mr_call_t *c) {
  const mr_take_sizes_t *s = c->state;
  size_t row = (size_t)s->row * mr_dtype_size(c->eqn->in[0]->aval.dtype);
  for (int64_t k = 0; k < s->batch * s->at; k++) {
    int64_t from = k / s->at * s->n + take_row(c->in[1], k, s->n);
    memcpy((char *)c->out[0] + (size_t)k * row, (const char *)c->in[0] + (size_t)from * row, row);
  }
}

mr_err_t mr__cpu_take(mr_call_t *c, mr_diag_t *diag) {
  mr_take_sizes_t s = mr__take_sizes(c->eqn, &c->eqn->in[0]->aval);
  c->run = take_run;
  return mr__call_state(c, &s, sizeof s, diag);
}

static void take_vjp_run(const mr_call_t *c) {
  const mr_aval_t *x = &c->eqn->out[0]->aval;
  const mr_take_sizes_t *s = c->state;
  memset(c->out[0], 0, mr_aval_bytes(x));
  for (int64_t k = 0; k < s->batch * s->at; k++) {
    int64_t to = (k / s->at * s->n + take_row(c->in[1], k, s->n)) * s->row;
    for (int64_t i = 0; i < s->row; i++) {
      double sum = mr_get_f64(x->dtype, c->out[0], to + i);
      sum += mr_get_f64(x->dtype, c->in[0], k * s->row + i);
      mr_set_f64(x->dtype, c->out[0], to + i, sum);
    }
  }
}

mr_err_t mr__cpu_take_vjp(mr_call_t *c, mr_diag_t *diag) {
  mr_take_sizes_t s = mr__take_sizes(c->eqn, &c->eqn->out[0]->aval);
  c->run = take_vjp_run;
  return mr__call_state(c, &s, sizeof s, diag);
}

/* ---- counters ---- */
typedef struct counter {
  int64_t stride, size; /* elements with the same number, and the count of numbers */
} counter_t;

static void iota_run(const mr_call_t *c) {
  const mr_aval_t *y = &c->eqn->out[0]->aval;
  const counter_t *s = c->state;
  int64_t n = mr_aval_elems(y);
  bool whole = !mr_is_float(y->dtype);
#pragma omp parallel for schedule(static) if (n > 65536)
  for (int64_t i = 0; i < n; i++) {
    int64_t at = i / s->stride % s->size;
    if (whole)
      mr_set_i64(y->dtype, c->out[0], i, at); /* wraps */
    else
      mr_set_f64(y->dtype, c->out[0], i, (double)at);
  }
}

mr_err_t mr__cpu_iota(mr_call_t *c, mr_diag_t *diag) {
  const mr_aval_t *y = &c->eqn->out[0]->aval;
  int64_t d = mr_attr_get(c->eqn, "dimension")->i[0], stride[MR_MAX_NDIM];
  mr__strides(y, stride);
  c->run = iota_run;
  return mr__call_state(c, &(counter_t){stride[d], y->dim[d]}, sizeof(counter_t), diag);
}
