/* Why a stage gave nothing, for the stages downstream and for the report. */
#include <stdarg.h>
#include <stdio.h>

#include "pipeline/runtime_private.h"
#include "pipeline/stage_step.h"

void mr_gave_nothing(mr_stage_t *s, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(s->rt->node->nothing, MR__NOTHING_MAX, fmt, ap);
  va_end(ap);
}

/* What was written before the ring to s was closed is visible after it.  Stages with several inputs
   report nothing, so the first input leads to the stage that did. */
void mr_nothing_came(const mr_stage_t *s, int port, char *text, size_t n) {
  const mr_graph_t *g = s->rt->g;
  const mr__edge_t *e = mr__edge_into(g, mr__graph_find(g, s->name), port);
  *text = 0;
  for (int depth = 0; e && depth < g->n_nodes; depth++) {
    const mr__node_t *from = g->node[e->from];
    if (*from->nothing) {
      snprintf(text, n, "%s gave nothing: %s", from->name, from->nothing);
      return;
    }
    e = mr__edge_into(g, e->from, 0);
  }
}
