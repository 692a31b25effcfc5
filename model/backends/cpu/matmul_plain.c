/* The matrix product in plain C, the oracle of the others. */
#include <string.h>

#include "model/backends/cpu/element.h"
#include "model/backends/cpu/matmul_private.h"

static float matmul_plain_dot(const mr_matmul_spec_t *s, const void *a, int64_t at_a, const void *b,
                              int64_t at_b) {
  float sum = 0;
  for (int64_t k = 0; k < s->k; k++)
    sum += element_get(s->a, a, at_a + k * s->a_col) * element_get(s->b, b, at_b + k * s->b_row);
  return sum;
}

void mr__matmul_plain(const mr_matmul_spec_t *s, const void *a, const void *b, const void *bias,
                      void *out) {
#pragma omp parallel for
  for (int64_t row = 0; row < s->batch * s->m; row++) {
    int64_t z = row / s->m, i = row % s->m;
    for (int64_t j = 0; j < s->n; j++) {
      float v =
          matmul_plain_dot(s, a, z * s->a_batch + i * s->a_row, b, z * s->b_batch + j * s->b_col);
      if (s->bias) v += element_get(s->bias_dtype, bias, j);
      element_put(s->out, out, z * s->out_batch + i * s->out_row + j, v);
    }
  }
}
