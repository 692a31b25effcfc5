/* Normalises bytes bit for bit as torch's ToTensor and Normalize: f32(f32(f32(x/255) - mean) /
   std), which may be rounded to bf16.  norm.c has the plain loop and chooses; norm_avx2.c,
   norm_avx512.c and norm_bf16_avx512.c have the fast ones. */
#ifndef MR_STAGES_NORM_H
#define MR_STAGES_NORM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/dtype.h"

typedef struct mr_norm {
  float table[3][256];       /* result for each channel and byte */
  mr_bf16_t table16[3][256]; /* the same in bf16 */
  uint8_t half16[3][2][256]; /* lower and upper bytes of table16 */
  float mean[3], std[3];
  float inv[3], rest[3]; /* 1/std as a sum of two floats */
  float turn[3][18];     /* mean, inv and rest of channels 0, 1, 2, 0, 1, 2 ... */
  bool avx2, avx512;     /* the formula equals the table for every byte, and the machine has the
                            instructions */
} mr_norm_t;

/* Returns torch's result for byte x, each step rounded to f32: what the tables hold. */
float mr_norm_value(int x, float mean, float std);

/* Fills the tables.  mean, std: of bytes scaled to [0,1]; std not 0.  simd false: use tables
   alone. */
void mr_norm_init(mr_norm_t *t, const double mean[3], const double std[3], bool simd);

/* Normalises a picture.  src: (3,n) u8 planes.  dst: (n,3) if hwc, else (3,n), in f32 or bf16, or
   in u8: unchanged bytes in that layout.  src and dst do not overlap.  t is read-only: any
   thread. */
void mr_norm(const mr_norm_t *t, const uint8_t *src, int n, bool hwc, mr_dtype_t out, void *dst);

/* The same for pictures of any layout with 1 to 4 channels: by tables, but for the usual case of
   three interleaved channels to f32. */
typedef struct mr_norm_any {
  int C;
  mr_norm_t three; /* C == 3 */
  float table[4][256];
  mr_bf16_t table16[4][256];
} mr_norm_any_t;

/* mean, std: [C], as above. */
void mr_norm_any_init(mr_norm_any_t *t, int C, const double *mean, const double *std);
/* src: (n,C) u8 if in_hwc, else (C,n); dst likewise by out_hwc, of f32, bf16 or u8. */
void mr_norm_any(const mr_norm_any_t *t, const uint8_t *src, int n, bool in_hwc, bool out_hwc,
                 mr_dtype_t out, void *dst);

/* The constants of the division by 255, as inv and rest. */
#define MR_NORM_INV (1.0f / 255.0f)
#define MR_NORM_REST ((float)(1.0 / 255.0 - (double)MR_NORM_INV))

/* mr_norm for t->avx2 or t->avx512 and n a multiple of 32.  Only AVX2 does u8; AVX-512 has a
   separate function for bf16. */
void mr__norm_avx2(const mr_norm_t *t, const uint8_t *src, int n, bool hwc, mr_dtype_t out,
                   void *dst);
void mr__norm_avx512(const mr_norm_t *t, const uint8_t *src, int n, bool hwc, float *dst);
void mr__norm_bf16_avx512(const mr_norm_t *t, const uint8_t *src, int n, bool hwc, void *dst);

/* Interleaved pixels to interleaved f32, for t->avx2 or t->avx512.  Returns how many of n it has
   done, all but at most 15. */
int mr__norm_pixels_avx2(const mr_norm_t *t, const uint8_t *src, int n, float *dst);
int mr__norm_pixels_avx512(const mr_norm_t *t, const uint8_t *src, int n, float *dst);

/* True if build and machine have the sets that it needs besides AVX-512. */
bool mr__norm_has_avx512(void);

#endif
