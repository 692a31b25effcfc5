/* Rearranging bf16 operands for oneDNN's products: a is transposed, b is packed.  Both go through
   registers in whole cache lines, shared by all threads, and depend on sizes alone.  Transposing
   needs AVX-512; mr__turn_works says whether the machine has it. */
#include <string.h>

#include "base/isa.h"
#include "model/backends/cpu/matmul_private.h"
#include "model/backends/cpu/tile_avx512.h"

/* ---- transposing: two rows make lanes of 32 bits, sixteen such pairs are transposed in
   registers, and each column is stored as one cache line.  The matrix is processed in patches,
   each down its columns: cache lines are written in order, and the other half of a line that was
   read is still in cache ---- */

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
  __mmask16 m = mr__first_lanes(cols);
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

/* ---- packing b[k][n]: blocks of 32 rows and 64 columns, in which the two rows of a dot product
   are interleaved ([n/64][k/32][16][64][2]).  matmul_tile.c checks that oneDNN wants this layout.
   oneDNN's own reorder takes four times as long, and the gradient of a weight packs as many bytes
   as the activations have.  Blocks are written in memory order, a patch of rows at a time ---- */

enum { ROWS = 32, COLS = 64, PATCH = 256 /* rows, whole blocks */ };

bool mr__pairs_work(const mr_matmul_spec_t *s) {
  return mr_isa() >= MR_ISA_AVX512 && s->b == MR_BF16 && s->b_col == 1 && s->n % COLS == 0;
}

#if defined(__x86_64__)

/* Interleaves 32 columns of two rows. */
MR_AVX512_INLINE void weave(const mr_bf16_t *even, const mr_bf16_t *odd, mr_bf16_t *out) {
  const __m512i first = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40,
                                         8, 39, 7, 38, 6, 37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
  const __m512i second = _mm512_add_epi16(first, _mm512_set1_epi16(16));
  __m512i a = _mm512_loadu_si512(even), b = _mm512_loadu_si512(odd);
  _mm512_store_si512(out, _mm512_permutex2var_epi16(a, first, b));
  _mm512_store_si512(out + 32, _mm512_permutex2var_epi16(a, second, b));
}

MR_AVX512 static void pack_block(const mr_bf16_t *b, int64_t stride, mr_bf16_t *out) {
  for (int i = 0; i < ROWS; i += 2, b += 2 * stride, out += 2 * COLS) {
    weave(b, b + stride, out);
    weave(b + 32, b + stride + 32, out + 64);
  }
}

/* Packs the last rows, of which there are fewer than in a block. */
MR_AVX512 static void pack_tail(const mr_bf16_t *b, int64_t stride, int64_t rows, mr_bf16_t *out) {
  mr_bf16_t block[ROWS][COLS] = {0};
  for (int64_t i = 0; i < rows; i++) memcpy(block[i], b + i * stride, sizeof block[i]);
  pack_block(block[0], COLS, out);
}

/* Packs up to PATCH rows of one column of blocks. */
static void pack_patch(const mr_bf16_t *b, int64_t stride, int64_t rows, mr_bf16_t *out) {
  int64_t i = 0;
  for (; i + ROWS <= rows && i < PATCH; i += ROWS)
    pack_block(b + i * stride, stride, out + i * COLS);
  if (i < rows && i < PATCH) pack_tail(b + i * stride, stride, rows - i, out + i * COLS);
}

void mr__pairs_pack(const mr_matmul_spec_t *s, const mr_bf16_t *b, mr_bf16_t *out) {
  int64_t ld = (s->k + ROWS - 1) / ROWS * ROWS;
#pragma omp parallel for schedule(static) collapse(2)
  for (int64_t i = 0; i < s->k; i += PATCH)
    for (int64_t j = 0; j < s->n; j += COLS)
      pack_patch(b + i * s->b_row + j, s->b_row, s->k - i, out + j * ld + i * COLS);
}

#else

void mr__pairs_pack(const mr_matmul_spec_t *s, const mr_bf16_t *b, mr_bf16_t *out) {
  int64_t ld = (s->k + ROWS - 1) / ROWS * ROWS;
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < ld; i++)
    for (int64_t j = 0; j < s->n; j++)
      out[(j / COLS * ld + i / ROWS * ROWS) * COLS + (i % ROWS / 2 * COLS + j % COLS) * 2 + i % 2] =
          i < s->k ? b[i * s->b_row + j] : 0;
}

#endif
