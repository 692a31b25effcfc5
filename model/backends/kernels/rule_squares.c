/* The sum of the squares of several tensors, in two kernels for all of them: the norm of a gradient
   would else be two or three kernels for each tensor.

   Every tensor has items of its own in the first kernel; neighbours read neighbouring elements, and
   each adds the squares of its own in their order.  One group adds the items' sums: each of its
   items those of a fixed stride, then blocks of items, then the blocks. */
#include <inttypes.h>

#include "model/backends/kernels/text.h"

enum {
  EACH = 64,        /* elements of an item at least, but for small tensors */
  ITEMS_MAX = 4096, /* items of one tensor */
  GROUP = 256,
  BLOCK = 16
};

static int64_t squares_items(const mr_aval_t *a) {
  int64_t n = (mr_aval_elems(a) + EACH - 1) / EACH;
  return n < ITEMS_MAX ? n : ITEMS_MAX;
}

static void write_squares(FILE *f, int k, int64_t first, int64_t items, int64_t n) {
  fprintf(f, "  %sif (i < %" PRId64 ")\n", first ? "else " : "", first + items);
  fprintf(f,
          "    for (u64 e = i - %" PRId64 "; e < %" PRId64 "; e += %" PRId64
          ") { float v = x%d[e]; all += v * v; }\n",
          first, n, items, k);
}

mr_err_t mr__kernel_sum_squares(mr_kernel_text_t *t, mr_diag_t *diag) {
  const mr_eqn_t *e = t->e;
  int64_t items = 0, first = 0;
  for (int k = 0; k < e->n_in; k++) items += squares_items(&e->in[k]->aval);
  if (!items) {
    MR_TRY(mr__kernel_begin(t, 1, diag));
    fputs("  y0[0] = 0;\n", t->f);
    return mr__kernel_end(t, diag);
  }
  t->scratch_t = MR_F32;
  t->out->scratch_bytes = (size_t)items * sizeof(float);
  MR_TRY(mr__kernel_begin(t, items, diag));
  mr__kernel_form(t, "sums of elements at a fixed distance");
  fputs("  float all = 0;\n", t->f);
  for (int k = 0; k < e->n_in; k++) {
    int64_t own = squares_items(&e->in[k]->aval);
    if (own) write_squares(t->f, k, first, own, mr_aval_elems(&e->in[k]->aval));
    first += own;
  }
  fputs("  s[i] = all;\n", t->f);
  MR_TRY(mr__kernel_end(t, diag));
  MR_TRY(mr__kernel_begin_groups(t, 1, GROUP, diag));
  mr__kernel_form(t, "sum of sums: one group of 256 items");
  fprintf(t->f,
          "  LOCAL(float, part, %d); LOCAL(float, fold, %d);\n"
          "  int lane = LANE;\n  float all = 0;\n"
          "  for (int q = lane; q < %" PRId64
          "; q += %d) all += s[q];\n"
          "  part[lane] = all;\n  BARRIER;\n"
          "  if (lane < %d) { float r = 0; for (int q = 0; q < %d; q++) r += part[lane * %d + q]; "
          "fold[lane] = r; }\n  BARRIER;\n"
          "  if (lane == 0) { float r = 0; for (int q = 0; q < %d; q++) r += fold[q]; y0[0] = r; "
          "}\n",
          GROUP, GROUP / BLOCK, items, GROUP, GROUP / BLOCK, BLOCK, BLOCK, GROUP / BLOCK);
  return mr__kernel_end(t, diag);
}
