/* Records that training and evaluation share. */
#ifndef MR_APPS_LEAK_H
#define MR_APPS_LEAK_H

#include "pipeline/graph.h"

/* Parses the graph once more into an empty g. */
typedef mr_err_t (*mr_build_fn)(void *ctx, mr_graph_t *g, mr_diag_t *diag);

/* For every stage of g that has the setting leak-check: MR_ERR_CONFIG if two of its inputs are fed
   by the same record, with their number and the first ones.  ids: the same place in the same file,
   without reading it; content: the same bytes; off: nothing is looked at. */
mr_err_t mr_leak_check(const mr_graph_t *g, mr_build_fn build, void *ctx, mr_diag_t *diag);

#endif
