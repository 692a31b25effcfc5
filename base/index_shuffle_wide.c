/* Walks between marks as in index_shuffle_all.c, 64 to a vector.

   Ended walks are compressed into a list and new ones expanded into their lanes, so that no lane is
   handled by itself.  Towards the end of a permutation more and more lanes would idle; they start
   the next permutation instead, so each lane has its own keys. */
#include <assert.h>
#include <string.h>

#include "base/index_shuffle_private.h"
#include "base/isa.h"

#if defined(__x86_64__)
#include "base/index_shuffle_wide.h"

/* Each step depends on the one before; three vectors hide that latency.  Ended walks are collected
   every STEPS steps. */
enum { VECTORS = 3, LANES = 64, STEPS = 12 };
enum { LIST = MR_SHUFFLE_TOGETHER * MR__MARKS };
_Static_assert(MR_SHUFFLE_TOGETHER *(MR__MARKS / 256) <= 256, "order and mark are two bytes");

typedef struct walks {
  __m512i left, right;            /* halves of the values */
  __m512i key[MR_SHUFFLE_ROUNDS]; /* of each lane's permutation */
  __m512i high, low;              /* each walk's start: permutation and mark */
  __mmask64 idle;                 /* lanes without a walk */
} walks_t;

/* Ended walks, with room for stores of whole vectors past the last. */
typedef struct ends {
  uint8_t high[LIST + LANES], low[LIST + LANES], left[LIST + LANES], right[LIST + LANES];
  int n;
} ends_t;

/* Advances every walk by at least one step; a walk stops at a mark.  ended: the stopped ones. */
WIDE static inline void index_shuffle_wide_advance(walks_t *w, __mmask64 *ended) {
  __m512i left[VECTORS], right[VECTORS], marks = _mm512_set1_epi8(MR__MARKS / 256);
  __mmask64 go[VECTORS];
  for (int k = 0; k < VECTORS; k++) left[k] = w[k].left, right[k] = w[k].right, go[k] = ~w[k].idle;
  for (int step = 0; step < STEPS; step++)
#pragma GCC unroll 3
    for (int k = 0; k < VECTORS; k++) {
      __m512i l = half_round(left[k], right[k], w[k].key[0]);
      __m512i r = half_round(right[k], l, w[k].key[1]);
      l = half_round(l, r, w[k].key[2]);
      r = half_round(r, l, w[k].key[3]);
      left[k] = _mm512_mask_mov_epi8(left[k], go[k], l);
      right[k] = _mm512_mask_mov_epi8(right[k], go[k], r);
      go[k] = _mm512_mask_cmpge_epu8_mask(go[k], left[k], marks);
    }
  for (int k = 0; k < VECTORS; k++)
    w[k].left = left[k], w[k].right = right[k], ended[k] = ~go[k] & ~w[k].idle;
}

WIDE static inline void index_shuffle_wide_pack(ends_t *e, const walks_t *w, __mmask64 ended) {
  _mm512_storeu_si512(e->high + e->n, _mm512_maskz_compress_epi8(ended, w->high));
  _mm512_storeu_si512(e->low + e->n, _mm512_maskz_compress_epi8(ended, w->low));
  _mm512_storeu_si512(e->left + e->n, _mm512_maskz_compress_epi8(ended, w->left));
  _mm512_storeu_si512(e->right + e->n, _mm512_maskz_compress_epi8(ended, w->right));
  e->n += __builtin_popcountll(ended);
}

/* Starts walks from the next marks of one permutation in the given lanes; returns how many.  next:
   permutation * MR__MARKS + mark. */
WIDE static inline int index_shuffle_wide_begin(walks_t *w, const mr_index_shuffle_t *s, int n,
                                                int next, __mmask64 lanes) {
  static const uint8_t count[LANES] = {
      0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
      22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43,
      44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63};
  int order = next / MR__MARKS, rest = 256 - next % 256; /* an upper byte is the same for all */
  __mmask64 given = lanes;
  if (order == n) rest = 0;
  if (__builtin_popcountll(lanes) > rest) given = _pdep_u64(((uint64_t)1 << rest) - 1, lanes);
  w->idle = (w->idle & ~lanes) | (lanes & ~given);
  if (!given) return 0;
  __m512i low = _mm512_add_epi8(_mm512_loadu_si512(count), _mm512_set1_epi8((char)next));
  w->low = _mm512_mask_expand_epi8(w->low, given, low);
  w->right = _mm512_mask_mov_epi8(w->right, given, w->low);
  w->high = _mm512_mask_mov_epi8(w->high, given, _mm512_set1_epi8((char)(next >> 8)));
  w->left = _mm512_mask_mov_epi8(w->left, given, _mm512_set1_epi8((char)(next % MR__MARKS >> 8)));
  for (int i = 0; i < MR_SHUFFLE_ROUNDS; i++)
    w->key[i] = _mm512_mask_mov_epi8(w->key[i], given, _mm512_set1_epi8((char)s[order].key[i]));
  return __builtin_popcountll(given);
}

WIDE void mr__index_shuffle_wide(const mr_index_shuffle_t *s, int n, mr__goes_t *goes) {
  walks_t w[VECTORS];
  ends_t e;
  __mmask64 ended[VECTORS];
  int next = 0;
  assert(n >= 1 && n <= MR_SHUFFLE_TOGETHER);
  memset(w, 0, sizeof w);
  e.n = 0;
  for (int k = 0; k < VECTORS; k++)
    next += index_shuffle_wide_begin(&w[k], s, n, next, ~(__mmask64)0);
  while (e.n < n * MR__MARKS) {
    index_shuffle_wide_advance(w, ended);
    for (int k = 0; k < VECTORS; k++) {
      index_shuffle_wide_pack(&e, &w[k], ended[k]);
      if (ended[k] | w[k].idle)
        next += index_shuffle_wide_begin(&w[k], s, n, next, ended[k] | w[k].idle);
    }
  }
  uint16_t *all = goes[0];
  for (int i = 0; i < n * MR__MARKS; i++)
    all[e.high[i] << 8 | e.low[i]] = (uint16_t)(e.left[i] << 8 | e.right[i]);
}

bool mr__index_shuffle_has_wide(void) {
  return mr_isa() >= MR_ISA_AVX512 && __builtin_cpu_supports("gfni") &&
         __builtin_cpu_supports("avx512vbmi2") && __builtin_cpu_supports("bmi2");
}

#else

void mr__index_shuffle_wide(const mr_index_shuffle_t *s, int n, mr__goes_t *goes) {
  assert(!"there is no such set on this machine");
}

bool mr__index_shuffle_has_wide(void) { return false; }

#endif
