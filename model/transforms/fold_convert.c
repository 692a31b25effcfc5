/* Conversions of bf16 to f32 fold into the equation before, which then computes f32, or into the
   one after, which then reads bf16; one to f32 and back is none, also if elements are only moved in
   between. */
#include <stdlib.h>

#include "model/ir/op.h"
#include "model/ops/lax.h"
#include "model/ops/operands.h"
#include "model/transforms/transforms.h"

static bool is_widening(const mr_eqn_t *e) {
  return e && mr__is_conversion(e) && mr_is_narrow(e->in[0]->aval.dtype) &&
         e->in[0]->aval.dtype != MR_F32 && e->out[0]->aval.dtype == MR_F32;
}

/* Converts back to its dtype what e's operand is f32 of. */
static bool narrows_back(const mr_eqn_t *e) {
  return mr__is_conversion(e) && is_widening(e->in[0]->def) &&
         e->in[0]->def->in[0]->aval.dtype == e->out[0]->aval.dtype;
}

/* WAY: of moves between a conversion to f32 and the one back. */
enum { WAY = 6 };

/* Whether x holds moved elements of values of that dtype alone, each converted to f32, and nothing
   but the way to the conversion back reads the moves. */
static bool is_moved_widening(const mr_var_t *x, mr_dtype_t narrow, const int *uses, int way) {
  const mr_eqn_t *d = x->def;
  if (is_widening(d)) return d->in[0]->aval.dtype == narrow;
  if (!d || way == WAY || uses[x->id] != 1 || d->n_out != 1 || !d->n_in || !d->op->cost.moves ||
      mr__is_conversion(d))
    return false;
  for (int k = 0; k < d->n_in; k++)
    if (d->in[k]->aval.dtype != MR_F32 || !is_moved_widening(d->in[k], narrow, uses, way + 1))
      return false;
  return true;
}

/* The same moves of the values before their conversion. */
static mr_var_t *move_narrow(mr_var_t *x) {
  mr_eqn_t *d = x->def;
  if (is_widening(d)) return d->in[0];
  for (int k = 0; k < d->n_in; k++) d->in[k] = move_narrow(d->in[k]);
  x->aval.dtype = d->in[0]->aval.dtype;
  return x;
}

static void fold_convert_count_uses(const mr_fn_t *f, int *uses) {
  for (int i = 0; i < f->n_eqn; i++)
    for (int k = 0; k < f->eqn[i]->n_in; k++) uses[f->eqn[i]->in[k]->id]++;
  for (int i = 0; i < f->n_out; i++) uses[f->out[i]->id]++;
}

/* Records the f32 result as an attribute, so that e's shape rule gives it again in every copy. */
static void asks_f32(mr_fn_t *f, mr_eqn_t *e) {
  mr_attr_set(f, e, mr_attr_dtype("preferred_element_type", MR_F32));
}

/* The producer computes f32; its result replaces that of the conversion. */
static void widen_producer(mr_fn_t *f, mr_eqn_t *convert, mr_var_t **instead) {
  mr_var_t *x = convert->in[0];
  x->aval.dtype = MR_F32;
  asks_f32(f, x->def);
  instead[convert->out[0]->id] = x;
}

void mr_fold_convert(mr_fn_t *f) {
  int *uses = calloc((size_t)f->n_var + 1, sizeof *uses);
  mr_var_t **instead = calloc((size_t)f->n_var + 1, sizeof *instead);
  if (uses && instead) {
    fold_convert_count_uses(f, uses);
    for (int i = 0; i < f->n_eqn; i++) {
      mr_eqn_t *e = f->eqn[i];
      for (int k = 0; k < e->n_in; k++) {
        if (instead[e->in[k]->id]) e->in[k] = instead[e->in[k]->id];
        if (!e->op->amp.mixes || !is_widening(e->in[k]->def)) continue;
        e->in[k] = e->in[k]->def->in[0];
        asks_f32(f, e);
      }
      if (!e->n_in) continue;
      if (narrows_back(e))
        instead[e->out[0]->id] = e->in[0]->def->in[0];
      else if (mr__is_conversion(e) && is_moved_widening(e->in[0], e->out[0]->aval.dtype, uses, 0))
        instead[e->out[0]->id] = move_narrow(e->in[0]);
      const mr_var_t *x = e->in[0];
      if (is_widening(e) && x->def && x->def->op->amp.widens && uses[x->id] == 1)
        widen_producer(f, e, instead);
    }
    for (int i = 0; i < f->n_out; i++)
      if (instead[f->out[i]->id]) f->out[i] = instead[f->out[i]->id];
  }
  if (!uses || !instead) mr_no_memory(&f->diag, "folding conversions");
  free(uses);
  free(instead);
  mr_dce(f);
}
