/* Elementary functions without branches, so that loops over them vectorise.  Static inline, for
   the files that are compiled once for each instruction set.  Accuracy against f64, checked by
   tests/model/test_kernel_rows.c: exp 2.5e-7 relative, erfc 4e-7 + 1.5e-7 x^2 relative. */
#ifndef MR_MODEL_CPU_VEC_MATH_H
#define MR_MODEL_CPU_VEC_MATH_H

#include <math.h>

#include "base/dtype.h"

static inline float vec_float(uint32_t u) {
  float f;
  memcpy(&f, &u, sizeof f);
  return f;
}

static inline uint32_t vec_bits(float f) {
  uint32_t u;
  memcpy(&u, &f, sizeof u);
  return u;
}

/* Adding it rounds to a whole number, which is then in the low bits of the sum; subtracting it
   again gives that number. */
#define VEC_SHIFT 12582912.0f

/* x in [-104,89] is n ln 2 + r: returns e^r, from a polynomial of degree 6, and n + VEC_SHIFT. */
static inline float vec_exp_rest(float x, float *shifted) {
  *shifted = x * 1.44269504f + VEC_SHIFT;
  float n = *shifted - VEC_SHIFT;
  float r = x - n * 0.693359375f;
  r = r - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  return p * r * r + r + 1.0f;
}

/* e^x, with 2^n added to the exponent.  Arguments beyond [-87,88] are clamped: they give about
   1.6 times 2^-126 or 2^127, which serve as 0 and infinity in the kernels that use it. */
static inline float vec_exp(float x) {
  float shifted;
  x = x > 88.0f ? 88.0f : x;
  x = x < -87.0f ? -87.0f : x;
  float p = vec_exp_rest(x, &shifted);
  return vec_float(vec_bits(p) + (vec_bits(shifted) << 23));
}

/* The complementary error function: Chebyshev fit in t = 1/(1 + |x|/2) times exp(-x^2) (W.  Press
   et al., "Numerical Recipes", erfcc). */
static inline float vec_erfc(float x) {
  float z = fabsf(x), t = 1.0f / (1.0f + 0.5f * z);
  float p = 0.17087277f;
  p = p * t - 0.82215223f;
  p = p * t + 1.48851587f;
  p = p * t - 1.13520398f;
  p = p * t + 0.27886807f;
  p = p * t - 0.18628806f;
  p = p * t + 0.09678418f;
  p = p * t + 0.37409196f;
  p = p * t + 1.00002368f;
  p = p * t - 1.26551223f;
  float y = t * vec_exp(-z * z + p);
  return x >= 0 ? y : 2.0f - y;
}

static inline float vec_load(mr_dtype_t t, const void *x, int64_t i) {
  return t == MR_F32   ? ((const float *)x)[i]
         : t == MR_F16 ? mr_f16_to_f32(((const mr_f16_t *)x)[i])
                       : vec_float((uint32_t)((const mr_bf16_t *)x)[i] << 16);
}

static inline void vec_store(mr_dtype_t t, void *x, int64_t i, float v) {
  if (t == MR_F32) {
    ((float *)x)[i] = v;
  } else if (t == MR_F16) {
    ((mr_f16_t *)x)[i] = mr_f16_from_f32(v);
  } else {
    uint32_t u = vec_bits(v), rounded = (u + 0x7FFFu + ((u >> 16) & 1u)) >> 16;
    ((mr_bf16_t *)x)[i] = (mr_bf16_t)(v != v ? (u >> 16) | 0x40u : rounded);
  }
}

/* v rounded to t, as by a store and a load. */
static inline float vec_round(mr_dtype_t t, float v) {
  if (t == MR_F32) return v;
  if (t == MR_F16) return mr_f16_to_f32(mr_f16_from_f32(v));
  uint32_t u = vec_bits(v), rounded = u + 0x7FFFu + ((u >> 16) & 1u);
  return vec_float((v != v ? u | 0x400000u : rounded) & 0xFFFF0000u);
}

#endif
