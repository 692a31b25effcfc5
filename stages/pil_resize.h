/* Crops and resizes u8 planes bilinearly: Pillow's fixed-point resampling, bit for bit.

   The box is cut first, so pixels outside of it have no influence.  Then one direction is resized
   and rounded to u8, then the other, each with weights of 22 bits that depend only on the box's
   side: for sides up to MR_PIL_TABLE_MAX they are tables, made once; else they are made for each
   picture.

   The first direction is across (each row by itself), but Pillow 13 goes down the columns first
   where that is less work: where h > out and h - out > 2 (w - out).  Pillow 12 and before always go
   across first.

   Implemented in pil_table.c (weights), pil_resize.c (the plain path, and the choice of one),
   and the fast paths: pil_avx2.c and pil_avx512.c, and for any size
   pil_any*.c. */
#ifndef MR_STAGES_PIL_RESIZE_H
#define MR_STAGES_PIL_RESIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pipeline/picture.h"

enum { MR_PIL_SIDE_MAX = 16384, MR_PIL_TABLE_MAX = 1024 };

/* What AVX-512 needs for a pass of two taps to 32 pixels. */
typedef struct mr_pil_wide {
  uint8_t pick[2][64];       /* source indices of both taps of 16 pixels in a row, at every second
                                byte */
  int16_t high[64], low[64]; /* (4*q)>>12 and (4*q)&4095 of two taps a pixel */
} mr_pil_wide_t;

/* What the fast paths for any size need for a pass: blocks of 16 pixels, the last of which begins
   at out - 16 and so may overlap the one before; taps come in pairs, an odd one with a weight of
   0. */
typedef struct mr_pil_any {
  int pairs, blocks;
  bool narrow;        /* a pair's taps of a block are within 64 bytes, else within 128 */
  bool near;          /* a pair's taps of half a block are within 16 bytes */
  int16_t *high;      /* [blocks][pairs][16][2] (4*q)>>12 */
  int16_t *low;       /* the same of (4*q)&4095 */
  uint8_t *pick;      /* [blocks][64] offsets from the block's first tap, at every second byte */
  uint8_t *pick_near; /* [blocks][2][16] offsets from the half block's first tap; if near */
} mr_pil_any_t;

/* Weights of one pass from `in` pixels to the table's `out`. */
typedef struct mr_pil_pass {
  int taps;            /* most taps of a pixel */
  bool two;            /* no pixel has a third tap: fast paths may run */
  int *first;          /* [out] first input pixel */
  int *count;          /* [out] taps in use, [1,taps] */
  int32_t *q;          /* [out][taps] weights times 2^22, zeros after count */
  uint8_t pick[64];    /* fast path, out == 32: tap offsets from first[x&~7], two a pixel */
  int16_t *high, *low; /* [2*out] where two: q>>11 and q&2047 of two taps a pixel */
  mr_pil_wide_t *wide; /* where two and out == 32, else NULL */
  mr_pil_any_t *any;   /* where out is 16 or more and no eighth of `in`, else NULL */
} mr_pil_pass_t;

typedef struct mr_pil {
  int max_in, out;
  bool across_first;   /* as Pillow before 13; may be set after init */
  bool avx2, avx512;   /* fast paths for boxes with two-tap passes in pictures 32 wide */
  bool any2, any512;   /* fast paths for boxes whose passes have `any` */
  mr_pil_pass_t *pass; /* [mr__pil_tables+1], by the box's side; [0] is empty */
} mr_pil_t;

/* Makes tables for boxes with sides in [1,max_in] and pictures of out x out, both in
   [1,MR_PIL_SIDE_MAX].  True; false without memory.  mr_pil_fini frees them in either case.  simd
   false: only the plain path, the oracle of the others. */
bool mr_pil_init(mr_pil_t *p, int max_in, int out, bool simd);
void mr_pil_fini(mr_pil_t *p); /* also after a failed init, or on zeros */

/* Crops and resizes a picture.  src: (C,H,W) u8 with sides <= max_in; dst: (C,out,out) u8, no
   overlap; the box is inside the picture.  scratch: mr_pil_scratch(p->max_in, p->out) bytes (above
   0, cannot fail) of the calling thread, 8-aligned if a side is beyond MR_PIL_TABLE_MAX.  Tables
   are read-only: any thread. */
size_t mr_pil_scratch(int max_in, int out);
void mr_pil_crop(const mr_pil_t *p, const uint8_t *src, int C, int H, int W, mr_box_t box,
                 uint8_t *dst, uint8_t *scratch);

/* Largest side of a box that has tables, [0,MR_PIL_TABLE_MAX]: 0 where pictures are so large that
   tables would take hundreds of megabytes. */
static inline int mr__pil_tables(int max_in, int out) {
  return out > MR_PIL_TABLE_MAX ? 0 : max_in < MR_PIL_TABLE_MAX ? max_in : MR_PIL_TABLE_MAX;
}

/* True if a box is resized down first. */
static inline bool mr__pil_down_first(const mr_pil_t *p, mr_box_t b) {
  return !p->across_first && b.h > p->out && b.h - p->out > 2 * (b.w - p->out) && b.w != p->out;
}

/* Makes the weights of a pass from `in` to `out` pixels that the plain path uses (first, count, q),
   in the caller's memory: mr__pil_pass_bytes, a multiple of 8 above 0 (cannot fail), 8-aligned. */
size_t mr__pil_pass_bytes(int in, int out);
void mr__pil_pass_make(mr_pil_pass_t *t, int in, int out, void *memory);

/* The plain path, the oracle of the others: one plane. */
void mr__pil_plane(const mr_pil_pass_t *down, const mr_pil_pass_t *across, const uint8_t *src,
                   int stride, int h, int w, int out_h, int out_w, bool down_first, uint8_t *dst,
                   uint8_t *scratch);

/* The fast paths: mr_pil_crop for p->avx2 or p->avx512, W == 32 and two-tap passes (or no pass for
   a side of 32). */
void mr__pil_crop_avx2(const mr_pil_t *p, const uint8_t *src, int C, int H, mr_box_t box,
                       uint8_t *dst, uint8_t *scratch);
void mr__pil_crop_avx512(const mr_pil_t *p, const uint8_t *src, int C, int H, mr_box_t box,
                         uint8_t *dst, uint8_t *scratch);
/* The same for p->any2 or p->any512, any W and passes that have `any`; AVX2 goes down first only if
   the box is at least 16 wide. */
void mr__pil_any_avx2(const mr_pil_t *p, const uint8_t *src, int C, int H, int W, mr_box_t box,
                      uint8_t *dst, uint8_t *scratch);
void mr__pil_any_avx512(const mr_pil_t *p, const uint8_t *src, int C, int H, int W, mr_box_t box,
                        uint8_t *dst, uint8_t *scratch);

/* Makes t->any from the weights, for out >= 16 and in <= 8 * out (pil_any.c).  False without
   memory; t->any is freed with the pass in either case. */
bool mr__pil_any_init(mr_pil_pass_t *t, int out);
void mr__pil_any_free(mr_pil_any_t *a); /* NULL is fine */

/* First pixel of block b of a pass, [0,out-16]. */
static inline int mr__pil_any_at(int b, int out) { return 16 * b + 16 <= out ? 16 * b : out - 16; }

/* True if build and machine have the sets that it needs besides AVX-512. */
bool mr__pil_has_avx512(void);

#endif
