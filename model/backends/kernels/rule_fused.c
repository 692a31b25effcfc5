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

/* Declares a float of each fold, or eight of them, that holds what folding begins with. */
static void declare_folds(FILE *f, const mr_fused_loop_t *l, const char *name) {
  for (int j = 0; j < l->n_fold; j++) {
    const char *start = mr__fused_fold(l->fold[j]).start;
    if (l->wide)
      fprintf(f, "  float %s%d[8]; for (int j = 0; j < 8; j++) %s%d[j] = %s;\n", name, j, name, j,
              start);
    else
      fprintf(f, "  float %s%d = %s;\n", name, j, start);
  }
}

/* The statements for term k of output o, or of the eight that begin there. */
static mr_err_t write_term(FILE *f, const mr_fused_loop_t *l, mr_diag_t *diag) {
  char to[16], name[MR_KERNEL_NAME];
  if (l->wide) {
    fprintf(f, "  u32 at = (u32)k * %" PRId64 " + (u32)o;\n", l->outputs);
    return mr__wide_elements(f, l, diag);
  }
  if (l->columns)
    fprintf(f, "  u64 i = (u64)k * %" PRId64 " + o;\n", l->outputs);
  else
    fprintf(f, "  u64 i = o * %" PRId64 " + (u64)k;\n", l->terms);
  MR_TRY(write_element(f, l, diag));
  for (int j = 0; j < l->n_fold; j++) {
    mr__fused_name(l->fold[j]->in[0], name);
    snprintf(to, sizeof to, "r%d", j);
    mr__fused_step(f, l->fold[j], to, name);
  }
  return MR_OK;
}

/* Folds terms [from,to) of output o, or of eight, into all0, all1, ... */
static mr_err_t write_terms(FILE *f, const mr_fused_loop_t *l, mr_diag_t *diag) {
  char to[24], name[24];
  const char *of = l->wide ? "[j]" : "";
  declare_folds(f, l, "all");
  fprintf(f, "  for (i64 b = from; b < to; b += %d) {\n  i64 end = b + %d < to ? b + %d : to;\n",
          MR_KERNEL_BLOCK, MR_KERNEL_BLOCK, MR_KERNEL_BLOCK);
  declare_folds(f, l, "r");
  fputs("  for (i64 k = b; k < end; k++) {\n", f);
  MR_TRY(write_term(f, l, diag));
  fputs(l->wide ? "  }\n  for (int j = 0; j < 8; j++) {\n" : "  }\n", f);
  for (int j = 0; j < l->n_fold; j++) {
    snprintf(to, sizeof to, "all%d%s", j, of);
    snprintf(name, sizeof name, "r%d%s", j, of);
    mr__fused_step(f, l->fold[j], to, name);
  }
  fputs(l->wide ? "  }}\n" : "  }\n", f);
  return MR_OK;
}

static void store_folds(FILE *f, const mr_fused_loop_t *l) {
  char pointer[16], name[24];
  if (l->wide) fputs("  for (int j = 0; j < 8; j++) {\n", f);
  for (int j = 0; j < l->n_fold; j++) {
    int k = mr__fused_result(l->body, l->fold[j]->out[0]);
    snprintf(pointer, sizeof pointer, "y%d", k);
    snprintf(name, sizeof name, "all%d%s", j, l->wide ? "[j]" : "");
    mr__kernel_store(f, l->body->out[k]->aval.dtype, pointer, l->wide ? "o + j" : "o", name);
  }
  if (l->wide) fputs("  }\n", f);
}

static mr_err_t write_whole(const mr_fused_loop_t *l, mr_diag_t *diag) {
  int each = l->wide ? 8 : 1;
  MR_TRY(mr__kernel_begin(l->t, l->outputs / each, diag));
  fprintf(l->t->f, "  u64 o = i * %d; i64 from = 0, to = %" PRId64 ";\n", each, l->terms);
  mr_err_t err = write_terms(l->t->f, l, diag);
  store_folds(l->t->f, l);
  mr_err_t end = mr__kernel_end(l->t, diag);
  return err < 0 ? err : end;
}

