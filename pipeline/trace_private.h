#ifndef MR_PIPELINE_TRACE_PRIVATE_H
#define MR_PIPELINE_TRACE_PRIVATE_H

#include "pipeline/chain_private.h"

/* Tells a record made of op[0,n), fetched before if rec is not NULL. */
uint64_t mr__trace_record(mr_chain_t *c, const mr__op_t *op, size_t n, int slot,
                          const mr_rec_t *rec);

/* Whether a stage of this def is opened. */
bool mr__trace_opens(const mr_graph_t *g, const mr_stage_def_t *def);

#endif
