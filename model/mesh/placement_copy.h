/* A rank's part of an array and the whole array, which lie apart. */
#ifndef MR_MODEL_MESH_PLACEMENT_COPY_H
#define MR_MODEL_MESH_PLACEMENT_COPY_H

#include "model/mesh/placement.h"

MR_BEGIN_DECLS

/* Copy the part of a rank in [0,mr_mesh_ranks(m)) of a dense array whose sizes dim[ndim] fit the
   placement, of elements of `bytes` bytes: out of the whole array, and into it.  part is dense, in
   the order of the whole; blocks (p->outer) follow each other in it.  Neither fails; part and whole
   do not overlap. */
void mr_placement_cut(const mr_placement_t *p, const mr_mesh_t *m, int ndim, const int64_t *dim,
                      size_t bytes, int rank, const void *whole, void *part);
void mr_placement_join(const mr_placement_t *p, const mr_mesh_t *m, int ndim, const int64_t *dim,
                       size_t bytes, int rank, const void *part, void *whole);

MR_END_DECLS

#endif
