/* What a stage may see of its own graph. */
#include "pipeline/watch.h"

#include "pipeline/runtime_private.h"

int mr_watch_n_stages(const mr_stage_t *s) { return s->rt ? s->rt->g->n_nodes : 0; }

const char *mr_watch_stage(const mr_stage_t *s, int i, mr_stats_t *out) {
  mr_graph_stats(s->rt->g, i, out);
  return s->rt->g->node[i]->name;
}

int mr_watch_n_workers(const mr_stage_t *s, int i) { return s->rt->g->node[i]->n_workers; }

const mr_stage_def_t *mr_watch_def(const mr_stage_t *s, int i) { return s->rt->g->node[i]->def; }

const char *mr_watch_setting(const mr_stage_t *s, int i, const char *setting) {
  const mr__node_t *node = s->rt->g->node[i];
  const mr_opt_t *o = mr_stage_def_opt(node->def, setting);
  const char *text = mr_graph_setting(s->rt->g, node->name, setting);
  return o && o->type == MR_OPT_SECRET && text && *text ? "(hidden)" : text;
}

int mr_watch_n_edges(const mr_stage_t *s) { return s->rt ? s->rt->g->n_edges : 0; }

/* The indices are above the lowest bit, which says that a side is done. */
static int64_t waiting(const mr_ring_t *r) {
  uint64_t popped = mr_ring_popped(r) >> 1; /* read first: it never passes what was pushed */
  return (int64_t)((mr_ring_pushed(r) >> 1) - popped);
}

void mr_watch_edge(const mr_stage_t *s, int i, mr_watch_edge_t *out) {
  const mr_graph_t *g = s->rt->g;
  const mr__edge_t *e = &g->edge[i];
  *out = (mr_watch_edge_t){.from = e->from,
                           .to = e->to,
                           .spec = &g->node[e->from]->worker->out_spec[e->out],
                           .lossy = g->node[e->to]->def->in[e->in].lossy};
  int n = e->ring ? g->node[e->from]->n_workers * g->node[e->to]->n_workers : 0;
  for (int k = 0; k < n; k++) {
    out->waiting += waiting(e->ring[k]);
    out->room += (int64_t)mr_ring_depth(e->ring[k]);
    out->lost += mr_ring_lost(e->ring[k]);
  }
}
