/* Reductions in parts: how many parts, and the second kernel, which folds them.

   A first kernel leaves fold j of part k of output o in the scratch at (j * parts + k) * outputs +
   o.  In the second one, a group has eight outputs of one fold: 32 items each fold neighbouring
   parts of an output, one after the other, and one item folds what they have, by halves. */
#include <inttypes.h>

#include "model/backends/kernels/text.h"

enum {
  EACH = 8, /* terms of a part at least: an item reads them one after the other */
  PARTS_LEAST = 8,
  PARTS_MOST = 1024,
  ITEMS = 1 << 20, /* of the first kernel at most, or an eighth where one has eight neighbours */
  ACROSS = 8,      /* outputs of a group of the second kernel, and its items for each */
  SLICES = 32
};

int64_t mr__kernel_parts(int64_t outputs, int64_t terms) {
  int64_t parts = PARTS_MOST;
  while (parts > 1 && (parts * EACH > terms || outputs * parts > ITEMS)) parts /= 2;
  return parts < PARTS_LEAST ? 1 : parts;
}

/* Fold j of what an item has, and then of what the items have: barriers stand outside conditions.
 */
static void write_own_parts(mr_kernel_text_t *t, mr_kernel_fold_t how, int j, int64_t outputs,
                            int64_t parts) {
  const char *type = mr__kernel_type(t->scratch_t);
  fprintf(t->f, "  if (fold == %d) {\n  own = %s;\n#pragma unroll 8\n", j, how.start);
  fprintf(t->f,
          "  for (i64 k = from; k < to; k++) { %s v = s[(%" PRId64 " + k) * %" PRId64 " + o],",
          type, j * parts, outputs);
  fprintf(t->f, " r = own; %s own = r; }\n  }\n", how.step);
}

static void write_all_parts(mr_kernel_text_t *t, const mr_kernel_part_t *of, int j) {
  const char *type = mr__kernel_type(t->scratch_t);
  char pointer[16];
  fprintf(t->f,
          "  if (fold == %d) {\n  for (int h = %d; h > 0; h /= 2) for (int q = 0; q < h; q++) {", j,
          SLICES / 2);
  fprintf(t->f,
          " int at = q * %d + lane; %s r = part[at], v = part[at + h * %d]; %s part[at] = r; }\n",
          ACROSS, type, ACROSS, of->how.step);
  snprintf(pointer, sizeof pointer, "y%d", of->y);
  mr__kernel_store(t->f, t->e->out[of->y]->aval.dtype, pointer, "o", "part[lane]");
  fputs("  }\n", t->f);
}

mr_err_t mr__kernel_fold_parts(mr_kernel_text_t *t, int64_t outputs, int64_t parts,
                               const mr_kernel_part_t *of, int n, mr_diag_t *diag) {
  int64_t each = (parts + SLICES - 1) / SLICES, groups = (outputs + ACROSS - 1) / ACROSS;
  const char *type = mr__kernel_type(t->scratch_t);
  MR_TRY(mr__kernel_begin_groups(t, n * groups, ACROSS * SLICES, diag));
  mr__kernel_form(t, "fold of parts: 256 items for 8 results");
  FILE *f = t->f;
  fprintf(f, "  LOCAL(%s, part, %d);\n  int lane = LANE; %s own = 0;\n", type, ACROSS * SLICES,
          type);
  fprintf(f, "  i64 fold = (i64)GROUP / %" PRId64 ", o = (i64)GROUP %% %" PRId64 " * %d", groups,
          groups, ACROSS);
  fprintf(f, " + lane %% %d;\n  i64 from = lane / %d * %" PRId64 ", to = from + %" PRId64 ";\n",
          ACROSS, ACROSS, each, each);
  fprintf(f, "  if (to > %" PRId64 ") to = %" PRId64 ";\n  if (o >= %" PRId64 ") to = 0;\n", parts,
          parts, outputs);
  for (int j = 0; j < n; j++) write_own_parts(t, of[j].how, j, outputs, parts);
  fprintf(f, "  part[lane] = own;\n  BARRIER;\n  if (lane < %d && o < %" PRId64 ") {\n", ACROSS,
          outputs);
  for (int j = 0; j < n; j++) write_all_parts(t, &of[j], j);
  fputs("  }\n", f);
  return mr__kernel_end(t, diag);
}
