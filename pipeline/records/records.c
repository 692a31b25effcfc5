/* What settling all record stages has in common: default seeds, and whether a stream is
   indexable. */
#include <stdlib.h>
#include <string.h>

#include "base/seedseq.h"
#include "pipeline/records/chain_private.h"
#include "pipeline/registry.h"
#include "pipeline/stage_map.h"
#include "pipeline/stage_order.h"

/* Visits of stages on all paths, a stage once for each path through it.  A graph with more is
   refused later, as no chain takes it (mr__chain_check). */
enum { VISITS_MAX = 1 << 16 };

/* ---- seeds ---- */

typedef struct visit {
  int node, depth;
} visit_t;

/* The stages to visit, and the words of those visited. */
typedef struct seeds {
  visit_t *queue; /* [cap] */
  uint32_t *word; /* [2 * cap] */
  int head, tail, cap, n;
} seeds_t;

static bool visit_later(seeds_t *w, visit_t v) {
  if (w->tail == w->cap) {
    int cap = w->cap ? 2 * w->cap : 64;
    visit_t *queue = realloc(w->queue, (size_t)cap * sizeof *queue);
    if (queue) w->queue = queue;
    uint32_t *word = realloc(w->word, 2 * (size_t)cap * sizeof *word);
    if (word) w->word = word;
    if (!queue || !word) return false;
    w->cap = cap;
  }
  w->queue[w->tail++] = v;
  return true;
}

/* grain walks the stages before this one breadth-first, on each path up to the nearest stage with
   its own seed, and hashes the seeds with their distances. */
static bool gather_seeds(const mr_graph_t *g, int node, seeds_t *w) {
  if (!visit_later(w, (visit_t){node, 0})) return false;
  while (w->head < w->tail && w->tail <= VISITS_MAX) {
    visit_t v = w->queue[w->head++];
    int64_t seed = v.depth ? g->node[v.node]->worker->base_seed : -1;
    if (seed >= 0) {
      w->word[w->n++] = (uint32_t)seed, w->word[w->n++] = (uint32_t)v.depth;
      continue;
    }
    for (int p = 0; p < g->node[v.node]->worker->n_in; p++) {
      const mr__edge_t *e = mr__edge_into(g, v.node, p);
      if (!e) continue;
      const mr_order_def_t *order = g->node[e->from]->def->order;
      bool counts = !order || !order->uncounted;
      if (!visit_later(w, (visit_t){e->from, v.depth + counts})) return false;
    }
  }
  return true;
}

mr_err_t mr__default_seed(mr_graph_t *g, int node, mr_stage_t *s) {
  seeds_t w = {0};
  if (s->def->out[0].flow != MR_FLOW_RECORDS) return MR_OK;
  mr_err_t e = gather_seeds(g, node, &w) ? MR_OK : MR_ERR_NOMEM;
  if (w.n) mr_seed_sequence(w.word, (size_t)w.n, &s->default_seed, 1);
  s->has_default_seed = w.n > 0;
  free(w.queue), free(w.word);
  return e;
}

mr_err_t mr_needs_generator(mr_stage_t *s, const char *otherwise) {
  if (s->in_spec[0].seeded) return MR_OK;
  char stages[256];
  mr_registry_role_list(s->registry, MR_ROLE_SEEDS, "seed", "N", "N", stages, sizeof stages);
  return mr_stage_fail(s, MR_ERR_CONFIG,
                       "the records have no generator to draw from: put %s before this stage%s%s",
                       *stages ? stages : "a stage that gives them one",
                       otherwise ? ", or set " : "", otherwise ? otherwise : "");
}

/* ---- kinds of streams ---- */

static bool any_sequential(const mr_stage_t *s) {
  for (int p = 0; p < s->n_in; p++)
    if (s->in_linked[p] && s->in_spec[p].sequential) return true;
  return false;
}

static bool any_holes(const mr_stage_t *s) {
  for (int p = 0; p < s->n_in; p++)
    if (s->in_linked[p] && s->in_spec[p].holes) return true;
  return false;
}

mr_err_t mr__before_plan(mr_stage_t *s) {
  if (s->def->order && !s->def->walk && any_sequential(s))
    return mr_stage_fail(s, MR_ERR_SHAPE,
                         "takes records by position, but its input is a sequential stream; put it "
                         "before the stage that makes the stream sequential");
  return MR_OK;
}

int mr__own_words(const mr_stage_t *s) {
  const mr_walk_def_t *walk = s->def->walk;
  return walk->words ? walk->words(s) : walk->n_words;
}

static int words_of(const mr_stage_t *s) {
  const mr_walk_def_t *walk = s->def->walk;
  int n = walk ? mr__own_words(s) : 0;
  int parts = walk && walk->n_walks ? walk->n_walks(s) : 0;
  if (parts) return n + parts * s->in_spec[0].n_words;
  for (int p = 0; p < s->n_in; p++)
    if (s->in_linked[p]) n += s->in_spec[p].n_words;
  return n;
}

mr_err_t mr__after_plan(mr_stage_t *s) {
  const mr_stage_def_t *def = s->def;
  mr_spec_t *out = &s->out_spec[0];
  if (out->flow != MR_FLOW_RECORDS || def->step) return MR_OK;
  bool only_walk = def->walk && !def->order;
  int64_t epochs = out->n_epochs ? out->n_epochs : 1, all;
  out->sequential = any_sequential(s) || only_walk;
  bool beyond = __builtin_mul_overflow(out->n_records, epochs, &all) || all > INT64_C(1) << 62;
  if (beyond && !out->sequential)
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "%lld epochs of %lld records are more than 2^62 records; take fewer",
                         (long long)epochs, (long long)out->n_records);
  out->holes = !out->sequential && (any_holes(s) || mr__leaves_holes(def));
  out->n_words = out->sequential ? words_of(s) : 1;
  if (out->n_words > MR_STREAM_WORDS_MAX)
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "the state of this stream has %d numbers, want at most %d; take fewer "
                         "inputs or workers",
                         out->n_words, MR_STREAM_WORDS_MAX);
  return MR_OK;
}
