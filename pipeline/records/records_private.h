/* What settling and running a graph ask of its records: their stages' plans, their chains, and
   whether they are opened. */
#ifndef MR_PIPELINE_RECORDS_RECORDS_PRIVATE_H
#define MR_PIPELINE_RECORDS_RECORDS_PRIVATE_H

#include "pipeline/graph/graph_private.h"
#include "pipeline/records/chain.h"

/* records.c: what settling all record stages has in common.  Before plan: the seed that follows
   from the pipeline's, if it has one; whether the stage can take its inputs.  After plan: what of
   the output follows from the inputs. */
mr_err_t mr__default_seed(mr_graph_t *g, int node, mr_stage_t *s);
mr_err_t mr__before_plan(mr_stage_t *s);
mr_err_t mr__after_plan(mr_stage_t *s);

/* records.c: the numbers that a planned walk keeps itself. */
int mr__own_words(const mr_stage_t *s);

/* chain.c, after the specs are settled: MR_ERR_CONFIG if the chain before an input port would have
   too many branches or too deep; MR_OK also for a port without a chain. */
mr_err_t mr__chain_check(const mr_graph_t *g, int node, int port, mr_diag_t *diag);
/* chain.c: the bytes that one takes, about; 0 for a port of another flow.  After mr__chain_check.
 */
size_t mr__chain_bytes(const mr_graph_t *g, int node, int port);
/* chain.c: builds the chain before an input port for one worker, whose failures go to diag.  NULL
   without memory. */
mr_chain_t *mr__chain_create(mr_graph_t *g, int node, int port, mr_diag_t *diag);
void mr__chain_destroy(mr_chain_t *c);

/* lineage.c: true if a stage of this definition is opened though the graph may only find records.
 */
bool mr__lineage_opens(const mr_graph_t *g, const mr_stage_def_t *def);

/* port.c: true once the graph that runs s is cancelled or has failed; false without a run. */
bool mr__stage_cancelled(const mr_stage_t *s);

#endif
