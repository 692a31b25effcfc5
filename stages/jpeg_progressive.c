/* The blocks of progressive scans.  A first scan of some coefficients gives their upper bits; each
   scan that refines them gives one bit more, for coefficients that are not 0 yet by a code that
   passes those that are 0, and for the others by a plain bit between these codes.

   So the end of a code depends on which coefficients of the block are not 0, and on nothing else:
   64 bits a block are kept of what a box leaves out.  A number of zeros is passed, and the bits
   between are found, by PDEP on those 64 bits, instead of one coefficient after the other; a
   block's coefficients all get their new bits at once. */
#include "stages/jpeg_bits.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define BITS __attribute__((target("avx2,bmi,bmi2,popcnt")))

static const uint64_t FIRST = 1ull << 63; /* of mr_jpeg_store_t.seen: coefficient 0 */

static int16_t *pass_kept(const mr_jpeg_store_t *s, int y, int x) {
  if (y < s->top || y >= s->bottom || x < s->left || x >= s->right) return NULL;
  return s->coef +
         64 * ((size_t)(y - s->top) * (size_t)(s->right - s->left) + (size_t)(x - s->left));
}

static uint64_t *pass_seen(const mr_jpeg_store_t *s, int y) {
  return s->seen + (size_t)y * (size_t)s->across;
}

/* Sets p->run by a code that ends blocks; `more` are the bits behind it. */
INLINE void pass_end(mr_jpeg_pass_t *p, uint32_t step, uint64_t more) {
  int size = step >> 6 & 15;
  p->run = (1u << size) + (unsigned)(more & ((1u << size) - 1));
}

/* ---- DC ---- */

bool mr_jpeg_pass_dc(mr_jpeg_bits_t *in, const mr_jpeg_pass_t *p, const mr_jpeg_store_t *s, int y,
                     int x, mr_jpeg_part_t *part) {
  int16_t *coef = x < s->across && y < s->down ? pass_kept(s, y, x) : NULL;
  refill_bits(in);
  if (p->refine) {
    if (coef && in->bits >> 63) coef[0] = (int16_t)(coef[0] | 1 << p->low);
    in->bits <<= 1, in->count--;
    return in->at <= p->limit + 16;
  }
  int change;
  if (!take_value(in, part->dc, &change)) return false;
  part->before += change;
  int value = part->before * (1 << p->low);
  if (value != (int16_t)value) return false;
  if (coef) coef[0] = (int16_t)value;
  return in->at <= p->limit + 16;
}

/* ---- the first bits of AC ---- */

/* Takes a block; *seen: which of its coefficients are not 0. */
INLINE bool first_block(mr_jpeg_bits_t *in, mr_jpeg_pass_t *p, int16_t *coef, uint64_t *seen) {
  for (int k = p->first; k <= p->last; k++) {
    int value;
    refill_bits(in);
    uint64_t bits = in->bits;
    uint32_t step = take_value(in, p->ac, &value);
    int advance = (int)(step >> 10);
    if (!step) return false;
    if (advance == MR_JPEG_END) {
      pass_end(p, step, bits >> (64 - (step & 63)));
      p->run--;
      return true;
    }
    k += advance - 1;
    if (k > p->last) return false;
    if (!(step >> 6 & 15)) continue; /* sixteen zeros */
    value *= 1 << p->low;
    if (value != (int16_t)value) return false;
    *seen |= FIRST >> k;
    if (coef) coef[k] = (int16_t)value;
  }
  return true;
}

BITS bool mr_jpeg_pass_first(mr_jpeg_bits_t *state, mr_jpeg_pass_t *p, const mr_jpeg_store_t *s,
                             int y, int from, int to) {
  mr_jpeg_bits_t in = *state; /* in registers */
  uint64_t *seen = pass_seen(s, y);
  for (int x = from; x < to; x++) {
    if (p->run) {
      int some = p->run < (unsigned)(to - x) ? (int)p->run : to - x;
      p->run -= (unsigned)some, x += some - 1;
      continue;
    }
    if (!first_block(&in, p, pass_kept(s, y, x), &seen[x]) || in.at > p->limit + 16) return false;
  }
  *state = in;
  return true;
}

/* ---- a bit more of AC ---- */

/* More corrections than there are bits in store, a part at a time. */
static __attribute__((noinline)) BITS uint64_t take_many_corrections(mr_jpeg_bits_t *in,
                                                                     uint64_t which) {
  uint64_t one = 0, some;
  for (; which; which ^= some) {
    refill_bits(in);
    int n = __builtin_popcountll(which);
    some = which; /* the first ones of the order, which are the upper bits */
    if (n > in->count) some &= -_pdep_u64(1ull << (n - in->count), which), n = in->count;
    one |= _pdep_u64(in->bits >> (64 - n), some);
    in->bits = in->bits << (n - 1) << 1, in->count -= n;
  }
  return one;
}

/* Takes a bit for each coefficient of `which`, and returns those whose bit is 1.  Without a branch
   that depends on whether there are any. */
