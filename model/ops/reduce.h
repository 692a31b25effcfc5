/* What reduce_sum and reduce_max share.  Their operand is in[0], the removed dimensions are in
   attribute axes.  Implemented in reduce.c. */
#ifndef MR_MODEL_OPS_REDUCE_H
#define MR_MODEL_OPS_REDUCE_H

#include "model/ir/op.h"

/* The shape rule without the dtype's check: MR_OK, or MR_ERR_SHAPE for an axis that is out of range
   or repeated. */
mr_err_t mr__reduce_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag);
/* Returns v, of the result's shape, broadcast to the operand's; owned by f, NULL on failure. */
mr_var_t *mr__reduce_spread(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *v);
unsigned mr__reduce_mask(const mr_eqn_t *e); /* returns bit i set if dimension i is reduced */
/* Sets [*first,*end) to the range of x's reduced dimensions, without regard to dimensions of size
   1.  false if a dimension that is not reduced lies between them, or if none is reduced. */
bool mr__reduce_range(const mr_aval_t *x, unsigned mask, int *first, int *end);
/* The unit rule of both: true if trailing or leading axes of more than one element in all are
   reduced and x is f32 or bf16 with elements.  Axes of size 1 may be anywhere. */
bool mr__reduce_unit(const mr_eqn_t *e, mr_unit_t *u);
/* Fills axes with the axes of the mapped reduction and returns their number; *axis becomes the
   mapped dimension of its result. */
int mr__reduce_batch(const mr_eqn_t *e, const mr_batched_t *in, int *axes, int *axis);

#endif
