/* A mesh: the ranks of a job as the places of an array whose axes have names, "data=4,model=2".

   Rank r is the place whose coordinates, the last axis fastest, are the digits of r, as JAX lays
   out its meshes.  Batches are cut along one of the axes. */
#ifndef MR_MODEL_MESH_MESH_H
#define MR_MODEL_MESH_MESH_H

#include <stddef.h>

#include "base/err.h"

MR_BEGIN_DECLS

enum {
  MR_MESH_AXES = 8,                                /* of a mesh */
  MR_MESH_RANKS = 1 << 20,                         /* of a mesh */
  MR_AXIS_NAME = 32,                               /* bytes with the 0 */
  MR_MESH_TEXT = MR_MESH_AXES * (MR_AXIS_NAME + 9) /* bytes for any mesh as text */
};

typedef struct mr_mesh {
  int n; /* axes, in [1,MR_MESH_AXES] */
  /* [n] a letter or '_', then letters, digits, '_' and '-'; not "None" or "null"; no two alike */
  char name[MR_MESH_AXES][MR_AXIS_NAME];
  int size[MR_MESH_AXES]; /* [n] each at least 1, their product at most MR_MESH_RANKS */
} mr_mesh_t;

/* Parses "data=4,model=2" into *m; NULL or "" is data=ranks.  Batches are cut along the axis
   "data", else "batch", else the first.  ranks: of the job, whose number the product must be; 0:
   any. MR_ERR_CONFIG: text is no such list, an axis twice, sizes out of range, or a product of
   another number; *m is then undefined. */
mr_err_t mr_mesh_parse(const char *text, int ranks, mr_mesh_t *m, mr_diag_t *diag);

/* Returns the number of ranks, the product of the sizes. */
int mr_mesh_ranks(const mr_mesh_t *m);

/* Returns the axis along which batches are cut: "data", else "batch", else the first. */
int mr_mesh_batch(const mr_mesh_t *m);

/* Returns the number of the axis with the name name[0,n); -1 without one. */
int mr_mesh_axis(const mr_mesh_t *m, const char *name, size_t n);

/* Writes the mesh as mr_mesh_parse reads it into the caller's out[MR_MESH_TEXT].  Returns out. */
const char *mr_mesh_text(const mr_mesh_t *m, char *out);

/* Writes the coordinates at[m->n] of a rank in [0,mr_mesh_ranks(m)). */
void mr_mesh_place(const mr_mesh_t *m, int rank, int *at);
/* Returns the rank at coordinates at[m->n], each below its axis's size. */
int mr_mesh_rank(const mr_mesh_t *m, const int *at);

/* Writes the ranks that differ from `rank` along the axis alone, itself among them, ascending, into
   the caller's group[m->size[axis]].  Returns their number; *own, if not NULL, is the place of
   `rank` among them.  They are the ranks of a collective over that axis. */
int mr_mesh_group(const mr_mesh_t *m, int axis, int rank, int *group, int *own);

MR_END_DECLS

#endif
