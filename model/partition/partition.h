/* A function of whole arrays as the function that each device of a mesh computes on its parts. */
#ifndef MR_MODEL_PARTITION_PARTITION_H
#define MR_MODEL_PARTITION_PARTITION_H

#include "model/ir/fn.h"
#include "model/mesh/placement.h"

MR_BEGIN_DECLS

/* *local: f with inputs that lie as in[f->n_in] says (NULL: whole) and results that lie as
   out[f->n_out] says (NULL: whole; a result is no term of a sum).  Its inputs and results have the
   shapes of one device's parts, and it communicates by psum, all_gather and axis_index over axes of
   the mesh's names (control/control.h), which mr_vmap_axis or a backend's communicators bind.  f is
   one that needs no derivative any more: those of its collectives are not f's.

   Each op's table of factors (ir/shard.h) says what becomes of a cut.  Of cuts that do not go
   together that of the larger operands wins, and the others' operands are gathered; a sum over a
   cut dimension stays a sum of terms until it is read, and through linear ops of that dtype;
   what is whole is cut where it meets parts, and a broadcast is then written for the part alone.
   What an op cannot cut is computed by every device.  Sums over a cut dimension add their terms in
   another order than f does; all else has f's bits.

   A value that mr_lax_shard constrains lies as its spec says from there on: MR_ERR_CONFIG for an
   axis that the mesh lacks.

   f may communicate along axes that the mesh lacks, with ranks whose functions are cut likewise or
   not at all: such a collective has whole operands and results.

   Collectives are marked: `by` is "partition", scope and `of` are those of the equation that needs
   them.  MR_OK: the caller destroys *local.  MR_ERR_SHAPE, with input or result in the sentence, if
   a placement does not fit its array (mr_placement_fits); MR_ERR_NORULE for a function that
   communicates along an axis of the mesh already; MR_ERR_NOMEM; or f's own failure.  The mesh is
   not needed afterwards.  Any thread; does not block.

   Source: GSPMD (Xu et al. 2021), Shardy's factors. */
mr_err_t mr_partition(const mr_fn_t *f, const mr_mesh_t *mesh, const mr_placement_t *in,
                      const mr_placement_t *out, mr_fn_t **local, mr_diag_t *diag);

MR_END_DECLS

#endif