/* Neighbours work on neighbouring outputs. */
static mr_err_t write_fused_parts(const mr_fused_loop_t *l, int64_t parts, mr_diag_t *diag) {
  int64_t each = (l->terms + parts - 1) / parts, across = l->outputs / (l->wide ? 8 : 1);
  MR_TRY(mr__kernel_begin(l->t, across * parts, diag));
  FILE *f = l->t->f;
  fprintf(f, "  u64 o = i %% %" PRId64 " * %d, part = i / %" PRId64 ";\n", across, l->wide ? 8 : 1,
          across);
  fprintf(f, "  i64 from = (i64)part * %" PRId64 ", to = from + %" PRId64 ";\n", each, each);
  fprintf(f, "  if (to > %" PRId64 ") to = %" PRId64 ";\n", l->terms, l->terms);
  mr_err_t err = write_terms(f, l, diag);
  if (l->wide) fputs("  for (int j = 0; j < 8; j++) {\n", f);
  for (int j = 0; j < l->n_fold; j++)
    fprintf(f, "  s[(part + %" PRId64 ") * %" PRId64 " + o%s] = all%d%s;\n", j * parts, l->outputs,
            l->wide ? " + (u64)j" : "", j, l->wide ? "[j]" : "");
  if (l->wide) fputs("  }\n", f);
  mr_err_t end = mr__kernel_end(l->t, diag);
  return err < 0 ? err : end;
}

static mr_err_t write_folds(const mr_fused_loop_t *l, int64_t parts, mr_diag_t *diag) {
  mr_kernel_part_t of[MR_FUSED_FOLDS];
  if (parts == 1) return write_whole(l, diag);
  l->t->scratch_t = MR_F32;
  l->t->out->scratch_bytes = (size_t)(l->outputs * parts * l->n_fold) * sizeof(float);
  for (int j = 0; j < l->n_fold; j++)
    of[j] = (mr_kernel_part_t){mr__fused_fold(l->fold[j]),
                               mr__fused_result(l->body, l->fold[j]->out[0])};
  MR_TRY(write_fused_parts(l, parts, diag));
  return mr__kernel_fold_parts(l->t, l->outputs, parts, of, l->n_fold, diag);
}

static mr_err_t write_elements(const mr_fused_loop_t *l, mr_diag_t *diag) {
  MR_TRY(mr__kernel_begin(l->t, l->n / (l->wide ? 8 : 1), diag));
  if (l->wide) {
    mr__kernel_form(l->t, "elementwise, 8 neighbours an item");
    fputs("  u32 at = (u32)i * 8;\n", l->t->f);
  }
  mr_err_t err = l->wide ? mr__wide_elements(l->t->f, l, diag) : write_element(l->t->f, l, diag);
  mr_err_t end = mr__kernel_end(l->t, diag);
  return err < 0 ? err : end;
}

static mr_err_t write_loop(mr_kernel_text_t *t, const mr_fn_t *body, mr_diag_t *diag) {
  mr_fused_loop_t l = mr__fused_loop(t, body);
  int64_t parts = l.n_fold ? mr__kernel_parts(l.outputs, l.terms) : 1;
  if (l.n_fold && !l.columns && (l.continues || l.n_column || mr_kernels_rows(l.outputs, l.terms)))
    return mr__fused_rows(&l, diag);
  l.wide = mr__fused_is_wide(&l, parts);
  return l.n_fold ? write_folds(&l, parts, diag) : write_elements(&l, diag);
}

mr_err_t mr__kernel_fused(mr_kernel_text_t *t, mr_diag_t *diag) {
  if (mr_attr_find(t->e, "tensors")) return mr__fused_tensors(t, diag);
  if (mr_attr_find(t->e, "beside")) return mr__fused_beside(t, diag);
  return write_loop(t, mr_attr_called(t->e, "jaxpr"), diag);
}

mr_err_t mr__kernel_lone(mr_kernel_text_t *t, mr_diag_t *diag) {
  mr_fn_t *body = mr_fn_create();
  if (!body) return mr_no_memory(diag, "the kernel of %s", t->e->op->name);
  mr_var_t *x = mr_fn_input(body, t->e->in[0]->aval);
  mr_eqn_t *e = mr_emit_like(body, t->e, &x);
  mr_err_t err = e ? mr_fn_return(body, 1, e->out) : body->diag.code;
  if (err >= 0) err = write_loop(t, body, diag);
  if (body->diag.code < 0) err = mr_diag_relay(diag, body->diag.code, &body->diag);
  mr_fn_destroy(body);
  return err;
}
