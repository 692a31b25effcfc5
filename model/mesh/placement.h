/* How an array lies on a mesh: along which axes each of its dimensions is cut, and along which axes
   the ranks hold terms of a sum.  Along the other axes each rank has the same.

   The words of several frameworks are read into this one type (docs/distributed.md has the table):

       (None,model)  ((data,model),None)        one entry for each dimension
       (3*model,None)                           each of three blocks of it is cut by itself
       PartitionSpec(None,'model')  P('data')   JAX's; dimensions that are left out are whole
       [S(0),B]  S(1)  [P(sum),split(1)]        SBP of OneFlow and LiBai, one word for each axis
       column  row(tensor)                      Megatron's, of a matrix (in, out) and of its bias
 */
#ifndef MR_MODEL_MESH_PLACEMENT_H
#define MR_MODEL_MESH_PLACEMENT_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "model/ir/aval.h"
#include "model/mesh/mesh.h"

MR_BEGIN_DECLS

enum { MR_PLACEMENT_TEXT = MR_MESH_AXES * (MR_AXIS_NAME + 2) + 28 * MR_MAX_NDIM + 16 };

typedef struct mr_placement {
  uint8_t axes[MR_MAX_NDIM];  /* bit a: axis a cuts this dimension; of several the first one of the
                                 mesh into the largest parts.  No axis is in two of them */
  int64_t outer[MR_MAX_NDIM]; /* blocks of this dimension each of which is cut by itself; 0 is 1 */
  uint8_t partial; /* bit a: along axis a ranks hold terms of a sum; it cuts no dimension */
} mr_placement_t;

/* Parses text, in any of the notations above, for an array of ndim dimensions, in
   [0,MR_MAX_NDIM], on the mesh.
   `setting` begins the sentence: MR_ERR_CONFIG names what is unknown (an axis, with the nearest
   name), twice, not in the mesh's order within a dimension, or of another length than the array or
   the mesh; *p is then undefined. */
mr_err_t mr_placement_parse(const char *setting, const char *text, const mr_mesh_t *m, int ndim,
                            mr_placement_t *p, mr_diag_t *diag);

/* MR_OK if each dimension of an array with the sizes dim[ndim] divides among the ranks that cut
   it.  Else MR_ERR_SHAPE: `name`, the dimension, what is left over, and the nearest sizes that
   divide. */
mr_err_t mr_placement_fits(const char *name, const mr_placement_t *p, const mr_mesh_t *m, int ndim,
                           const int64_t *dim, mr_diag_t *diag);

/* Returns into how many parts dimension d is cut. */
int mr_placement_parts(const mr_placement_t *p, const mr_mesh_t *m, int d);

/* Writes a rank's part of an array that fits: in dimension d, from[d] up to from[d] + n[d].  Both
   are the caller's [p->ndim]. */
void mr_placement_part(const mr_placement_t *p, const mr_mesh_t *m, int ndim, const int64_t *dim,
                       int rank, int64_t *from, int64_t *n);

/* Writes a placement as mr_placement_parse reads it, "(None,model)", with sums as SBP, which
   does not show blocks, into the caller's out[MR_PLACEMENT_TEXT].  Returns out. */
const char *mr_placement_text(const mr_placement_t *p, const mr_mesh_t *m, int ndim, char *out);

MR_END_DECLS

#endif
