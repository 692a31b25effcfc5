/* Fused loops whose items compute eight neighbouring elements each: 16 bytes are read and written
   at once, an index is computed once, and so are the ten rounds of Philox that give the bits of
   dropout for eight elements.  On an H200 a loop of GELU and dropout that computes one element an
   item is bound by its instructions, and not by memory.

   The values and the order of every sum are those of loops of one element. */
#include <inttypes.h>
#include <string.h>

#include "model/backends/kernels/fused.h"
#include "model/ir/op.h"
#include "model/ops/lax.h"

enum {
  LEAST = 1 << 15,     /* elements of a loop; fewer are too few items for a device */
  ITEMS_LEAST = 1024,  /* of sums of columns */
  REGISTERS_MOST = 112 /* of operands, results and sums */
};

static int64_t wide_elems(const mr_var_t *v) { return mr_aval_elems(&v->aval); }

static bool is_wide_dtype(mr_dtype_t t) { return t == MR_F32 || t == MR_BF16 || t == MR_F16; }

static const char *load_name(mr_dtype_t t) {
  return t == MR_F32 ? "load8_f32" : t == MR_BF16 ? "load8_bf16" : "load8_f16";
}

static bool is_folded(const mr_fused_loop_t *l, const mr_var_t *v) {
  for (int j = 0; j < l->n_fold; j++)
    if (l->fold[j]->out[0] == v) return true;
  return false;
}

/* ---- which loops ---- */

/* Every array that is read or written at the loop's elements has a dtype that is read wide: one
   that is not may share bytes with one that is. */
static bool dtypes_are_wide(const mr_fused_loop_t *l) {
  const mr_fn_t *b = l->body;
  for (int k = 0; k < b->n_in; k++)
    if (wide_elems(b->in[k]) == l->n && !is_wide_dtype(b->in[k]->aval.dtype)) return false;
  for (int k = 0; k < b->n_out; k++)
    if (!is_wide_dtype(b->out[k]->aval.dtype)) return false;
  return true;
}

static int registers_of(const mr_fused_loop_t *l) {
  const mr_fn_t *b = l->body;
  int n = 16 * l->n_fold;
  for (int k = 0; k < b->n_in; k++)
    if (wide_elems(b->in[k]) == l->n) n += b->in[k]->aval.dtype == MR_F32 ? 8 : 4;
  for (int k = 0; k < b->n_out; k++) n += 8;
  for (int i = 0; i < b->n_eqn; i++) {
    const mr_eqn_t *e = b->eqn[i];
    n += e->op == &mr_op_dropout ? 4 : mr__fused_unit(e).kind == MR_UNIT_REPEAT ? 8 : 0;
  }
  return n;
}

bool mr__fused_is_wide(const mr_fused_loop_t *l, int64_t parts) {
  if (l->t->align < 16 || l->continues || l->n > INT32_MAX || !dtypes_are_wide(l)) return false;
  if (l->n_fold && (!l->columns || l->outputs % 8 || l->outputs / 8 * parts < ITEMS_LEAST))
    return false;
  return l->n % 8 == 0 && l->n >= LEAST && registers_of(l) <= REGISTERS_MOST;
}

/* ---- eight elements ---- */

/* How the eight elements of a broadcast lie in its operand. */
typedef enum repeat_form {
  REPEAT_ONE,   /* all are one element */
  REPEAT_EIGHT, /* eight neighbours */
  REPEAT_EACH   /* neither is known */
} repeat_form_t;

static repeat_form_t repeat_form(const mr_fused_loop_t *l, const mr_eqn_t *e) {
  mr_unit_t u = mr__fused_unit(e);
  if (mr__fused_input(l->body, e->in[0]) < 0 || wide_elems(e->out[0]) != l->n) return REPEAT_EACH;
  if (u.mid == 1 || u.inner % 8 == 0) return REPEAT_ONE;
  bool eight = u.inner == 1 && u.mid % 8 == 0 && is_wide_dtype(e->in[0]->aval.dtype);
  return eight ? REPEAT_EIGHT : REPEAT_EACH;
}

static bool wide_repeats(const mr_eqn_t *e) { return mr__fused_unit(e).kind == MR_UNIT_REPEAT; }

static void write_wide_operands(FILE *f, const mr_fused_loop_t *l) {
  const mr_fn_t *b = l->body;
  for (int k = 0; k < b->n_in; k++) {
    const mr_var_t *v = b->in[k];
    if (wide_elems(v) == 1)
      mr__fused_load(f, l, v, k, "0");
    else if (wide_elems(v) == l->n)
      fprintf(f, "  float w%d[8]; %s(w%d, x%d + at);\n", v->id, load_name(v->aval.dtype), v->id, k);
  }
}

