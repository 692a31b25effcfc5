/* The body of a fused loop: what it loops over, the names of its values, and the text that computes
   one of them. */
#include "model/backends/kernels/fused.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>

#include "model/ir/op.h"
#include "model/ops/lax.h"

mr_unit_t mr__fused_unit(const mr_eqn_t *e) {
  mr_unit_t u = {0};
  bool is = e->op->fuse.unit && e->op->fuse.unit(e, &u);
  assert(is);
  (void)is;
  return u;
}

static int64_t fused_elems(const mr_var_t *v) { return mr_aval_elems(&v->aval); }

static bool reads_fold(const mr_fused_loop_t *l, const mr_eqn_t *e) {
  for (int k = 0; k < e->n_in; k++)
    for (int j = 0; j < l->n_fold; j++)
      if (l->fold[j]->out[0] == e->in[k]) return true;
  return false;
}

static bool has_rows(const mr_fn_t *body) {
  for (int i = 0; i < body->n_eqn; i++)
    if (mr__fused_unit(body->eqn[i]).kind == MR_UNIT_REDUCE) return true;
  return false;
}

mr_fused_loop_t mr__fused_loop(mr_kernel_text_t *t, const mr_fn_t *body) {
  mr_fused_loop_t l = {.t = t, .body = body, .n = 1};
  bool rows = has_rows(body);
  for (int i = 0; i < l.body->n_eqn; i++) {
    const mr_eqn_t *e = l.body->eqn[i];
    mr_unit_t u = mr__fused_unit(e);
    l.continues |= reads_fold(&l, e);
    for (int k = 0; k < e->n_in; k++)
      if (fused_elems(e->in[k]) > l.n) l.n = fused_elems(e->in[k]);
    if (fused_elems(e->out[0]) > l.n) l.n = fused_elems(e->out[0]);
    if (u.kind != MR_UNIT_REDUCE && u.kind != MR_UNIT_COLUMNS) continue;
    assert(l.n_fold < MR_FUSED_FOLDS && l.n_column < MR_FUSED_FOLDS);
    if (rows && u.kind == MR_UNIT_COLUMNS) {
      l.column[l.n_column++] = e;
      continue;
    }
    l.fold[l.n_fold++] = e;
    l.columns = u.kind == MR_UNIT_COLUMNS;
    l.terms = u.inner; /* of a row; the columns' follow from n */
  }
  l.outputs = l.columns ? l.terms : l.n_fold ? l.n / l.terms : 0;
  if (l.columns) l.terms = l.n / l.outputs;
  assert(!l.continues || !l.columns);
  return l;
}

/* ---- operands ---- */

int mr__fused_input(const mr_fn_t *body, const mr_var_t *v) {
  for (int k = 0; k < body->n_in; k++)
    if (body->in[k] == v) return k;
  return -1;
}

