/* What a stage may see of its own graph: reads the workers' counters while they run, the queues,
   and the stage that limits the graph. */
#include "pipeline/watch/watch.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/shown.h"
#include "pipeline/graph/graph.h"
#include "pipeline/run/runtime_private.h"
#include "pipeline/watch/diagnose.h"

enum { WINDOW_NS = 1000000000 };

/* For independent numbers. */
static int64_t stats_load(const _Atomic int64_t *c) {
  return atomic_load_explicit(c, memory_order_relaxed);
}

/* A worker's waits at one moment, including the current one. */
typedef struct waits {
  int64_t now, starved, blocked;
} waits_t;

/* False if a wait ended meanwhile, so that its time may be counted twice or not at all.  The
   acquires pair with end_wait's releases in port.c: seeing one of its stores implies seeing the odd
   turn. */
static bool read_waits(const mr__counters_t *c, waits_t *w) {
  unsigned turn = atomic_load_explicit(&c->wait_turn, memory_order_acquire);
  w->now = mr_now_ns();
  int64_t since = atomic_load_explicit(&c->waits_since, memory_order_acquire);
  bool hungry = atomic_load_explicit(&c->wait_kind, memory_order_acquire) == MR__STARVED;
  w->starved = atomic_load_explicit(&c->starved_ns, memory_order_acquire);
  w->blocked = atomic_load_explicit(&c->blocked_ns, memory_order_acquire);
  if (since && w->now > since) *(hungry ? &w->starved : &w->blocked) += w->now - since;
  return !(turn & 1) && turn == atomic_load_explicit(&c->wait_turn, memory_order_acquire);
}

static void stats_add_link(const mr__counters_t *c, mr_stats_t *out) {
  /* acquire pairs with mr_set_link's release. */
  int64_t committed = atomic_load_explicit(&c->committed_1, memory_order_acquire) - 1;
  if (committed < 0) return;
  out->link = true, out->committed = committed, out->released = stats_load(&c->released);
}

static void add_worker(const mr_runtime_t *rt, mr_stats_t *out) {
  const mr__counters_t *c = &rt->count;
  int64_t start = stats_load(&c->start_ns);
  waits_t w;
  if (!start) return;
  for (int tries = 0; !read_waits(c, &w) && tries < 1000; tries++) continue;
  int64_t end = stats_load(&c->end_ns), alive = (end ? end : w.now) - start;
  int64_t busy = alive - w.starved - w.blocked;
  out->workers++;
  out->items += rt->node->def->out[0].name ? stats_load(&c->given) : stats_load(&c->taken);
  out->alive_ns += alive, out->starved_ns += w.starved, out->blocked_ns += w.blocked;
  out->busy_ns += busy > 0 ? busy : 0;
  out->dropped += stats_load(&c->dropped);
  stats_add_link(c, out);
}

void mr_graph_stats(const mr_graph_t *g, int i, mr_stats_t *out) {
  *out = (mr_stats_t){0};
  /* acquire pairs with mr__wire's release: the runtimes exist. */
  if (i < 0 || i >= g->n_nodes || !atomic_load_explicit(&g->n_waits, memory_order_acquire)) return;
  const mr__node_t *node = g->node[i];
  int64_t sum = 0, n = 0;
  for (int w = 0; w < node->n_workers; w++) {
    add_worker(&node->rt[w], out);
    sum += stats_load(&node->rt[w].count.depth_sum), n += stats_load(&node->rt[w].count.depth_n);
  }
  if (n) out->depth = (double)sum / (double)n;
}

void mr_limiting_stage(const mr_stage_t *s, char *text, size_t n) {
  if (!n) return;
  text[0] = 0;
  if (!s->rt) return;
  mr_graph_t *g = s->rt->g;
  int64_t now = mr_now_ns();
  pthread_mutex_lock(&g->lock);
  if (now - g->sampled_ns > WINDOW_NS) {
    mr_diagnosis_t d;
    mr_snapshot_t *next = mr_snapshot_take(g);
    if (next && mr_diagnose(g, g->sample, next, &d))
      snprintf(g->limiting, sizeof g->limiting, "%s", d.link ? d.link : d.stage);
    mr_snapshot_free(g->sample);
    g->sample = next, g->free_sample = mr_snapshot_free, g->sampled_ns = now;
  }
  snprintf(text, n, "%s", g->limiting);
  pthread_mutex_unlock(&g->lock);
}

/* ---- stages and edges ---- */

int mr_watch_n_stages(const mr_stage_t *s) { return s->rt ? s->rt->g->n_nodes : 0; }

const char *mr_watch_stage(const mr_stage_t *s, int i, mr_stats_t *out) {
  mr_graph_stats(s->rt->g, i, out);
  return s->rt->g->node[i]->name;
}

const char *mr_watch_name(const mr_stage_t *s, int i) { return s->rt->g->node[i]->name; }

int mr_watch_n_workers(const mr_stage_t *s, int i) { return s->rt->g->node[i]->n_workers; }

const mr_stage_def_t *mr_watch_def(const mr_stage_t *s, int i) { return s->rt->g->node[i]->def; }

char *mr_watch_setting(const mr_stage_t *s, int i, const char *setting) {
  const mr__node_t *node = s->rt->g->node[i];
  return mr_shown(mr_stage_def_opt(node->def, setting),
                  mr_graph_setting(s->rt->g, node->name, setting));
}

bool mr_watch_asked(const mr_stage_t *s, mr_asked_t *out) {
  bool any = false;
  *out = (mr_asked_t){0};
  for (int i = 0; i < mr_watch_n_stages(s); i++) {
    const mr__node_t *node = s->rt->g->node[i];
    const mr_source_def_t *source = node->def->source;
    if (source && source->asked && node->opened) any |= source->asked(node->worker, out);
  }
  return any;
}

int mr_watch_n_edges(const mr_stage_t *s) { return s->rt ? s->rt->g->n_edges : 0; }

/* The indices are above the lowest bit, which says that a side is done. */
static int64_t buffers_waiting(const mr_ring_t *r) {
  uint64_t popped = mr_ring_popped(r) >> 1; /* read first: it never passes what was pushed */
  return (int64_t)((mr_ring_pushed(r) >> 1) - popped);
}

void mr_watch_edge(const mr_stage_t *s, int i, mr_watch_edge_t *out) {
  const mr_graph_t *g = s->rt->g;
  const mr__edge_t *e = &g->edge[i];
  *out = (mr_watch_edge_t){.from = e->from,
                           .to = e->to,
                           .spec = &g->node[e->from]->worker->out_spec[e->out],
                           .lossy = mr_stage_def_input(g->node[e->to]->def, e->in)->lossy};
  int n = e->ring ? g->node[e->from]->n_workers * g->node[e->to]->n_workers : 0;
  for (int k = 0; k < n; k++) {
    out->waiting += buffers_waiting(e->ring[k]);
    out->room += (int64_t)mr_ring_depth(e->ring[k]);
    out->lost += mr_ring_lost(e->ring[k]);
  }
}
