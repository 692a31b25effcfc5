/* A metrics record as one JSON object: the form that files, pages and sockets share. */
#ifndef MR_SINKS_JSON_H
#define MR_SINKS_JSON_H

#include "metrics/metrics.h"

/* Returns the record as one line without a newline; the caller frees it.  NULL without memory. */
char *mr_metrics_json(const mr_metrics_t *r);

#endif
