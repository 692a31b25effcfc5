#include "model/backends/cpu/tile_avx512.h"
#include "model/backends/cpu/isa.h"

#include <stdlib.h>
#include <string.h>

bool mr__avx512_wanted(void) { return mr_isa() == MR_ISA_AVX512; }

#if defined(__x86_64__)

MR_AVX512 void mr__tile_load(mr_dtype_t t, const void *x, int64_t stride, int64_t rows,
                             int64_t cols, float *tile, int64_t ld) {
  for (int64_t i = 0; i < rows; i++)
    for (int64_t c = 0; c < ld; c += 16)
      _mm512_store_ps(tile + i * ld + c, mr__load(t, x, i * stride + c, mr__lanes(cols - c)));
}

MR_AVX512 void mr__tile_store(mr_dtype_t t, void *x, int64_t stride, int64_t rows, int64_t cols,
                              const float *tile, int64_t ld) {
  for (int64_t i = 0; i < rows; i++)
    for (int64_t c = 0; c < cols; c += 16)
      mr__store(t, x, i * stride + c, mr__lanes(cols - c), _mm512_load_ps(tile + i * ld + c));
}

MR_AVX512 void mr__tile_load_t(mr_dtype_t t, const void *x, int64_t stride, int64_t rows,
                               int64_t cols, float *tile, int64_t ld) {
  for (int64_t i = 0; i < rows; i += 16)
    for (int64_t c = 0; c < cols; c += 16) {
      __m512 r[16];
      for (int k = 0; k < 16; k++) {
        __mmask16 m = i + k < rows ? mr__lanes(cols - c) : 0;
        r[k] = m ? mr__load(t, x, (i + k) * stride + c, m) : _mm512_setzero_ps();
      }
      mr__transpose16(r);
      for (int k = 0; k < 16; k++) _mm512_store_ps(tile + (c + k) * ld + i, r[k]);
    }
}

/* R rows by V vectors of c stay in registers while k runs. */
MR_AVX512_INLINE void block(const mr_tile_product_t *s, const float *a, const float *b, float *c,
                            const int R, const int V) {
  __m512 sum[8][3];
  for (int r = 0; r < R; r++)
    for (int v = 0; v < V; v++)
      sum[r][v] = s->add ? _mm512_load_ps(c + r * s->ldc + v * 16) : _mm512_setzero_ps();
  for (int64_t k = 0; k < s->k; k++) {
    __m512 row[3];
    for (int v = 0; v < V; v++) row[v] = _mm512_load_ps(b + k * s->ldb + v * 16);
    for (int r = 0; r < R; r++) {
      __m512 x = _mm512_set1_ps(a[r * s->a_row + k * s->a_col]);
      for (int v = 0; v < V; v++) sum[r][v] = _mm512_fmadd_ps(x, row[v], sum[r][v]);
    }
  }
  for (int r = 0; r < R; r++)
    for (int v = 0; v < V; v++) _mm512_store_ps(c + r * s->ldc + v * 16, sum[r][v]);
}

MR_AVX512_INLINE void columns(const mr_tile_product_t *s, const float *a, const float *b, float *c,
                              const int V) {
  int64_t i = 0;
  for (; i + 8 <= s->m; i += 8) block(s, a + i * s->a_row, b, c + i * s->ldc, 8, V);
  if (i + 4 <= s->m) {
    block(s, a + i * s->a_row, b, c + i * s->ldc, 4, V);
    i += 4;
  }
  for (; i < s->m; i++) block(s, a + i * s->a_row, b, c + i * s->ldc, 1, V);
}

MR_AVX512 void mr__tile_multiply(const mr_tile_product_t *s, const float *a, const float *b,
                                 float *c) {
  int64_t j = 0;
  for (; j + 48 <= s->n; j += 48) columns(s, a, b + j, c + j, 3);
  if (j + 32 <= s->n) {
    columns(s, a, b + j, c + j, 2);
    j += 32;
  }
  if (j < s->n) columns(s, a, b + j, c + j, 1);
}

#endif
