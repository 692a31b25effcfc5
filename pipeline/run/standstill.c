/* Standstill: queues and pools that could wait for each other for ever.

   A run proceeds as long as some stage can.  Two things can stop a graph without circles: stages
   with several inputs, each waiting for one input while the queue of another is full; and a pool
   with all of its buffers in queues while another stage waits for its stage.  Both follow from the
   graph alone, so settle finds them before it runs. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/graph/graph_private.h"
#include "pipeline/stage_step.h"

enum { DEPTH_MIN = 4, DEPTH_MAX = 256, DEPTH_BYTES = 8 << 20 };

size_t mr__edge_depth(const mr_graph_t *g, const mr__edge_t *e) {
  if (g->depth) return (size_t)g->depth;
  size_t bytes = mr_spec_bytes(&g->node[e->from]->worker->out_spec[e->out]), depth = DEPTH_MAX;
  while (depth > DEPTH_MIN && depth * bytes > DEPTH_BYTES) depth /= 2;
  return depth;
}

/* A program takes nothing from a pulled stage while it does something else, so that the rings
   before it are longer than the pools count, as far as these allow it: where the program waits, the
   ring that it waits for is empty, so that with two workers the other's may hold what was counted
   for both. */
size_t mr__ring_depth(const mr_graph_t *g, const mr__edge_t *e) {
  size_t depth = mr__edge_depth(g, e);
  const mr_step_def_t *to = g->node[e->to]->def->step;
  return to && to->pulled && g->node[e->from]->n_workers <= 2 ? 2 * depth : depth;
}

static const mr_port_def_t *port_into(const mr_graph_t *g, const mr__edge_t *e) {
  return mr_stage_def_input(g->node[e->to]->def, e->in);
}

/* ---- pools ---- */

static size_t held_by(const mr__node_t *node) {
  return (size_t)(node->worker->holds > 0 ? node->worker->holds : 1);
}

enum { SHARE = 2 * MR_BURST, SHARES_LEAST = 2560, SHARES_MOST = 16384 };

/* What is downstream of a stage. */
typedef struct behind {
  size_t ample;  /* buffers that may be in flight: full rings, and for each worker the buffers it
                    holds and the one it is about to give; a whole burst for a worker that must never
                    delay the stage */
  size_t held;   /* buffers that stages may hold while they wait for one more */
  size_t stages; /* with threads */
  bool several;  /* a stage has several workers: the buffers of one can delay another */
  bool watched;  /* there is an observer, which must never delay the stage */
} behind_t;

static mr_err_t find_behind(const mr_graph_t *g, int node, behind_t *b) {
  mr__behind_t *list;
  int n, own = g->node[node]->n_workers;
  MR_TRY(mr__edges_behind(g, node, &list, &n));
  *b = (behind_t){.ample = 2 * (size_t)own + 2, .several = own > 1};
  for (int i = 0; i < n; i++) {
    const mr__edge_t *e = &g->edge[list[i].edge];
    size_t from = (size_t)g->node[e->from]->n_workers, to = (size_t)g->node[e->to]->n_workers;
    b->ample += from * to * mr__edge_depth(g, e);
    if (port_into(g, e)->lossy) b->ample += MR_BURST * to, b->watched = true;
    if (!list[i].first) continue;
    b->ample += (held_by(g->node[e->to]) + 1) * to;
    b->held += held_by(g->node[e->to]), b->stages++;
    b->several |= to > 1;
  }
  free(list);
  assert(b->ample > (size_t)own); /* each worker can hold one */
  return MR_OK;
}

/* Where no buffer can delay another one, one more than the stages hold is enough to proceed, and
   two bursts for each stage let all of them work: a long chain with all of its queues full would
   take memory that grows with the square of its length. */
static size_t share_of(const behind_t *b) {
  size_t n = SHARE * (b->stages + 1);
  n = n < SHARES_LEAST ? SHARES_LEAST : n > SHARES_MOST ? SHARES_MOST : n;
  n += b->held;
  return b->several || b->watched || n > b->ample ? b->ample : n;
}

mr_err_t mr__pool_size(const mr_graph_t *g, int node, size_t *n) {
  size_t most = (size_t)g->pool_most;
  behind_t b;
  MR_TRY(find_behind(g, node, &b));
  *n = most && !b.watched && most < b.ample ? most : share_of(&b);
  return MR_OK;
}

static mr_err_t check_pool(const mr_graph_t *g, int i, mr_diag_t *diag) {
  const mr__node_t *node = g->node[i];
  behind_t b;
  if (!g->pool_most || !node->n_workers || !mr_stage_def_n_out(node->def)) return MR_OK;
  if (find_behind(g, i, &b) < 0) return mr_no_memory(diag, "the check against deadlocks");
  size_t have = (size_t)g->pool_most, want = b.several ? b.ample : b.held + 1;
  if (have >= want || b.watched) return MR_OK;
  if (!b.several)
    return mr_fail(
        diag, MR_ERR_CONFIG,
        "%s: a pool of %zu buffers is too small: the stages behind it may hold %zu while "
        "they wait for one more; want at least %zu",
        node->name, have, b.held, want);
  return mr_fail(diag, MR_ERR_CONFIG,
                 "%s: a pool of %zu buffers is too small: the queues behind it hold that many, and "
                 "with several workers the next one in order may be the one that finds none left; "
                 "want at least %zu, or a smaller depth",
                 node->name, have, want);
}

