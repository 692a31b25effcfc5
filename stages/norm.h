/* Bytes to normalised floats, bit for bit as torch's ToTensor and Normalize:
   f32(f32(f32(x/255) - mean) / std). */
#ifndef MR_STAGES_NORM_H
#define MR_STAGES_NORM_H

#include <stdbool.h>
#include <stdint.h>

typedef struct mr_norm {
  float table[3][256]; /* the answer for each channel and byte */
  float mean[3], std[3], inv_std[3];
  bool avx2; /* the vector formula gives the table's bits for every byte, and can run */
} mr_norm_t;

/* mean, std: of bytes scaled to [0,1]; std not 0.  simd false: tables alone. */
void mr_norm_init(mr_norm_t *t, const double mean[3], const double std[3], bool simd);

/* src: (3,n) u8 planes.  dst: (n,3) for hwc, (3,n) for chw, f32. */
void mr_norm_hwc(const mr_norm_t *t, const uint8_t *src, int n, float *dst);
void mr_norm_chw(const mr_norm_t *t, const uint8_t *src, int n, float *dst);

/* mr_norm_hwc for t->avx2 and n a multiple of 16. */
void mr__norm_hwc_avx2(const mr_norm_t *t, const uint8_t *src, int n, float *dst);

#endif
