/* A source: gives records by index.  It has no input and one output of flow RECORDS, and no thread:
   the workers of the stage that makes batches call fetch. */
#ifndef MR_PIPELINE_STAGE_SOURCE_H
#define MR_PIPELINE_STAGE_SOURCE_H

#include "pipeline/stage.h"

MR_BEGIN_DECLS

/* Where a record comes from. */
enum { MR_WHERE_MAX = 4096 };
typedef struct mr_where {
  uint64_t key;   /* as in mr_rec_t */
  char *file;     /* [MR_WHERE_MAX] the caller's: gets the file that holds the record, or words that
                     say what makes it */
  int64_t offset; /* of its first byte in the file; -1: made in memory */
} mr_where_t;

/* What a source has asked of servers since it was opened. */
typedef struct mr_asked {
  int64_t requests, again; /* again: of these, retries and requests that were sent a second time */
  int64_t bytes;           /* received, used or not */
  int64_t uses, hits;      /* parts looked for in the local cache, and found; 0 uses: no cache */
} mr_asked_t;

/* How fast a server gives what a source reads (millrace doctor). */
enum { MR_SERVED_MAX = 8 };
typedef struct mr_served {
  int64_t records, bytes, record_bytes; /* of the source; record_bytes: what a mean record reads */
  int64_t connections;                  /* that it would use */
  bool cached;                          /* it has a cache on disk */
  bool once;                            /* it reads all bytes once, at the start, and keeps them */
  double latency_s;                     /* of a request for one byte, median */
  int n;
  struct {
    int connections;
    double bytes_per_s; /* in requests of a mean record at random places */
  } at[MR_SERVED_MAX];  /* [n], with more and more connections; the last has all */
} mr_served_t;

struct mr_source_def {
  /* Sets fields and key of out[i] for index[i] in [0,n_records), n in [1,MR_BURST].  For a bit of
     s->writes it writes the value to out[i].field[f].data, which has room for the longest one and
     which it leaves as it is.  Otherwise it sets data to memory that stays valid until the next
     fetch of that worker (or is resident).  Sets rows of ragged fields.  Several workers may call
     it at once; worker in [0,workers) selects per-worker scratch.  MR_OK, or a failure: MR_ERR_DATA
     and MR_ERR_IO mean a bad record (pipeline/care.h). */
  mr_err_t (*fetch)(mr_stage_t *s, int worker, const int64_t *index, int n, mr_rec_t *out);

  /* A hint: the next fetch of this worker will most likely be of index[0,n).  True if their reads
     have begun.  What the last fetch gave stays valid; failures are reported by fetch.  n == 0 asks
     whether reading ahead is worth while now.  NULL: it never is. */
  bool (*ahead)(mr_stage_t *s, int worker, const int64_t *index, int n);

  /* Announces that the stream will fetch index[0,n), n <= MR_BURST, in this order, after what was
     announced before; workers may fetch in a slightly different order.  Most of it is announced
     long before it is due.  Returns how many more records the source wants to know of now, or -1 if
     it never wants any, as for files on this machine.  n == 0 asks. Any thread, one at a time; it
     must not block.  NULL: a source that needs no more than ahead. */
  int64_t (*foresee)(mr_stage_t *s, const int64_t *index, int n);

  /* Where record index comes from, into *out; out->file must point at MR_WHERE_MAX bytes.  After
     plan; a pure function that opens no file.  NULL: only fetch knows. */
  void (*where)(mr_stage_t *s, int64_t index, mr_where_t *out);
  /* The inverse of where's key: the only index in [0,n_records) whose key this may be, or -1; one
     with another key is none.  After plan.  NULL: each index is asked for its key. */
  int64_t (*index_of)(const mr_stage_t *s, uint64_t key);
  size_t care; /* offset of an mr_care_t in the state (pipeline/care.h), 0: none */

  /* Adds what it has asked of servers to *out; false if all of its files are on this machine.  Any
     thread, from open to close.  NULL: they always are. */
  bool (*asked)(mr_stage_t *s, mr_asked_t *out);

  /* Asks its servers for random records for about `seconds` with each number of connections.  After
     plan, without open; blocks.  MR_END: all of its files are on this machine.  NULL: they always
     are. */
  mr_err_t (*measure)(mr_stage_t *s, double seconds, mr_served_t *out);

  /* Describes in one line how its records would be read here and why, into text[0,n).  After plan,
     without open: it inspects the files and keeps none open.  MR_OK, or a failure by mr_stage_fail.
     NULL: records are made in memory. */
  mr_err_t (*explain)(mr_stage_t *s, char *text, size_t n);

  /* Returns a hash of what servers have said of the objects it reads: their names, sizes, ETags and
     times.  After plan; asks no server.  0: all of its files are on this machine.  NULL: they
     always are. */
  uint64_t (*objects)(mr_stage_t *s);
};

/* True if the stage is a source that knows where its records come from. */
static inline bool mr_says_where(const mr_stage_def_t *def) {
  return def->source && def->source->where;
}

MR_END_DECLS

#endif
