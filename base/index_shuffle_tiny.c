/* Permutations of two to four records for many seeds, one walk per lane of a vector.

   Two or four marks are enough here.  The walk from the last mark is skipped: its end is the one
   mark that no other walk reaches.  So two records need a third of the steps that walks between
   MR__MARKS marks take, and four need three fifths.  Walks are long and of all lengths, so a lane
   that is done starts the next seed's walk. */
#include "base/index_shuffle_private.h"

#include <assert.h>
#include <string.h>

#if defined(__x86_64__)
#include "base/index_shuffle_wide.h"

/* Each step depends on the one before; three vectors hide that latency.  Ended walks are collected
   every STEPS steps. */
enum { VECTORS = 3, LANES = 64, STEPS = 32 };
enum { WALKS = MR_SHUFFLE_TINY_TOGETHER * (MR_SHUFFLE_TINY_MAX - 1) };
_Static_assert(WALKS <= 1 << 16, "the number of a walk is two bytes");

typedef uint8_t row_t[WALKS + LANES]; /* room for reads and writes of whole vectors */

/* The starts of all walks, and the ends of the finished ones. */
typedef struct begins {
  row_t key[MR_SHUFFLE_ROUNDS], mark, high, low;
  int n, next;
} begins_t;
typedef struct ends {
  row_t mark, high, low;
  int n;
} ends_t;

typedef struct walks {
  __m512i left, right, key[MR_SHUFFLE_ROUNDS];
  __m512i high, low; /* their numbers */
  __mmask64 idle;
} walks_t;

WIDE static inline __m512i index_shuffle_tiny_take(__m512i old, __mmask64 lanes,
                                                   const uint8_t *from) {
  return _mm512_mask_expand_epi8(old, lanes, _mm512_loadu_si512(from));
}

/* Starts the next walks in the given lanes. */
WIDE static void index_shuffle_tiny_begin(walks_t *w, begins_t *b, __mmask64 lanes) {
  int rest = b->n - b->next;
  __mmask64 given = lanes;
  if (rest < LANES) given = _pdep_u64(((uint64_t)1 << rest) - 1, lanes);
  w->idle = (w->idle & ~lanes) | (lanes & ~given);
  w->left = _mm512_maskz_mov_epi8(~given, w->left);
  w->right = index_shuffle_tiny_take(w->right, given, b->mark + b->next);
  w->high = index_shuffle_tiny_take(w->high, given, b->high + b->next);
  w->low = index_shuffle_tiny_take(w->low, given, b->low + b->next);
  for (int i = 0; i < MR_SHUFFLE_ROUNDS; i++)
    w->key[i] = index_shuffle_tiny_take(w->key[i], given, b->key[i] + b->next);
  b->next += __builtin_popcountll(given);
}

/* Advances every walk by at least one step; a walk stops at a mark, a value without a bit above
   those of marks. */
WIDE static void index_shuffle_tiny_advance(walks_t *w, uint8_t marks, __mmask64 *ended) {
  enum { OR_AND = 0xF8 }; /* a | (b & c) */
  __m512i left[VECTORS], right[VECTORS], above = _mm512_set1_epi8((char)~(marks - 1));
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
      __m512i off = _mm512_ternarylogic_epi64(left[k], right[k], above, OR_AND);
      go[k] = _mm512_mask_test_epi8_mask(go[k], off, off);
    }
  for (int k = 0; k < VECTORS; k++)
    w[k].left = left[k], w[k].right = right[k], ended[k] = ~go[k] & ~w[k].idle;
}

WIDE static void index_shuffle_tiny_pack(ends_t *e, const walks_t *w, __mmask64 ended) {
  _mm512_storeu_si512(e->mark + e->n, _mm512_maskz_compress_epi8(ended, w->right));
  _mm512_storeu_si512(e->high + e->n, _mm512_maskz_compress_epi8(ended, w->high));
  _mm512_storeu_si512(e->low + e->n, _mm512_maskz_compress_epi8(ended, w->low));
  e->n += __builtin_popcountll(ended);
}

/* goes[i]: the mark that walk i ends at. */
WIDE static void walk_all(begins_t *b, uint8_t marks, uint8_t *goes) {
  walks_t w[VECTORS];
  ends_t e;
  __mmask64 ended[VECTORS];
  memset(w, 0, sizeof w);
  e.n = 0;
  for (int k = 0; k < VECTORS; k++) index_shuffle_tiny_begin(&w[k], b, ~(__mmask64)0);
  while (e.n < b->n) {
    index_shuffle_tiny_advance(w, marks, ended);
    for (int k = 0; k < VECTORS; k++) {
      if (!ended[k]) continue;
      index_shuffle_tiny_pack(&e, &w[k], ended[k]);
      index_shuffle_tiny_begin(&w[k], b, ended[k]);
    }
  }
  for (int i = 0; i < b->n; i++) goes[e.high[i] << 8 | e.low[i]] = e.mark[i];
}

static void set_begins(begins_t *b, uint64_t max_index, uint32_t seed, int n, int marks) {
  mr_index_shuffle_t s;
  b->n = b->next = 0;
  for (int k = 0; k < n; k++) {
    mr_index_shuffle_init(&s, max_index, seed + (uint32_t)k, MR_SHUFFLE_ROUNDS);
    for (int mark = 0; mark < marks - 1; mark++, b->n++) {
      for (int i = 0; i < MR_SHUFFLE_ROUNDS; i++) b->key[i][b->n] = (uint8_t)s.key[i];
      b->mark[b->n] = (uint8_t)mark;
      b->high[b->n] = (uint8_t)(b->n >> 8), b->low[b->n] = (uint8_t)b->n;
    }
  }
}

bool mr_index_shuffle_tiny(uint64_t max_index, uint32_t seed, int n, mr_shuffled_tiny_t *to) {
  assert(max_index >= 1 && max_index < MR_SHUFFLE_TINY_MAX);
  assert(n >= 1 && n <= MR_SHUFFLE_TINY_TOGETHER);
  if (!mr__index_shuffle_has_wide()) return false;
  begins_t b;
  uint8_t walked[WALKS], *from = walked;
  int marks = max_index > 1 ? 4 : 2;
  set_begins(&b, max_index, seed, n, marks);
  walk_all(&b, (uint8_t)marks, walked);
  for (int k = 0; k < n; k++) {
    uint16_t goes[MR_SHUFFLE_TINY_MAX], last = (uint16_t)(marks * (marks - 1) / 2);
    for (int mark = 0; mark < marks - 1; mark++) last -= goes[mark] = *from++;
    goes[marks - 1] = last;
    mr__walk_to_results(max_index, goes, to[k]);
  }
  return true;
}

#else

bool mr_index_shuffle_tiny(uint64_t max_index, uint32_t seed, int n, mr_shuffled_tiny_t *to) {
  return false;
}

#endif
