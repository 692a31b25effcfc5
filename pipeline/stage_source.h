/* A source: gives records by number.  It has no input and one output of flow RECORDS, and no
   thread: the workers of the stage that makes batches call fetch. */
#ifndef MR_PIPELINE_STAGE_SOURCE_H
#define MR_PIPELINE_STAGE_SOURCE_H

#include "pipeline/stage.h"

MR_BEGIN_DECLS

/* Where a record comes from. */
enum { MR_WHERE_MAX = 4096 };
typedef struct mr_where {
  uint64_t key;   /* as in mr_rec_t */
  char *file;     /* [MR_WHERE_MAX] the caller's: the file that holds it, or the words that say what
                     makes it */
  int64_t offset; /* of its first byte in the file; -1: it is made in memory */
} mr_where_t;

struct mr_source_def {
  /* Sets fields and key of out[i] for index[i] in [0,n_records).  For a bit of s->writes it writes
     the value at out[i].field[f].data, which it leaves as it is: room for the longest one.  Else it
     sets data to memory that stays valid until the next fetch of that worker (or is resident).
     Sets rows of ragged fields.  May be called by several workers at once; worker in [0,workers)
     picks per-worker scratch.  n <= the chain's burst (MR_BURST). */
  mr_err_t (*fetch)(mr_stage_t *s, int worker, const int64_t *index, int n, mr_rec_t *out);

  /* The next fetch of this worker will most likely be of index[0,n); true if their reads have
     begun.  What its last fetch gave stays; failures are reported by fetch.  n == 0 asks whether it
     is worth while now.  NULL: it never is. */
  bool (*ahead)(mr_stage_t *s, int worker, const int64_t *index, int n);

  /* Where record index comes from, into *out; out->file must point at MR_WHERE_MAX bytes.  After
     plan; a pure function that touches no file.  NULL: only fetch can tell. */
  void (*where)(mr_stage_t *s, int64_t index, mr_where_t *out);
  size_t care; /* offset of an mr_care_t in the state (pipeline/care.h), 0: none */

  /* How its records would be read here and why, one line into text[0,n); after plan, without open:
     it looks at the files and keeps none.  NULL: they are made in memory. */
  mr_err_t (*explain)(mr_stage_t *s, char *text, size_t n);
};

/* True of a source that can say where its records come from. */
static inline bool mr_says_where(const mr_stage_def_t *def) {
  return def->source && def->source->where;
}

MR_END_DECLS

#endif
