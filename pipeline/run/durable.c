/* Answers to marks, kept per stage under the graph's commit_lock; the checkpoint's stage waits on a
   condition until every sink downstream of the trainer has answered. */
#include "pipeline/run/durable.h"

#include "base/clock.h"
#include "pipeline/run/runtime_private.h"

enum { SLICE_MS = 20 }; /* between two checks for a cancelled graph */

static mr__durable_t *of_stage(const mr_stage_t *s) { return &s->rt->node->durable; }

void mr_durable_begin(mr_stage_t *s) {
  mr_graph_t *g = s->rt->g;
  pthread_mutex_lock(&g->commit_lock);
  *of_stage(s) = (mr__durable_t){.answers = true};
  pthread_mutex_unlock(&g->commit_lock);
}

void mr_durable_answer(mr_stage_t *s, int64_t mark, bool stored) {
  mr_graph_t *g = s->rt->g;
  mr__durable_t *d = of_stage(s);
  pthread_mutex_lock(&g->commit_lock);
  d->mark = mark, d->stored = stored, d->late = false;
  pthread_cond_broadcast(&g->answered);
  pthread_mutex_unlock(&g->commit_lock);
}

void mr__durable_leave(mr_runtime_t *rt) {
  pthread_mutex_lock(&rt->g->commit_lock);
  rt->node->durable.gone = true;
  pthread_cond_broadcast(&rt->g->answered);
  pthread_mutex_unlock(&rt->g->commit_lock);
}

/* True if metrics of node `from` reach node `to`. */
static bool leads_to(const mr_graph_t *g, int from, int to) {
  for (int i = 0; i < g->n_edges; i++) {
    const mr__edge_t *e = &g->edge[i];
    if (e->from != from || g->node[e->to]->worker->in_spec[e->in].flow != MR_FLOW_METRICS) continue;
    if (e->to == to || leads_to(g, e->to, to)) return true;
  }
  return false;
}

static bool is_stored(const mr__durable_t *d, int64_t mark) { return d->mark >= mark && d->stored; }

static bool is_awaited(const mr__durable_t *d, int64_t mark) {
  return d->mark < mark && !d->gone && !d->late;
}

/* The first node downstream of `of` that is still awaited (waiting), or whose records are not
   stored; -1: none.  Under commit_lock. */
static int first_node(const mr_graph_t *g, int of, int64_t mark, bool waiting) {
  for (int i = 0; i < g->n_nodes; i++) {
    const mr__durable_t *d = &g->node[i]->durable;
    if (d->answers && (waiting ? is_awaited(d, mark) : !is_stored(d, mark)) && leads_to(g, of, i))
      return i;
  }
  return -1;
}

const char *mr_durable_wait(mr_stage_t *s, const char *of, int64_t mark, int ms) {
  mr_graph_t *g = s->rt->g;
  int from = of ? mr__graph_find(g, of) : -1, node;
  if (mark <= 0 || from < 0) return NULL;
  int64_t until = mr_now_ns() + ms * INT64_C(1000000);
  pthread_mutex_lock(&g->commit_lock);
  while (first_node(g, from, mark, true) >= 0 && !mr__cancelled(s->rt) && mr_now_ns() < until)
    mr_cond_wait_until(&g->answered, &g->commit_lock, mr_now_ns() + SLICE_MS * INT64_C(1000000));
  while (!mr__cancelled(s->rt) && (node = first_node(g, from, mark, true)) >= 0)
    g->node[node]->durable.late = true;
  node = first_node(g, from, mark, false);
  pthread_mutex_unlock(&g->commit_lock);
  return node < 0 ? NULL : g->node[node]->name;
}