int mr__fused_result(const mr_fn_t *body, const mr_var_t *v) {
  int k = 0;
  while (k < body->n_out && body->out[k] != v) k++;
  assert(k < body->n_out);
  return k;
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

void mr__fused_name(const mr_var_t *v, char text[MR_KERNEL_NAME]) {
  if (v->literal)
    literal_text(v, text);
  else
    snprintf(text, MR_KERNEL_NAME, "v%d", v->id);
}

void mr__fused_load(FILE *f, const mr_fused_loop_t *l, const mr_var_t *v, int of, const char *at) {
  char pointer[16];
  snprintf(pointer, sizeof pointer, "x%d", of);
  fprintf(f, "  %s v%d = ", mr__kernel_type(v->aval.dtype), v->id);
  mr__kernel_load(f, l->body->in[of]->aval.dtype, pointer, at);
  fputs(";\n", f);
}

/* ---- values ---- */

/* A broadcast of an operand of the kernel, of a value that has one element, or of a row's value. */
static void write_repeat(FILE *f, const mr_fused_loop_t *l, const mr_eqn_t *e, const mr_unit_t *u,
                         const char *element) {
  char at[80], name[MR_KERNEL_NAME];
  int of = mr__fused_input(l->body, e->in[0]);
  bool whole = l->continues && fused_elems(e->out[0]) == l->n; /* else of one element a row */
  if (whole && u->mid == l->outputs && u->inner == l->terms)
    snprintf(at, sizeof at, "row");
  else if (whole && u->mid == l->terms && u->inner == 1)
    snprintf(at, sizeof at, "k");
  else
    snprintf(at, sizeof at, "%s / %" PRId64 " %% %" PRId64, element, u->inner, u->mid);
  if (of >= 0) {
    mr__fused_load(f, l, e->out[0], of, at);
    return;
  }
  mr__fused_name(e->in[0], name);
  assert(fused_elems(e->in[0]) == 1 || fused_elems(e->in[0]) == l->n ||
         (l->continues && fused_elems(e->in[0]) == l->outputs));
  fprintf(f, "  %s v%d = %s;\n", mr__kernel_type(e->out[0]->aval.dtype), e->out[0]->id, name);
}

mr_err_t mr__fused_member(FILE *f, const mr_fused_loop_t *l, const mr_eqn_t *e, const char *at,
                          mr_diag_t *diag) {
  mr_unit_t u = mr__fused_unit(e);
  const mr_var_t *y = e->out[0];
  const char *type = mr__kernel_type(y->aval.dtype);
  char in[MR_UNIT_IN][MR_KERNEL_NAME], out[MR_KERNEL_NAME];
  for (int k = 0; k < e->n_in; k++) mr__fused_name(e->in[k], in[k]);
  mr__fused_name(y, out);
  switch (u.kind) {
    case MR_UNIT_EACH: break;
    case MR_UNIT_SAME: return fprintf(f, "  %s %s = %s;\n", type, out, in[0]), MR_OK;
    case MR_UNIT_REPEAT: return write_repeat(f, l, e, &u, at), MR_OK;
    case MR_UNIT_INDEX:
      return fprintf(f, "  %s %s = (%s)(%s / %" PRId64 " %% %" PRId64 ");\n", type, out, type, at,
                     u.inner, u.mid),
             MR_OK;
    case MR_UNIT_REDUCE:
    case MR_UNIT_COLUMNS: return MR_OK; /* folded behind the body */
  }
  fprintf(f, "  %s %s;\n", type, out);
  return mr__kernel_value(f, e, in, out, at, diag);
}

mr_kernel_fold_t mr__fused_fold(const mr_eqn_t *e) {
  return mr__kernel_fold(e->op, e->in[0]->aval.dtype);
}

void mr__fused_step(FILE *f, const mr_eqn_t *e, const char *to, const char *from) {
  fprintf(f, "  { float r = %s, v = %s; %s %s = r; }\n", to, from, mr__fused_fold(e).step, to);
}

/* ---- draws ---- */

static bool is_set_before(const mr_fused_loop_t *l, const mr_var_t *v) {
  return v->literal || (fused_elems(v) == 1 && mr__fused_input(l->body, v) >= 0);
}

bool mr__fused_draws(const mr_fused_loop_t *l, const mr_eqn_t *e) {
  return e->op == &mr_op_dropout && mr_dropout_first(e) % 8 == 0 && is_set_before(l, e->in[1]) &&
         is_set_before(l, e->in[2]);
}

void mr__fused_draw(FILE *f, const mr_eqn_t *e, const char *words, const char *eight) {
  char seed[MR_KERNEL_NAME], step[MR_KERNEL_NAME];
  mr__fused_name(e->in[1], seed);
  mr__fused_name(e->in[2], step);
  fprintf(f, "  dropout_words(%s, %s", words, eight);
  if (mr_dropout_first(e)) fprintf(f, " + (u64)%" PRId64, mr_dropout_first(e) / 8);
  fprintf(f, ", %s, %uu, %s);\n", seed, (unsigned)mr_attr_get(e, "site")->i[0], step);
}

void mr__fused_dropped(FILE *f, const mr_eqn_t *e, const char *draw) {
  char in[MR_KERNEL_NAME], out[MR_KERNEL_NAME];
  mr__fused_name(e->in[0], in);
  mr__fused_name(e->out[0], out);
  fprintf(f, "  %s %s;\n", mr__kernel_type(e->out[0]->aval.dtype), out);
  mr__kernel_dropped(f, e, in, out, draw);
}
