/* Sizes of rings and pools, and the check that a graph with them cannot come to a standstill. */
#ifndef MR_PIPELINE_STANDSTILL_PRIVATE_H
#define MR_PIPELINE_STANDSTILL_PRIVATE_H

#include "pipeline/graph_private.h"

/* Buffers that each ring of an edge holds.  After the specs are settled. */
size_t mr__edge_depth(const mr_graph_t *g, const mr__edge_t *e);

/* The buffers of each of a stage's pools: as many as the rings allow in flight, or the most that
   mr_graph_set_pool allows.  MR_ERR_NOMEM. */
mr_err_t mr__pool_size(const mr_graph_t *g, int node, size_t *n);

/* Refuses a settled graph whose stages could wait for each other for ever, with the reason. */
mr_err_t mr__check_standstill(const mr_graph_t *g, mr_diag_t *diag);

#endif
