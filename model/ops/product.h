/* How an operand of a matrix product is walked. */
#ifndef MR_MODEL_OPS_PRODUCT_H
#define MR_MODEL_OPS_PRODUCT_H

#include "model/ir/op.h"

/* Groups of dimensions of one operand, each in the order in which it is walked. */
typedef struct mr_side {
  int n_batch, n_free, n_contract;
  int batch[MR_MAX_NDIM], free[MR_MAX_NDIM], contract[MR_MAX_NDIM];
} mr_side_t;

/* Those of e, a dot_general. */
void mr__dot_sides(const mr_eqn_t *e, mr_side_t *a, mr_side_t *b);

#endif
