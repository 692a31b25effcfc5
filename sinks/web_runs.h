/* Runs beside the one that a page shows, to be laid under its curves. */
#ifndef MR_SINKS_WEB_RUNS_H
#define MR_SINKS_WEB_RUNS_H

#include <stddef.h>

/* Names of the folders beside run that hold metrics: a JSON array (heap), NULL without memory. */
char *mr_web_runs_json(const char *run);

/* The metrics.jsonl of one of them (heap), *n bytes; NULL: there is none, or the name leads
   elsewhere. */
void *mr_web_runs_metrics(const char *run, const char *name, size_t *n);

#endif
