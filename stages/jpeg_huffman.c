/* Huffman codes of JPEG's baseline mode.

   One look at the next bits gives the length of a code, of the value behind it, and how many
   coefficients both pass; a block's end is such a step, one that passes them all.  So a loop over a
   block has one branch that is hard to predict, the last.  Bits come by unaligned words from bytes
   whose stuffing has been taken out. */
#include <string.h>

#include "stages/jpeg_bits.h"

#if defined(__x86_64__)
enum { SIZE_DC_MAX = 11, LENGTH_MAX = 16 };

/* ---- tables ---- */

/* The step of a symbol whose code has `length` bits. */
static uint32_t huff_step(mr_jpeg_codes_t codes, int symbol, int length) {
  int size = codes == MR_JPEG_DC ? symbol : symbol & 15, run = symbol >> 4, advance = 0;
  if (codes != MR_JPEG_DC) advance = size || run == 15 ? run + 1 : MR_JPEG_END;
  if (codes == MR_JPEG_RUNS && advance == MR_JPEG_END) size = run;
  return (uint32_t)(length + size) | (uint32_t)size << 6 | (uint32_t)advance << 10;
}

/* The entry of h->pair for these bits. */
static uint64_t huff_pair(const mr_jpeg_huff_t *h, unsigned bits) {
  int left = MR_JPEG_PAIR, n = 0;
  uint64_t advance[2] = {0}, value[2] = {0};
  for (; n < 2 && !(advance[0] & MR_JPEG_END); n++) {
    unsigned rest = bits & ((1u << left) - 1);
    uint32_t step = h->look[left >= MR_JPEG_LOOK ? rest >> (left - MR_JPEG_LOOK)
                                                 : rest << (MR_JPEG_LOOK - left)];
    int total = step & 63, size = step >> 6 & 15;
    if (!total || total > left) break;
    left -= total;
    advance[n] = step >> 10, value[n] = (uint16_t)huff_value((int)(bits >> left), size);
  }
  if (!n) return 0;
  return (uint64_t)(MR_JPEG_PAIR - left) | advance[0] << 8 | (advance[0] + advance[1]) << 16 |
         value[0] << 32 | value[n - 1] << 48;
}

bool mr_jpeg_huff_build(mr_jpeg_huff_t *h, const uint8_t count[17], const uint8_t symbol[256],
                        mr_jpeg_codes_t codes) {
  if (h->built && h->codes == codes && !memcmp(h->count, count, sizeof h->count) &&
      !memcmp(h->symbol, symbol, sizeof h->symbol))
    return true;
  memset(h->look, 0, sizeof h->look);
  memcpy(h->count, count, sizeof h->count);
  memcpy(h->symbol, symbol, sizeof h->symbol);
  h->codes = codes, h->built = false;
  int code = 0, at = 0;
  for (int length = 1; length <= LENGTH_MAX; length++, code <<= 1) {
    h->shift[length] = at - code;
    if (code + count[length] > 1 << length || at + count[length] > 256) return false;
    for (int i = 0; i < count[length]; i++, code++, at++) {
      if (codes == MR_JPEG_DC && symbol[at] > SIZE_DC_MAX) return false;
      int rest = MR_JPEG_LOOK - length;
      for (int k = 0; rest >= 0 && k < 1 << rest; k++)
        h->look[(code << rest) + k] = huff_step(codes, symbol[at], length);
    }
    h->max[length] = count[length] ? code - 1 : -1;
  }
  for (unsigned bits = 0; codes == MR_JPEG_AC && bits < 1 << MR_JPEG_PAIR; bits++)
    h->pair[bits] = huff_pair(h, bits);
  return h->built = true;
}

uint32_t mr__jpeg_huff_long(const mr_jpeg_huff_t *h, uint64_t bits) {
  for (int length = MR_JPEG_LOOK + 1; length <= LENGTH_MAX; length++) {
    int code = (int)(bits >> (64 - length));
    if (code <= h->max[length])
      return huff_step(h->codes, h->symbol[(code + h->shift[length]) & 255], length);
  }
  return 0;
}

/* ---- blocks ---- */

