/* Baseline and progressive JPEG by our own code, with libjpeg-turbo's bytes: of its integer DCT,
   its smooth upsampling and its conversion to RGB.  Headers are read by libjpeg, and whatever is
   not an undamaged file of the usual kinds is left to it altogether (decode_jpeg.c).

   All of it but mr_jpeg_rgb needs AVX2 and BMI2; elsewhere libjpeg does everything.

   jpeg_huffman.c      tables, and the blocks of an MCU
   jpeg_progressive.c  the blocks of progressive scans
   jpeg_idct.c         8x8 coefficients to samples
   jpeg_rgb.c          upsampling, and YCbCr to RGB
   jpeg_resized.c      a resized part of a picture from its planes
   jpeg_passes.c       the scans of a progressive file
   jpeg_scan.c         a file, from the MCUs that a box needs to its pixels

   Sources: ITU-T T.81 (1992); the arithmetic of libjpeg 6b (its jidctint, jdsample and jdcolor),
   which libjpeg-turbo keeps to the bit; C. Loeffler, A. Ligtenberg and G. Moschytz, "Practical fast
   1-D DCT algorithms with 11 multiplications", ICASSP 1989. */
#ifndef MR_STAGES_JPEG_H
#define MR_STAGES_JPEG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stages/grown.h"

/* ---- Huffman codes ---- */

enum {
  MR_JPEG_LOOK = 10, /* bits of a code that one look at a table finds */
  MR_JPEG_PAIR = 11, /* bits of two codes and their values that one look finds */
  MR_JPEG_END = 128, /* the advance of a code that ends a block */
  MR_JPEG_PARTS = 3,
  MR_JPEG_PAD = 4096 /* readable bytes behind those of a scan; an MCU has at most half as many */
};

/* What symbols stand for.  DC: the size of a difference.  AC: coefficients to pass and a size, in
   baseline files.  RUNS: the same in progressive files, where a symbol without a size ends 2^n
   blocks and more, as n bits behind it say. */
typedef enum mr_jpeg_codes { MR_JPEG_DC, MR_JPEG_AC, MR_JPEG_RUNS } mr_jpeg_codes_t;

typedef struct mr_jpeg_huff {
  /* total | size << 6 | advance << 10.  total: bits of the code and of the value behind it, 0 for a
     longer code; size: of the value; advance: coefficients passed. */
  uint32_t look[1 << MR_JPEG_LOOK];
  int32_t max[17];   /* [length] the largest code of this length, -1: none */
  int32_t shift[17]; /* [length] what is added to a code for its place in symbol */
  uint8_t count[17], symbol[256];
  bool built;
  mr_jpeg_codes_t codes;

  /* Of MR_JPEG_AC, what the next MR_JPEG_PAIR bits hold of whole codes and values: total | advance
     of the first << 8 | of all << 16 | first value << 32 | last value << 48.  0: not even one. */
  uint64_t pair[1 << MR_JPEG_PAIR];
} mr_jpeg_huff_t;

/* Builds the table, zeros or built before, of count[length] codes of each length [1,16], whose
   symbols are `symbol`.  False if they are no Huffman code or, of DC, have a size above 11. */
bool mr_jpeg_huff_build(mr_jpeg_huff_t *h, const uint8_t count[17], const uint8_t symbol[256],
                        mr_jpeg_codes_t codes);

/* Where the entropy decoder is, in bytes without stuffing. */
typedef struct mr_jpeg_bits {
  uint64_t bits; /* the next ones, from the top */
  int count;     /* of those that count, at most 63 */
  const uint8_t *at;
} mr_jpeg_bits_t;

/* ---- an MCU ---- */

/* A component. */
typedef struct mr_jpeg_part {
  int across, down; /* blocks of an MCU */
  int h, w;         /* samples of the picture */
  mr_jpeg_huff_t *dc, *ac;
  uint16_t quant[64]; /* by row and column, at most 255 */
  int before;         /* DC of the block before */
  uint8_t *samples;   /* of the MCUs that are kept, from sample (top, left) on */
  size_t stride;
  int top, left;
} mr_jpeg_part_t;

