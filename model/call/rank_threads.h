/* The threads of a mesh's ranks, each with an executable of one function: what mr_pmap and
   mr_shard_map share.  Internal. */
#ifndef MR_MODEL_CALL_RANK_THREADS_H
#define MR_MODEL_CALL_RANK_THREADS_H

#include "model/call/pmap.h"
#include "model/exec/exec.h"
#include "model/mesh/mesh.h"

MR_BEGIN_DECLS

typedef struct mr__rank_threads mr__rank_threads_t;

/* What a rank does in a run, on its own thread: runs x on its part of the arrays. */
typedef void mr__rank_work(void *arg, int rank, mr_exec_t *x);

/* Compiles f for each rank of the mesh, at most MR_COLLECT_RANKS, and starts their threads.  what:
   "pmap", for sentences.  axis: what f calls the axis of a mesh of one; NULL: the mesh's own names.
   options->shared is not read.  The caller destroys *out.  The failures of mr_pmap. */
mr_err_t mr__rank_threads_create(const char *what, const mr_fn_t *f, const mr_mesh_t *mesh,
                                 const char *axis, const mr_pmap_options_t *options,
                                 mr__rank_threads_t **out, mr_diag_t *diag);
/* Every rank does the work; returns when all have.  One run at a time.  false, and none has: a
   child process that gets too few threads. */
bool mr__rank_threads_run(mr__rank_threads_t *t, mr__rank_work *work, void *arg);
/* As mr_pmap_failed. */
mr_err_t mr__rank_threads_failed(const mr__rank_threads_t *t, int *rank, mr_diag_t *diag);
void mr__rank_threads_destroy(mr__rank_threads_t *t); /* NULL is fine */

MR_END_DECLS

#endif
