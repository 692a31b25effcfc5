#include <stdlib.h>

#include "model/ops/op.h"
#include "model/transforms/transforms.h"

static bool widening(const mr_eqn_t *e) {
  return e && e->op == &mr_op_convert_element_type && e->in[0]->aval.dtype == MR_BF16 &&
         e->out[0]->aval.dtype == MR_F32;
}

static void count_uses(const mr_fn_t *f, int *uses) {
  for (int i = 0; i < f->n_eqn; i++)
    for (int k = 0; k < f->eqn[i]->n_in; k++) uses[f->eqn[i]->in[k]->id]++;
  for (int i = 0; i < f->n_out; i++) uses[f->out[i]->id]++;
}

/* The producer gives f32 at once; the conversion's name now means its result. */
static void widen_producer(mr_fn_t *f, mr_eqn_t *convert, mr_var_t **instead) {
  mr_var_t *x = convert->in[0];
  x->aval.dtype = MR_F32;
  if (mr_attr_find(x->def, "preferred_element_type"))
    mr_attr_set(f, x->def, mr_attr_dtype("preferred_element_type", MR_F32));
  instead[convert->out[0]->id] = x;
}

void mr_fold_convert(mr_fn_t *f) {
  int *uses = calloc((size_t)f->n_var + 1, sizeof *uses);
  mr_var_t **instead = calloc((size_t)f->n_var + 1, sizeof *instead);
  if (uses && instead) {
    count_uses(f, uses);
    for (int i = 0; i < f->n_eqn; i++) {
      mr_eqn_t *e = f->eqn[i];
      for (int k = 0; k < e->n_in; k++) {
        if (instead[e->in[k]->id]) e->in[k] = instead[e->in[k]->id];
        if (e->op->mixes && widening(e->in[k]->def)) e->in[k] = e->in[k]->def->in[0];
      }
      if (!e->n_in) continue;
      const mr_var_t *x = e->in[0];
      if (widening(e) && x->def && x->def->op->widens && uses[x->id] == 1)
        widen_producer(f, e, instead);
    }
    for (int i = 0; i < f->n_out; i++)
      if (instead[f->out[i]->id]) f->out[i] = instead[f->out[i]->id];
  }
  free(uses);
  free(instead);
  mr_dce(f);
}
