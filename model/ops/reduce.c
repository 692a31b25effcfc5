#include "model/ops/reduce.h"

#include "model/backends/cpu/rows.h"
#include "model/ops/lax.h"
#include "model/ops/move.h"
#include "model/ops/rules.h"

static unsigned reduced_mask(const mr_eqn_t *e) {
  const mr_attr_t *axes = mr_attr_get(e, "axes");
  unsigned mask = 0;
  for (int i = 0; i < axes->n; i++) mask |= 1u << axes->i[i];
  return mask;
}

mr_err_t mr__reduce_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  const mr_aval_t *x = &e->in[0]->aval;
  const mr_attr_t *axes = mr_attr_get(e, "axes");
  for (int i = 0; i < axes->n; i++)
    if (axes->i[i] < 0 || axes->i[i] >= x->ndim) return mr_shape_fail(e, diag, "no such axis");
  unsigned mask = reduced_mask(e);
  if (__builtin_popcount(mask) != axes->n) return mr_shape_fail(e, diag, "an axis stands twice");
  *out = mr_aval_scalar(x->dtype);
  for (int i = 0; i < x->ndim; i++)
    if (!(mask >> i & 1)) out->dim[out->ndim++] = x->dim[i];
  return MR_OK;
}

mr_var_t *mr__reduce_spread(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *v) {
  const mr_aval_t *x = &e->in[0]->aval;
  unsigned mask = reduced_mask(e);
  int at[MR_MAX_NDIM], n = 0;
  for (int i = 0; i < x->ndim; i++)
    if (!(mask >> i & 1)) at[n++] = i;
  return mr_lax_broadcast_in_dim(f, v, x->ndim, x->dim, at);
}

/* x's dimensions as (kept..., reduced...): sizes and strides; returns how many are kept. */
static int reduce_walk(const mr_eqn_t *e, int64_t *dim, int64_t *stride) {
  const mr_aval_t *x = &e->in[0]->aval;
  unsigned mask = reduced_mask(e);
  int64_t s[MR_MAX_NDIM];
  int n = 0, kept = 0;
  mr__strides(x, s);
  for (unsigned pass = 0; pass < 2; pass++) {
    for (int i = 0; i < x->ndim; i++) {
      if ((mask >> i & 1) != pass) continue;
      dim[n] = x->dim[i];
      stride[n++] = s[i];
    }
    if (!pass) kept = n;
  }
  return kept;
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
    int64_t dim[MR_MAX_NDIM], stride[MR_MAX_NDIM];                                                 \
    int kept = reduce_walk(c->eqn, dim, stride);                                                   \
    int64_t n = mr_aval_elems(y), inner = 1;                                                       \
    for (int i = kept; i < x->ndim; i++) inner *= dim[i];                                          \
    _Pragma("omp parallel for schedule(static) if (n * inner > 65536)") for (int64_t o = 0; o < n; \
                                                                             o++) {                \
      int64_t base = offset_of(o, 0, kept, dim, stride);                                           \
      type sum = start;                                                                            \
      for (int64_t k = 0; k < inner; k++) {                                                        \
        int64_t at = base + offset_of(k, kept, x->ndim, dim, stride);                              \
        sum = fold(sum, get(x->dtype, c->in[0], at));                                              \
      }                                                                                            \
      set(y->dtype, c->out[0], o, sum);                                                            \
    }                                                                                              \
  }

FOLD(fold_f32, float, mr_get_f32, mr_set_f32)
FOLD(fold_f64, double, mr_get_f64, mr_set_f64)
FOLD(fold_i64, int64_t, mr_get_i64, mr_set_i64)

static int64_t lowest(mr_dtype_t t) {
  return t == MR_I64 ? INT64_MIN : t == MR_I32 ? INT32_MIN : 0;
}

