/* What the pass `fuse` made one op, as one kernel: its values stay in variables of a work-item.
   Loops that continue past sums of rows are in rule_rows.c, those over several tensors in
   rule_tensors.c.

   Without reductions a work-item computes one element.  With them it walks the terms of one output,
   or of a part of it, and folds as it goes, in the order of rule_sum.c, so that the bits are the
   same fused or not.  The reductions of one body fold the same rows, or the same columns. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "model/backends/kernels/fused.h"
#include "model/ir/op.h"
#include "model/ops/lax.h"

static int64_t var_elems(const mr_var_t *v) { return mr_aval_elems(&v->aval); }

/* ---- elements ---- */

/* Computes all values of element i, and stores those that are results. */
static mr_err_t write_element(FILE *f, const mr_fused_loop_t *l, mr_diag_t *diag) {
  const mr_fn_t *b = l->body;
  char pointer[16], name[MR_KERNEL_NAME];
  for (int k = 0; k < b->n_in; k++) {
    int64_t n = var_elems(b->in[k]);
    if (n == 1 || n == l->n) mr__fused_load(f, l, b->in[k], k, n == 1 ? "0" : "i");
  }
  for (int i = 0; i < b->n_eqn; i++) MR_TRY(mr__fused_member(f, l, b->eqn[i], "i", diag));
  for (int k = 0; k < b->n_out; k++) {
    if (l->n_fold && var_elems(b->out[k]) != l->n) continue;
    bool folded = false;
    for (int i = 0; i < l->n_fold; i++) folded |= l->fold[i]->out[0] == b->out[k];
    if (folded) continue;
    snprintf(pointer, sizeof pointer, "y%d", k);
    mr__fused_name(b->out[k], name);
    mr__kernel_store(f, b->out[k]->aval.dtype, pointer, "i", name);
  }
  return MR_OK;
}

/* ---- reductions ---- */

/* Folds terms [from,to) of output o, whose elements `body` computes, into all0, all1, ... */
static mr_err_t write_terms(FILE *f, const mr_fused_loop_t *l, mr_diag_t *diag) {
  char name[MR_KERNEL_NAME];
  for (int j = 0; j < l->n_fold; j++)
    fprintf(f, "  float all%d = %s;\n", j, mr__fused_fold(l->fold[j]).start);
  fputs("  for (i64 b = from; b < to; b += 128) {\n  i64 end = b + 128 < to ? b + 128 : to;\n", f);
  for (int j = 0; j < l->n_fold; j++)
    fprintf(f, "  float r%d = %s;\n", j, mr__fused_fold(l->fold[j]).start);
  fputs("  for (i64 k = b; k < end; k++) {\n", f);
  if (l->columns)
    fprintf(f, "  u64 i = (u64)k * %" PRId64 " + o;\n", l->outputs);
  else
    fprintf(f, "  u64 i = o * %" PRId64 " + (u64)k;\n", l->terms);
  MR_TRY(write_element(f, l, diag));
  for (int j = 0; j < l->n_fold; j++) {
    mr__fused_name(l->fold[j]->in[0], name);
    mr__fused_step(f, l->fold[j], "r", name, j);
  }
  fputs("  }\n", f);
  for (int j = 0; j < l->n_fold; j++) {
    snprintf(name, sizeof name, "r%d", j);
    mr__fused_step(f, l->fold[j], "all", name, j);
  }
  fputs("  }\n", f);
  return MR_OK;
}

static void store_folds(FILE *f, const mr_fused_loop_t *l) {
  for (int k = 0; k < l->body->n_out; k++)
    for (int j = 0; j < l->n_fold; j++) {
      char pointer[16], name[16];
      if (l->fold[j]->out[0] != l->body->out[k]) continue;
      snprintf(pointer, sizeof pointer, "y%d", k);
      snprintf(name, sizeof name, "all%d", j);
      mr__kernel_store(f, l->body->out[k]->aval.dtype, pointer, "o", name);
    }
}

