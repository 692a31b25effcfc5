/* Reads and writes single elements of any dtype, as f32, f64 or integers.  These switches are for
   constants, tests and the plain paths of kernels; a fast kernel knows its dtype and does not come
   here. */
#include "model/ir/element.h"

#include <math.h>

#include "base/dtype.h"

float mr_get_f32(mr_dtype_t t, const void *p, int64_t i) {
  switch (t) {
    case MR_F32: return ((const float *)p)[i];
    case MR_BF16: return mr_bf16_to_f32(((const mr_bf16_t *)p)[i]);
    case MR_F16: return mr_f16_to_f32(((const mr_f16_t *)p)[i]);
    case MR_F8_E4M3FN:
    case MR_F8_E5M2: return mr_f8_to_f32(t, ((const uint8_t *)p)[i]);
    case MR_I32: return (float)((const int32_t *)p)[i];
    case MR_U32: return (float)((const uint32_t *)p)[i];
    case MR_BOOL: return ((const uint8_t *)p)[i] ? 1.0f : 0.0f;
    default: return NAN;
  }
}

void mr_set_f32(mr_dtype_t t, void *p, int64_t i, float v) {
  switch (t) {
    case MR_F32: ((float *)p)[i] = v; break;
    case MR_BF16: ((mr_bf16_t *)p)[i] = mr_bf16_from_f32(v); break;
    case MR_F16: ((mr_f16_t *)p)[i] = mr_f16_from_f32(v); break;
    case MR_F8_E4M3FN:
    case MR_F8_E5M2: ((uint8_t *)p)[i] = mr_f8_from_f32(t, v); break;
    default: mr_set_f64(t, p, i, (double)v); break;
  }
}

int64_t mr_get_i64(mr_dtype_t t, const void *p, int64_t i) {
  switch (t) {
    case MR_U8: return ((const uint8_t *)p)[i];
    case MR_BOOL: return ((const uint8_t *)p)[i] != 0;
    case MR_I32: return ((const int32_t *)p)[i];
    case MR_U32: return ((const uint32_t *)p)[i];
    default: return ((const int64_t *)p)[i];
  }
}

void mr_set_i64(mr_dtype_t t, void *p, int64_t i, int64_t v) {
  switch (t) {
    case MR_U8: ((uint8_t *)p)[i] = (uint8_t)v; break;
    case MR_BOOL: ((uint8_t *)p)[i] = v != 0; break;
    case MR_I32:
    case MR_U32: ((uint32_t *)p)[i] = (uint32_t)v; break;
    default: ((int64_t *)p)[i] = v; break;
  }
}

double mr_get_f64(mr_dtype_t t, const void *p, int64_t i) {
  switch (t) {
    case MR_F64: return ((const double *)p)[i];
    case MR_F32: return (double)((const float *)p)[i];
    case MR_BF16: return (double)mr_bf16_to_f32(((const mr_bf16_t *)p)[i]);
    case MR_U64: return (double)((const uint64_t *)p)[i];
    case MR_F16: return (double)mr_f16_to_f32(((const mr_f16_t *)p)[i]);
    case MR_F8_E4M3FN:
    case MR_F8_E5M2: return (double)mr_f8_to_f32(t, ((const uint8_t *)p)[i]);
    default: return (double)mr_get_i64(t, p, i);
  }
}

/* Truncates v towards zero and clamps it to t's range; NaN gives 0, as in jax. */
static int64_t to_integer(mr_dtype_t t, double v) {
  double lo = t == MR_I32 ? INT32_MIN : t == MR_I64 ? -0x1p63 : 0;
  double hi = t == MR_U8 ? UINT8_MAX : t == MR_I32 ? INT32_MAX : t == MR_U32 ? UINT32_MAX : 0x1p63;
  if (isnan(v)) return 0;
  if (v <= lo) return t == MR_I64 ? INT64_MIN : (int64_t)lo;
  if (v >= hi) return t == MR_I64 ? INT64_MAX : (int64_t)(uint64_t)fmin(hi, 0x1p63 - 1024);
  return (int64_t)v;
}

void mr_set_f64(mr_dtype_t t, void *p, int64_t i, double v) {
  switch (t) {
    case MR_F64: ((double *)p)[i] = v; break;
    case MR_F32: ((float *)p)[i] = (float)v; break;
    case MR_BF16: ((mr_bf16_t *)p)[i] = mr_bf16_from_f32((float)v); break;
    case MR_F16: ((mr_f16_t *)p)[i] = mr_f16_from_f64(v); break;
    case MR_F8_E4M3FN:
    case MR_F8_E5M2: ((uint8_t *)p)[i] = mr_f8_from_f32(t, (float)v); break;
    case MR_BOOL: ((uint8_t *)p)[i] = v != 0; break;
    case MR_U64: ((uint64_t *)p)[i] = v >= 0x1p64 ? UINT64_MAX : v > 0 ? (uint64_t)v : 0; break;
    default: mr_set_i64(t, p, i, to_integer(t, v)); break;
  }
}
