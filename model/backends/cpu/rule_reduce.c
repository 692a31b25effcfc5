/* Sums, maxima and running sums.  Reductions of trailing or leading dimensions run as loops
   (program.h), those of neighbouring dimensions in the middle fold row upon row, and all others
   run element by element. */
#include <math.h>

#include "model/backends/cpu/kernels.h"
#include "model/backends/cpu/program.h"
#include "model/backends/cpu/rows.h"
#include "model/backends/cpu/rules.h"
#include "model/ir/element.h"
#include "model/ops/lax.h"
#include "model/ops/operands.h"
#include "model/ops/rules.h"

/* How two elements are folded into one: for f32, bf16 and f16, for f64, for integers and bool. */
typedef struct fold {
  float (*f32)(float, float);
  double (*f64)(double, double);
  int64_t (*i64)(int64_t, int64_t);
  double start; /* if negative, integers start at the lowest number of their dtype */
} fold_t;

/* The dimensions of x in the order (kept..., reduced...). */
typedef struct reduction {
  fold_t fold;
  int kept, ndim;
  int64_t dim[MR_MAX_NDIM], stride[MR_MAX_NDIM];
} reduction_t;

static reduction_t order_reduction(const mr_eqn_t *e, const fold_t *fold) {
  const mr_aval_t *x = &e->in[0]->aval;
  unsigned mask = mr__reduce_mask(e);
  reduction_t w = {.fold = *fold};
  int64_t s[MR_MAX_NDIM];
  mr__strides(x, s);
  for (unsigned pass = 0; pass < 2; pass++) {
    for (int i = 0; i < x->ndim; i++) {
      if ((mask >> i & 1) != pass) continue;
      w.dim[w.ndim] = x->dim[i];
      w.stride[w.ndim++] = s[i];
    }
    if (!pass) w.kept = w.ndim;
  }
  return w;
}

static int64_t offset_of(int64_t index, int from, int to, const int64_t *dim,
                         const int64_t *stride) {
  int64_t at = 0;
  for (int i = to - 1; i >= from; i--) {
    at += index % dim[i] * stride[i];
    index /= dim[i];
  }
  return at;
}

#define FOLD(name, type, get, set)                                                                 \
  static void name(const mr_call_t *c, type start, type (*fold)(type, type)) {                     \
    const mr_aval_t *x = &c->eqn->in[0]->aval, *y = &c->eqn->out[0]->aval;                         \
    const reduction_t *w = c->state;                                                               \
    int64_t n = mr_aval_elems(y), inner = 1;                                                       \
    for (int i = w->kept; i < w->ndim; i++) inner *= w->dim[i];                                    \
    _Pragma("omp parallel for schedule(static) if (n * inner > 65536)") for (int64_t o = 0; o < n; \
                                                                             o++) {                \
      int64_t base = offset_of(o, 0, w->kept, w->dim, w->stride);                                  \
      type sum = start;                                                                            \
      for (int64_t k = 0; k < inner; k++) {                                                        \
        int64_t at = base + offset_of(k, w->kept, w->ndim, w->dim, w->stride);                     \
        sum = fold(sum, get(x->dtype, c->in[0], at));                                              \
      }                                                                                            \
      set(y->dtype, c->out[0], o, sum);                                                            \
    }                                                                                              \
  }

FOLD(fold_f32, float, mr_get_f32, mr_set_f32)
FOLD(fold_f64, double, mr_get_f64, mr_set_f64)
FOLD(fold_i64, int64_t, mr_get_i64, mr_set_i64)

static int64_t lowest_value(mr_dtype_t t) {
  return t == MR_I64 ? INT64_MIN : t == MR_I32 ? INT32_MIN : 0;
}

static void reduction_run(const mr_call_t *c) {
  const fold_t *fold = &((const reduction_t *)c->state)->fold;
  mr_dtype_t t = c->eqn->in[0]->aval.dtype;
  if (mr_is_narrow(t))
    fold_f32(c, (float)fold->start, fold->f32);
  else if (mr_is_float(t))
    fold_f64(c, fold->start, fold->f64);
  else
    fold_i64(c, fold->start < 0 ? lowest_value(t) : (int64_t)fold->start, fold->i64);
}

/* ---- neighbouring dimensions in the middle, of narrow floats; the results equal a loop's ---- */
typedef struct middle {
  mr_cpu_unit_t unit; /* holds the fold alone */
  int64_t outer, rows, n;
} middle_t;

/* Folds rows into one for each index of the outer dimensions. */
static void middle_run(const mr_call_t *c) {
  const mr_aval_t *x = &c->eqn->in[0]->aval, *y = &c->eqn->out[0]->aval;
  const middle_t *s = c->state;
  int64_t outer = s->outer, rows = s->rows, n = s->n;
  float *sum = y->dtype != MR_F32 ? c->scratch : c->out[0];
#pragma omp parallel for schedule(static) if (outer * rows * n > 65536 && !c->serial)
  for (int64_t o = 0; o < outer; o++) {
    const char *from = (const char *)c->in[0] + (size_t)(o * rows * n) * mr_dtype_size(x->dtype);
    for (int64_t j = 0; j < n; j++) sum[o * n + j] = s->unit.start;
    s->unit.fold_rows(x->dtype, from, n, rows, sum + o * n, n);
    if (y->dtype != MR_F32)
      mr__rows()->convert(MR_F32, sum, y->dtype, c->out[0], o * n, (o + 1) * n);
  }
}

