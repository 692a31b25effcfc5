/* Collectives on the CPU: devices are threads of this process (exec/comm.h), which meet and read
   each other's operands in place.  Each computes the whole result itself in the order of ranks, so
   all have the same bits and nothing is sent back. */
#include <stdlib.h>
#include <string.h>

#include "model/backends/cpu/rules.h"
#include "model/exec/collect.h"
#include "model/exec/comm.h"
#include "model/exec/exec.h"
#include "model/ir/element.h"
#include "model/ops/operands.h"
#include "model/ops/rules.h"

/* The device that a collective is lowered for. */
typedef struct axis_state {
  mr_comm_t *comm;
  int rank;
} axis_state_t;

/* Lowers a collective, if the graph is compiled for a device of its axis (mr_pmap).
   MR_ERR_NORULE if neither a transform nor a device has bound the axis. */
static mr_err_t axis_lower(mr_call_t *c, void (*run)(const mr_call_t *c), mr_diag_t *diag) {
  const mr_comm_rank_t *rank = c->options->rank;
  if (rank && !strcmp(rank->axis, mr_attr_get(c->eqn, "axis_name")->text)) {
    axis_state_t *s = malloc(sizeof *s);
    if (!s) return mr_no_memory(diag, "the lowering of %s", c->eqn->op->name);
    *s = (axis_state_t){rank->comm, rank->rank};
    c->state = s;
    c->fini = free;
    c->run = run;
    return MR_OK;
  }
  return mr_fail(diag, MR_ERR_NORULE, "%s%s%s: no vmap binds the axis \"%s\"", c->eqn->scope,
                 *c->eqn->scope ? ": " : "", c->eqn->op->name,
                 mr_attr_get(c->eqn, "axis_name")->text);
}

/* Each device adds all values itself, in rank order, which gives the same bits on all devices. */
static void psum_run(const mr_call_t *c) {
  const axis_state_t *s = c->state;
  const mr_aval_t *a = &c->eqn->out[0]->aval;
  const void *const *all = mr__comm_meet(s->comm, s->rank, c->in[0]);
  memcpy(c->out[0], all[0], mr_aval_bytes(a));
  for (int r = 1; r < mr_comm_size(s->comm); r++)
    mr__collect_add(a->dtype, c->out[0], all[r], mr_aval_elems(a));
  mr__comm_leave(s->comm);
}

mr_err_t mr__cpu_psum(mr_call_t *c, mr_diag_t *diag) { return axis_lower(c, psum_run, diag); }

static void rule_collectives_index_run(const mr_call_t *c) {
  *(int32_t *)c->out[0] = ((const axis_state_t *)c->state)->rank;
}

mr_err_t mr__cpu_axis_index(mr_call_t *c, mr_diag_t *diag) {
  return axis_lower(c, rule_collectives_index_run, diag);
}

static void gather_run(const mr_call_t *c) {
  const axis_state_t *s = c->state;
  size_t n = mr_aval_bytes(&c->eqn->in[0]->aval);
  const void *const *all = mr__comm_meet(s->comm, s->rank, c->in[0]);
  for (int r = 0; r < mr_comm_size(s->comm); r++)
    memcpy((char *)c->out[0] + (size_t)r * n, all[r], n);
  mr__comm_leave(s->comm);
}

mr_err_t mr__cpu_all_gather(mr_call_t *c, mr_diag_t *diag) {
  MR_TRY(axis_lower(c, gather_run, diag));
  const axis_state_t *s = c->state;
  int64_t size = mr_attr_get(c->eqn, "axis_size")->i[0];
  if (size == mr_comm_size(s->comm)) return MR_OK;
  return mr_fail(diag, MR_ERR_SHAPE, "all_gather: axis \"%s\" has %d devices, not %lld",
                 mr_attr_get(c->eqn, "axis_name")->text, mr_comm_size(s->comm), (long long)size);
}
