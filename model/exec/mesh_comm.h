/* One rank of a mesh in any table of collectives: a communicator for each axis, whose ranks are
   those that differ along that axis alone. */
#ifndef MR_MODEL_EXEC_MESH_COMM_H
#define MR_MODEL_EXEC_MESH_COMM_H

#include "model/exec/comm.h"
#include "model/mesh/mesh.h"

MR_BEGIN_DECLS

typedef struct mr_mesh_comm mr_mesh_comm_t;

/* Joins the communicators of `rank`, in [0,mr_mesh_ranks(mesh)), on device d.  All ranks of the
   mesh give the same table, mesh and id, a text of less than 32 bytes that no other mesh of the job
   has at that time; none waits for the others.  Calls may wait limit_s seconds, > 0.  The mesh is
   copied; the caller destroys *out before it closes d.  MR_OK; MR_ERR_CONFIG for a rank or id out
   of range; the failures of mr_collect_ops_t.create. */
mr_err_t mr_mesh_comm_create(const mr_collect_ops_t *ops, const mr_device_t *d,
                             const mr_mesh_t *mesh, const char *id, int rank, double limit_s,
                             mr_mesh_comm_t **out, mr_diag_t *diag);
/* Returns the rank along each axis, [mesh->n] in the mesh's order, for mr_compile_options_t.rank.
   They belong to c and live as long as it.  Cannot fail. */
const mr_comm_rank_t *mr_mesh_comm_ranks(const mr_mesh_comm_t *c);
/* MR_OK, *rank -1; or MR_ERR_UNAVAILABLE with the sentence of the first axis that has failed and in
 *rank the rank of the mesh that did not come, -1 if it is not known.  Any thread. */
mr_err_t mr_mesh_comm_failed(const mr_mesh_comm_t *c, int *rank, mr_diag_t *diag);
/* Makes the calls of all ranks along all axes of this rank fail, those that wait too.  Any
   thread. */
void mr_mesh_comm_abort(mr_mesh_comm_t *c);
void mr_mesh_comm_destroy(mr_mesh_comm_t *c); /* not during a call; NULL is fine */

MR_END_DECLS

#endif
