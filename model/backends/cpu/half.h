/* Narrow floats as f32: runs of f16, for files compiled for one instruction set, by its own
   instructions where there are such, to the same bits as base/dtype.h; single elements of f32, bf16
   or f16, for the kernels in plain C. */
#ifndef MR_MODEL_CPU_HALF_H
#define MR_MODEL_CPU_HALF_H

#include <stdint.h>

#include "base/dtype.h"

#if defined(__AVX512F__) || defined(__F16C__)
#include <immintrin.h>
#endif

/* y[0,n) = x[0,n); apart from one another. */
static inline void mr__half_widen(const mr_f16_t *x, float *y, int64_t n) {
  int64_t i = 0;
#if defined(__AVX512F__)
  for (; i + 16 <= n; i += 16)
    _mm512_storeu_ps(y + i, _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(x + i))));
#elif defined(__F16C__)
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(y + i, _mm256_cvtph_ps(_mm_loadu_si128((const void *)(x + i))));
#else
#pragma omp simd
  for (int64_t k = 0; k < n; k++) y[k] = mr_f16_to_f32(x[k]);
  i = n;
#endif
  for (; i < n; i++) y[i] = mr_f16_to_f32(x[i]);
}

/* y[0,n) = x[0,n), rounded to nearest, ties to even. */
static inline void mr__half_narrow(const float *x, mr_f16_t *y, int64_t n) {
  int64_t i = 0;
#if defined(__AVX512F__)
  for (; i + 16 <= n; i += 16)
    _mm256_storeu_si256((void *)(y + i),
                        _mm512_cvtps_ph(_mm512_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
#elif defined(__F16C__)
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128((void *)(y + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
#else
#pragma omp simd
  for (int64_t k = 0; k < n; k++) y[k] = mr_f16_from_f32(x[k]);
  i = n;
#endif
  for (; i < n; i++) y[i] = mr_f16_from_f32(x[i]);
}

static inline float element_get(mr_dtype_t t, const void *x, int64_t i) {
  return t == MR_F32   ? ((const float *)x)[i]
         : t == MR_F16 ? mr_f16_to_f32(((const mr_f16_t *)x)[i])
                       : mr_bf16_to_f32(((const mr_bf16_t *)x)[i]);
}

static inline void element_put(mr_dtype_t t, void *x, int64_t i, float v) {
  if (t == MR_F32)
    ((float *)x)[i] = v;
  else if (t == MR_F16)
    ((mr_f16_t *)x)[i] = mr_f16_from_f32(v);
  else
    ((mr_bf16_t *)x)[i] = mr_bf16_from_f32(v);
}

#endif
