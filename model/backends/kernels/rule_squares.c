/* The sum of the squares of several tensors, in two kernels for all of them: the norm of a gradient
   would else be two or three kernels for each tensor.

   Every tensor has groups of its own in the first kernel; neighbours read neighbouring elements,
   and each item adds the squares of its own in their order.  A group adds the items' sums in
   blocks, and one group then adds the groups' sums in the same way. */
#include <inttypes.h>

#include "model/backends/kernels/text.h"

enum {
  EACH = 64,       /* elements of an item at least, but for small tensors */
  GROUPS_MAX = 16, /* of one tensor */
  ITEMS = 256,     /* of a group */
  BLOCK = 16
};

static int64_t squares_groups(const mr_aval_t *a) {
  int64_t n = (mr_aval_elems(a) + EACH * ITEMS - 1) / (EACH * ITEMS);
  return n < GROUPS_MAX ? n : GROUPS_MAX;
}

/* Sets x to operand k, e to the first element of the item, n to their number, step to the distance
   of the item's elements. */
static void write_squares_of(FILE *f, const mr_eqn_t *e, int k, int64_t first) {
  const mr_aval_t *a = &e->in[k]->aval;
  fprintf(f,
          "  x = x%d; e = (u64)(GROUP - %" PRId64 ") * %d + (u64)LANE; n = %" PRId64
          "; step = %" PRId64 ";\n",
          k, first, ITEMS, mr_aval_elems(a), squares_groups(a) * ITEMS);
}

/* Finds the operand of a group among [from,to), by halves.  first: the first group of `from`. */
static void write_operand_choice(FILE *f, const mr_eqn_t *e, int from, int to, int64_t first) {
  int half = from + (to - from) / 2;
  int64_t middle = first;
  if (to - from == 1) {
    write_squares_of(f, e, from, first);
    return;
  }
  for (int k = from; k < half; k++) middle += squares_groups(&e->in[k]->aval);
  fprintf(f, "  if (GROUP < %" PRId64 ") {\n", middle);
  write_operand_choice(f, e, from, half, first);
  fputs("  } else {\n", f);
  write_operand_choice(f, e, half, to, middle);
  fputs("  }\n", f);
}

/* Adds what the items of a group have in `name` to `to`. */
static void write_group_sum(FILE *f, const char *name, const char *to) {
  fprintf(f,
          "  part[lane] = %s;\n  BARRIER;\n"
          "  if (lane < %d) { float r = 0; for (int q = 0; q < %d; q++) r += part[lane * %d + q]; "
          "fold[lane] = r; }\n  BARRIER;\n"
          "  if (lane == 0) { float r = 0; for (int q = 0; q < %d; q++) r += fold[q]; %s = r; }\n",
          name, ITEMS / BLOCK, BLOCK, BLOCK, ITEMS / BLOCK, to);
}

static mr_err_t squares_begin(mr_kernel_text_t *t, int64_t groups, const char *form,
                              mr_diag_t *diag) {
  MR_TRY(mr__kernel_begin_groups(t, groups, ITEMS, diag));
  mr__kernel_form(t, form);
  fprintf(t->f,
          "  LOCAL(float, part, %d); LOCAL(float, fold, %d);\n"
          "  int lane = LANE;\n  float all = 0, small = 0;\n",
          ITEMS, ITEMS / BLOCK);
  return MR_OK;
}

/* The group's sum, and of a pair the sum of smaller squares `behind` it. */
static void write_sums(mr_kernel_text_t *t, bool pair, const char *to, const char *behind) {
  write_group_sum(t->f, "all", to);
  if (!pair) return;
  fputs("  BARRIER;\n", t->f);
  write_group_sum(t->f, "small", behind);
}

mr_err_t mr__kernel_sum_squares(mr_kernel_text_t *t, mr_diag_t *diag) {
  const mr_eqn_t *e = t->e;
  bool pair = e->out[0]->aval.ndim > 0;
  int64_t groups = 0;
  char behind[40];
  for (int k = 0; k < e->n_in; k++) groups += squares_groups(&e->in[k]->aval);
  if (!groups) {
    MR_TRY(mr__kernel_begin(t, 1, diag));
    fputs(pair ? "  y0[0] = y0[1] = 0;\n" : "  y0[0] = 0;\n", t->f);
    return mr__kernel_end(t, diag);
  }
  t->scratch_t = MR_F32;
  t->out->scratch_bytes = (size_t)groups * (1 + pair) * sizeof(float);
  MR_TRY(squares_begin(t, groups, "sums of elements at a fixed distance", diag));
  fputs("  SPACE float *x; u64 e, n, step;\n", t->f);
  write_operand_choice(t->f, e, 0, e->n_in, 0);
  fputs("  for (; e < n; e += step) { float v = x[e]; all += v * v;", t->f);
  if (pair) fprintf(t->f, " v = v * %.9ef; v = v * %.9ef; small += v * v;", 0x1p-40, 0x1p-40);
  fputs(" }\n", t->f);
  snprintf(behind, sizeof behind, "s[%" PRId64 " + GROUP]", groups);
  write_sums(t, pair, "s[GROUP]", behind);
  MR_TRY(mr__kernel_end(t, diag));
  MR_TRY(squares_begin(t, 1, "sum of sums: one group of 256 items", diag));
  fprintf(t->f, "  for (int q = lane; q < %" PRId64 "; q += %d) { all += s[q];", groups, ITEMS);
  if (pair) fprintf(t->f, " small += s[%" PRId64 " + q];", groups);
  fputs(" }\n", t->f);
  write_sums(t, pair, "y0[0]", "y0[1]");
  return mr__kernel_end(t, diag);
}
