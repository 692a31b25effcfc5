/* A picture of how an array lies on a mesh, for a terminal. */
#ifndef MR_MODEL_MESH_PLACEMENT_DRAW_H
#define MR_MODEL_MESH_PLACEMENT_DRAW_H

#include <stdio.h>

#include "model/mesh/placement.h"

MR_BEGIN_DECLS

/* Prints a box for each part of an array that fits, with the ranks that hold it, as JAX's
   visualize_array_sharding does: a row and a column for each part of the two dimensions that are
   cut.  If more are cut, or the boxes are wider than `columns` (0: any width) or
   more than 32 below each other, or the mesh has more than 1024 ranks: a line for each of the first
   64 ranks instead, with its part.  MR_OK or MR_ERR_NOMEM. */
mr_err_t mr_placement_draw(const mr_placement_t *p, const mr_mesh_t *m, int ndim,
                           const int64_t *dim, int columns, FILE *to, mr_diag_t *diag);

MR_END_DECLS

#endif
