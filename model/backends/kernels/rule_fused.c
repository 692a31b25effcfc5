/* What the pass `fuse` made one op, as one kernel: its values stay in variables of a work-item.

   Without reductions a work-item computes one element.  With them it walks the terms of one output,
   or of a part of it, and folds as it goes, in the order of rule_sum.c, so that the bits are the
   same fused or not.  The reductions of one body fold the same rows, or the same columns. */
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/backends/kernels/text.h"
#include "model/ir/op.h"
#include "model/ir/unit.h"
#include "model/ops/lax.h"

enum { FOLDS_MAX = 32 };

typedef struct fused_loop {
  mr_kernel_text_t *t;
  const mr_fn_t *body;
  int64_t n;  /* elements of the loop */
  int n_fold; /* reductions */
  const mr_eqn_t *fold[FOLDS_MAX];
  bool columns;
  int64_t outputs, terms; /* of each reduction */
} fused_loop_t;

static mr_unit_t unit_in_body(const mr_eqn_t *e) {
  mr_unit_t u = {0};
  bool is = e->op->unit && e->op->unit(e, &u);
  assert(is);
  (void)is;
  return u;
}

static int64_t var_elems(const mr_var_t *v) { return mr_aval_elems(&v->aval); }

static fused_loop_t loop_of(mr_kernel_text_t *t) {
  fused_loop_t l = {.t = t, .body = mr_attr_called(t->e, "jaxpr"), .n = 1};
  for (int i = 0; i < l.body->n_eqn; i++) {
    const mr_eqn_t *e = l.body->eqn[i];
    mr_unit_t u = unit_in_body(e);
    for (int k = 0; k < e->n_in; k++)
      if (var_elems(e->in[k]) > l.n) l.n = var_elems(e->in[k]);
    if (var_elems(e->out[0]) > l.n) l.n = var_elems(e->out[0]);
    if (u.kind != MR_UNIT_REDUCE && u.kind != MR_UNIT_COLUMNS) continue;
    assert(l.n_fold < FOLDS_MAX);
    l.fold[l.n_fold++] = e;
    l.columns = u.kind == MR_UNIT_COLUMNS;
    l.terms = u.inner; /* of a row; the columns' follow from n */
  }
  l.outputs = l.columns ? l.terms : l.n_fold ? l.n / l.terms : 0;
  if (l.columns) l.terms = l.n / l.outputs;
  return l;
}

/* ---- operands ---- */

static int input_number(const mr_fn_t *body, const mr_var_t *v) {
  for (int k = 0; k < body->n_in; k++)
    if (body->in[k] == v) return k;
  return -1;
}

/* A literal as a constant of the type that its dtype computes in. */
static void literal_text(const mr_var_t *v, char text[MR_KERNEL_NAME]) {
  mr_dtype_t t = v->aval.dtype;
  const char *type = mr__kernel_type(t), *suffix = t == MR_F64 ? "" : "f";
  if (t == MR_U64)
    snprintf(text, MR_KERNEL_NAME, "%" PRIu64 "u", (uint64_t)v->whole);
  else if (t == MR_I64)
    snprintf(text, MR_KERNEL_NAME, "((i64)%" PRIu64 "u)", (uint64_t)v->whole);
  else if (!mr_is_float(t))
    snprintf(text, MR_KERNEL_NAME, "((i64)%.0f)", v->value);
  else if (isfinite(v->value))
    snprintf(text, MR_KERNEL_NAME, "(%a%s)", v->value, suffix);
  else
    snprintf(text, MR_KERNEL_NAME, "((%s)%s)", type,
             isnan(v->value) ? "NAN"
             : v->value > 0  ? "INFINITY"
                             : "(-INFINITY)");
}

/* The name of a value in the body: its variable, or a constant. */
static void value_name(const mr_var_t *v, char text[MR_KERNEL_NAME]) {
  if (v->literal)
    literal_text(v, text);
  else
    snprintf(text, MR_KERNEL_NAME, "v%d", v->id);
}

