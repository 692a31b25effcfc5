/* Finds the batches that hold a record without looking through the stream: the orders before a
   batch are functions of a position whose inverses are known (mr_order_def_t.taken), so a record
   that comes once in an epoch costs a computation for each epoch, however many records that has. */
#ifndef MR_PIPELINE_RECORDS_FIND_H
#define MR_PIPELINE_RECORDS_FIND_H

#include "pipeline/graph/graph.h"

MR_BEGIN_DECLS

/* A batch that holds the record. */
typedef struct mr_found_place {
  int64_t number, epoch; /* both from 0; the number as mr_graph_seek counts them */
  int slot;              /* in the batch as this graph gives it */
  mr_stage_t *source;    /* of the record; where several of a joined record have the key, the first
                            one */
  int64_t index;         /* there */
} mr_found_place_t;

typedef struct mr_find {
  uint64_t key;       /* of a source's record, as its `where` says it */
  const char *source; /* only records of this stage; NULL: of any */
  int64_t first, end; /* the batches to look in, [first,end); end INT64_MAX: all */
  /* Called in the order of the stream, each place once.  MR_OK; MR_END to find no more; a
     failure. */
  mr_err_t (*found)(void *ctx, const mr_found_place_t *f, mr_diag_t *diag);
  void *ctx;
} mr_find_t;

/* Looks for a record in the batches that a stage gives, of a settled graph that is not started; all
   sources before it have `where`.  MR_OK, and why is ""; or nothing is done, since the batches do
   not follow from positions, and why[0,n) says at which stage, as a clause.  Else a failure of
   found or of a stage.  Main thread only. */
mr_err_t mr_graph_find(mr_graph_t *g, const char *stage, const mr_find_t *want, char *why, size_t n,
                       mr_diag_t *diag);

MR_END_DECLS

#endif