static mr_err_t write_whole_rows(const mr_fused_loop_t *l, mr_diag_t *diag) {
  MR_TRY(mr__kernel_begin(l->t, l->outputs, diag));
  fprintf(l->t->f, "  u64 o = i; i64 from = 0, to = %" PRId64 ";\n", l->terms);
  mr_err_t err = write_terms(l->t->f, l, diag);
  store_folds(l->t->f, l);
  mr_err_t end = mr__kernel_end(l->t, diag);
  return err < 0 ? err : end;
}

/* Neighbours work on neighbouring outputs: part i / outputs of output i % outputs. */
static mr_err_t write_fused_parts(const mr_fused_loop_t *l, mr_diag_t *diag) {
  int64_t items = l->outputs * MR_KERNEL_PARTS;
  int64_t each = (l->terms + MR_KERNEL_PARTS - 1) / MR_KERNEL_PARTS;
  MR_TRY(mr__kernel_begin(l->t, items, diag));
  FILE *f = l->t->f;
  fprintf(
      f, "  u64 o = i %% %" PRId64 ", item = i; i64 from = (i64)(i / %" PRId64 ") * %" PRId64 ";\n",
      l->outputs, l->outputs, each);
  fprintf(f, "  i64 to = from + %" PRId64 " < %" PRId64 " ? from + %" PRId64 " : %" PRId64 ";\n",
          each, l->terms, each, l->terms);
  mr_err_t err = write_terms(f, l, diag);
  for (int j = 0; j < l->n_fold; j++)
    fprintf(f, "  s[item + %" PRId64 "] = all%d;\n", j * items, j);
  mr_err_t end = mr__kernel_end(l->t, diag);
  return err < 0 ? err : end;
}

static mr_err_t write_folded_parts(const mr_fused_loop_t *l, mr_diag_t *diag) {
  int64_t items = l->outputs * MR_KERNEL_PARTS;
  MR_TRY(mr__kernel_begin(l->t, l->outputs, diag));
  FILE *f = l->t->f;
  fputs("  u64 o = i;\n", f);
  for (int j = 0; j < l->n_fold; j++) {
    char name[MR_KERNEL_NAME];
    fprintf(f, "  float all%d = %s;\n  for (i64 b = 0; b < %d; b += 128) {\n  float r%d = %s;\n", j,
            mr__fused_fold(l->fold[j]).start, MR_KERNEL_PARTS, j, mr__fused_fold(l->fold[j]).start);
    fprintf(f,
            "  for (i64 k = b; k < b + 128; k++) { float p = s[%" PRId64 " + k * %" PRId64
            " + o];\n",
            j * items, l->outputs);
    mr__fused_step(f, l->fold[j], "r", "p", j);
    fputs("  }\n", f);
    snprintf(name, sizeof name, "r%d", j);
    mr__fused_step(f, l->fold[j], "all", name, j);
    fputs("  }\n", f);
  }
  store_folds(f, l);
  return mr__kernel_end(l->t, diag);
}

mr_err_t mr__kernel_fused(mr_kernel_text_t *t, mr_diag_t *diag) {
  if (mr_attr_find(t->e, "tensors")) return mr__fused_tensors(t, diag);
  mr_fused_loop_t l = mr__fused_loop(t);
  if (l.continues) return mr__fused_rows(&l, diag);
  if (!l.n_fold) {
    MR_TRY(mr__kernel_begin(t, l.n, diag));
    mr_err_t err = write_element(t->f, &l, diag), end = mr__kernel_end(t, diag);
    return err < 0 ? err : end;
  }
  if (l.outputs >= MR_KERNEL_FEW || l.terms < MR_KERNEL_LONG) return write_whole_rows(&l, diag);
  t->scratch_t = MR_F32;
  t->out->scratch_bytes = (size_t)(l.outputs * MR_KERNEL_PARTS * l.n_fold) * sizeof(float);
  MR_TRY(write_fused_parts(&l, diag));
  return write_folded_parts(&l, diag);
}
