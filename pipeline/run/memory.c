/* The sums are of the same functions that make the things: mr__pool_size and mr__slot_of for pools,
   mr__ring_depth for queues, mr__chain_bytes for what records are made in. */
#include "pipeline/run/memory.h"

#include <stdlib.h>

#include "base/machine.h"
#include "base/text.h"
#include "pipeline/run/runtime_private.h"

/* Of a thread's stack and of malloc's arena for it, what is touched: both are larger, but only
   reserved. */
enum { THREAD_BYTES = 128 << 10 };

/* How many buffers of an output can be under way: a pool also has those for queues that only other
   buffers get into, as metrics behind batches, and never touches them. */
static mr_err_t count_under_way(const mr_graph_t *g, int i, int port, size_t *n) {
  mr_flow_t flow = g->node[i]->worker->out_spec[port].flow;
  size_t pool, way = 2 * (size_t)g->node[i]->n_workers + 2;
  mr__behind_t *list;
  int edges;
  MR_TRY(mr__pool_size(g, i, &pool));
  MR_TRY(mr__edges_behind(g, i, &list, &edges));
  for (int k = 0; k < edges; k++) {
    const mr__edge_t *e = &g->edge[list[k].edge];
    const mr_stage_t *to = g->node[e->to]->worker;
    size_t from = (size_t)g->node[e->from]->n_workers, workers = (size_t)g->node[e->to]->n_workers;
    if (g->node[e->from]->worker->out_spec[e->out].flow != flow) continue;
    way += from * workers * mr__edge_depth(g, e);
    way += ((size_t)(to->holds > 0 ? to->holds : 1) + 1) * workers;
  }
  free(list);
  *n = pool < way ? pool : way;
  return MR_OK;
}

/* What ragged fields may take of a buffer.  A whole file has room for the largest one that is let
   in, and touches what it has. */
static size_t ragged_bytes(const mr_spec_t *spec) {
  size_t bytes = 0;
  for (int f = 0; f < spec->n_fields; f++)
    if (spec->field[f].ragged) bytes += mr_field_bytes(&spec->field[f]);
  return spec->flow == MR_FLOW_BATCHES && !spec->device ? bytes * (size_t)spec->batch : 0;
}

static mr_err_t count_buffers(const mr_graph_t *g, int i, size_t *bytes) {
  const mr__node_t *node = g->node[i];
  size_t n;
  for (int p = 0; p < mr_stage_def_n_out(node->def); p++) {
    if (!node->worker->out_linked[p]) continue;
    MR_TRY(count_under_way(g, i, p, &n));
    const mr_spec_t *spec = &node->worker->out_spec[p];
    size_t each = mr__slot_of(spec).bytes - ragged_bytes(spec) + sizeof(mr_buf_t), all;
    if (__builtin_mul_overflow(each, n, &all) || __builtin_add_overflow(*bytes, all, bytes))
      *bytes = SIZE_MAX / 4;
  }
  return MR_OK;
}

static size_t count_queues(const mr_graph_t *g, int i) {
  const mr__node_t *node = g->node[i];
  size_t workers = (size_t)node->n_workers, bytes = workers * sizeof(mr_runtime_t);
  for (int p = 0; p < node->worker->n_in; p++) {
    const mr__edge_t *e = mr__edge_into(g, i, p);
    size_t from = e ? (size_t)g->node[e->from]->n_workers : 0;
    if (from) bytes += from * workers * mr_ring_footprint(mr__ring_depth(g, e));
  }
  bytes += workers * (size_t)g->timeline_events * sizeof(mr__event_t);
  return bytes;
}

static mr_err_t count_stage(mr_graph_t *g, int i, bool models, mr_stage_memory_t *row,
                            mr_diag_t *diag) {
  mr__node_t *node = g->node[i];
  mr_stage_t *s = node->worker;
  mr_takes_t own = {0};
  *row = (mr_stage_memory_t){.stage = node->name, .workers = node->n_workers};
  s->diag = diag;
  mr_err_t e = node->def->memory ? node->def->memory(s, models, &own) : MR_OK;
  s->diag = NULL;
  if (e < 0) return e;
  row->own = own.bytes, row->advice = own.advice;
  if (node->n_workers) {
    if (count_buffers(g, i, &row->buffers) < 0) return mr_no_memory(diag, "the sum of a graph");
    row->queues = count_queues(g, i);
    row->threads = (size_t)node->n_workers * THREAD_BYTES;
    for (int p = 0; p < s->n_in; p++)
      row->records += (size_t)node->n_workers * mr__chain_bytes(g, i, p);
  }
  row->all = row->own + row->buffers + row->queues + row->threads + row->records;
  return MR_OK;
}

mr_err_t mr_graph_memory(mr_graph_t *g, bool models, mr_stage_memory_t *row, size_t *total,
                         mr_diag_t *diag) {
  *total = 0;
  for (int i = 0; i < g->n_nodes; i++) {
    MR_TRY(count_stage(g, i, models, &row[i], diag));
    if (__builtin_add_overflow(*total, row[i].all, total)) *total = SIZE_MAX;
  }
  return MR_OK;
}

/* Of the sums only what stages say they keep counts here: they fill it.  Queues and pools need not
   fill, so that a graph may run whose other sums are beyond the machine. */
mr_err_t mr_graph_memory_check(const mr_graph_t *g, const mr_stage_memory_t *row, mr_diag_t *diag) {
  size_t room = mr_machine_memory(), most = 0, total = 0;
  char all[24], own[24], have[24], at[32];
  int of = 0;
  for (int i = 0; i < g->n_nodes; i++) {
    if (row[i].own > most) most = row[i].own, of = i;
    if (__builtin_add_overflow(total, row[i].own, &total)) total = SIZE_MAX;
  }
  if (total <= room) return MR_OK;
  const char *advice = row[of].advice ? row[of].advice : "want a smaller data set or batch";
  return mr_fail(diag, MR_ERR_NOMEM,
                 "%s%s: keeps %s of the %s that the stages of the graph keep, and there are %s: "
                 "%s; `millrace graph --memory` shows what each stage takes",
                 mr__pos_text(g->node[of]->pos, at, sizeof at), g->node[of]->name,
                 mr_bytes_text(most, own), mr_bytes_text(total, all), mr_bytes_text(room, have),
                 advice);
}

mr_err_t mr__memory_check(mr_graph_t *g, mr_diag_t *diag) {
  mr_stage_memory_t *row = calloc((size_t)g->n_nodes + 1, sizeof *row);
  size_t total;
  if (!row) return mr_no_memory(diag, "the sum of a graph");
  mr_err_t e = mr_graph_memory(g, false, row, &total, diag);
  if (e >= 0) e = mr_graph_memory_check(g, row, diag);
  free(row);
  return e;
}