static void declare_loaded(FILE *f, const fused_loop_t *l, const mr_var_t *v, int of,
                           const char *at) {
  char pointer[16];
  snprintf(pointer, sizeof pointer, "x%d", of);
  fprintf(f, "  %s v%d = ", mr__kernel_type(v->aval.dtype), v->id);
  mr__kernel_load(f, l->body->in[of]->aval.dtype, pointer, at);
  fputs(";\n", f);
}

/* ---- the body ---- */

/* A broadcast of an operand of the kernel, or of a value that has one element. */
static void write_repeat(FILE *f, const fused_loop_t *l, const mr_eqn_t *e, const mr_unit_t *u) {
  char at[80], name[MR_KERNEL_NAME];
  int of = input_number(l->body, e->in[0]);
  snprintf(at, sizeof at, "i / %" PRId64 " %% %" PRId64, u->inner, u->mid);
  if (of >= 0) {
    declare_loaded(f, l, e->out[0], of, at);
    return;
  }
  value_name(e->in[0], name);
  assert(var_elems(e->in[0]) == 1 || var_elems(e->in[0]) == l->n);
  fprintf(f, "  %s v%d = %s;\n", mr__kernel_type(e->out[0]->aval.dtype), e->out[0]->id, name);
}

static mr_err_t write_member(FILE *f, const fused_loop_t *l, const mr_eqn_t *e, mr_diag_t *diag) {
  mr_unit_t u = unit_in_body(e);
  const mr_var_t *y = e->out[0];
  const char *type = mr__kernel_type(y->aval.dtype);
  char in[MR_UNIT_IN][MR_KERNEL_NAME], out[MR_KERNEL_NAME];
  for (int k = 0; k < e->n_in; k++) value_name(e->in[k], in[k]);
  value_name(y, out);
  switch (u.kind) {
    case MR_UNIT_EACH: break;
    case MR_UNIT_SAME: return fprintf(f, "  %s %s = %s;\n", type, out, in[0]), MR_OK;
    case MR_UNIT_REPEAT: return write_repeat(f, l, e, &u), MR_OK;
    case MR_UNIT_INDEX:
      return fprintf(f, "  %s %s = (%s)(i / %" PRId64 " %% %" PRId64 ");\n", type, out, type,
                     u.inner, u.mid),
             MR_OK;
    case MR_UNIT_REDUCE:
    case MR_UNIT_COLUMNS: return MR_OK; /* folded after the body */
  }
  fprintf(f, "  %s %s;\n", type, out);
  return mr__kernel_value(f, e, in, out, "i", diag);
}

/* Computes all values of element i, and stores those that are results. */
static mr_err_t write_element(FILE *f, const fused_loop_t *l, mr_diag_t *diag) {
  const mr_fn_t *b = l->body;
  char pointer[16], name[MR_KERNEL_NAME];
  for (int k = 0; k < b->n_in; k++) {
    int64_t n = var_elems(b->in[k]);
    if (n == 1 || n == l->n) declare_loaded(f, l, b->in[k], k, n == 1 ? "0" : "i");
  }
  for (int i = 0; i < b->n_eqn; i++) MR_TRY(write_member(f, l, b->eqn[i], diag));
  for (int k = 0; k < b->n_out; k++) {
    if (l->n_fold && var_elems(b->out[k]) != l->n) continue;
    bool folded = false;
    for (int i = 0; i < l->n_fold; i++) folded |= l->fold[i]->out[0] == b->out[k];
    if (folded) continue;
    snprintf(pointer, sizeof pointer, "y%d", k);
    value_name(b->out[k], name);
    mr__kernel_store(f, b->out[k]->aval.dtype, pointer, "i", name);
  }
  return MR_OK;
}

/* ---- reductions ---- */

static mr_kernel_fold_t fold_of(const mr_eqn_t *e) {
  return mr__kernel_fold(e->op, e->in[0]->aval.dtype);
}

/* Adds to `to` what is in `from`, by statements in r and v. */
static void write_step(FILE *f, const mr_eqn_t *e, const char *to, const char *from, int j) {
  fprintf(f, "  { float r = %s%d, v = %s; %s %s%d = r; }\n", to, j, from, fold_of(e).step, to, j);
}

