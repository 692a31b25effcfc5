/* Collectives on any backend: each is a call of the table that the graph was compiled for (comm.h),
   on the caller's thread, which gives it to the device's queue if the device has one.  Sums are
   added in the order of ranks, so that all have the same bits. */
#include <stdlib.h>
#include <string.h>

#include "model/control/control.h"
#include "model/exec/backend.h"
#include "model/exec/call.h"
#include "model/exec/comm.h"
#include "model/exec/exec.h"
#include "model/ops/operands.h"
#include "model/ops/rules.h"

/* The rank for the axis of that name; NULL: none is bound. */
static const mr_comm_rank_t *rank_along(const mr_compile_options_t *o, const char *axis) {
  int n = o->rank && !o->n_ranks ? 1 : o->n_ranks;
  for (int k = 0; k < n; k++)
    if (!strcmp(o->rank[k].axis, axis)) return &o->rank[k];
  return NULL;
}

static bool is_of_host(const mr_call_t *c) { return c->device->backend->host; }

/* Lowers a collective, if the graph is compiled for a device of its axis (mr_pmap).
   MR_ERR_NORULE if neither a transform nor a device has bound the axis. */
static mr_err_t axis_lower(mr_call_t *c, void (*run)(const mr_call_t *c), mr_diag_t *diag) {
  const mr_comm_rank_t *rank = rank_along(c->options, mr_attr_get(c->eqn, "axis_name")->text);
  if (rank) {
    mr_comm_rank_t *s = malloc(sizeof *s);
    if (!s) return mr_no_memory(diag, "the lowering of %s", c->eqn->op->name);
    *s = *rank;
    s->axis = NULL; /* the caller's */
    if (!is_of_host(c)) s->exchange_failed = NULL;
    c->state = s;
    c->fini = free;
    c->run = run;
    c->by_host = !s->ops->recorded;
    return MR_OK;
  }
  return mr_fail(diag, MR_ERR_NORULE, "%s%s%s: no vmap binds the axis \"%s\"", c->eqn->scope,
                 *c->eqn->scope ? ": " : "", c->eqn->op->name,
                 mr_attr_get(c->eqn, "axis_name")->text);
}

static void reduce_all(const mr_call_t *c, mr_reduce_t how) {
  const mr_comm_rank_t *s = c->state;
  const mr_aval_t *a = &c->eqn->out[0]->aval;
  s->ops->all_reduce(s->collect, how, a->dtype, mr_aval_elems(a), c->in[0], c->out[0]);
}

static void psum_run(const mr_call_t *c) { reduce_all(c, MR_REDUCE_SUM); }
static void pmax_run(const mr_call_t *c) { reduce_all(c, MR_REDUCE_MAX); }
static void pmin_run(const mr_call_t *c) { reduce_all(c, MR_REDUCE_MIN); }

mr_err_t mr__psum_lower(mr_call_t *c, mr_diag_t *diag) { return axis_lower(c, psum_run, diag); }
mr_err_t mr__pmax_lower(mr_call_t *c, mr_diag_t *diag) { return axis_lower(c, pmax_run, diag); }
mr_err_t mr__pmin_lower(mr_call_t *c, mr_diag_t *diag) { return axis_lower(c, pmin_run, diag); }

static void index_run(const mr_call_t *c) {
  const int *rank = &((const mr_comm_rank_t *)c->state)->rank;
  _Static_assert(sizeof *rank == sizeof(int32_t), "a rank is an i32");
  if (is_of_host(c))
    memcpy(c->out[0], rank, sizeof *rank);
  else
    mr_device_copy(c->device, c->out[0], rank, sizeof *rank, MR_COPY_IN);
}

mr_err_t mr__axis_index_lower(mr_call_t *c, mr_diag_t *diag) {
  MR_TRY(axis_lower(c, index_run, diag));
  c->by_host |= !is_of_host(c); /* which writes the number in each run */
  return MR_OK;
}

/* After a call that gives back the rank's own bytes, unless it fails. */
static void note_failure(const mr_comm_rank_t *s, const void *own, const void *back, size_t n) {
  if (s->exchange_failed && memcmp(own, back, n) != 0) *s->exchange_failed = true;
}

