/* A picture of how an array lies on a mesh: its boxes, and these in a terminal. */
#ifndef MR_MODEL_MESH_PLACEMENT_DRAW_H
#define MR_MODEL_MESH_PLACEMENT_DRAW_H

#include <stdio.h>

#include "model/mesh/placement.h"

MR_BEGIN_DECLS

enum { MR_GRID_TEXT = 40 };

/* A box for each part of an array: a row and a column for each part of the two dimensions that are
   cut.  All is the grid's. */
typedef struct mr_placement_grid {
  int n_rows, n_columns; /* 0: it is not drawn so */
  /* [n_rows], [n_columns] the places of the dimension that each has, "0:96"; "": none is cut so */
  char (*row)[MR_GRID_TEXT], (*column)[MR_GRID_TEXT];
  char (*ranks)[MR_GRID_TEXT]; /* [n_rows][n_columns] those that hold it, "0,2,4-7"; ".." ends one
                                  that is too long */
} mr_placement_grid_t;

/* Sets *out to the boxes of an array that fits, without any if more than two dimensions are cut, if
   there are more than 32 rows, or the mesh has more than 1024 ranks.  MR_OK: the caller ends it
   with mr_placement_grid_fini; or MR_ERR_NOMEM. */
mr_err_t mr_placement_grid(const mr_placement_t *p, const mr_mesh_t *m, int ndim,
                           const int64_t *dim, mr_placement_grid_t *out, mr_diag_t *diag);
void mr_placement_grid_fini(mr_placement_grid_t *g); /* twice is fine */

/* Prints a box for each part of an array that fits, with the ranks that hold it, as JAX's
   visualize_array_sharding does.  Without a grid, or where the boxes are wider than `columns` (0:
   any width): a line for each of the first 64 ranks instead, with its part.  MR_OK or
   MR_ERR_NOMEM. */
mr_err_t mr_placement_draw(const mr_placement_t *p, const mr_mesh_t *m, int ndim,
                           const int64_t *dim, int columns, FILE *to, mr_diag_t *diag);

MR_END_DECLS

#endif
