/* Wires a settled graph: for each worker its runtime and chains, for each edge its rings, for each
   output its pool. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/run/runtime_private.h"
#include "pipeline/stage_step.h"

static mr__timeline_t *make_timeline(int events) {
  mr__timeline_t *t = malloc(sizeof *t + (size_t)events * sizeof *t->event);
  if (t) t->n = 0, t->cap = (uint64_t)events;
  return t;
}

static bool make_ports(mr_runtime_t *rt) {
  size_t in = (size_t)rt->s->n_in, out = (size_t)rt->s->n_out;
  size_t bytes = out * sizeof *rt->out + in * (sizeof *rt->in + sizeof *rt->chain);
  bytes = (bytes + 64) / 64 * 64;
  if (!(rt->out = aligned_alloc(64, bytes))) return false;
  memset(rt->out, 0, bytes);
  rt->in = (mr__in_t *)(rt->out + out), rt->chain = (mr_chain_t **)(rt->in + in);
  for (size_t p = 0; p < in; p++) rt->in[p].next = (uint64_t)rt->s->worker;
  for (size_t p = 0; p < out; p++) rt->out[p].next = (uint64_t)rt->s->worker;
  return true;
}

static mr_err_t make_runtimes(mr_graph_t *g, mr__node_t *node) {
  if (!node->n_workers) return MR_OK;
  assert(!node->rt && node->n_workers <= MR_MAX_WORKERS);
  node->rt = aligned_alloc(64, (size_t)node->n_workers * sizeof *node->rt);
  if (!node->rt) return MR_ERR_NOMEM;
  memset(node->rt, 0, (size_t)node->n_workers * sizeof *node->rt);
  for (int w = 0; w < node->n_workers; w++) {
    mr_runtime_t *rt = &node->rt[w];
    mr_stage_t *s = &node->worker[w];
    rt->g = g, rt->node = node, rt->s = s;
    if (g->timeline_events && !(rt->timeline = make_timeline(g->timeline_events)))
      return MR_ERR_NOMEM;
    s->rt = rt, s->diag = &rt->diag, s->start_position = node->start_position;
    s->start_number = node->start_number, s->start_record = node->start_record;
    s->start_word = node->start_word, s->n_start_words = node->n_start_words;
    if (!make_ports(rt)) return MR_ERR_NOMEM;
  }
  return MR_OK;
}

/* Ring (i,j) carries the buffers from worker i of the producer to worker j of the consumer. */
static mr_err_t make_rings(mr_graph_t *g, mr__edge_t *e) {
  mr__node_t *a = g->node[e->from], *b = g->node[e->to];
  if (!a->n_workers) return MR_OK; /* records: a chain */
  size_t depth = mr__ring_depth(g, e);
  assert(b->n_workers && !e->ring && mr_ring_footprint(depth));
  e->ring = calloc((size_t)(a->n_workers * b->n_workers), sizeof *e->ring);
  if (!e->ring) return MR_ERR_NOMEM;
  for (int i = 0; i < a->n_workers; i++) {
    for (int j = 0; j < b->n_workers; j++) {
      void *mem = aligned_alloc(64, mr_ring_footprint(depth));
      if (!mem) return MR_ERR_NOMEM;
      mr_ring_t *r = mr_ring_init(mem, depth, &a->rt[i].wait, &b->rt[j].wait);
      if (mr_stage_def_input(b->def, e->in)->lossy) {
        mr_ring_set_lossy(r);
        b->rt[j].wait.patient = true;
      }
      e->ring[i * b->n_workers + j] = r;
    }
  }
  for (int j = 0; j < b->n_workers; j++) {
    mr__in_t *in = &b->rt[j].in[e->in];
    assert(!in->n); /* one edge an input */
    in->ring = e->ring, in->n = a->n_workers, in->stride = b->n_workers;
    b->rt[j].n_in++;
  }
  for (int i = 0; i < a->n_workers; i++) {
    mr__out_t *out = &a->rt[i].out[e->out];
    mr__fan_t *more = realloc(out->edge, (size_t)(out->n_edges + 1) * sizeof *more);
    if (!more) return MR_ERR_NOMEM;
    out->edge = more;
    out->edge[out->n_edges++] = (mr__fan_t){e->ring + i * b->n_workers, b->n_workers};
    a->rt[i].n_out++;
  }
  return MR_OK;
}

static void set_pool(mr_graph_t *g, int i, int port, mr_pool_t *pool) {
  mr__node_t *node = g->node[i];
  mr_wait_t **own = &g->wait[0];
  while (*own != &node->rt->wait) own++;
  assert(own[node->n_workers - 1] == &node->rt[node->n_workers - 1].wait); /* grouped by node */
  mr_pool_destroy(g->pool[i * MR_MAX_PORTS + port]);
  g->pool[i * MR_MAX_PORTS + port] = pool;
  mr__pool_waiters(pool, own, node->n_workers);
  for (int w = 0; w < node->n_workers; w++) node->rt[w].out[port].pool = pool;
}

void mr_use_pool(mr_stage_t *s, int port, mr_pool_t *p) {
  set_pool(s->rt->g, mr__graph_find(s->rt->g, s->name), port, p);
}