void mr__reduce_run(const mr_call_t *c, double start, const mr_reduce_fold_t *fold) {
  mr_dtype_t t = c->eqn->in[0]->aval.dtype;
  if (t == MR_F32 || t == MR_BF16)
    fold_f32(c, (float)start, fold->f32);
  else if (mr_is_float(t))
    fold_f64(c, start, fold->f64);
  else
    fold_i64(c, start < 0 ? lowest(t) : (int64_t)start, fold->i64);
}

/* The dimensions of more than one element of which some are reduced and others not: `first` and
   `end` of the reduced ones; whether they stand side by side. */
static bool reduced_range(const mr_aval_t *x, unsigned mask, int *first, int *end) {
  *first = *end = -1;
  for (int i = 0; i < x->ndim; i++) {
    if (x->dim[i] == 1 || !(mask >> i & 1)) continue;
    if (*first >= 0 && mr_aval_span(x, *end, i) > 1) return false;
    if (*first < 0) *first = i;
    *end = i + 1;
  }
  return *first >= 0;
}

bool mr__reduce_unit(mr_unit_t *u) {
  const mr_aval_t *x = &u->eqn->in[0]->aval;
  int first, end;
  if ((x->dtype != MR_F32 && x->dtype != MR_BF16) || !mr_aval_elems(x)) return false;
  if (!reduced_range(x, reduced_mask(u->eqn), &first, &end)) return false;
  int64_t after = mr_aval_span(x, end, x->ndim);
  if (after > 1 && mr_aval_span(x, 0, first) > 1) return false;
  u->kind = after > 1 ? MR_UNIT_COLUMNS : MR_UNIT_REDUCE;
  u->inner = after > 1 ? after : mr_aval_span(x, first, end);
  return true;
}

/* For each index of the outer dimensions, rows folded into one. */
static void middle_run(const mr_call_t *c) {
  const mr_aval_t *x = &c->eqn->in[0]->aval, *y = &c->eqn->out[0]->aval;
  mr_unit_t u = {.eqn = c->eqn};
  int first, end;
  c->eqn->op->unit(&u); /* for how to fold; it is no unit */
  reduced_range(x, reduced_mask(c->eqn), &first, &end);
  int64_t outer = mr_aval_span(x, 0, first), rows = mr_aval_span(x, first, end);
  int64_t n = mr_aval_span(x, end, x->ndim);
  float *sum = y->dtype == MR_BF16 ? c->scratch : c->out[0];
#pragma omp parallel for schedule(static) if (outer * rows * n > 65536 && !c->serial)
  for (int64_t o = 0; o < outer; o++) {
    const char *from = (const char *)c->in[0] + (size_t)(o * rows * n) * mr_dtype_size(x->dtype);
    for (int64_t j = 0; j < n; j++) sum[o * n + j] = u.start;
    u.fold_rows(x->dtype, from, n, rows, sum + o * n, n);
    if (y->dtype == MR_BF16)
      mr__rows()->convert(MR_F32, sum, MR_BF16, c->out[0], o * n, (o + 1) * n);
  }
}

bool mr__reduce_middle(mr_call_t *c) {
  const mr_aval_t *x = &c->eqn->in[0]->aval, *y = &c->eqn->out[0]->aval;
  int first, end;
  if (!mr_is_narrow(x->dtype) || !mr_aval_elems(x) ||
      !reduced_range(x, reduced_mask(c->eqn), &first, &end))
    return false;
  c->run = middle_run;
  if (y->dtype == MR_BF16) c->scratch_bytes = (size_t)mr_aval_elems(y) * sizeof(float);
  return true;
}

int mr__reduce_batch(const mr_eqn_t *e, const mr_batched_t *in, int *axes, int *axis) {
  const mr_attr_t *old = mr_attr_get(e, "axes");
  *axis = in->axis;
  for (int i = 0; i < old->n; i++) {
    bool before = old->i[i] < in->axis;
    axes[i] = (int)old->i[i] + !before;
    *axis -= before;
  }
  return old->n;
}
