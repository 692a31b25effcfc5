/* Batching rules that several ops share.  A rule applies an equation to operands some of which have
   one more dimension, the mapped one.  in[e->n_in] belong to f, the graph under construction; e
   belongs to the unmapped graph.

   Vars that are returned, or set in out, belong to f.  NULL, or a negative code, is a failure with
   its sentence in f->diag: MR_ERR_SHAPE beyond MR_MAX_NDIM dimensions, MR_ERR_NOMEM, or mr_emit's.
   A NULL var in an operand gives NULL. */
#ifndef MR_MODEL_OPS_BATCH_H
#define MR_MODEL_OPS_BATCH_H

#include "base/decls.h"
#include "model/ir/op.h"

MR_BEGIN_DECLS

/* Returns the size of the mapped dimension of in[n]; 1 if no operand is mapped. */
int64_t mr_batch_size(int n, const mr_batched_t *in);
/* Each returns b's value, owned by f, NULL on failure.  move: with its mapped dimension, which it
   must have, as dimension `to`.  front: with its mapped dimension first; an unmapped value is
   repeated size times. */
mr_var_t *mr_batch_move(mr_fn_t *f, const mr_batched_t *b, int to);
mr_var_t *mr_batch_front(mr_fn_t *f, const mr_batched_t *b, int64_t size);

/* Returns, for each example, b where `which` (B) is true, else a; both (B,...).  The var is owned
   by f; NULL on failure. */
mr_var_t *mr_batch_select(mr_fn_t *f, mr_var_t *which, mr_var_t *a, mr_var_t *b);

/* Whether e, or a function that it calls, is a collective over the axis that is being mapped into
   f. */
bool mr_axis_bound(const mr_fn_t *f, const mr_eqn_t *e);

/* Batch rules for an op's constant (mr_op_def.batch).  Each sets out[e->n_out] and returns MR_OK,
   or a failure; rows and open may return MR_OPEN instead.
   pointwise: ops on operands of one shape, or scalars.
   alike: ops on operands of one shape that repeat no scalar.
   rows: ops for which leading dimensions of operand 0 and of each output are rows; MR_OPEN if
   another operand is mapped.
   merge: ops with independent examples along dimension 0 of every operand and output; the mapped
   dimension is merged into it.
   open: always MR_OPEN, for ops that are batched through their open rule. */
mr_err_t mr_batch_pointwise(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in,
                            mr_batched_t *out);
mr_err_t mr_batch_alike(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in, mr_batched_t *out);
mr_err_t mr_batch_rows(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in, mr_batched_t *out);
mr_err_t mr_batch_merge(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in, mr_batched_t *out);
mr_err_t mr_batch_open(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in, mr_batched_t *out);

MR_END_DECLS

#endif
