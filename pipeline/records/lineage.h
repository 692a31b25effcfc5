/* The lineage of a record in a batch: the sources' records that went into it, and what was drawn
   for it. */
#ifndef MR_PIPELINE_RECORDS_LINEAGE_H
#define MR_PIPELINE_RECORDS_LINEAGE_H

#include "pipeline/graph/graph.h"

enum { MR_DRAWS_MAX = 64 };

/* What maps noted with mr_draw_note for one record, in order; the first MR_DRAWS_MAX are kept. */
typedef struct mr_draws {
  const mr_stage_t *now; /* the stage that runs now */
  int n;
  struct {
    const mr_stage_t *stage;
    uint64_t what;
  } row[MR_DRAWS_MAX];
} mr_draws_t;

/* A source's record that went into a record of a batch; zip has several. */
typedef struct mr_leaf {
  mr_stage_t *source;
  int64_t index;
  const mr_rec_t *rec; /* as the source gave it; NULL if records are only found */
} mr_leaf_t;

typedef struct mr_lineage {
  int slot;              /* in the batch */
  const mr_rec_t *rec;   /* as it goes into the batch; NULL if records are only found */
  const mr_spec_t *spec; /* of rec */
  int n_leaves;
  const mr_leaf_t *leaf; /* [n_leaves] */
  const mr_draws_t *draws;
} mr_lineage_t;

/* Called for each record by the workers of the stages that make batches, batch after batch in each
   worker; several workers may call at once.  *t and what it points to live until the call returns.
   Returns the key that the record gets in the batch, which later stages that regroup batches pass
   on. */
typedef uint64_t (*mr_lineage_fn)(void *ctx, const mr_lineage_t *t);

/* Passes the lineage of each record to fn; call it before start.  fn and ctx must live until the
   graph is joined.  only: records are found but neither fetched nor made, batches hold no data, and
   sources are opened only if a filter must inspect their records. */
void mr_graph_lineage(mr_graph_t *g, mr_lineage_fn fn, void *ctx, bool only);

/* Draw i in [0,d->n) in words, "flip: mirrored", into text[0,n); its number where the stage has no
   words. */
void mr_draw_text(const mr_draws_t *d, int i, char *text, size_t n);

#endif