/* Coefficients of a block, by row and column, 0 until the entropy decoder sets them; a place more
   takes what lies behind the last. */
enum {
  MR_JPEG_COEFS = 72,
  MR_JPEG_SUM = 2946 /* what the coefficients of a column sum up to at most (jpeg_idct.c) */
};
typedef struct mr_jpeg_block {
  int16_t coef[MR_JPEG_COEFS] __attribute__((aligned(16)));
  const uint16_t *quant;
  uint8_t *to; /* its samples */
  size_t stride;
} mr_jpeg_block_t;

/* Writes the samples of two blocks, which may be one, and sets their coefficients to 0.  False if a
   sum needs more than 16 bits, in which implementations differ: nothing has been written. */
bool mr_jpeg_idct(mr_jpeg_block_t *a, mr_jpeg_block_t *b);

/* Decodes the MCU `row`, `column` of the parts.  keep: writes its samples.  block: scratch of
   blocks that are 0.  False for damaged data, and for what mr_jpeg_idct refuses. */
bool mr_jpeg_mcu(mr_jpeg_bits_t *in, mr_jpeg_part_t *part, int n, int row, int column, bool keep,
                 mr_jpeg_block_t block[2]);

/* ---- scans of progressive files ---- */

/* What scans have given of a component so far. */
typedef struct mr_jpeg_store {
  int across, down;             /* blocks of the component, without those that only fill MCUs */
  int top, left, bottom, right; /* of those, the ones whose coefficients are kept */
  int16_t *coef;                /* [bottom - top][right - left][64], in a scan's order */

  /* [bottom][across] Which coefficients behind DC are not 0: bit 63 - k is number k of a scan's
     order.  Of blocks that are not kept, no more is needed to find the ends of their codes. */
  uint64_t *seen;
} mr_jpeg_store_t;

/* A scan: coefficients [first,last], from bit `low` up or, if refine, bit `low` alone. */
typedef struct mr_jpeg_pass {
  int first, last, low;
  bool refine;
  const mr_jpeg_huff_t *ac;
  unsigned run;         /* blocks that have nothing new but corrections, from the next one on */
  const uint8_t *limit; /* the end of the segment's bytes */
} mr_jpeg_pass_t;

/* Take the coefficients of blocks [from,to) of row y of a component.  False for damaged data. */
bool mr_jpeg_pass_first(mr_jpeg_bits_t *in, mr_jpeg_pass_t *p, const mr_jpeg_store_t *s, int y,
                        int from, int to);
bool mr_jpeg_pass_refine(mr_jpeg_bits_t *in, mr_jpeg_pass_t *p, const mr_jpeg_store_t *s, int y,
                         int from, int to);

/* Takes the DC of one block, which may be one that only fills an MCU. */
bool mr_jpeg_pass_dc(mr_jpeg_bits_t *in, const mr_jpeg_pass_t *p, const mr_jpeg_store_t *s, int y,
                     int x, mr_jpeg_part_t *part);

/* Writes the samples of the blocks that are kept.  False for what mr_jpeg_idct refuses. */
bool mr_jpeg_pass_samples(const mr_jpeg_store_t *s, const mr_jpeg_part_t *part,
                          mr_jpeg_block_t block[2]);

/* ---- pixels ---- */

/* Writes w pixels of row y of the picture, from column j on, to rgb.  n: 1 part (grey) or 3, of
   which the latter two have 1x1, 1x1/2 or 1/2x1/2 of the first's samples.  scratch:
   mr_jpeg_row_scratch(w) bytes, 64-aligned. */
void mr_jpeg_row(const mr_jpeg_part_t *part, int n, int y, int j, int w, uint8_t *rgb,
                 void *scratch);
size_t mr_jpeg_row_scratch(int w); /* returns bytes; cannot fail */

/* Writes n pixels, RGB, from n samples each of Y, Cb and Cr.  On every machine. */
void mr_jpeg_rgb(const uint8_t *y, const uint8_t *cb, const uint8_t *cr, int n, uint8_t *rgb);

#endif
