/* Transposing a bf16 matrix: two rows make lanes of 32 bits, sixteen such pairs are transposed in
   registers, and each column is stored as one cache line.  The matrix is processed in patches,
   each down its columns: cache lines are written in order, and the other half of a line that was
   read is still in cache. */
#include "base/isa.h"
#include "model/backends/cpu/matmul_private.h"
#include "model/backends/cpu/tile_avx512.h"

bool mr__turn_works(void) { return mr_isa() >= MR_ISA_AVX512; }

#if defined(__x86_64__)

MR_AVX512_INLINE __m512i row_of(const mr_bf16_t *x, int64_t stride, int64_t i, int64_t rows,
                                __mmask16 m) {
  if (i >= rows) return _mm512_setzero_si512();
  return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(m, x + i * stride));
}

enum { PATCH_ROWS = 256, PATCH_COLS = 32 };

/* Transposes up to 32 rows and 16 columns. */
MR_AVX512 static void turn_block(const mr_bf16_t *x, int64_t stride, int64_t rows, int64_t cols,
                                 mr_bf16_t *out, int64_t ld) {
  __m512 r[16];
  __mmask16 m = mr__lanes(cols);
  for (int i = 0; i < 16; i++) {
    __m512i even = row_of(x, stride, 2 * i, rows, m), odd = row_of(x, stride, 2 * i + 1, rows, m);
    r[i] = _mm512_castsi512_ps(_mm512_or_si512(even, _mm512_slli_epi32(odd, 16)));
  }
  mr__transpose16(r);
  for (int c = 0; c < 16; c++)
    if (c < cols) _mm512_store_ps((float *)(out + c * ld), r[c]);
}

static void turn_patch(const mr_bf16_t *x, int64_t stride, int64_t rows, int64_t cols,
                       mr_bf16_t *out, int64_t ld) {
  for (int64_t c = 0; c < cols && c < PATCH_COLS; c += 16)
    for (int64_t i = 0; i < rows && i < PATCH_ROWS; i += 32)
      turn_block(x + i * stride + c, stride, rows - i, cols - c, out + c * ld + i, ld);
}

void mr__turn(const mr_bf16_t *x, int64_t stride, int64_t rows, int64_t cols, mr_bf16_t *out,
              int64_t ld) {
#pragma omp parallel for schedule(static) collapse(2)
  for (int64_t i = 0; i < rows; i += PATCH_ROWS)
    for (int64_t c = 0; c < cols; c += PATCH_COLS)
      turn_patch(x + i * stride + c, stride, rows - i, cols - c, out + c * ld + i, ld);
}

#else

void mr__turn(const mr_bf16_t *x, int64_t stride, int64_t rows, int64_t cols, mr_bf16_t *out,
              int64_t ld) {
#pragma omp parallel for schedule(static)
  for (int64_t c = 0; c < cols; c++)
    for (int64_t i = 0; i < ld; i++) out[c * ld + i] = i < rows ? x[i * stride + c] : 0;
}

#endif
