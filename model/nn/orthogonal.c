/* The orthonormal factor of a matrix of normals, by the method of Gram and Schmidt: each column
   loses its parts along those before it, twice, after which it is orthogonal to them within the
   rounding of doubles ("twice is enough", Giraud et al. 2005).  Its norm is then the diagonal of
   the other factor, which makes that positive, as jax.random.orthogonal does by signs. */
#include "model/nn/orthogonal.h"

#include <math.h>
#include <stdlib.h>

/* Takes the parts along the columns before j off column j; part: room for j numbers. */
static void take_parts_off(double *column, int64_t n, int64_t j, double *part) {
  double *own = column + j * n;
#pragma omp parallel for schedule(static)
  for (int64_t k = 0; k < j; k++) {
    const double *other = column + k * n;
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) sum += own[i] * other[i];
    part[k] = sum;
  }
  enum { CHUNK = 256 }; /* elements whose sums run over all columns in turn, in their order */
#pragma omp parallel for schedule(static)
  for (int64_t from = 0; from < n; from += CHUNK) {
    int64_t to = from + CHUNK < n ? from + CHUNK : n;
    for (int64_t k = 0; k < j; k++)
      for (int64_t i = from; i < to; i++) own[i] -= part[k] * column[k * n + i];
  }
}

static void make_unit(double *x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += x[i] * x[i];
  for (int64_t i = 0; i < n && sum > 0; i++) x[i] /= sqrt(sum);
}

mr_err_t mr__orthogonal(mr_key_t key, int64_t rows, int64_t cols, float *q, mr_diag_t *diag) {
  const int64_t n = rows > cols ? rows : cols, m = rows > cols ? cols : rows;
  double *column = malloc((size_t)(n * m) * sizeof *column);
  double *part = malloc((size_t)m * sizeof *part);
  if (!column || !part) {
    free(column), free(part);
    return mr_no_memory(diag, "an orthogonal matrix of %lld by %lld", (long long)rows,
                        (long long)cols);
  }
#pragma omp parallel for schedule(static)
  for (int64_t j = 0; j < m; j++)
    for (int64_t i = 0; i < n; i++)
      column[j * n + i] = (double)mr_key_normal(key, (uint64_t)(i * m + j));
  for (int64_t j = 0; j < m; j++) {
    for (int pass = 0; pass < 2; pass++) take_parts_off(column, n, j, part);
    make_unit(column + j * n, n);
  }
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < cols; j++)
      q[i * cols + j] = (float)(rows < cols ? column[i * n + j] : column[j * n + i]);
  free(column), free(part);
  return MR_OK;
}
