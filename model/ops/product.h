/* The dimensions of a matrix product's operands by their role.  Implemented in dot_general.c. */
#ifndef MR_MODEL_OPS_PRODUCT_H
#define MR_MODEL_OPS_PRODUCT_H

#include "model/ir/op.h"

/* Dimensions of one operand; batch and contract pair with the other operand's in order, free
   ascend. */
typedef struct mr_side {
  int n_batch, n_free, n_contract;
  int batch[MR_MAX_NDIM], free[MR_MAX_NDIM], contract[MR_MAX_NDIM];
} mr_side_t;

/* Sets *a and *b for the operands of e, a dot_general whose dimension numbers are valid. */
void mr__dot_sides(const mr_eqn_t *e, mr_side_t *a, mr_side_t *b);

#endif
