/* Commits pass back along the edges.

   Stages that keep what a process resumes from (checkpoints, states of ledgers, links whose other
   end does) say up to which buffer; the number is translated and passed upstream to the stages that
   receive the streams.

   An edge's number is the least of what its consumer has committed and of what has come back
   through it; a stage's number is the least over the edges it feeds.  Commits are rare (one a
   checkpoint, one an acknowledgement), so one lock serves all. */
#include <assert.h>
#include <stdlib.h>

#include "pipeline/run/commit.h"
#include "pipeline/run/runtime_private.h"
#include "pipeline/stage_step.h"

enum { MR_OWN_WORDS = 8 };
#define NO_CONSUMER INT64_MAX /* no consumer of the edge keeps anything */

static int64_t commit_least(int64_t a, int64_t b) { return a < b ? a : b; }

static bool is_record_stage(const mr__node_t *node) { return !node->n_workers; }

/* The number of the input buffer that a stage's buffer `number` begins with; -1: it does not
   follow. */
static int64_t number_before(const mr__node_t *node, int64_t number) {
  int64_t own[MR_OWN_WORDS], record = 0;
  const mr_stage_def_t *def = node->def;
  if (!def->step->seek) return number;
  if (def->step->n_words > MR_OWN_WORDS) return -1;
  int64_t before = def->step->seek(node->worker, number, own, &record);
  return record ? -1 : before;
}

/* Stores what all consumers of a stage have committed; false: unchanged. */
static bool store_committed(mr_graph_t *g, int at) {
  mr__node_t *node = g->node[at];
  int64_t number = NO_CONSUMER;
  for (int i = 0; i < g->n_edges; i++)
    if (g->edge[i].from == at)
      number = commit_least(number, commit_least(g->commit[i].here, g->commit[i].beyond));
  if (number == NO_CONSUMER) return false;
  assert(number >= 0);
  /* seq_cst: before the load of the parked flag, as wait.h requires; pairs with mr__news. */
  if (atomic_exchange_explicit(&node->committed, number, memory_order_seq_cst) == number)
    return false;
  if (node->rt && !node->rt->n_in) mr_wait_wake(&node->rt->wait);
  return true;
}

static void pass_back(mr_graph_t *g, int at) {
  const mr__node_t *node = g->node[at];
  assert(at >= 0 && at < g->n_nodes);
  if (is_record_stage(node) || !store_committed(g, at)) return;
  /* relaxed: stored by this thread just now, or by another that held the lock before. */
  int64_t before =
      number_before(node, atomic_load_explicit(&node->committed, memory_order_relaxed));
  for (int i = 0; i < g->n_edges && before >= 0; i++) {
    const mr__edge_t *e = &g->edge[i];
    if (e->to != at || is_record_stage(g->node[e->from])) continue;
    g->commit[i].beyond = before;
    pass_back(g, e->from);
  }
}

/* For every stream upstream of a stage: commits only what lies before its start. */
static void commit_begin(mr_graph_t *g, int at, bool beyond) {
  for (int i = 0; i < g->n_edges; i++) {
    const mr__edge_t *e = &g->edge[i];
    if (e->to != at || is_record_stage(g->node[e->from])) continue;
    *(beyond ? &g->commit[i].beyond : &g->commit[i].here) = g->node[e->from]->start_number;
    store_committed(g, e->from);
    commit_begin(g, e->from, true);
  }
}

bool mr__commit_init(mr_graph_t *g) {
  g->commit = malloc(((size_t)g->n_edges + 1) * sizeof *g->commit);
  for (int i = 0; g->commit && i < g->n_edges; i++)
    g->commit[i] = (mr__commit_t){NO_CONSUMER, NO_CONSUMER};
  for (int i = 0; i < g->n_nodes; i++) atomic_init(&g->node[i]->committed, -1);
  return g->commit;
}

void mr_commits(mr_stage_t *s) {
  mr_graph_t *g = s->rt->g;
  pthread_mutex_lock(&g->commit_lock);
  commit_begin(g, mr__graph_find(g, s->name), false);
  pthread_mutex_unlock(&g->commit_lock);
}

void mr_commit(mr_stage_t *s, const char *of, int port, int64_t number) {
  mr_graph_t *g = s->rt->g;
  int at = mr__graph_find(g, of);
  pthread_mutex_lock(&g->commit_lock);
  for (int i = 0; i < g->n_edges && number >= 0; i++) {
    const mr__edge_t *e = &g->edge[i];
    if (e->to != at || e->in != port || is_record_stage(g->node[e->from])) continue;
    *(g->node[at]->worker == s ? &g->commit[i].here : &g->commit[i].beyond) = number;
    pass_back(g, e->from);
  }
  pthread_mutex_unlock(&g->commit_lock);
}

/* acquire pairs with the exchange in store(). */
int64_t mr_committed(const mr_stage_t *s) {
  return atomic_load_explicit(&s->rt->node->committed, memory_order_acquire);
}