BITS static inline __attribute__((always_inline)) uint64_t take_corrections(mr_jpeg_bits_t *in,
                                                                            uint64_t which) {
  int n = __builtin_popcountll(which);
  if (__builtin_expect(n > in->count, 0)) {
    mr_jpeg_bits_t copy = *in; /* the original stays in registers */
    uint64_t one = take_many_corrections(&copy, which);
    *in = copy;
    return one;
  }
  uint64_t one = _pdep_u64(in->bits >> 1 >> (63 - n), which);
  in->bits <<= n, in->count -= n;
  return one;
}

/* Gives coefficients `which` of a block one bit more, of value 1 << low; those of `negative`, which
   were 0, become negative. */
BITS static inline void apply_bits(int16_t *coef, uint64_t which, uint64_t negative, int low) {
  const __m256i lane =
      _mm256_setr_epi16((short)0x8000, 1 << 14, 1 << 13, 1 << 12, 1 << 11, 1 << 10, 1 << 9, 1 << 8,
                        1 << 7, 1 << 6, 1 << 5, 1 << 4, 1 << 3, 1 << 2, 1 << 1, 1);
  __m256i bit = _mm256_set1_epi16((short)(1 << low));
  for (int k = 0; k < 4; k++, which <<= 16, negative <<= 16) {
    if (!(which >> 48)) continue;
    __m256i *at = (__m256i *)coef + k, old = _mm256_load_si256(at);
    __m256i on = _mm256_set1_epi16((short)(which >> 48)),
            minus = _mm256_set1_epi16((short)(negative >> 48));
    on = _mm256_cmpeq_epi16(_mm256_and_si256(on, lane), lane);
    minus = _mm256_cmpeq_epi16(_mm256_and_si256(minus, lane), lane);
    minus = _mm256_or_si256(minus, _mm256_srai_epi16(old, 15));
    __m256i change = _mm256_sub_epi16(_mm256_xor_si256(bit, minus), minus);
    _mm256_store_si256(at, _mm256_add_epi16(old, _mm256_and_si256(change, on)));
  }
}

BITS static inline __attribute__((always_inline)) bool refine_block(mr_jpeg_bits_t *in,
                                                                    mr_jpeg_pass_t *p,
                                                                    int16_t *coef, uint64_t *seen) {
  uint64_t behind = p->last == 63 ? 0 : ~0ull >> (p->last + 1), old = *seen;
  uint64_t left = ~0ull >> p->first & ~behind, new = 0, negative = 0, one = 0;
  const mr_jpeg_huff_t *ac = p->ac;
  bool coded = !p->run;
  while (coded && left) { /* left: the coefficients behind the last code's */
    refill_bits(in);
    uint32_t step = next_step(in, ac);
    int total = step & 63, size = step >> 6 & 15, advance = (int)(step >> 10);
    if (!step) return false;
    uint64_t value = in->bits >> (64 - total);
    in->bits <<= total, in->count -= total;
    if (advance == MR_JPEG_END) {
      pass_end(p, step, value);
      break;
    }
    /* The coefficient of the code is zero number `advance` of those. */
    uint64_t zeros = left & ~old;
    int n = __builtin_popcountll(zeros);
    if (size > 1 || advance > n) return false;
    uint64_t here = _pdep_u64(1ull << (n - advance), zeros), less = here - 1;
    one |= take_corrections(in, left & old & ~less);
    left &= less;
    if (size) new |= here, negative |= value & 1 ? 0 : here;
  }
  if (p->run) {
    p->run--;
    refill_bits(in);
    one |= take_corrections(in, left & old);
  }
  *seen = old | new;
  if (coef && (one | new)) apply_bits(coef, one | new, negative, p->low);
  return true;
}

BITS bool mr_jpeg_pass_refine(mr_jpeg_bits_t *state, mr_jpeg_pass_t *p, const mr_jpeg_store_t *s,
                              int y, int from, int to) {
  mr_jpeg_bits_t in = *state; /* in registers */
  uint64_t *seen = pass_seen(s, y);
  for (int x = from; x < to; x++)
    if (!refine_block(&in, p, pass_kept(s, y, x), &seen[x]) || in.at > p->limit + 16) return false;
  *state = in;
  return true;
}

/* ---- samples ---- */

bool mr_jpeg_pass_samples(const mr_jpeg_store_t *s, const mr_jpeg_part_t *part,
                          mr_jpeg_block_t block[2]) {
  int waiting = 0;
  for (int y = s->top; y < s->bottom; y++)
    for (int x = s->left; x < s->right; x++) {
      mr_jpeg_block_t *b = block + waiting;
      const int16_t *coef = pass_kept(s, y, x);
      uint64_t seen = pass_seen(s, y)[x];
      b->quant = part->quant, b->stride = part->stride;
      b->to =
          part->samples + (size_t)(y * 8 - part->top) * b->stride + (size_t)(x * 8 - part->left);
      b->coef[0] = coef[0];
      if (!seen && flat_block(b)) continue;
      for (; seen; seen &= seen - 1) {
        int k = 63 - __builtin_ctzll(seen);
        b->coef[mr_jpeg_order[k]] = coef[k];
      }
      if (++waiting < 2) continue;
      if (!mr_jpeg_idct(block, block + 1)) return false;
      waiting = 0;
    }
  return !waiting || mr_jpeg_idct(block, block);
}
#endif
