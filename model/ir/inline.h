/* Copies the equations of one graph into another. */
#ifndef MR_MODEL_IR_INLINE_H
#define MR_MODEL_IR_INLINE_H

#include "base/decls.h"
#include "model/ir/fn.h"

MR_BEGIN_DECLS

/* Appends f's equations to g, with in[f->n_in], vars of g with the avals of f's inputs, in place of
   the inputs; out[f->n_out] become the results, vars of g.  Returns MR_OK, or the failure that it
   left in g->diag: f's own if f failed while it was traced, as in every transform, MR_ERR_NOMEM, or
   mr_emit's. */
mr_err_t mr_inline(mr_fn_t *g, const mr_fn_t *f, mr_var_t *const *in, mr_var_t **out);
/* Returns a copy of f, which the caller destroys.  NULL on mr_inline's failures, with the sentence
   in diag. */
mr_fn_t *mr_fn_copy(const mr_fn_t *f, mr_diag_t *diag);

/* map[id of another graph's var] is the var of g that takes its place.
   mr__mapped: returns map[v->id], which belongs to g.  A literal without an entry is created in g
   and entered; NULL for any other var without an entry.
   mr__copy_eqn: appends a copy of e to g on the mapped operands and enters its outputs; returns
   MR_OK or the failure in g->diag. */
mr_var_t *mr__mapped(mr_fn_t *g, mr_var_t **map, const mr_var_t *v);
mr_err_t mr__copy_eqn(mr_fn_t *g, const mr_eqn_t *e, mr_var_t **map);

MR_END_DECLS

#endif
