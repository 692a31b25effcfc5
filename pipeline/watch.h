/* What a stage may see of the graph that it runs in: for sinks that tell people how it goes. */
#ifndef MR_PIPELINE_WATCH_H
#define MR_PIPELINE_WATCH_H

#include "pipeline/stage.h"
#include "pipeline/stats.h"

/* Stages of the graph, numbered as in its text. */
int mr_watch_n_stages(const mr_stage_t *s);
/* Name (owned by the graph) and what stage i has done so far; workers 0: no thread of it has begun.
 */
const char *mr_watch_stage(const mr_stage_t *s, int i, mr_stats_t *out);

/* Threads that stage i gets, from open on; 0: its records are made in those of the stages behind.
 */
int mr_watch_n_workers(const mr_stage_t *s, int i);

/* The stage's constant, for its settings. */
const mr_stage_def_t *mr_watch_def(const mr_stage_t *s, int i);
/* A setting's text as given or its default, "(hidden)" for a secret one that is given; owned by the
   graph.  NULL: there is none.  Only while stages open: the graph keeps texts without a lock. */
const char *mr_watch_setting(const mr_stage_t *s, int i, const char *setting);

typedef struct mr_watch_edge {
  int from, to;          /* stages */
  const mr_spec_t *spec; /* what flows over it; the graph's */
  int64_t waiting;       /* buffers in its rings now */
  int64_t room;          /* buffers that its rings hold at most; 0: records, which wait nowhere */
  bool lossy;
  int64_t lost; /* buffers that a lossy edge has let go */
} mr_watch_edge_t;

/* Edges of the graph, and edge i as it is now. */
int mr_watch_n_edges(const mr_stage_t *s);
void mr_watch_edge(const mr_stage_t *s, int i, mr_watch_edge_t *out);

/* The stage that the others wait for (largest busy share lately) into text; "" if unknown. */
void mr_limiting_stage(const mr_stage_t *s, char *text, size_t n);

#endif
