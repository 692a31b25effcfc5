/* Constant folding: each equation is replaced by a literal if all of its operands are literals, or
   by its operand if it only passes that on. */
#include <math.h>
#include <stdlib.h>

#include "model/ops/lax.h"
#include "model/ops/operands.h"
#include "model/ops/rules.h"
#include "model/transforms/passes.h"
#include "model/transforms/transforms.h"

/* Whether every element of v is `value`: v is that literal, or a broadcast of it. */
static bool is_constant(const mr_var_t *v, double value) {
  v = mr__repeated(v);
  return v->literal && v->aval.dtype == MR_F32 && v->value == value &&
         !signbit(v->value) == !signbit(value);
}

/* Returns the literal for an f32 scalar that e, an elementwise op, computes from literals, with the
   bits that its kernel would give.  NULL for other equations. */
static mr_var_t *compute_literal(mr_fn_t *f, const mr_eqn_t *e, const mr_target_t *t) {
  if (e->n_out != 1 || e->out[0]->aval.ndim || e->out[0]->aval.dtype != MR_F32) return NULL;
  for (int k = 0; k < e->n_in; k++)
    if (!e->in[k]->literal || e->in[k]->aval.dtype != MR_F32) return NULL;
  if (e->n_attr) return NULL;
  if (e->n_in == 1 ? !e->op->cpu.f1 : e->n_in != 2 || !e->op->cpu.f2) return NULL;
  float b = e->n_in == 2 ? (float)e->in[1]->value : 0;
  return mr_literal(f, MR_F32, t->element(e->op, (float)e->in[0]->value, b));
}

/* An op that passes one operand on unchanged, to the bit, where the other is `value`.  x + 0 and
   x - -0 are no rows: for -0 both are 0. */
static const struct {
  const mr_op_def_t *op;
  int other;
  double value;
} neutral[] = {
    {&mr_op_mul, 1, 1},
    {&mr_op_mul, 0, 1},
    {&mr_op_div, 1, 1},
    {&mr_op_sub, 1, 0},
};

/* Returns the operand that e passes on; NULL if there is no such operand. */
static mr_var_t *passed_on(const mr_eqn_t *e) {
  if (e->n_in != 2 || e->n_out != 1) return NULL;
  for (size_t i = 0; i < sizeof neutral / sizeof *neutral; i++) {
    mr_var_t *same = e->in[1 - neutral[i].other];
    if (e->op == neutral[i].op && is_constant(e->in[neutral[i].other], neutral[i].value) &&
        mr_aval_equal(&same->aval, &e->out[0]->aval))
      return same;
  }
  return NULL;
}

mr_err_t mr_fold_constants(mr_fn_t *f, const mr_target_t *t, mr_diag_t *diag) {
  int n = f->n_var, kept = 0; /* literals that are added here are never replaced */
  mr_var_t **instead = calloc((size_t)n + 1, sizeof *instead);
  if (!instead) return mr_no_memory(diag, "folding constants");
  for (int i = 0; i < f->n_eqn; i++) {
    mr_eqn_t *e = f->eqn[i];
    for (int k = 0; k < e->n_in; k++)
      if (e->in[k]->id < n && instead[e->in[k]->id]) e->in[k] = instead[e->in[k]->id];
    mr_var_t *v = compute_literal(f, e, t);
    if (!v) v = passed_on(e);
    if (v)
      instead[e->out[0]->id] = v;
    else
      f->eqn[kept++] = e;
  }
  f->n_eqn = kept;
  for (int i = 0; i < f->n_out; i++)
    if (instead[f->out[i]->id]) f->out[i] = instead[f->out[i]->id];
  free(instead);
  return MR_OK;
}
