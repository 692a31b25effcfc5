/* Each rank's thread cuts its parts out of the whole inputs, runs, and writes its parts into the
   whole results.  Parts do not overlap; of ranks that hold the same part the first one writes. */
#include "model/call/shard_map.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/call/array_private.h"
#include "model/call/rank_threads.h"
#include "model/exec/device.h"
#include "model/exec/mesh_comm.h"
#include "model/mesh/placement_copy.h"
#include "model/partition/partition.h"

/* An input or a result. */
typedef struct side {
  mr_aval_t whole;
  mr_placement_t at;
  size_t part; /* bytes, a multiple of 64: where the next one begins in a rank's memory */
} side_t;

struct mr_shard_mapped {
  mr_mesh_t mesh;
  mr__rank_threads_t *ranks;
  int n_in, n_out;
  side_t *side;          /* [n_in + n_out] */
  size_t bytes;          /* of a rank's parts */
  char *parts;           /* [ranks][bytes] */
  void **part;           /* [ranks][n_in + n_out] into parts */
  const void *const *in; /* of the run in progress */
  void *const *out;
};

static mr_err_t settle_side(const char *of, int i, const mr_aval_t *part, const mr_mesh_t *mesh,
                            const mr_placement_t *at, side_t *s, mr_diag_t *diag) {
  if (at) s->at = *at;
  s->whole = *part;
  uint8_t used = 0;
  for (int d = 0; d < MR_MAX_NDIM; d++) {
    uint8_t axes = s->at.axes[d];
    if ((axes >> mesh->n) || (axes & used) || (axes && d >= part->ndim))
      return mr_fail(diag, MR_ERR_SHAPE,
                     "shard_map: %s %d: dimension %d is cut along axes that the array of %d "
                     "dimensions or the mesh of %d axes does not have, or along one twice",
                     of, i, d, part->ndim, mesh->n);
    used |= axes;
    if (d < part->ndim) s->whole.dim[d] *= mr_placement_parts(&s->at, mesh, d);
  }
  if (s->at.partial)
    return mr_fail(diag, MR_ERR_SHAPE,
                   "shard_map: %s %d: its placement says terms of a sum, want parts: sum them by "
                   "psum in the function",
                   of, i);
  const char *bad = mr_aval_wrong(&s->whole);
  if (bad) return mr_fail(diag, MR_ERR_SHAPE, "shard_map: %s %d: the whole array: %s", of, i, bad);
  char name[64];
  snprintf(name, sizeof name, "shard_map: %s %d", of, i);
  s->part = (mr_aval_bytes(part) + 63) & ~(size_t)63;
  return mr_placement_fits(name, &s->at, mesh, s->whole.ndim, s->whole.dim, diag);
}

static mr_err_t settle_sides(mr_shard_mapped_t *m, const mr_fn_t *f, const mr_placement_t *in,
                             const mr_placement_t *out, mr_diag_t *diag) {
  for (int i = 0; i < m->n_in; i++) {
    MR_TRY(
        settle_side("input", i, &f->in[i]->aval, &m->mesh, in ? &in[i] : NULL, &m->side[i], diag));
    m->bytes += m->side[i].part;
  }
  for (int k = 0; k < m->n_out; k++) {
    side_t *s = &m->side[m->n_in + k];
    MR_TRY(settle_side("result", k, &f->out[k]->aval, &m->mesh, out ? &out[k] : NULL, s, diag));
    m->bytes += s->part;
  }
  return MR_OK;
}

static mr_err_t take_memory_of_parts(mr_shard_mapped_t *m, mr_diag_t *diag) {
  size_t ranks = (size_t)mr_mesh_ranks(&m->mesh), n = (size_t)(m->n_in + m->n_out);
  m->parts = aligned_alloc(64, (m->bytes ? m->bytes : 64) * ranks);
  m->part = calloc(ranks * n + 1, sizeof *m->part);
  if (!m->parts || !m->part)
    return mr_no_memory(diag, "the parts of %zu ranks, %zu bytes each", ranks, m->bytes);
  for (size_t r = 0; r < ranks; r++) {
    char *at = m->parts + r * m->bytes;
    for (size_t i = 0; i < n; i++) m->part[r * n + i] = at, at += m->side[i].part;
  }
  return MR_OK;
}

mr_err_t mr_shard_map(const mr_fn_t *f, const mr_mesh_t *mesh, const mr_placement_t *in,
                      const mr_placement_t *out, const mr_pmap_options_t *options,
                      mr_shard_mapped_t **result, mr_diag_t *diag) {
  mr_shard_mapped_t *m = calloc(1, sizeof *m);
  if (!m) return mr_no_memory(diag, "shard_map");
  m->mesh = *mesh, m->n_in = f->n_in, m->n_out = f->n_out;
  m->side = calloc((size_t)(f->n_in + f->n_out) + 1, sizeof *m->side);
  mr_err_t e = m->side ? settle_sides(m, f, in, out, diag) : mr_no_memory(diag, "shard_map");
  if (e >= 0) e = mr__rank_threads_create("shard_map", f, &m->mesh, NULL, options, &m->ranks, diag);
  if (e >= 0) e = take_memory_of_parts(m, diag);
  if (e < 0) return mr_shard_mapped_destroy(m), e;
  return *result = m, MR_OK;
}

