/* Philox4x64-10 with NumPy's conventions for 32-bit halves, doubles and bounded integers.  Which
   word a draw takes, and which half it leaves for the next one, is part of the result: grain's
   pipelines draw from this generator, and a record must get the draws that it gets there. */
#include "base/philox.h"

/* Philox4x64-10: ten rounds of multiplications turn a counter and a key into four words.  NumPy
   increments the counter before each block. */
typedef unsigned __int128 u128;

static void philox_block(mr_philox_t *g) {
  for (int i = 0; i < 4 && ++g->counter[i] == 0; i++) {
  }
  uint64_t c0 = g->counter[0], c1 = g->counter[1], c2 = g->counter[2], c3 = g->counter[3];
  uint64_t k0 = g->key[0], k1 = g->key[1];
  for (int round = 0; round < 10; round++) {
    if (round) k0 += 0x9E3779B97F4A7C15u, k1 += 0xBB67AE8584CAA73Bu;
    u128 p0 = (u128)0xD2E7470EE14C6C93u * c0, p1 = (u128)0xCA5A826395121157u * c2;
    uint64_t n0 = (uint64_t)(p1 >> 64) ^ c1 ^ k0, n2 = (uint64_t)(p0 >> 64) ^ c3 ^ k1;
    c1 = (uint64_t)p1, c3 = (uint64_t)p0, c0 = n0, c2 = n2;
  }
  g->block[0] = c0, g->block[1] = c1, g->block[2] = c2, g->block[3] = c3;
  g->at = 0;
}

void mr_philox_init(mr_philox_t *g, uint64_t key0, uint64_t key1) {
  *g = (mr_philox_t){.key = {key0, key1}, .at = 4};
}

uint64_t mr_philox_next64(mr_philox_t *g) {
  if (g->at == 4) philox_block(g);
  return g->block[g->at++];
}

uint32_t mr_philox_next32(mr_philox_t *g) {
  if (g->has_half) {
    g->has_half = 0;
    return g->half;
  }
  uint64_t x = mr_philox_next64(g);
  g->half = (uint32_t)(x >> 32), g->has_half = 1;
  return (uint32_t)x;
}

double mr_philox_random(mr_philox_t *g) { return (double)(mr_philox_next64(g) >> 11) * 0x1p-53; }

double mr_philox_uniform(mr_philox_t *g, double a, double b) {
  return a + (b - a) * mr_philox_random(g);
}

/* Lemire's bounded draws, on 32 bits when the range allows, as numpy's Generator does. */
int64_t mr_philox_integers(mr_philox_t *g, int64_t lo, int64_t hi) {
  uint64_t r = (uint64_t)hi - 1 - (uint64_t)lo;
  if (r == 0) return lo;
  if (r == UINT64_MAX) return (int64_t)mr_philox_next64(g);
  if (r == UINT32_MAX) return (int64_t)((uint64_t)lo + mr_philox_next32(g));
  if (r < UINT32_MAX) {
    uint32_t n = (uint32_t)r + 1;
    uint64_t m = (uint64_t)mr_philox_next32(g) * n;
    if ((uint32_t)m < n)
      for (uint32_t t = -n % n; (uint32_t)m < t;) m = (uint64_t)mr_philox_next32(g) * n;
    return (int64_t)((uint64_t)lo + (m >> 32));
  }
  uint64_t n = r + 1;
  u128 m = (u128)mr_philox_next64(g) * n;
  if ((uint64_t)m < n)
    for (uint64_t t = -n % n; (uint64_t)m < t;) m = (u128)mr_philox_next64(g) * n;
  return (int64_t)((uint64_t)lo + (uint64_t)(m >> 64));
}
