/* A graph reduced to one stage and what is upstream of it, for commands that want its batches
   alone; and the line of batches of a graph: from the stage that makes them to the last one that
   changes them. */
#include <stdlib.h>
#include <string.h>

#include "pipeline/graph/graph_private.h"

static void only_mark(const mr_graph_t *g, int node, int *kept) {
  if (kept[node]) return;
  kept[node] = 1;
  for (int i = 0; i < g->n_edges; i++)
    if (g->edge[i].to == node) only_mark(g, g->edge[i].from, kept);
}

/* Dropped nodes stay in memory, because specs may point into their state. */
void mr__graph_drop(mr_graph_t *g, int *kept) {
  int n = 0, edges = 0;
  mr__names_forget(g); /* those of dropped nodes are free */
  for (int i = 0; i < g->n_nodes; i++) {
    mr__node_t *node = g->node[i];
    if (!kept[i]) {
      node->next_dropped = g->dropped, g->dropped = node;
      kept[i] = -1;
      continue;
    }
    g->node[n] = node;
    kept[i] = n++;
  }
  g->n_nodes = n;
  for (int i = 0; i < g->n_edges; i++) {
    mr__edge_t e = g->edge[i];
    if (kept[e.from] < 0 || kept[e.to] < 0) continue;
    e.from = kept[e.from], e.to = kept[e.to];
    g->edge[edges++] = e;
  }
  g->n_edges = edges;
  mr__graph_list_edges(g);
}

mr_err_t mr_graph_only(mr_graph_t *g, const char *stage, mr_diag_t *diag) {
  int at = mr__graph_find(g, stage);
  if (g->settled) return mr_fail(diag, MR_ERR_USAGE, "the graph is settled: it cannot change");
  if (at < 0)
    return mr_fail(diag, MR_ERR_USAGE, "no stage of the graph is called \"%.60s\"", stage);
  int *kept = calloc((size_t)g->n_nodes, sizeof *kept);
  if (!kept) return mr_no_memory(diag, "a graph");
  only_mark(g, at, kept);
  mr__graph_drop(g, kept);
  free(kept);
  return MR_OK;
}

mr_err_t mr_graph_only_input(mr_graph_t *g, const char *stage, int in_port, mr_diag_t *diag) {
  int at = mr__graph_find(g, stage), from = -1;
  if (g->settled) return mr_fail(diag, MR_ERR_USAGE, "the graph is settled: it cannot change");
  for (int i = 0; i < g->n_edges; i++)
    if (g->edge[i].to == at && g->edge[i].in == in_port) from = g->edge[i].from;
  if (at < 0 || from < 0)
    return mr_fail(diag, MR_ERR_USAGE, "no stage \"%.60s\" whose input %d is linked", stage,
                   in_port);
  int *kept = calloc((size_t)g->n_nodes, sizeof *kept), edges = 0;
  if (!kept) return mr_no_memory(diag, "a graph");
  only_mark(g, from, kept);
  kept[at] = 1;
  for (int i = 0; i < g->n_edges; i++)
    if (g->edge[i].to != at || g->edge[i].in == in_port) g->edge[edges++] = g->edge[i];
  g->n_edges = edges;
  mr__graph_drop(g, kept);
  free(kept);
  return MR_OK;
}

int mr_graph_n_readers(const mr_graph_t *g, const char *stage) {
  int at = mr__graph_find(g, stage), n = 0;
  for (int i = 0; i < g->n_edges; i++) n += g->edge[i].from == at;
  return n;
}

/* ---- the line of batches ---- */

/* In the host's memory: the line ends before a stage that moves batches to a device. */
static bool gives_batches(const mr_stage_def_t *def) {
  return def->step && def->out[0].name && !def->out[0].device &&
         (def->out[0].flow == MR_FLOW_BATCHES || def->out[0].flow == MR_FLOW_NONE);
}

static int node_after(const mr_graph_t *g, int node) {
  for (int i = 0; i < g->n_edges; i++)
    if (g->edge[i].from == node && g->edge[i].out == 0) return g->edge[i].to;
  return -1;
}

const char *mr_graph_batches(const mr_graph_t *g, const char **last) {
  for (int i = 0; i < g->n_nodes; i++) {
    const mr_stage_def_t *def = g->node[i]->def;
    if (!def->step || def->in[0].flow != MR_FLOW_RECORDS || !def->in[0].name) continue;
    int end = i, steps = 0;
    for (int to; (to = node_after(g, end)) >= 0 && gives_batches(g->node[to]->def); end = to)
      if (++steps > g->n_nodes) break; /* a circle, which settle reports */
    *last = g->node[end]->name;
    return g->node[i]->name;
  }
  *last = NULL;
  return NULL;
}

const char *mr_graph_shares(const mr_graph_t *g) {
  const char *last, *batch = mr_graph_batches(g, &last), *at = last;
  for (int steps = 0; at && steps <= g->n_nodes; steps++) { /* more in a circle, as above */
    if (mr_stage_def_opt(mr_graph_stage(g, at)->def, "host")) return at;
    if (at == batch) break;
    at = mr_graph_before(g, at, 0);
  }
  return NULL;
}

const char *mr_graph_on_host(const mr_graph_t *g, const char *stage) {
  int i = mr__graph_find(g, stage);
  if (i < 0) return NULL;
  return g->node[i]->def->out[0].device ? mr_graph_before(g, stage, 0) : g->node[i]->name;
}

int mr_graph_n_inputs(const mr_graph_t *g, const char *stage) {
  int i = mr__graph_find(g, stage);
  return i < 0 ? 0 : mr__count_inputs(g, g->node[i]);
}

const char *mr_graph_input_name(const mr_graph_t *g, const char *stage, int in_port) {
  int i = mr__graph_find(g, stage);
  const mr__edge_t *e = i >= 0 ? mr__edge_into(g, i, in_port) : NULL;
  return e ? mr__edge_in_name(g, e) : NULL;
}

const char *mr_graph_before(const mr_graph_t *g, const char *stage, int in_port) {
  int i = mr__graph_find(g, stage);
  const mr__edge_t *e = i >= 0 ? mr__edge_into(g, i, in_port) : NULL;
  return e ? g->node[e->from]->name : NULL;
}
