/* A metrics record as one JSON object: the form that files, pages and sockets share. */
#ifndef MR_SINKS_JSON_H
#define MR_SINKS_JSON_H

#include "metrics/metrics.h"

/* One line without its newline; the caller frees it.  NULL when memory is short. */
char *mr_metrics_json(const mr_metrics_t *r);

#endif
