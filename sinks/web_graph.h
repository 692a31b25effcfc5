/* The graph of stages as the page draws it: its fixed structure, and its live measurements. */
#ifndef MR_SINKS_WEB_GRAPH_H
#define MR_SINKS_WEB_GRAPH_H

#include "pipeline/watch.h"

/* Returns stages with their settings (secret ones hidden), edges and class names as JSON, heap,
   which the caller frees; NULL without memory.  Call it in a stage's open alone: it writes texts
   that the graph keeps, without a lock. */
char *mr_web_run_json(const mr_stage_t *s, const char *run);

typedef struct mr_web_live {
  mr_stats_t *before, *now; /* [n_stages]; reported shares are of the time between them */
  int64_t at_ns;            /* of before */
} mr_web_live_t;

/* Allocates the measurements.  Returns false without memory; the caller calls fini then too. */
bool mr_web_live_init(mr_web_live_t *l, const mr_stage_t *s);
void mr_web_live_fini(mr_web_live_t *l); /* all zero is fine */
/* Returns shares of about the last second and the queues now, in the order of the run's JSON:
   {"stages":[[busy,starved,blocked],...],"edges":[[waiting,lost],...],"limiting":stage}.  Shares
   are in thousandths; [] is a stage without a thread; released and committed follow the shares of a
   link's end; limiting is -1 while unknown.  Heap, the caller frees it; NULL without memory.  One
   thread at a time. */
char *mr_web_live_json(mr_web_live_t *l, const mr_stage_t *s);

#endif
