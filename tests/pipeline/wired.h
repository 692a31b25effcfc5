/* A graph that is settled and wired, but whose workers no thread runs: a test calls what a step
   function calls, for any of them. */
#ifndef MR_TESTS_WIRED_H
#define MR_TESTS_WIRED_H

#include "pipeline/run/runtime_private.h"

static inline mr_graph_t *wired(mr_registry_t *reg, const mr_stage_def_t *const *table,
                                const char *text, int depth) {
  mr_diag_t diag = {0};
  memset(reg, 0, sizeof *reg);
  mr_registry_add(reg, table);
  mr_graph_t *g = mr_graph_create(reg);
  if (mr_graph_parse(g, text, NULL, 0, &diag) < 0 ||
      (depth && mr_graph_set_depth(g, depth, &diag) < 0) || mr_graph_settle(g, &diag) < 0 ||
      mr__wire(g) < 0)
    fail_msg("%s: %s", text, diag.text);
  return g;
}

static inline mr_stage_t *worker_of(mr_graph_t *g, const char *stage, int worker) {
  return g->node[mr__graph_find(g, stage)]->rt[worker].s;
}

static inline bool pools_whole(const mr_graph_t *g) {
  for (int i = 0; i < g->n_nodes * MR_MAX_PORTS; i++)
    if (g->pool[i] && !mr__pool_whole(g->pool[i])) return false;
  return true;
}

#endif