/* ---- rings of queues ----

   Stages that wait for each other in a ring wait along queues: one lacks a buffer from another,
   which waits for room before a third.  If the queues, taken without their direction, form no ring,
   some stage can always proceed. */

typedef struct ring {
  bool *kept; /* [n_edges] edges checked so far: a forest */
  bool *seen; /* [n_nodes] */
  int *tree;  /* [n_nodes] a stage nearer to the root of its tree, or itself */
  int *edge;  /* [n_edges] the ring that was found */
  int n;
} ring_t;

static bool holds_up(const mr_graph_t *g, const mr__edge_t *e) {
  return g->node[e->from]->n_workers && !port_into(g, e)->lossy;
}

/* Collects the edges of the forest between two stages in r->edge. */
static bool find_way(const mr_graph_t *g, ring_t *r, int at, int to) {
  if (at == to) return true;
  r->seen[at] = true;
  for (int i = 0; i < g->n_edges; i++) {
    const mr__edge_t *e = &g->edge[i];
    int other = e->from == at ? e->to : e->from;
    if (!r->kept[i] || (e->from != at && e->to != at) || r->seen[other]) continue;
    assert(r->n < g->n_edges);
    r->edge[r->n++] = i;
    if (find_way(g, r, other, to)) return true;
    r->n--;
  }
  return false;
}

/* A ring in a graph without circles enters some stage twice, through its ports a and b. */
static const mr__node_t *entered_twice(const mr_graph_t *g, const ring_t *r, const mr__edge_t **a,
                                       const mr__edge_t **b) {
  for (int i = 0; i < r->n; i++)
    for (int k = 0; k < i; k++)
      if (g->edge[r->edge[i]].to == g->edge[r->edge[k]].to) {
        *a = &g->edge[r->edge[k]], *b = &g->edge[r->edge[i]];
        return g->node[(*a)->to];
      }
  return NULL;
}

static mr_err_t refuse_ring(const mr_graph_t *g, const ring_t *r, mr_diag_t *diag) {
  const mr__edge_t *a = NULL, *b = NULL;
  const mr__node_t *node = entered_twice(g, r, &a, &b);
  assert(node); /* otherwise the ring would be a circle, which settle has refused */
  char at[32], list[400] = "";
  for (int i = 0; i < r->n; i++) {
    const mr__edge_t *e = &g->edge[r->edge[i]];
    size_t n = strlen(list);
    snprintf(list + n, sizeof list - n, "%s%s to %s", n ? ", " : "", g->node[e->from]->name,
             g->node[e->to]->name);
  }
  return mr_fail(diag, MR_ERR_USAGE,
                 "%s%s: the queues to its inputs \"%s\" and \"%s\" are parts of a ring (%s): while "
                 "it waits for one input, the queue of the other (%zu buffers) fills up, and then "
                 "all of these stages wait for each other; give each input a separate stage",
                 mr__pos_text(node->pos, at, sizeof at), node->name, mr__edge_in_name(g, a),
                 mr__edge_in_name(g, b), list, mr__edge_depth(g, b));
}

static int root_of(ring_t *r, int node) {
  while (r->tree[node] != node) node = r->tree[node] = r->tree[r->tree[node]];
  return node;
}

/* Joins stages into trees, edge by edge (union-find).  An edge whose two ends are in one tree
   already closes a ring: the way between them through the tree is its rest. */
static mr_err_t check_rings(const mr_graph_t *g, ring_t *r, mr_diag_t *diag) {
  for (int i = 0; i < g->n_nodes; i++) r->tree[i] = i;
  for (int i = 0; i < g->n_edges; i++) {
    const mr__edge_t *e = &g->edge[i];
    if (!holds_up(g, e)) continue;
    int a = root_of(r, e->from), b = root_of(r, e->to);
    r->tree[a] = b;
    r->kept[i] = true;
    if (a != b) continue;
    r->kept[i] = false, r->edge[0] = i, r->n = 1;
    find_way(g, r, e->to, e->from);
    return refuse_ring(g, r, diag);
  }
  return MR_OK;
}

mr_err_t mr__check_standstill(const mr_graph_t *g, mr_diag_t *diag) {
  size_t n = (size_t)g->n_edges + 1, nodes = (size_t)g->n_nodes;
  ring_t r = {.kept = calloc(n, sizeof *r.kept),
              .seen = calloc(nodes, sizeof *r.seen),
              .tree = calloc(nodes, sizeof *r.tree),
              .edge = calloc(n, sizeof *r.edge)};
  bool there = r.kept && r.seen && r.tree && r.edge;
  mr_err_t e = there ? check_rings(g, &r, diag) : mr_no_memory(diag, "the check against deadlocks");
  for (int i = 0; i < g->n_nodes && e >= 0; i++) e = check_pool(g, i, diag);
  free(r.kept), free(r.seen), free(r.tree), free(r.edge);
  return e;
}
