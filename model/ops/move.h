/* Strided copies: the CPU side of ops that move elements and compute nothing. */
#ifndef MR_MODEL_OPS_MOVE_H
#define MR_MODEL_OPS_MOVE_H

#include "model/ir/aval.h"

/* A copy of a block of dim[0..ndim) elements of size bytes each, walked row-major; strides in
   elements, for both sides; a source stride of 0 repeats. */
typedef struct mr_move {
  int ndim;
  size_t size;
  int64_t dim[MR_MAX_NDIM], from[MR_MAX_NDIM], to[MR_MAX_NDIM];
} mr_move_t;

void mr__move(const mr_move_t *m, const void *src, void *dst);
/* Row-major strides of a into stride[a->ndim]. */
void mr__strides(const mr_aval_t *a, int64_t *stride);

#endif
