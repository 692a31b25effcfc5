/* Elementary functions for lanes_body.inc, correct for every float: NaN, infinities, denormals
   and overflow as in the C library.  They have no branches, so that loops over them vectorise. */
#ifndef MR_MODEL_CPU_LANES_MATH_H
#define MR_MODEL_CPU_LANES_MATH_H

#include <string.h>

#include "base/erf.h"
#include "model/backends/cpu/vec_math.h"

/* 2^n for n in [-126,127], n a whole number. */
static inline float lane_exp2i(float n) {
  return vec_float(vec_bits(n + VEC_SHIFT + 127.0f) << 23);
}

/* As vec_exp, but with 2^n as two factors, so that results may be denormal or overflow. */
static inline float lane_exp(float x) {
  float shifted;
  x = x > 89.0f ? 89.0f : x;
  x = x < -104.0f ? -104.0f : x;
  float p = vec_exp_rest(x, &shifted), n = shifted - VEC_SHIFT;
  float half = (n * 0.5f + VEC_SHIFT) - VEC_SHIFT;
  return p * lane_exp2i(half) * lane_exp2i(n - half);
}

/* x = m 2^e with m in [sqrt(1/2), sqrt(2)); a polynomial of degree 9 for log m. */
static inline float lane_log(float x) {
  float tiny = x < 1.17549435e-38f ? 8388608.0f : 1.0f;
  float y = x * tiny, e = tiny > 1 ? -23.0f : 0.0f;
  uint32_t shifted = vec_bits(y) - 0x3F3504F3u; /* bits of sqrt(1/2) */
  e += (float)((int32_t)shifted >> 23);
  float m = vec_float((shifted & 0x007FFFFFu) + 0x3F3504F3u) - 1.0f;
  float z = m * m, p = 7.0376836292e-2f;
  p = p * m - 1.1514610310e-1f;
  p = p * m + 1.1676998740e-1f;
  p = p * m - 1.2420140846e-1f;
  p = p * m + 1.4249322787e-1f;
  p = p * m - 1.6668057665e-1f;
  p = p * m + 2.0000714765e-1f;
  p = p * m - 2.4999993993e-1f;
  p = p * m + 3.3333331174e-1f;
  float r = p * m * z + e * -2.12194440e-4f - 0.5f * z;
  r = m + r + e * 0.693359375f;
  r = x == 0 ? -INFINITY : r;
  r = x < 0 ? NAN : r;
  return x < INFINITY ? r : x; /* infinity and NaN are themselves */
}

/* Near zero an odd polynomial, else 1 - 2 / (e^2|x| + 1). */
static inline float lane_tanh(float x) {
  float a = fabsf(x), z = x * x, p = -5.70498872745e-3f;
  p = p * z + 2.06390887954e-2f;
  p = p * z - 5.37397155531e-2f;
  p = p * z + 1.33314422036e-1f;
  p = p * z - 3.33332819422e-1f;
  float near = p * z * x + x, far = 1.0f - 2.0f / (lane_exp(2.0f * a) + 1.0f);
  return copysignf(a < 0.625f ? near : far, x); /* of -0 too */
}

#define LANE_FMA(a, b, c) ((a) * (b) + (c)) /* one instruction if the machine has it */

/* As mr_erf; the same bits if products and sums are fused. */
static inline float lane_erf(float x) {
  float s = x * x, y = x * MR_ERF_P(LANE_FMA, s) / MR_ERF_Q(LANE_FMA, s);
  return fabsf(x) >= MR_ERF_LIMIT ? copysignf(1.0f, x) : y;
}

/* lane_wave subtracts n pi/2 in four parts.  Three of them have 10 bits, so that their products
   with n are exact up to this limit. */
#define LANE_WAVE_LIMIT 8192.0f

/* sin (turn 0) or cos (turn 1) for |x| <= LANE_WAVE_LIMIT: x = q pi/2 + r with |r| <= pi/4; q
   selects the polynomial and its sign. */
static inline float lane_wave(float x, uint32_t turn) {
  float shifted = x * 0.636619772f + VEC_SHIFT, n = shifted - VEC_SHIFT;
  uint32_t q = vec_bits(shifted) + turn;
  float r = x - n * 1.5703125f;
  r = r - n * 4.839897155761719e-4f;
  r = r + n * 1.6298145055770874e-7f;
  r = r - n * 6.07710062827671e-11f;
  float z = r * r, s = -1.9515295891e-4f, c = 2.443315711809948e-5f;
  s = s * z + 8.3321608736e-3f;
  s = s * z - 1.6666654611e-1f;
  s = s * z * r + r;
  c = c * z - 1.388731625493765e-3f;
  c = c * z + 4.166664568298827e-2f;
  c = c * z * z - 0.5f * z + 1.0f;
  float v = q & 1 ? c : s;
  v = vec_float(vec_bits(v) ^ (q & 2) << 30);
  return turn == 0 && x == 0 ? x : v; /* -0 stays */
}

#endif