/* Whether buffers of this stage may reach an input through which they leave the process. */
static mr_err_t may_leave(const mr_graph_t *g, int node, bool *leaves) {
  mr__behind_t *list;
  int n;
  MR_TRY(mr__edges_behind(g, node, &list, &n));
  *leaves = false;
  for (int i = 0; i < n && !*leaves; i++) {
    const mr__edge_t *e = &g->edge[list[i].edge];
    *leaves = mr_stage_def_input(g->node[e->to]->def, e->in)->leaves;
  }
  free(list);
  return MR_OK;
}

static mr_pool_t *make_pool(const mr_spec_t *spec, size_t n, bool leaves) {
  mr_pool_t *p = leaves ? mr_pool_create_shared(spec, n) : NULL;
  return p ? p : mr_pool_create(spec, n); /* without shared memory, buffers travel as messages */
}

static mr_err_t make_pools(mr_graph_t *g, int i) {
  mr__node_t *node = g->node[i];
  if (!node->n_workers) return MR_OK;
  size_t n;
  MR_TRY(mr__pool_size(g, i, &n));
  bool leaves;
  MR_TRY(may_leave(g, i, &leaves));
  for (int p = 0; p < mr_stage_def_n_out(node->def); p++) {
    mr_pool_t *pool = make_pool(&node->worker->out_spec[p], n, leaves);
    if (!pool) return MR_ERR_NOMEM;
    set_pool(g, i, p, pool);
  }
  return MR_OK;
}

static mr_err_t make_chains(mr_graph_t *g, int i) {
  mr__node_t *node = g->node[i];
  for (int p = 0; p < node->worker->n_in; p++) {
    const mr__edge_t *e = mr__edge_into(g, i, p);
    if (!e || g->node[e->from]->n_workers) continue;
    for (int w = 0; w < node->n_workers; w++)
      if (!(node->rt[w].chain[p] = mr__chain_create(g, i, p, &node->rt[w].diag)))
        return MR_ERR_NOMEM;
  }
  return MR_OK;
}

mr_err_t mr__wire(mr_graph_t *g) {
  int n = 0;
  assert(g->settled && !g->wait);
  for (int i = 0; i < g->n_nodes; i++) MR_TRY(make_runtimes(g, g->node[i]));
  for (int i = 0; i < g->n_nodes; i++) n += g->node[i]->n_workers;
  if (!mr__commit_init(g)) return MR_ERR_NOMEM;
  g->wait = calloc((size_t)n + 1, sizeof *g->wait);
  g->pool = calloc((size_t)g->n_nodes * MR_MAX_PORTS, sizeof *g->pool);
  if (!g->wait || !g->pool) return MR_ERR_NOMEM;
  for (int i = 0, k = 0; i < g->n_nodes; i++)
    for (int w = 0; w < g->node[i]->n_workers; w++) g->wait[k++] = &g->node[i]->rt[w].wait;
  for (int i = 0; i < g->n_edges; i++) MR_TRY(make_rings(g, &g->edge[i]));
  for (int i = 0; i < g->n_nodes; i++) MR_TRY(make_pools(g, i));
  for (int i = 0; i < g->n_nodes; i++) MR_TRY(make_chains(g, i));
  for (int i = 0; i < g->n_nodes; i++)
    if (g->node[i]->n_chains) g->node[i]->worker->n_workers = g->node[i]->n_chains;
  /* release: a thread that sees the number sees the wait objects (wake_all). */
  atomic_store_explicit(&g->n_waits, n, memory_order_release);
  return MR_OK;
}

/* ---- unwiring ---- */

static void destroy_rings(mr_graph_t *g) {
  for (int i = 0; i < g->n_edges; i++) {
    mr__edge_t *e = &g->edge[i];
    int n = e->ring ? g->node[e->from]->n_workers * g->node[e->to]->n_workers : 0;
    for (int k = 0; k < n; k++) {
      if (e->ring[k]) mr_ring_fini(e->ring[k]);
      free(e->ring[k]);
    }
    free(e->ring), e->ring = NULL;
  }
}

static void destroy_runtimes(mr__node_t *node) {
  for (int w = 0; node->rt && w < node->n_workers; w++) {
    mr_runtime_t *rt = &node->rt[w];
    for (int p = 0; rt->out && p < rt->s->n_in; p++) mr__chain_destroy(rt->chain[p]);
    for (int p = 0; rt->out && p < rt->s->n_out; p++) free(rt->out[p].edge);
    free(rt->out);
    free(rt->timeline);
    mr_wait_fini(&rt->wait);
  }
  free(node->rt), node->rt = NULL;
}

void mr__unwire(mr_graph_t *g) {
  destroy_rings(g);
  for (int i = 0; g->pool && i < g->n_nodes * MR_MAX_PORTS; i++) mr_pool_destroy(g->pool[i]);
  for (int i = 0; i < g->n_nodes; i++) destroy_runtimes(g->node[i]);
  free(g->pool), free(g->wait), free(g->commit);
  g->pool = NULL, g->wait = NULL, g->commit = NULL;
}