static void write_wide_repeat(FILE *f, const mr_fused_loop_t *l, const mr_eqn_t *e) {
  mr_unit_t u = mr__fused_unit(e);
  const mr_var_t *x = e->in[0], *y = e->out[0];
  int of = mr__fused_input(l->body, x);
  char pointer[16], from[64];
  repeat_form_t form = repeat_form(l, e);
  if (form == REPEAT_EIGHT) {
    fprintf(f, "  float w%d[8]; %s(w%d, x%d + at %% %" PRId64 ");\n", y->id,
            load_name(x->aval.dtype), y->id, of, u.mid);
  } else if (form == REPEAT_ONE) {
    snprintf(pointer, sizeof pointer, "x%d", of);
    snprintf(from, sizeof from, "at / %" PRId64 " %% %" PRId64, u.inner, u.mid);
    fprintf(f, "  %s v%d = ", mr__kernel_type(y->aval.dtype), y->id);
    mr__kernel_load(f, x->aval.dtype, pointer, from);
    fputs(";\n", f);
  }
}

static void write_wide_draw(FILE *f, const mr_eqn_t *e) {
  char words[16];
  snprintf(words, sizeof words, "d%d", e->out[0]->id);
  fprintf(f, "  u32 %s[4];", words);
  mr__fused_draw(f, e, words, "at / 8");
}

static void write_wide_dropout(FILE *f, const mr_eqn_t *e) {
  char draw[64];
  snprintf(draw, sizeof draw, "(d%d[j / 2] >> j %% 2 * 16 & 0xFFFFu)", e->out[0]->id);
  mr__fused_dropped(f, e, draw);
}

/* Element j of the eight. */
static mr_err_t write_wide_values(FILE *f, const mr_fused_loop_t *l, mr_diag_t *diag) {
  const mr_fn_t *b = l->body;
  for (int k = 0; k < b->n_in; k++)
    if (wide_elems(b->in[k]) == l->n && wide_elems(b->in[k]) != 1)
      fprintf(f, "  float v%d = w%d[j];\n", b->in[k]->id, b->in[k]->id);
  for (int i = 0; i < b->n_eqn; i++) {
    const mr_eqn_t *e = b->eqn[i];
    repeat_form_t form = wide_repeats(e) ? repeat_form(l, e) : REPEAT_EACH;
    if (form == REPEAT_ONE) continue;
    if (form == REPEAT_EIGHT)
      fprintf(f, "  float v%d = w%d[j];\n", e->out[0]->id, e->out[0]->id);
    else if (mr__fused_draws(l, e))
      write_wide_dropout(f, e);
    else
      MR_TRY(mr__fused_member(f, l, e, "i", diag));
  }
  return MR_OK;
}

static void write_wide_ends(FILE *f, const mr_fused_loop_t *l) {
  const mr_fn_t *b = l->body;
  char to[24], from[MR_KERNEL_NAME];
  for (int k = 0; k < b->n_out; k++) {
    if (is_folded(l, b->out[k])) continue;
    mr__fused_name(b->out[k], from);
    fprintf(f, "  out%d[j] = %s;\n", k, from);
  }
  for (int j = 0; j < l->n_fold; j++) {
    snprintf(to, sizeof to, "r%d[j]", j);
    mr__fused_name(l->fold[j]->in[0], from);
    mr__fused_step(f, l->fold[j], to, from);
  }
}

mr_err_t mr__wide_elements(FILE *f, const mr_fused_loop_t *l, mr_diag_t *diag) {
  const mr_fn_t *b = l->body;
  write_wide_operands(f, l);
  for (int i = 0; i < b->n_eqn; i++) {
    if (wide_repeats(b->eqn[i])) write_wide_repeat(f, l, b->eqn[i]);
    if (mr__fused_draws(l, b->eqn[i])) write_wide_draw(f, b->eqn[i]);
  }
  for (int k = 0; k < b->n_out; k++)
    if (!is_folded(l, b->out[k])) fprintf(f, "  float out%d[8];\n", k);
  fputs("#pragma unroll\n  for (int j = 0; j < 8; j++) {\n  u32 i = at + (u32)j;\n", f);
  MR_TRY(write_wide_values(f, l, diag));
  write_wide_ends(f, l);
  fputs("  }\n", f);
  for (int k = 0; k < b->n_out; k++)
    if (!is_folded(l, b->out[k]))
      fprintf(f, "  store8_%s(y%d + at, out%d);\n", mr_dtype_name(b->out[k]->aval.dtype), k, k);
  return MR_OK;
}
