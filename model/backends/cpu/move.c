/* Strided copies: what transpose, slice, concatenate and broadcast have in common.  Neighbouring
   dimensions that lie alike on both sides are merged first, so that the inner loop is long; then
   rows are copied in parallel. */
#include "model/backends/cpu/kernels.h"

#include <string.h>

void mr__strides(const mr_aval_t *a, int64_t *stride) {
  int64_t s = 1;
  for (int i = a->ndim - 1; i >= 0; i--) {
    stride[i] = s;
    s *= a->dim[i];
  }
}

/* Drops dimensions of size 1 and merges neighbours that are contiguous on both sides. */
static mr_move_t squeeze_move(const mr_move_t *m) {
  mr_move_t r = {.size = m->size};
  for (int i = 0; i < m->ndim; i++) {
    if (m->dim[i] == 1) continue;
    int last = r.ndim - 1;
    if (last >= 0 && r.from[last] == m->dim[i] * m->from[i] && r.to[last] == m->dim[i] * m->to[i]) {
      r.dim[last] *= m->dim[i];
      r.from[last] = m->from[i];
      r.to[last] = m->to[i];
      continue;
    }
    r.dim[r.ndim] = m->dim[i];
    r.from[r.ndim] = m->from[i];
    r.to[r.ndim++] = m->to[i];
  }
  return r;
}

#define MOVE_ROW(type)                                       \
  do {                                                       \
    const type *s = (const type *)src;                       \
    type *d = (type *)dst;                                   \
    for (int64_t i = 0; i < n; i++) d[i * to] = s[i * from]; \
  } while (0)

static void move_row(const void *src, void *dst, int64_t n, int64_t from, int64_t to, size_t size) {
  if (from == 1 && to == 1)
    memcpy(dst, src, (size_t)n * size);
  else if (size == 4)
    MOVE_ROW(uint32_t);
  else if (size == 2)
    MOVE_ROW(uint16_t);
  else if (size == 1)
    MOVE_ROW(uint8_t);
  else
    MOVE_ROW(uint64_t);
}

void mr__move(const mr_move_t *whole, const void *src, void *dst) {
  mr_move_t m = squeeze_move(whole);
  int64_t rows = 1, size = (int64_t)m.size;
  if (m.ndim == 0) {
    memcpy(dst, src, m.size);
    return;
  }
  int last = m.ndim - 1;
  for (int i = 0; i < last; i++) rows *= m.dim[i];
/* Below 4 MiB, waking threads costs more than they save. */
#pragma omp parallel for schedule(static) if (rows * m.dim[last] * size > (1 << 22))
  for (int64_t r = 0; r < rows; r++) {
    int64_t rest = r, from = 0, to = 0;
    for (int i = last - 1; i >= 0; i--) {
      from += rest % m.dim[i] * m.from[i];
      to += rest % m.dim[i] * m.to[i];
      rest /= m.dim[i];
    }
    move_row((const char *)src + from * size, (char *)dst + to * size, m.dim[last], m.from[last],
             m.to[last], m.size);
  }
}
