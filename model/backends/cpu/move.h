/* Strided copies, for ops that only move elements and for operands that must be packed. */
#ifndef MR_MODEL_CPU_MOVE_H
#define MR_MODEL_CPU_MOVE_H

#include "model/ir/aval.h"

/* A copy of a block of dim[0,ndim) elements of 1, 2, 4 or 8 bytes each, in row-major order.
   Strides of source and destination count elements; a source stride of 0 repeats an element. */
typedef struct mr_move {
  int ndim;
  size_t size;
  int64_t dim[MR_MAX_NDIM], from[MR_MAX_NDIM], to[MR_MAX_NDIM];
} mr_move_t;

/* Copies the block; src and dst must not overlap.  Large blocks are copied by all OpenMP
   threads. */
void mr__move(const mr_move_t *m, const void *src, void *dst);
/* Sets stride[a->ndim] to the row-major strides of a, in elements. */
void mr__strides(const mr_aval_t *a, int64_t *stride);

#endif
