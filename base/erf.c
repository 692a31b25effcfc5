/* erf by one rational function, erfinv by one of two polynomials in log(1 - x^2).  The constants
   and the order of operations are those that XLA compiles, because draws computed here must equal
   JAX's to the bit; a more accurate erf would not do. */
#include "base/erf.h"

#include <math.h>

float mr_erf(float x) {
  if (fabsf(x) >= MR_ERF_LIMIT) return copysignf(1, x);
  float s = x * x;
  return x * MR_ERF_P(fmaf, s) / MR_ERF_Q(fmaf, s);
}

float mr_erfinv(float x) {
  static const float small[] = {2.81022636e-08f,  3.43273939e-07f, -3.5233877e-06f,
                                -4.39150654e-06f, 0.00021858087f,  -0.00125372503f,
                                -0.00417768164f,  0.246640727f,    1.50140941f};
  static const float large[] = {-0.000200214257f, 0.000100950558f, 0.00134934322f,
                                -0.00367342844f,  0.00573950773f,  -0.0076224613f,
                                0.00943887047f,   1.00167406f,     2.83297682f};
  if (fabsf(x) == 1.0f) return x * INFINITY;
  float w = -log1pf(-x * x);
  const float *c = w < 5.0f ? small : large;
  w = w < 5.0f ? w - 2.5f : sqrtf(w) - 3.0f;
  float p = c[0];
  for (int i = 1; i < 9; i++) p = c[i] + p * w;
  return p * x;
}