/* Folds terms [from,to) of output o, whose elements `body` computes, into all0, all1, ... */
static mr_err_t write_terms(FILE *f, const fused_loop_t *l, mr_diag_t *diag) {
  char name[MR_KERNEL_NAME];
  for (int j = 0; j < l->n_fold; j++)
    fprintf(f, "  float all%d = %s;\n", j, fold_of(l->fold[j]).start);
  fputs("  for (i64 b = from; b < to; b += 128) {\n  i64 end = b + 128 < to ? b + 128 : to;\n", f);
  for (int j = 0; j < l->n_fold; j++)
    fprintf(f, "  float r%d = %s;\n", j, fold_of(l->fold[j]).start);
  fputs("  for (i64 k = b; k < end; k++) {\n", f);
  if (l->columns)
    fprintf(f, "  u64 i = (u64)k * %" PRId64 " + o;\n", l->outputs);
  else
    fprintf(f, "  u64 i = o * %" PRId64 " + (u64)k;\n", l->terms);
  MR_TRY(write_element(f, l, diag));
  for (int j = 0; j < l->n_fold; j++) {
    value_name(l->fold[j]->in[0], name);
    write_step(f, l->fold[j], "r", name, j);
  }
  fputs("  }\n", f);
  for (int j = 0; j < l->n_fold; j++) {
    snprintf(name, sizeof name, "r%d", j);
    write_step(f, l->fold[j], "all", name, j);
  }
  fputs("  }\n", f);
  return MR_OK;
}

static void store_folds(FILE *f, const fused_loop_t *l) {
  for (int k = 0; k < l->body->n_out; k++)
    for (int j = 0; j < l->n_fold; j++) {
      char pointer[16], name[16];
      if (l->fold[j]->out[0] != l->body->out[k]) continue;
      snprintf(pointer, sizeof pointer, "y%d", k);
      snprintf(name, sizeof name, "all%d", j);
      mr__kernel_store(f, l->body->out[k]->aval.dtype, pointer, "o", name);
    }
}

static mr_err_t write_whole_rows(const fused_loop_t *l, mr_diag_t *diag) {
  MR_TRY(mr__kernel_begin(l->t, l->outputs, diag));
  fprintf(l->t->f, "  u64 o = i; i64 from = 0, to = %" PRId64 ";\n", l->terms);
  mr_err_t err = write_terms(l->t->f, l, diag);
  store_folds(l->t->f, l);
  mr_err_t end = mr__kernel_end(l->t, diag);
  return err < 0 ? err : end;
}

/* Neighbours work on neighbouring outputs: part i / outputs of output i % outputs. */
static mr_err_t write_fused_parts(const fused_loop_t *l, mr_diag_t *diag) {
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

static mr_err_t write_folded_parts(const fused_loop_t *l, mr_diag_t *diag) {
  int64_t items = l->outputs * MR_KERNEL_PARTS;
  MR_TRY(mr__kernel_begin(l->t, l->outputs, diag));
  FILE *f = l->t->f;
  fputs("  u64 o = i;\n", f);
  for (int j = 0; j < l->n_fold; j++) {
    char name[MR_KERNEL_NAME];
    fprintf(f, "  float all%d = %s;\n  for (i64 b = 0; b < %d; b += 128) {\n  float r%d = %s;\n", j,
            fold_of(l->fold[j]).start, MR_KERNEL_PARTS, j, fold_of(l->fold[j]).start);
    fprintf(f,
            "  for (i64 k = b; k < b + 128; k++) { float p = s[%" PRId64 " + k * %" PRId64
            " + o];\n",
            j * items, l->outputs);
    write_step(f, l->fold[j], "r", "p", j);
    fputs("  }\n", f);
    snprintf(name, sizeof name, "r%d", j);
    write_step(f, l->fold[j], "all", name, j);
    fputs("  }\n", f);
  }
  store_folds(f, l);
  return mr__kernel_end(l->t, diag);
}

mr_err_t mr__kernel_fused(mr_kernel_text_t *t, mr_diag_t *diag) {
  fused_loop_t l = loop_of(t);
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
