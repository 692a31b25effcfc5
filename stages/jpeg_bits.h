/* Bits, codes and values as both entropy decoders take them: those of baseline files
   (jpeg_huffman.c) and of progressive ones (jpeg_progressive.c). */
#ifndef MR_STAGES_JPEG_BITS_H
#define MR_STAGES_JPEG_BITS_H

#include <string.h>

#include "stages/jpeg.h"

#if defined(__x86_64__)
#define INLINE static inline __attribute__((always_inline))

/* Where the coefficients of a scan's order are in a block, by row and column.  What lies behind the
   last, ends of blocks among them, goes to a place that is never read. */
enum { NOWHERE = 64, SCAN = 64 + MR_JPEG_END };
static const uint8_t mr_jpeg_order[SCAN + 16] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18,
    11, 4,  5,  12, 19, 26, 33, 40, 48, 41, 34, 27, 20,
    13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43,
    36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45,
    38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63, [64 ... SCAN + 15] = NOWHERE};

/* The step (mr_jpeg_huff_t.look) of a code longer than MR_JPEG_LOOK; 0 for no code. */
uint32_t mr__jpeg_huff_long(const mr_jpeg_huff_t *h, uint64_t bits);

/* The value of `size` bits at the end of `bits`: one whose first bit is 0 is negative. */
INLINE int huff_value(int bits, int size) {
  int all = (1 << size) - 1, v = bits & all;
  int low = (v - (all >> 1) - 1) >> 31; /* no branch: it would be taken at random */
  return v - (all & low);
}

/* At least 56 bits count from here on. */
INLINE void refill_bits(mr_jpeg_bits_t *in) {
  uint64_t next;
  memcpy(&next, in->at, sizeof next);
  in->bits |= __builtin_bswap64(next) >> in->count;
  in->at += (63 - in->count) >> 3;
  in->count |= 56;
}

/* The step of the next code, 0 for no code. */
INLINE uint32_t next_step(const mr_jpeg_bits_t *in, const mr_jpeg_huff_t *h) {
  uint32_t step = h->look[in->bits >> (64 - MR_JPEG_LOOK)];
  return __builtin_expect(!step, 0) ? mr__jpeg_huff_long(h, in->bits) : step;
}

/* Takes a code and its value, of 31 bits at most; returns its step, 0 for no code. */
INLINE uint32_t take_value(mr_jpeg_bits_t *in, const mr_jpeg_huff_t *h, int *value) {
  uint32_t step = next_step(in, h);
  if (__builtin_expect(!step, 0)) return 0;
  int total = step & 63, size = step >> 6 & 15;
  *value = huff_value((int)(in->bits >> (64 - total)), size);
  in->bits <<= total, in->count -= total;
  return step;
}

/* Writes the samples of a block whose coefficients but DC are 0.  False if that is too large. */
INLINE bool flat_block(mr_jpeg_block_t *b) {
  int dc = b->coef[0] * b->quant[0], v = ((dc + 4) >> 3) + 128;
  if (dc < -MR_JPEG_SUM || dc > MR_JPEG_SUM) return false;
  b->coef[0] = 0;
  for (size_t r = 0; r < 8; r++) memset(b->to + r * b->stride, v < 0 ? 0 : v > 255 ? 255 : v, 8);
  return true;
}
#endif
#endif
