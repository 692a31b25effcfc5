/* The graph of stages as the page draws it: what stands fixed, and how it goes right now. */
#ifndef MR_SINKS_WEB_GRAPH_H
#define MR_SINKS_WEB_GRAPH_H

#include "pipeline/watch.h"

/* Stages with their settings (secret ones hidden), edges, class names: JSON (heap), NULL without
   memory.  For a stage's open alone: it makes texts that the graph keeps, without a lock. */
char *mr_web_run_json(const mr_stage_t *s, const char *run);

typedef struct mr_web_live {
  mr_stats_t *before, *now; /* [n_stages]: the shares told are of the time between */
  int64_t at_ns;
} mr_web_live_t;

bool mr_web_live_init(mr_web_live_t *l, const mr_stage_t *s);
void mr_web_live_fini(mr_web_live_t *l);
/* Shares of the last second or so and the queues of this moment, in the order of the run's JSON:
   {"stages":[[busy,starved,blocked],...],"edges":[[waiting,lost],...],"limiting":stage}, shares in
   thousandths and [] for a stage without a thread, limiting -1 while unknown.  Behind the shares of
   a link's end stand released and committed.  Heap; NULL without memory. */
char *mr_web_live_json(mr_web_live_t *l, const mr_stage_t *s);

#endif