static mr_err_t lower_middle(mr_call_t *c, const mr_cpu_unit_t *u, int first, int end,
                             mr_diag_t *diag) {
  const mr_aval_t *x = &c->eqn->in[0]->aval, *y = &c->eqn->out[0]->aval;
  middle_t s = {*u, mr_aval_span(x, 0, first), mr_aval_span(x, first, end),
                mr_aval_span(x, end, x->ndim)};
  c->run = middle_run;
  if (y->dtype != MR_F32) c->scratch_bytes = (size_t)mr_aval_elems(y) * sizeof(float);
  return mr__call_state(c, &s, sizeof s, diag);
}

static mr_err_t lower_reduce(mr_call_t *c, mr_cpu_unit_fn *how, const fold_t *fold,
                             mr_diag_t *diag) {
  const mr_aval_t *x = &c->eqn->in[0]->aval;
  mr_cpu_unit_t u = {.eqn = c->eqn};
  int first, end;
  if (c->eqn->op->fuse.unit(c->eqn, &u.is)) return mr__program_one(c, diag);
  if (mr_is_narrow(x->dtype) && mr_aval_elems(x) &&
      mr__reduce_range(x, mr__reduce_mask(c->eqn), &first, &end)) {
    how(&u);
    return lower_middle(c, &u, first, end, diag);
  }
  reduction_t w = order_reduction(c->eqn, fold);
  c->run = reduction_run;
  return mr__call_state(c, &w, sizeof w, diag);
}

/* ---- the two ---- */
bool mr__cpu_unit_reduce_sum(mr_cpu_unit_t *u) {
  u->fold = mr__lanes()->sum;
  u->join = mr__lanes()->sum_join;
  u->fold_rows = mr__lanes()->sum_rows;
  u->start = 0;
  return true;
}

mr_err_t mr__cpu_reduce_sum(mr_call_t *c, mr_diag_t *diag) {
  static const fold_t add = {mr__add_f2, mr__add_d2, mr__add_i2, 0};
  return lower_reduce(c, mr__cpu_unit_reduce_sum, &add, diag);
}

static float larger_f32(float a, float b) { return a > b || isnan(a) ? a : b; }

static double larger_f64(double a, double b) { return a > b || isnan(a) ? a : b; }

static int64_t larger_i64(int64_t a, int64_t b) { return a > b ? a : b; }

static int64_t larger_u64(int64_t a, int64_t b) { return (uint64_t)a > (uint64_t)b ? a : b; }

bool mr__cpu_unit_reduce_max(mr_cpu_unit_t *u) {
  u->fold = mr__lanes()->max;
  u->join = mr__lanes()->max_join;
  u->fold_rows = mr__lanes()->max_rows;
  u->start = -INFINITY;
  return true;
}

mr_err_t mr__cpu_reduce_max(mr_call_t *c, mr_diag_t *diag) {
  static const fold_t usual = {larger_f32, larger_f64, larger_i64, -INFINITY};
  static const fold_t of_u64 = {larger_f32, larger_f64, larger_u64, -INFINITY};
  bool whole = c->eqn->in[0]->aval.dtype == MR_U64;
  return lower_reduce(c, mr__cpu_unit_reduce_max, whole ? &of_u64 : &usual, diag);
}

/* ---- running sums ---- */
typedef struct running {
  int axis;
  bool back;
} running_t;

static void cumsum_run(const mr_call_t *c) {
  const mr_aval_t *x = &c->eqn->in[0]->aval;
  const running_t *s = c->state;
  int64_t outer = mr_aval_span(x, 0, s->axis), n = x->dim[s->axis];
  int64_t inner = mr_aval_span(x, s->axis + 1, x->ndim);
  for (int64_t r = 0; r < outer * inner; r++) {
    double sum = 0;
    uint64_t whole = 0; /* integers wrap */
    for (int64_t k = 0; k < n; k++) {
      int64_t at = (r / inner * n + (s->back ? n - 1 - k : k)) * inner + r % inner;
      if (mr_is_float(x->dtype))
        mr_set_f64(x->dtype, c->out[0], at, sum += mr_get_f64(x->dtype, c->in[0], at));
      else
        mr_set_i64(x->dtype, c->out[0], at,
                   (int64_t)(whole += (uint64_t)mr_get_i64(x->dtype, c->in[0], at)));
    }
  }
}

mr_err_t mr__cpu_cumsum(mr_call_t *c, mr_diag_t *diag) {
  running_t s = {(int)mr_attr_get(c->eqn, "axis")->i[0], mr_attr_get(c->eqn, "reverse")->i[0] != 0};
  c->run = cumsum_run;
  return mr__call_state(c, &s, sizeof s, diag);
}

static void sum_squares_run(const mr_call_t *c) {
  double sum = 0;
  for (int i = 0; i < c->eqn->n_in; i++)
    sum += mr_sum_squares(c->in[i], mr_aval_elems(&c->eqn->in[i]->aval));
  if (c->eqn->out[0]->aval.dtype == MR_F64) {
    *(double *)c->out[0] = sum;
    return;
  }
  float *out = c->out[0];
  out[0] = (float)sum;
  if (c->eqn->out[0]->aval.ndim) out[1] = (float)ldexp(sum, -2 * MR_SQUARES_SHIFT); /* a pair */
}

mr_err_t mr__cpu_sum_squares(mr_call_t *c, mr_diag_t *diag) {
  c->run = sum_squares_run;
  return MR_OK;
}