static void gather_run(const mr_call_t *c) {
  const mr_comm_rank_t *s = c->state;
  size_t n = mr_aval_bytes(&c->eqn->in[0]->aval);
  s->ops->all_gather(s->collect, n, c->in[0], c->out[0]);
  note_failure(s, c->in[0], (const char *)c->out[0] + (size_t)s->rank * n, n);
}

/* MR_ERR_SHAPE if a dimension that is the axis's has another size. */
static mr_err_t check_axis_size(const mr_call_t *c, int64_t size, mr_diag_t *diag) {
  const mr_comm_rank_t *s = c->state;
  if (size == s->size) return MR_OK;
  return mr_fail(diag, MR_ERR_SHAPE, "%s: axis \"%s\" has %d devices, not %lld", c->eqn->op->name,
                 mr_attr_get(c->eqn, "axis_name")->text, s->size, (long long)size);
}

mr_err_t mr__all_gather_lower(mr_call_t *c, mr_diag_t *diag) {
  MR_TRY(axis_lower(c, gather_run, diag));
  return check_axis_size(c, mr_attr_get(c->eqn, "axis_size")->i[0], diag);
}

static void scatter_run(const mr_call_t *c) {
  const mr_comm_rank_t *s = c->state;
  const mr_aval_t *a = &c->eqn->out[0]->aval;
  s->ops->reduce_scatter(s->collect, a->dtype, mr_aval_elems(a), c->in[0], c->out[0]);
}

mr_err_t mr__reduce_scatter_lower(mr_call_t *c, mr_diag_t *diag) {
  MR_TRY(axis_lower(c, scatter_run, diag));
  return check_axis_size(c, c->eqn->in[0]->aval.dim[0], diag);
}

static void exchange_run(const mr_call_t *c) {
  const mr_comm_rank_t *s = c->state;
  size_t n = mr_aval_bytes(&c->eqn->in[0]->aval) / (size_t)s->size, own = (size_t)s->rank * n;
  s->ops->all_to_all(s->collect, n, c->in[0], c->out[0]);
  note_failure(s, (const char *)c->in[0] + own, (const char *)c->out[0] + own, n);
}

mr_err_t mr__all_to_all_lower(mr_call_t *c, mr_diag_t *diag) {
  MR_TRY(axis_lower(c, exchange_run, diag));
  return check_axis_size(c, c->eqn->in[0]->aval.dim[0], diag);
}

/* Where this rank sends and from where it receives, beside its communicator. */
typedef struct permute {
  mr_comm_rank_t *rank;
  int to, from;
  void *zeros; /* on a device, what a rank has that receives from none; else NULL */
} permute_t;

static void permute_fini(void *state) {
  permute_t *p = state;
  free(p->rank), free(p->zeros);
  free(p);
}

static void permute_run(const mr_call_t *c) {
  const permute_t *p = c->state;
  const mr_comm_rank_t *s = p->rank;
  size_t bytes = mr_aval_bytes(&c->eqn->out[0]->aval);
  if (p->zeros)
    mr_device_copy(c->device, c->out[0], p->zeros, bytes, MR_COPY_IN);
  else if (p->from < 0 && bytes)
    memset(c->out[0], 0, bytes);
  s->ops->send_receive(s->collect, p->to, p->from, bytes, c->in[0], c->out[0]);
}

mr_err_t mr__ppermute_lower(mr_call_t *c, mr_diag_t *diag) {
  MR_TRY(axis_lower(c, permute_run, diag));
  permute_t *p = malloc(sizeof *p);
  if (!p) return mr_no_memory(diag, "the lowering of ppermute");
  *p = (permute_t){.rank = c->state};
  c->state = p, c->fini = permute_fini;
  MR_TRY(mr_ppermute_places(c->eqn, p->rank->size, p->rank->rank, &p->to, &p->from, diag));
  size_t bytes = mr_aval_bytes(&c->eqn->out[0]->aval);
  if (is_of_host(c) || p->from >= 0 || !bytes) return MR_OK;
  if (!(p->zeros = calloc(1, bytes))) return mr_no_memory(diag, "the lowering of ppermute");
  c->by_host = true;
  return MR_OK;
}
