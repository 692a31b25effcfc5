/* Reductions in parts: how many parts, and the second kernel, which folds them.

   A first kernel leaves fold j of part k of output o in the scratch at (j * parts + k) * outputs +
   o.  In the second one, 32 items of a group each fold neighbouring parts of an output, one after
   the other, and one item folds what they have. */
#include <inttypes.h>

#include "model/backends/kernels/text.h"

enum {
  PARTS_MOST = 256,
  ITEMS = 1 << 18, /* of the first kernel, about: what keeps the largest device busy */
  ACROSS = 8,      /* outputs of a group of the second kernel, and its items for each */
  SLICES = 32
};

int64_t mr__kernel_parts(int64_t outputs, int64_t terms) {
  int64_t parts = PARTS_MOST;
  if (terms < MR_KERNEL_LONG) return 1;
  while (parts > 1 && outputs * parts > ITEMS) parts /= 2;
  return parts;
}

mr_err_t mr__kernel_fold_parts(mr_kernel_text_t *t, int64_t outputs, int64_t parts,
                               const mr_kernel_part_t *of, int n, mr_diag_t *diag) {
  const char *type = mr__kernel_type(t->scratch_t);
  int64_t each = (parts + SLICES - 1) / SLICES;
  MR_TRY(mr__kernel_begin_groups(t, (outputs + ACROSS - 1) / ACROSS, ACROSS * SLICES, diag));
  mr__kernel_form(t, "fold of parts: 256 items for 8 results");
  FILE *f = t->f;
  fprintf(f, "  LOCAL(%s, part, %d);\n  int lane = LANE;\n", type, ACROSS * SLICES);
  fprintf(f,
          "  i64 o = (i64)GROUP * %d + lane %% %d, from = lane / %d * %" PRId64
          ", to = from + %" PRId64 ";\n",
          ACROSS, ACROSS, ACROSS, each, each);
  fprintf(f, "  if (to > %" PRId64 ") to = %" PRId64 ";\n  if (o >= %" PRId64 ") to = 0;\n", parts,
          parts, outputs);
  for (int j = 0; j < n; j++) {
    const mr_aval_t *y = &t->e->out[of[j].y]->aval;
    char pointer[16];
    fprintf(f,
            "  { %s r = %s; for (i64 k = from; k < to; k++) { %s v = s[(%" PRId64 " + k) * %" PRId64
            " + o]; %s }\n  part[lane] = r; }\n  BARRIER;\n",
            type, of[j].how.start, type, j * parts, outputs, of[j].how.step);
    fprintf(f,
            "  if (lane < %d && o < %" PRId64
            ") {\n  %s r = part[lane]; for (int q = 1; q < %d; q++) { %s v = part[q * %d + lane]; "
            "%s }\n",
            ACROSS, outputs, type, SLICES, type, ACROSS, of[j].how.step);
    snprintf(pointer, sizeof pointer, "y%d", of[j].y);
    mr__kernel_store(f, y->dtype, pointer, "o", "r");
    fputs(j + 1 < n ? "  }\n  BARRIER;\n" : "  }\n", f);
  }
  return mr__kernel_end(t, diag);
}
