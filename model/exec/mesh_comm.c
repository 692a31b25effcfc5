/* The communicators of a mesh's axes.  A group has the name of its axis and of its first rank, so
   that all of its ranks, and no others, find each other by it. */
#include "model/exec/mesh_comm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MESH_ID = 32 };

struct mr_mesh_comm {
  mr_mesh_t mesh;
  const mr_collect_ops_t *ops;
  int rank;
  mr_comm_rank_t along[MR_MESH_AXES];
};

/* The ranks along an axis, of which there are at most as many as a communicator has. */
static mr_err_t join_axis(mr_mesh_comm_t *c, const mr_device_t *d, int axis, const char *id,
                          double limit_s, mr_diag_t *diag) {
  char name[MR_COLLECT_ID];
  int *group = malloc((size_t)c->mesh.size[axis] * sizeof *group), own;
  if (!group) return mr_no_memory(diag, "the ranks along axis %s", c->mesh.name[axis]);
  mr_comm_rank_t *at = &c->along[axis];
  *at = (mr_comm_rank_t){.ops = c->ops, .axis = c->mesh.name[axis]};
  at->size = mr_mesh_group(&c->mesh, axis, c->rank, group, &own);
  at->rank = own;
  snprintf(name, sizeof name, "%s axis %d of %d", id, axis, group[0]);
  free(group);
  return c->ops->create(d, name, at->rank, at->size, limit_s, &at->collect, diag);
}

mr_err_t mr_mesh_comm_create(const mr_collect_ops_t *ops, const mr_device_t *d,
                             const mr_mesh_t *mesh, const char *id, int rank, double limit_s,
                             mr_mesh_comm_t **out, mr_diag_t *diag) {
  if (rank < 0 || rank >= mr_mesh_ranks(mesh) || strlen(id) >= MESH_ID)
    return mr_fail(diag, MR_ERR_CONFIG,
                   "mesh %.40s: rank %d, want 0 to %d, and a name of less than %d bytes", id, rank,
                   mr_mesh_ranks(mesh) - 1, MESH_ID);
  mr_mesh_comm_t *c = calloc(1, sizeof *c);
  if (!c) return mr_no_memory(diag, "a rank of a mesh");
  *c = (mr_mesh_comm_t){.mesh = *mesh, .ops = ops, .rank = rank};
  mr_err_t e = MR_OK;
  for (int a = 0; a < mesh->n && e >= 0; a++) e = join_axis(c, d, a, id, limit_s, diag);
  if (e < 0) return mr_mesh_comm_destroy(c), e;
  return *out = c, MR_OK;
}

const mr_comm_rank_t *mr_mesh_comm_ranks(const mr_mesh_comm_t *c) { return c->along; }

mr_err_t mr_mesh_comm_failed(const mr_mesh_comm_t *c, int *rank, mr_diag_t *diag) {
  *rank = -1;
  for (int a = 0; a < c->mesh.n; a++) {
    int missing, at[MR_MESH_AXES];
    mr_err_t e = c->ops->failed(c->along[a].collect, &missing, diag);
    if (e >= 0) continue;
    mr_mesh_place(&c->mesh, c->rank, at);
    if (missing >= 0) at[a] = missing, *rank = mr_mesh_rank(&c->mesh, at);
    return e;
  }
  return MR_OK;
}

void mr_mesh_comm_abort(mr_mesh_comm_t *c) {
  for (int a = 0; a < c->mesh.n; a++) (*c->ops->abort)(c->along[a].collect);
}

void mr_mesh_comm_destroy(mr_mesh_comm_t *c) {
  for (int a = 0; c && a < c->mesh.n; a++)
    if (c->along[a].collect) c->ops->destroy(c->along[a].collect);
  free(c);
}