/* Takes one code and its value, from *k on. */
INLINE bool take_one(mr_jpeg_bits_t *in, const mr_jpeg_huff_t *ac, int16_t *coef, bool keep,
                     unsigned *k) {
  int value;
  refill_bits(in);
  uint32_t step = take_value(in, ac, &value);
  *k += step >> 10;
  if (keep && step) coef[mr_jpeg_order[*k - 1]] = (int16_t)value;
  return step;
}

/* Takes one or two; only the first if that reaches or passes the last coefficient. */
INLINE bool take_some(mr_jpeg_bits_t *in, const mr_jpeg_huff_t *ac, int16_t *coef, bool keep,
                      unsigned *k) {
  uint64_t pair = ac->pair[in->bits >> (64 - MR_JPEG_PAIR)];
  if (__builtin_expect(!pair, 0)) return take_one(in, ac, coef, keep, k);
  unsigned first = *k + (pair >> 8 & 255), last = *k + (pair >> 16 & 255);
  if (__builtin_expect(first - 64 < 64, 0)) return take_one(in, ac, coef, keep, k);
  int total = pair & 63;
  in->bits <<= total, in->count -= total, *k = last;
  if (keep) {
    coef[mr_jpeg_order[last - 1]] = (int16_t)(pair >> 48);
    coef[mr_jpeg_order[first - 1]] = (int16_t)(pair >> 32);
  }
  return true;
}

/* Takes a block's coefficients behind DC, by row and column if they are kept; *flat: they are 0.
   False for damaged data. */
INLINE bool take_block(mr_jpeg_bits_t *in, const mr_jpeg_huff_t *ac, int16_t *coef, bool keep,
                       bool *flat) {
  unsigned k = 1;
  while (k < 64) { /* three looks, of which a slow one leaves 25 bits at least */
    refill_bits(in);
    if (!take_some(in, ac, coef, keep, &k)) return false;
    if (k >= 64) break;
    if (!take_some(in, ac, coef, keep, &k)) return false;
    if (k >= 64) break;
    if (!take_some(in, ac, coef, keep, &k)) return false;
  }
  *flat = k == MR_JPEG_END + 1;
  return k == 64 || k > MR_JPEG_END;
}

/* Decodes a block; sets *flat if it has nothing but DC. */
INLINE bool take_part(mr_jpeg_bits_t *in, mr_jpeg_part_t *p, int16_t *coef, bool keep, bool *flat) {
  int change;
  refill_bits(in);
  if (!take_value(in, p->dc, &change)) return false;
  p->before += change;
  if (p->before != (int16_t)p->before) return false;
  if (keep) coef[0] = (int16_t)p->before;
  return take_block(in, p->ac, coef, keep, flat);
}

INLINE bool take_mcu(mr_jpeg_bits_t *state, mr_jpeg_part_t *part, int n, int row, int column,
                     bool keep, mr_jpeg_block_t *block) {
  mr_jpeg_bits_t in = *state; /* in registers */
  int waiting = 0;            /* blocks: they are transformed in pairs */
  for (mr_jpeg_part_t *p = part; p < part + n; p++)
    for (int i = 0; i < p->down * p->across; i++) {
      bool flat;
      mr_jpeg_block_t *b = block + waiting;
      if (!take_part(&in, p, b->coef, keep, &flat)) return false;
      if (!keep) continue;
      int by = i / p->across, bx = i - by * p->across;
      size_t y = (size_t)(row * p->down + by) * 8, x = (size_t)(column * p->across + bx) * 8;
      b->quant = p->quant, b->to = p->samples + y * p->stride + x, b->stride = p->stride;
      if (flat && flat_block(b)) continue;
      if (++waiting < 2) continue;
      if (!mr_jpeg_idct(block, block + 1)) return false;
      waiting = 0;
    }
  *state = in;
  return !waiting || mr_jpeg_idct(block, block);
}

__attribute__((target("bmi,bmi2"))) bool mr_jpeg_mcu(mr_jpeg_bits_t *in, mr_jpeg_part_t *part,
                                                     int n, int row, int column, bool keep,
                                                     mr_jpeg_block_t block[2]) {
  return keep ? take_mcu(in, part, n, row, column, true, block)
              : take_mcu(in, part, n, row, column, false, block);
}
#endif
