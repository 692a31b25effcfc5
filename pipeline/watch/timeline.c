/* Turns the workers' events into slices and arrows of a Chrome trace.  Only taking, giving and
   waiting are recorded; a slice of work is the time between two of them. */
#include "pipeline/graph/graph.h"

#include <inttypes.h>

#include "base/chrome_trace.h"
#include "pipeline/run/runtime_private.h"

void mr_timeline_keep(mr_graph_t *g, int events) { g->timeline_events = events; }

/* A slice of work starts where the previous event ended. */
typedef struct cursor {
  mr_chrome_trace_t *t;
  const mr_graph_t *g;
  int node, thread;
  int64_t mark_ns;
  const mr__event_t *held; /* taken and not yet given; NULL: none */
  const mr__event_t *next; /* without held: the next buffer given before any is taken, or NULL */
} cursor_t;

static void add_work_slice(const cursor_t *c, const mr__event_t *e, int64_t until) {
  char name[64];
  const mr_chrome_arg_t args[] = {
      {"buffers", NULL, e->n}, {"position", NULL, (double)e->position}, {0}};
  if (e->n > 1)
    snprintf(name, sizeof name, "batches %" PRId64 "-%" PRId64, e->what,
             e->what + (int64_t)(e->n - 1) * e->stride);
  else
    snprintf(name, sizeof name, "batch %" PRId64, e->what);
  mr_chrome_slice(c->t, c->thread, name, c->g->node[c->node]->name, c->mark_ns, until - c->mark_ns,
                  args);
}

/* An arrow's id: its edge and the number of the buffer on it. */
static uint64_t flow_id(int edge, int64_t number) {
  return ((uint64_t)edge << 40) | ((uint64_t)number & (((uint64_t)1 << 40) - 1));
}

static void add_flows(const cursor_t *c, const mr__event_t *e, int64_t at) {
  for (int i = 0; i < c->g->n_edges; i++) {
    const mr__edge_t *edge = &c->g->edge[i];
    bool from = e->kind == MR__GAVE && edge->from == c->node && edge->out == e->port;
    bool to = e->kind == MR__TOOK && edge->to == c->node && edge->in == e->port;
    for (int k = 0; (from || to) && k < e->n; k++)
      mr_chrome_flow(c->t, c->thread, from, "buffer", flow_id(i, e->what + (int64_t)k * e->stride),
                     at);
  }
}

/* The work before a wait was on the buffer in hand then. */
static void wait_slice(cursor_t *c, const mr__event_t *e) {
  const mr__event_t *made = c->held ? c->held : c->next;
  if (made && e->at_ns > c->mark_ns) add_work_slice(c, made, e->at_ns);
  mr_chrome_slice(c->t, c->thread, e->kind == MR__STARVES ? "waits for input" : "waits for room",
                  "wait", e->at_ns, e->what, NULL);
  c->mark_ns = e->at_ns + e->what;
}

static void play_event(cursor_t *c, const mr__event_t *e) {
  if (e->kind == MR__STARVES || e->kind == MR__BLOCKS) {
    wait_slice(c, e);
  } else if (e->kind == MR__GAVE) {
    add_work_slice(c, c->held ? c->held : e, e->at_ns);
    add_flows(c, e, c->mark_ns + (e->at_ns - c->mark_ns) / 2);
    c->held = NULL, c->mark_ns = e->at_ns;
  } else {
    if (c->held && e->at_ns > c->mark_ns) add_work_slice(c, c->held, e->at_ns);
    add_flows(c, e, e->at_ns);
    c->held = e, c->mark_ns = e->at_ns;
  }
}

static const mr__event_t *given_next(const mr__timeline_t *line, uint64_t i) {
  for (; i < line->n; i++) {
    const mr__event_t *e = &line->event[i & (line->cap - 1)];
    if (e->kind == MR__GAVE) return e;
    if (e->kind == MR__TOOK) return NULL;
  }
  return NULL;
}

static void write_worker(const mr_graph_t *g, int node, int w, int thread, mr_chrome_trace_t *t) {
  const mr_runtime_t *rt = &g->node[node]->rt[w];
  const mr__timeline_t *line = rt->timeline;
  char name[96];
  if (!line) return;
  uint64_t first = line->n > line->cap ? line->n - line->cap : 0;
  snprintf(name, sizeof name, g->node[node]->n_workers > 1 ? "%s %d" : "%s", g->node[node]->name,
           w);
  mr_chrome_thread(t, thread, name);
  int64_t start = atomic_load_explicit(&rt->count.start_ns, memory_order_relaxed);
  int64_t end = atomic_load_explicit(&rt->count.end_ns, memory_order_relaxed);
  if (first) start = line->event[first & (line->cap - 1)].at_ns;
  cursor_t c = {t, g, node, thread, start, NULL, NULL};
  for (uint64_t i = first; i < line->n; i++) {
    c.next = given_next(line, i);
    play_event(&c, &line->event[i & (line->cap - 1)]);
  }
  if (c.held && end > c.mark_ns) add_work_slice(&c, c.held, end);
}

void mr_timeline_write(const mr_graph_t *g, FILE *to) {
  mr_chrome_trace_t t;
  int thread = 1;
  mr_chrome_begin(&t, to, g->start_ns);
  for (int i = 0; i < g->n_nodes; i++)
    for (int w = 0; g->node[i]->rt && w < g->node[i]->n_workers; w++)
      write_worker(g, i, w, thread++, &t);
  mr_chrome_end(&t);
}
