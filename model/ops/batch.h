/* Batching rules that several ops share: an equation on operands of which some carry one mapped
   dimension more.  in[e->n_in] lie in f, the graph under construction; e belongs to the unmapped
   graph. */
#ifndef MR_MODEL_OPS_BATCH_H
#define MR_MODEL_OPS_BATCH_H

#include "base/decls.h"
#include "model/ir/op.h"

MR_BEGIN_DECLS

/* The size of the mapped dimension; 1 if no operand is mapped. */
int64_t mr_batch_size(int n, const mr_batched_t *in);
/* The value with its mapped dimension (which it has) at place `to`. */
mr_var_t *mr_batch_move(mr_fn_t *f, const mr_batched_t *b, int to);
/* The value with its mapped dimension first; repeated size times where it is not mapped. */
mr_var_t *mr_batch_front(mr_fn_t *f, const mr_batched_t *b, int64_t size);

/* which (B) of each example: b where it is true, else a; both (B,...). */
mr_var_t *mr_batch_select(mr_fn_t *f, mr_var_t *which, mr_var_t *a, mr_var_t *b);

/* Whether e, or a function that it calls, speaks over the axis that is being mapped into f. */
bool mr_axis_bound(const mr_fn_t *f, const mr_eqn_t *e);

/* Ops on operands of one shape, or scalars. */
mr_err_t mr_batch_pointwise(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in,
                            mr_batched_t *out);
/* Ops on operands of one shape that repeat no scalar. */
mr_err_t mr_batch_alike(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in, mr_batched_t *out);
/* Ops that treat leading dimensions of operand 0 and of each output as rows and whose other
   operands are not mapped; where one is, through open. */
mr_err_t mr_batch_rows(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in, mr_batched_t *out);
/* Ops whose every operand and output has independent examples along dimension 0: the mapped
   dimension is merged into it. */
mr_err_t mr_batch_merge(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in, mr_batched_t *out);
/* MR_OPEN: through the op's open rule. */
mr_err_t mr_batch_open(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in, mr_batched_t *out);

MR_END_DECLS

#endif
