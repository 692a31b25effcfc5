/* Runs in the same parent folder as the one that a page shows, to overlay their curves.  Any
   thread; calls block on the file system. */
#ifndef MR_SINKS_WEB_RUNS_H
#define MR_SINKS_WEB_RUNS_H

#include <stddef.h>

/* Returns the names of the sibling folders of run that have a metrics.jsonl, as a JSON array, heap,
   which the caller frees.  NULL without memory. */
char *mr_web_runs_json(const char *run);

/* Returns the metrics.jsonl of one of them, *n bytes, heap, which the caller frees.  NULL if it
   cannot be read, exceeds 64 MiB, or if the name is no plain folder name. */
void *mr_web_runs_metrics(const char *run, const char *name, size_t *n);

#endif
