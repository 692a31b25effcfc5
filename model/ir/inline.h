/* The equations of one graph written into another. */
#ifndef MR_MODEL_IR_INLINE_H
#define MR_MODEL_IR_INLINE_H

#include "base/decls.h"
#include "model/ir/fn.h"

MR_BEGIN_DECLS

/* Appends f's equations to g with in[f->n_in], of the avals of f's inputs, for them; out[f->n_out]
   are its results.  An f that failed while it was traced gives its failure, here and in every
   transform. */
mr_err_t mr_inline(mr_fn_t *g, const mr_fn_t *f, mr_var_t *const *in, mr_var_t **out);
/* A copy of f, of the caller.  NULL on failure. */
mr_fn_t *mr_fn_copy(const mr_fn_t *f, mr_diag_t *diag);

/* map[var id of another graph] is what stands for the var in g: what v is there (a literal is made
   on first sight; NULL for what has not been mapped), and e copied into g. */
mr_var_t *mr__mapped(mr_fn_t *g, mr_var_t **map, const mr_var_t *v);
mr_err_t mr__copy_eqn(mr_fn_t *g, const mr_eqn_t *e, mr_var_t **map);

MR_END_DECLS

#endif
