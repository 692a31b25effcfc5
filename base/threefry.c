/* Threefry2x32, JAX's counter-based generator, and the conversions from its bits to draws.  They
   use the operations that XLA compiles them to, fused multiply-adds and products with reciprocals
   included, since plain arithmetic would differ in the last bit. */
#include "base/threefry.h"

#include <math.h>
#include <string.h>

#include "base/erf.h"

static uint32_t threefry_rotl(uint32_t x, int r) { return x << r | x >> (32 - r); }

mr_key_t mr_threefry2x32(mr_key_t k, uint32_t x0, uint32_t x1) {
  static const int rotation[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  const uint32_t ks[3] = {k.a, k.b, k.a ^ k.b ^ 0x1BD11BDAu};
  x0 += ks[0], x1 += ks[1];
  for (uint32_t group = 1; group <= 5; group++) {
    for (int i = 0; i < 4; i++) {
      x0 += x1;
      x1 = threefry_rotl(x1, rotation[(group + 1) & 1][i]) ^ x0;
    }
    x0 += ks[group % 3], x1 += ks[(group + 1) % 3] + group;
  }
  return (mr_key_t){x0, x1};
}

mr_key_t mr_key(uint64_t seed) { return (mr_key_t){0, (uint32_t)seed}; }

mr_key_t mr_key_fold_in(mr_key_t k, uint32_t data) { return mr_threefry2x32(k, 0, data); }

mr_key_t mr_key_split(mr_key_t k, uint64_t i) {
  return mr_threefry2x32(k, (uint32_t)(i >> 32), (uint32_t)i);
}

uint32_t mr_key_bits(mr_key_t k, uint64_t i) {
  mr_key_t x = mr_key_split(k, i);
  return x.a ^ x.b;
}

/* XLA contracts the scaling to one fused multiply-add; a plain product and sum would differ in the
   last bit. */
float mr_uniform_of_bits(uint32_t bits, float lo, float hi) {
  bits = bits >> 9 | 0x3F800000u;
  float f;
  memcpy(&f, &bits, sizeof f);
  return fmaxf(lo, fmaf(f - 1.0f, hi - lo, lo));
}

float mr_normal_of_bits(uint32_t bits) {
  return (float)M_SQRT2 * mr_erfinv(mr_uniform_of_bits(bits, nextafterf(-1.0f, 0.0f), 1.0f));
}

mr_truncated_t mr_truncated(float lo, float hi) {
  const float rsqrt2 = 1.0f / (float)M_SQRT2; /* XLA divides by multiplying with it */
  return (mr_truncated_t){mr_erf(lo * rsqrt2), mr_erf(hi * rsqrt2), nextafterf(lo, INFINITY),
                          nextafterf(hi, -INFINITY)};
}

float mr_truncated_normal_of_bits(uint32_t bits, const mr_truncated_t *cut) {
  float x = (float)M_SQRT2 * mr_erfinv(mr_uniform_of_bits(bits, cut->erf_lo, cut->erf_hi));
  return fminf(fmaxf(x, cut->least), cut->most);
}

float mr_key_uniform(mr_key_t k, uint64_t i, float lo, float hi) {
  return mr_uniform_of_bits(mr_key_bits(k, i), lo, hi);
}

float mr_key_normal(mr_key_t k, uint64_t i) { return mr_normal_of_bits(mr_key_bits(k, i)); }

float mr_key_truncated_normal(mr_key_t k, uint64_t i, const mr_truncated_t *cut) {
  return mr_truncated_normal_of_bits(mr_key_bits(k, i), cut);
}
