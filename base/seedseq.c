/* Two expanders of seeds: C++'s std::seed_seq, by which grain's index shuffle expands its seed, and
   NumPy's SeedSequence, by which its pipelines and NumPy's generators do.  Both follow their
   specifications line by line and keep the letters used there. */
#include "base/seedseq.h"

static uint32_t seed_seq_t(uint32_t x) { return x ^ (x >> 27); }

static size_t seed_seq_gap(size_t n) {
  return n >= 623 ? 11 : n >= 68 ? 7 : n >= 39 ? 5 : n >= 7 ? 3 : (n - 1) / 2;
}

void mr_seed_seq(const uint32_t *seed, size_t n_seeds, uint32_t *r, size_t n) {
  if (n == 0) return;
  size_t t = seed_seq_gap(n), p = (n - t) / 2, q = p + t;
  size_t m = n_seeds + 1 > n ? n_seeds + 1 : n;
  for (size_t i = 0; i < n; i++) r[i] = 0x8B8B8B8Bu;
  for (size_t k = 0; k < m; k++) {
    uint32_t *a = &r[k % n], *b = &r[(k + p) % n], *c = &r[(k + q) % n], last = r[(k + n - 1) % n];
    uint32_t r1 = 1664525u * seed_seq_t(*a ^ *b ^ last);
    uint32_t r2 = r1 + (k == 0 ? (uint32_t)n_seeds : (uint32_t)(k % n));
    if (k && k <= n_seeds) r2 += seed[k - 1];
    *b += r1, *c += r2, *a = r2;
  }
  for (size_t k = m; k < m + n; k++) {
    uint32_t *a = &r[k % n], *b = &r[(k + p) % n], *c = &r[(k + q) % n], last = r[(k + n - 1) % n];
    uint32_t r3 = 1566083941u * seed_seq_t(*a + *b + last);
    uint32_t r4 = r3 - (uint32_t)(k % n);
    *b ^= r3, *c ^= r4, *a = r4;
  }
}

/* ---- numpy ---- */

static uint32_t mix_hash(uint32_t x, uint32_t *h) {
  x ^= *h;
  *h *= 0x931E8875u;
  x *= *h;
  return x ^ (x >> 16);
}

static uint32_t pool_mix(uint32_t x, uint32_t y) {
  uint32_t r = x * 0xCA01F9DDu - y * 0x4973F715u;
  return r ^ (r >> 16);
}

void mr_seed_sequence(const uint32_t *word, size_t n_words, uint32_t *out, size_t n) {
  uint32_t pool[4], h = 0x43B0D7E5u;
  for (size_t i = 0; i < 4; i++) pool[i] = mix_hash(i < n_words ? word[i] : 0, &h);
  for (size_t s = 0; s < 4; s++)
    for (size_t d = 0; d < 4; d++)
      if (s != d) pool[d] = pool_mix(pool[d], mix_hash(pool[s], &h));
  for (size_t s = 4; s < n_words; s++)
    for (size_t d = 0; d < 4; d++) pool[d] = pool_mix(pool[d], mix_hash(word[s], &h));
  h = 0x8B51F9DDu;
  for (size_t i = 0; i < n; i++) {
    uint32_t x = pool[i % 4] ^ h;
    h *= 0x58F38DEDu;
    x *= h;
    out[i] = x ^ (x >> 16);
  }
}