const mr_aval_t *mr_shard_mapped_in(const mr_shard_mapped_t *m, int i) { return &m->side[i].whole; }
const mr_aval_t *mr_shard_mapped_out(const mr_shard_mapped_t *m, int k) {
  return &m->side[m->n_in + k].whole;
}

/* Whether no rank before this one holds the same part. */
static bool is_first_with_part(const mr_shard_mapped_t *m, const side_t *s, int rank) {
  int at[MR_MESH_AXES];
  uint8_t cut = 0;
  for (int d = 0; d < s->whole.ndim; d++) cut |= s->at.axes[d];
  mr_mesh_place(&m->mesh, rank, at);
  for (int a = 0; a < m->mesh.n; a++)
    if (!(cut >> a & 1) && at[a]) return false;
  return true;
}

static void run_shard(void *arg, int rank, mr_exec_t *x) {
  mr_shard_mapped_t *m = arg;
  void **part = m->part + (size_t)rank * (size_t)(m->n_in + m->n_out);
  for (int i = 0; i < m->n_in; i++) {
    const side_t *s = &m->side[i];
    mr_placement_cut(&s->at, &m->mesh, s->whole.ndim, s->whole.dim, mr_dtype_size(s->whole.dtype),
                     rank, m->in[i], part[i]);
  }
  mr_exec_run(x, (const void *const *)part, part + m->n_in);
  for (int k = 0; k < m->n_out; k++) {
    const side_t *s = &m->side[m->n_in + k];
    if (is_first_with_part(m, s, rank))
      mr_placement_join(&s->at, &m->mesh, s->whole.ndim, s->whole.dim,
                        mr_dtype_size(s->whole.dtype), rank, part[m->n_in + k], m->out[k]);
  }
}

void mr_shard_mapped_run(mr_shard_mapped_t *m, const void *const *in, void *const *out) {
  m->in = in, m->out = out;
  if (mr__rank_threads_run(m->ranks, run_shard, m)) return;
  for (int k = 0; k < m->n_out; k++) memset(out[k], 0xFF, mr_aval_bytes(mr_shard_mapped_out(m, k)));
}

mr_err_t mr_shard_mapped_failed(const mr_shard_mapped_t *m, int *rank, mr_diag_t *diag) {
  return mr__rank_threads_failed(m->ranks, rank, diag);
}

void mr_shard_mapped_destroy(mr_shard_mapped_t *m) {
  if (!m) return;
  mr__rank_threads_destroy(m->ranks);
  free(m->side), free(m->parts), free(m->part);
  free(m);
}

/* ---- another placement ---- */

/* *local: the function of a rank's part that gives its part in the other placement. */
static mr_err_t trace_reshard(const mr_aval_t *whole, const mr_mesh_t *mesh,
                              const mr_placement_t *from, const mr_placement_t *to, mr_fn_t **local,
                              mr_diag_t *diag) {
  mr_fn_t *f = mr_fn_create();
  if (!f) return mr_no_memory(diag, "reshard");
  mr_var_t *x = mr_fn_input(f, *whole);
  mr_err_t e = mr_fn_return(f, 1, &x) < 0 ? mr_diag_relay(diag, f->diag.code, &f->diag)
                                          : mr_partition(f, mesh, from, to, local, diag);
  mr_fn_destroy(f);
  return e;
}

static mr_err_t run_reshard(mr_mesh_comm_t *comm, const mr_mesh_t *mesh, const mr_fn_t *local,
                            mr_array_t *part, mr_array_t **out, mr_diag_t *diag) {
  char got[MR_AVAL_TEXT], want[MR_AVAL_TEXT];
  mr_exec_t *x = NULL;
  const void *in;
  int missing;
  if (!mr_aval_equal(mr_array_aval(part), &local->in[0]->aval))
    return mr_fail(diag, MR_ERR_SHAPE, "reshard: the part is %s, its placement makes it %s",
                   mr_aval_text(mr_array_aval(part), got), mr_aval_text(&local->in[0]->aval, want));
  MR_TRY(mr_array_data(part, &in, diag));
  const mr_compile_options_t o = {
      .threads = 1, .rank = mr_mesh_comm_ranks(comm), .n_ranks = mesh->n};
  const mr_aval_t *y = &local->out[0]->aval;
  mr__bytes_t *bytes = mr__bytes_create(mr_device_default(), mr_aval_bytes(y));
  if (!bytes) return mr_no_memory(diag, "a part of %s", mr_aval_text(y, got));
  mr_err_t e = mr_compile(local, &o, &x, diag);
  if (e >= 0) mr_exec_run(x, &in, &bytes->data);
  mr_exec_destroy(x);
  if (e >= 0) e = mr_mesh_comm_failed(comm, &missing, diag);
  if (e < 0) return mr__bytes_drop(bytes), e;
  *out = mr__array_create(*y, bytes, NULL);
  return *out ? MR_OK : mr_no_memory(diag, "an array");
}

mr_err_t mr_array_reshard(mr_mesh_comm_t *comm, const mr_mesh_t *mesh, const mr_aval_t *whole,
                          mr_array_t *part, const mr_placement_t *from, const mr_placement_t *to,
                          mr_array_t **out, mr_diag_t *diag) {
  mr_fn_t *local = NULL;
  MR_TRY(trace_reshard(whole, mesh, from, to, &local, diag));
  mr_err_t e = run_reshard(comm, mesh, local, part, out, diag);
  mr_fn_destroy(local);
  return e;
}
