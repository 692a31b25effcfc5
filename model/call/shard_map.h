/* Runs a function on the ranks of a mesh, each with its parts of whole arrays, after jax.shard_map.

   The function is the one that each rank computes: its inputs and results are parts, and its
   collectives (control/control.h) are over axes of the mesh by name.  Where one is written with
   whole arrays, mr_partition (partition/partition.h) makes it.  A rank here is a thread of this
   process; ranks that are processes compile for mr_mesh_comm_ranks (exec/mesh_comm.h), and change
   how an array lies by mr_array_reshard below.  mr_pmap is the mesh of one axis along which
   arrays have a row for each rank. */
#ifndef MR_MODEL_CALL_SHARD_MAP_H
#define MR_MODEL_CALL_SHARD_MAP_H

#include "model/call/array.h"
#include "model/call/pmap.h"
#include "model/mesh/placement.h"

MR_BEGIN_DECLS

struct mr_mesh_comm;

typedef struct mr_shard_mapped mr_shard_mapped_t;

/* Compiles f for each rank of the mesh, at most 1024, and starts a thread for each.  in[f->n_in]
   and out[f->n_out] say how whole arrays lie (NULL: all whole on each rank): a whole array has the
   part's sizes times the parts of each dimension.  f, mesh and placements are copied;
   options->shared is not read, options may be NULL.  The caller destroys *result.  MR_OK;
   MR_ERR_SHAPE, with input or result, its number and dimension in the sentence, for a placement
   that does not fit or that holds terms of a sum (psum them in f); the failures of mr_pmap. */
mr_err_t mr_shard_map(const mr_fn_t *f, const mr_mesh_t *mesh, const mr_placement_t *in,
                      const mr_placement_t *out, const mr_pmap_options_t *options,
                      mr_shard_mapped_t **result, mr_diag_t *diag);
/* Returns the aval of whole input i in [0,f->n_in), and of whole result k in [0,f->n_out).  They
   belong to m and live as long as it. */
const mr_aval_t *mr_shard_mapped_in(const mr_shard_mapped_t *m, int i);
const mr_aval_t *mr_shard_mapped_out(const mr_shard_mapped_t *m, int k);
/* Runs f on all ranks and blocks until all have ended.  in[f->n_in] and out[f->n_out] are the
   caller's whole, dense arrays in the host's memory, 64-aligned.  Along axes that do not cut a
   result all ranks have the same, if f says so; else it is the first rank's.  One run at a time.
   Cannot fail, but mr_shard_mapped_failed says whether a rank has not come to a collective. */
void mr_shard_mapped_run(mr_shard_mapped_t *m, const void *const *in, void *const *out);
/* As mr_pmap_failed; *rank is the mesh's. */
mr_err_t mr_shard_mapped_failed(const mr_shard_mapped_t *m, int *rank, mr_diag_t *diag);
void mr_shard_mapped_destroy(mr_shard_mapped_t *m); /* not during a run; NULL is fine */

/* Makes of this rank's part of an array that lies on a mesh as `from` says the part of the same
   array as `to` says: terms of sums are added, parts gathered and cut.  A collective call of all
   ranks of comm, whose mesh `mesh` is, all with the same whole and placements; it blocks until the
   others have come.  whole is the aval of the whole array.  part stays the caller's; the caller
   drops *out, an array in the host's memory.  MR_OK; MR_ERR_SHAPE for a placement that does not fit
   the array, for a part of another aval, or where `to` would hold terms of a sum;
   MR_ERR_UNAVAILABLE if a rank did not come within the communicator's limit; MR_ERR_NOMEM; or the
   error that part holds.  After LiBai's and OneFlow's Tensor.to_global, jax.device_put. */
mr_err_t mr_array_reshard(struct mr_mesh_comm *comm, const mr_mesh_t *mesh, const mr_aval_t *whole,
                          mr_array_t *part, const mr_placement_t *from, const mr_placement_t *to,
                          mr_array_t **out, mr_diag_t *diag);

MR_END_DECLS

#endif
