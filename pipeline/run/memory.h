/* What a settled graph will take of memory, before it starts: the buffers of its stages with what
   leads them, records in the making, threads, and what stages say that they keep.  mr_graph_start
   asks it too and refuses a graph whose stages keep more than the machine has, by name and before a
   thread or a file is opened, whichever program starts it. */
#ifndef MR_PIPELINE_RUN_MEMORY_H
#define MR_PIPELINE_RUN_MEMORY_H

#include "pipeline/graph/graph.h"

MR_BEGIN_DECLS

/* Bytes, each at most: queues need not fill.  Ragged fields, such as whole files, are not counted:
   what of their room is touched depends on the records.  What a step takes while it is compiled is
   measured, not planned, and near: tests/apps/test_graph_memory.c allows a twentieth and 8 MB.  The
   program itself and its libraries are beside the sum. */
typedef struct mr_stage_memory {
  const char *stage;  /* the graph's */
  int workers;        /* threads; 0: a stage of records, whose work is its batch's */
  size_t buffers;     /* of its outputs */
  size_t queues;      /* of its inputs, and what a worker has for its ports */
  size_t records;     /* a batch: what its workers make records in */
  size_t threads;     /* stacks, and what malloc has for a thread */
  size_t own;         /* as the stage says (mr_stage_def_t.memory) */
  const char *advice; /* with own; NULL: none */
  size_t all;
} mr_stage_memory_t;

/* Writes a row for each stage of the settled graph, in its order, into row[0,mr_graph_n_stages),
   and the sum into *total.  models: stages that compile one are asked for its plan too, which takes
   a tenth of a second or more; else only what they know without.  MR_OK, or a failure of a plan, or
   MR_ERR_NOMEM.  Main thread only, before the graph starts. */
mr_err_t mr_graph_memory(mr_graph_t *g, bool models, mr_stage_memory_t *row, size_t *total,
                         mr_diag_t *diag);

/* MR_ERR_NOMEM, with a sentence that names the stage that keeps most, if what the stages of these
   rows keep (own) is more than the memory of the machine or of its control group; else MR_OK.  What
   the process has already does not count, nor what need not be touched: buffers and queues. */
mr_err_t mr_graph_memory_check(const mr_graph_t *g, const mr_stage_memory_t *row, mr_diag_t *diag);

MR_END_DECLS

#endif
