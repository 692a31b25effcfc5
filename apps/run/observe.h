/* Observing a run: which stage limits it, live and at the end, and a timeline file. */
#ifndef MR_APPS_RUN_OBSERVE_H
#define MR_APPS_RUN_OBSERVE_H

#include "apps/cli/cli.h"
#include "pipeline/graph/graph.h"

/* Rows for the flags of a command that runs a graph. */
#define MR_LOOK_FLAGS                                                                    \
  {"--explain", NULL,                                                                    \
   "Reports every 3 seconds on standard error which stage limits the run, and why."},    \
  {                                                                                      \
    "--trace", "FILE", "Writes a Chrome trace of what each worker did with which batch." \
  }

/* What to observe; says: print a last line about the whole run. */
typedef struct mr_look {
  bool explain, says;
  const char *trace;
} mr_look_t;

/* Returns what the command's flags request, with says set.  trace points into argv. */
mr_look_t mr_look_of(const mr_args_t *a);

typedef struct mr_observer mr_observer_t;
/* Starts a thread that reports the limiting stage of a started graph every 3 seconds, until the
   caller calls mr_observe_end, before g is destroyed.  NULL, and no reports, if it cannot start. */
mr_observer_t *mr_observe_begin(const mr_graph_t *g);
void mr_observe_end(mr_observer_t *e); /* joins the thread; NULL is fine */
/* Prints one line about the whole run of a joined graph on standard error. */
void mr_observe_run(const mr_graph_t *g);

/* Writes the timeline of a joined graph, whole or not at all.  Fails as mr_write_printed. */
mr_err_t mr_look_write_trace(const mr_graph_t *g, const char *path, mr_diag_t *diag);

#endif
