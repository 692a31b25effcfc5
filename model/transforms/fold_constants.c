/* Constant folding: each equation is replaced by a literal if all of its operands are literals, or
   by its operand if it only passes that on. */
#include <math.h>
#include <stdlib.h>

#include "model/ops/lax.h"
#include "model/ops/rules.h"
#include "model/transforms/passes.h"
#include "model/transforms/transforms.h"

/* Whether every element of v is `value`: v is that literal, or a broadcast of it. */
static bool is_constant(const mr_var_t *v, double value) {
  while (v->def && v->def->op == &mr_op_broadcast_in_dim) v = v->def->in[0];
  return v->literal && v->aval.dtype == MR_F32 && v->value == value;
}

/* Returns the literal for an f32 scalar that e, an elementwise op, computes from literals, with the
   bits that its kernel would give.  NULL for other equations. */
static mr_var_t *computed(mr_fn_t *f, const mr_eqn_t *e, const mr_target_t *t) {
  if (e->n_out != 1 || e->out[0]->aval.ndim || e->out[0]->aval.dtype != MR_F32) return NULL;
  for (int k = 0; k < e->n_in; k++)
    if (!e->in[k]->literal || e->in[k]->aval.dtype != MR_F32) return NULL;
  if (e->n_attr) return NULL;
  if (e->n_in == 1 ? !e->op->at.f1 : e->n_in != 2 || !e->op->at.f2) return NULL;
  float b = e->n_in == 2 ? (float)e->in[1]->value : 0;
  return mr_literal(f, MR_F32, t->element(e->op, (float)e->in[0]->value, b));
}

/* Returns the operand that e passes on unchanged, to the bit; NULL if there is no such operand.  x
   + 0 is not folded: -0 + 0 is 0. */
static mr_var_t *passed_on(const mr_eqn_t *e) {
  if (e->n_in != 2 || e->n_out != 1) return NULL;
  mr_var_t *a = e->in[0], *b = e->in[1], *same = NULL;
  if (e->op == &mr_op_mul) same = is_constant(b, 1) ? a : is_constant(a, 1) ? b : NULL;
  if (e->op == &mr_op_div && is_constant(b, 1)) same = a;
  if (e->op == &mr_op_sub && is_constant(b, 0) && !signbit(b->value)) same = a;
  return same && mr_aval_equal(&same->aval, &e->out[0]->aval) ? same : NULL;
}

mr_err_t mr_fold_constants(mr_fn_t *f, const mr_target_t *t, mr_diag_t *diag) {
  int n = f->n_var, kept = 0; /* literals that are added here are never replaced */
  mr_var_t **instead = calloc((size_t)n + 1, sizeof *instead);
  if (!instead) return mr_no_memory(diag, "folding constants");
  for (int i = 0; i < f->n_eqn; i++) {
    mr_eqn_t *e = f->eqn[i];
    for (int k = 0; k < e->n_in; k++)
      if (e->in[k]->id < n && instead[e->in[k]->id]) e->in[k] = instead[e->in[k]->id];
    mr_var_t *v = computed(f, e, t);
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
