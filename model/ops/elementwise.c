/* How elementwise ops without a kernel of their own run on CPU: one function an element, blocks
   spread over the threads. */
#include <math.h>

#include "model/ops/rules.h"

float mr_cpu_get(mr_dtype_t t, const void *p, int64_t i) {
  switch (t) {
    case MR_F32: return ((const float *)p)[i];
    case MR_BF16: return mr_bf16_to_f32(((const mr_bf16_t *)p)[i]);
    case MR_I32: return (float)((const int32_t *)p)[i];
    case MR_U32: return (float)((const uint32_t *)p)[i];
    case MR_BOOL: return ((const uint8_t *)p)[i] ? 1.0f : 0.0f;
    default: return NAN;
  }
}

void mr_cpu_set(mr_dtype_t t, void *p, int64_t i, float v) {
  switch (t) {
    case MR_F32: ((float *)p)[i] = v; break;
    case MR_BF16: ((mr_bf16_t *)p)[i] = mr_bf16_from_f32(v); break;
    default: mr_cpu_set_f64(t, p, i, (double)v); break;
  }
}

int64_t mr_cpu_get_i64(mr_dtype_t t, const void *p, int64_t i) {
  switch (t) {
    case MR_U8: return ((const uint8_t *)p)[i];
    case MR_BOOL: return ((const uint8_t *)p)[i] != 0;
    case MR_I32: return ((const int32_t *)p)[i];
    case MR_U32: return ((const uint32_t *)p)[i];
    default: return ((const int64_t *)p)[i];
  }
}

void mr_cpu_set_i64(mr_dtype_t t, void *p, int64_t i, int64_t v) {
  switch (t) {
    case MR_U8: ((uint8_t *)p)[i] = (uint8_t)v; break;
    case MR_BOOL: ((uint8_t *)p)[i] = v != 0; break;
    case MR_I32:
    case MR_U32: ((uint32_t *)p)[i] = (uint32_t)v; break;
    default: ((int64_t *)p)[i] = v; break;
  }
}

double mr_cpu_get_f64(mr_dtype_t t, const void *p, int64_t i) {
  switch (t) {
    case MR_F64: return ((const double *)p)[i];
    case MR_F32: return (double)((const float *)p)[i];
    case MR_BF16: return (double)mr_bf16_to_f32(((const mr_bf16_t *)p)[i]);
    case MR_U64: return (double)((const uint64_t *)p)[i];
    case MR_F16: return NAN;
    default: return (double)mr_cpu_get_i64(t, p, i);
  }
}

/* Towards zero, to the nearest that t can say; NaN to 0, as in jax. */
static int64_t to_integer(mr_dtype_t t, double v) {
  double lo = t == MR_I32 ? INT32_MIN : t == MR_I64 ? -0x1p63 : 0;
  double hi = t == MR_U8 ? UINT8_MAX : t == MR_I32 ? INT32_MAX : t == MR_U32 ? UINT32_MAX : 0x1p63;
  if (isnan(v)) return 0;
  if (v <= lo) return t == MR_I64 ? INT64_MIN : (int64_t)lo;
  if (v >= hi) return t == MR_I64 ? INT64_MAX : (int64_t)(uint64_t)fmin(hi, 0x1p63 - 1024);
  return (int64_t)v;
}

void mr_cpu_set_f64(mr_dtype_t t, void *p, int64_t i, double v) {
  switch (t) {
    case MR_F64: ((double *)p)[i] = v; break;
    case MR_F32: ((float *)p)[i] = (float)v; break;
    case MR_BF16: ((mr_bf16_t *)p)[i] = mr_bf16_from_f32((float)v); break;
    case MR_BOOL: ((uint8_t *)p)[i] = v != 0; break;
    case MR_U64: ((uint64_t *)p)[i] = v >= 0x1p64 ? UINT64_MAX : v > 0 ? (uint64_t)v : 0; break;
    default: mr_cpu_set_i64(t, p, i, to_integer(t, v)); break;
  }
}

/* f32 and bf16 in f32, f64 in f64, the rest in integers. */
#define UNARY(name, type, member, get, set)                                                     \
  static void name(const mr_cpu_call_t *c) {                                                    \
    type (*at)(type) = c->eqn->op->at.member;                                                   \
    mr_dtype_t xt = c->eqn->in[0]->aval.dtype, yt = c->eqn->out[0]->aval.dtype;                 \
    int64_t n = mr_aval_elems(&c->eqn->out[0]->aval);                                           \
    _Pragma("omp parallel for schedule(static) if (n > 16384)") for (int64_t i = 0; i < n; i++) \
        set(yt, c->out[0], i, at(get(xt, c->in[0], i)));                                        \
  }

UNARY(unary_f32, float, f1, mr_cpu_get, mr_cpu_set)
UNARY(unary_f64, double, d1, mr_cpu_get_f64, mr_cpu_set_f64)
UNARY(unary_i64, int64_t, i1, mr_cpu_get_i64, mr_cpu_set_i64)

#define BINARY(name, type, member, get, set)                                                    \
  static void name(const mr_cpu_call_t *c) {                                                    \
    type (*at)(type, type) = c->eqn->op->at.member;                                             \
    const mr_aval_t *a = &c->eqn->in[0]->aval, *b = &c->eqn->in[1]->aval;                       \
    const mr_aval_t *y = &c->eqn->out[0]->aval;                                                 \
    int64_t n = mr_aval_elems(y), as = a->ndim || !y->ndim, bs = b->ndim || !y->ndim;           \
    _Pragma("omp parallel for schedule(static) if (n > 16384)") for (int64_t i = 0; i < n; i++) \
        set(y->dtype, c->out[0], i,                                                             \
            at(get(a->dtype, c->in[0], i *as), get(b->dtype, c->in[1], i *bs)));                \
  }

BINARY(binary_f32, float, f2, mr_cpu_get, mr_cpu_set)
BINARY(binary_f64, double, d2, mr_cpu_get_f64, mr_cpu_set_f64)
BINARY(binary_i64, int64_t, i2, mr_cpu_get_i64, mr_cpu_set_i64)

mr_err_t mr_cpu_pointwise(mr_cpu_call_t *c, mr_diag_t *diag) {
  const mr_pointwise_t *at = &c->eqn->op->at;
  mr_dtype_t t = c->eqn->in[0]->aval.dtype;
  bool one = c->eqn->n_in == 1;
  if (t == MR_F32 || t == MR_BF16)
    c->run = one ? (at->f1 ? unary_f32 : NULL) : (at->f2 ? binary_f32 : NULL);
  else if (t == MR_F64)
    c->run = one ? (at->d1 ? unary_f64 : NULL) : (at->d2 ? binary_f64 : NULL);
  else if (t != MR_F16)
    c->run = one ? (at->i1 ? unary_i64 : NULL) : (at->i2 ? binary_i64 : NULL);
  if (c->run) return MR_OK;
  return mr_fail(diag, MR_ERR_NORULE, "%s%s%s: the CPU has no kernel for %s", c->eqn->scope,
                 *c->eqn->scope ? ": " : "", c->eqn->op->name, mr_dtype_name(t));
}
