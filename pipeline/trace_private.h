#ifndef MR_PIPELINE_TRACE_PRIVATE_H
#define MR_PIPELINE_TRACE_PRIVATE_H

#include "pipeline/chain_private.h"

/* Reports a record made by op[0,n) to the tracer; rec NULL: it was only found.  Returns the
   tracer's key for it. */
uint64_t mr__trace_record(mr_chain_t *c, const mr__op_t *op, size_t n, int slot,
                          const mr_rec_t *rec);

/* True if a stage of this definition is opened under the graph's tracer. */
bool mr__trace_opens(const mr_graph_t *g, const mr_stage_def_t *def);

#endif
