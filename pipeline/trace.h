/* Watching the records of a graph: where each comes from and what was drawn for it. */
#ifndef MR_PIPELINE_TRACE_H
#define MR_PIPELINE_TRACE_H

#include "pipeline/graph.h"

enum { MR_DRAWS_MAX = 64, MR_LEAVES_MAX = 16 };

/* What maps noted with mr_draw_note for one record, in order; more than fit are not kept. */
typedef struct mr_draws {
  const mr_stage_t *now; /* whose turn it is */
  int n;
  struct {
    const mr_stage_t *stage;
    uint64_t what;
  } row[MR_DRAWS_MAX];
} mr_draws_t;

/* A record of a source that went into a record of a batch; several for zip. */
typedef struct mr_leaf {
  mr_stage_t *source;
  int64_t index;
  const mr_rec_t *rec; /* as the source gave it; NULL if nothing is fetched */
} mr_leaf_t;

typedef struct mr_trace {
  int slot;              /* in the batch */
  const mr_rec_t *rec;   /* as it goes into the batch; NULL if nothing is fetched */
  const mr_spec_t *spec; /* of rec */
  int n_leaves;
  mr_leaf_t leaf[MR_LEAVES_MAX];
  const mr_draws_t *draws;
} mr_trace_t;

/* Called by the workers of the stages that make batches, for one batch after the other each.  What
   it returns is the record's key in the batch, also where later stages make other batches of it. */
typedef uint64_t (*mr_trace_fn)(void *ctx, const mr_trace_t *t);

/* Before start.  only: records are found but neither fetched nor made, batches hold no data, and
   sources are opened only if a filter must look at their records. */
void mr_graph_trace(mr_graph_t *g, mr_trace_fn fn, void *ctx, bool only);

/* A draw in words, "flip: mirrored"; the number where the stage has no words for it. */
void mr_draw_text(const mr_draws_t *d, int i, char *text, size_t n);

#endif
