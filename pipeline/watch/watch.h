/* What a stage may see of its own graph: for sinks that report how a run goes.  The calls may be
   made from the stage's thread, from open on; stage and edge numbers are not checked. */
#ifndef MR_PIPELINE_WATCH_WATCH_H
#define MR_PIPELINE_WATCH_WATCH_H

#include "pipeline/graph/graph.h"
#include "pipeline/stage.h"
#include "pipeline/stage_source.h"

/* The number of stages, numbered as in the text; 0 if the stage's graph has not started. */
int mr_watch_n_stages(const mr_stage_t *s);
/* The name (owned by the graph, never NULL) of stage i, and in *out what it has done so far;
   workers 0: none of its threads has begun. */
const char *mr_watch_stage(const mr_stage_t *s, int i, mr_stats_t *out);

/* Returns the name alone, owned by the graph, never NULL. */
const char *mr_watch_name(const mr_stage_t *s, int i);

/* Threads of stage i, 0 for a record stage: it runs in the threads of the stage that makes
   batches. */
int mr_watch_n_workers(const mr_stage_t *s, int i);

/* The newest value that stage i has reported of metric k of its definition (mr_metric_report) in
 *value; false if it has reported none. */
bool mr_watch_metric(const mr_stage_t *s, int i, int k, double *value);

/* Stage i's definition, for its settings; never NULL, lives as long as the registry's table. */
const mr_stage_def_t *mr_watch_def(const mr_stage_t *s, int i);
/* A setting's text as given or its default, as it may be shown (mr_shown; heap, the caller frees
   it). NULL if neither is set, or without memory.  Only in open: the graph keeps texts without a
   lock. */
char *mr_watch_setting(const mr_stage_t *s, int i, const char *setting);

typedef struct mr_watch_edge {
  int from, to;          /* stages */
  const mr_spec_t *spec; /* what flows over it; owned by the graph */
  int64_t waiting;       /* buffers in its rings now */
  int64_t room;          /* buffers that its rings can hold; 0: records, which never wait */
  bool lossy;
  int64_t lost; /* buffers that a lossy edge has dropped */
} mr_watch_edge_t;

/* The number of edges, 0 if the graph has not started; and edge i as it is now. */
int mr_watch_n_edges(const mr_stage_t *s);
void mr_watch_edge(const mr_stage_t *s, int i, mr_watch_edge_t *out);

/* What all sources of the graph together have asked of servers so far; false if none reads from
   one, or the graph has not started. */
bool mr_watch_asked(const mr_stage_t *s, mr_asked_t *out);

/* The stage that limits the graph lately (pipeline/watch/diagnose.h), or the link that waits for
   another process, into text[0,n); "" if unknown. */
void mr_limiting_stage(const mr_stage_t *s, char *text, size_t n);

#endif
