/* Bad and excluded records: what the graph calls, and the runtime state that care.c and
   care_fetch.c share. */
#ifndef MR_PIPELINE_RECORDS_CARE_PRIVATE_H
#define MR_PIPELINE_RECORDS_CARE_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/ranges.h"
#include "pipeline/care.h"
#include "pipeline/stage.h"

/* The stage's mr_care_t, in its state; NULL if the stage has none. */
mr_care_t *mr__care_of(const mr_stage_t *s);

/* Before a source's plan: parses on-bad and sets lenient.  MR_OK, also without an mr_care_t;
   MR_ERR_CONFIG for an unknown policy. */
mr_err_t mr__care_plan(mr_stage_t *s);

/* Before a source's open: makes the runtime, parses skip-records, reads and opens the quarantine
   file.  MR_ERR_NOMEM, MR_ERR_CONFIG (the list), MR_ERR_IO (the file), each with a sentence.  close
   is called after a failed open too. */
mr_err_t mr__care_open(mr_stage_t *s);
void mr__care_close(mr_stage_t *s);

/* The source's fetch, with replacements for bad records and marks on excluded ones; index[i]
   becomes the number of the record used.  Returns fetch's failure, or MR_ERR_DATA where on-bad
   allows no further bad record. */
mr_err_t mr__care_fetch(mr_stage_t *s, int worker, int64_t *index, int n, mr_rec_t *rec);

/* Counts for the report a record that goes into a batch, which a fetch gave for `asked`.  Any
   thread. */
void mr__care_count(mr_stage_t *s, int64_t asked, int64_t used, const mr_rec_t *rec);

/* A stage behind source s has found a record bad: `used`, which a fetch gave for `asked`.  why: its
   sentence.  MR_OK: the next fetch of `asked` gives another record; what the last fetch of this
   worker gave is no longer valid.  MR_ERR_DATA with why in s->diag where on-bad allows no further
   bad record or is fail; MR_ERR_NOMEM, MR_ERR_IO (the quarantine file). */
mr_err_t mr__care_reject(mr_stage_t *s, int worker, int64_t asked, int64_t used, const char *why);

/* The source's ahead, for the records that such a fetch would read. */
void mr__care_ahead(mr_stage_t *s, int worker, const int64_t *index, int n);
int64_t mr__care_foresee(mr_stage_t *s, const int64_t *index, int n);

/* The report on excluded and replaced records into text[0,n); "" without any.  After close. */
void mr__care_report(const mr_stage_t *s, char *text, size_t n);

/* ---- the runtime state ---- */

/* A bad record of the source and its replacement. */
typedef struct bad {
  int64_t index, other;
} bad_t;

/* The quarantine file (quarantine.c), and the lines that are still to be written to it. */
typedef struct mr__quarantine {
  int fd;   /* -1: none */
  bool cut; /* the file ends within a line */
  char *lines;
  size_t n, room;
} mr__quarantine_t;

struct mr__care {
  mr_ranges_t skip;
  bool replaces;
  int64_t most; /* bad records tolerated; -1: any number */
  void *zero;   /* zeros, as many bytes as the longest field */
  /* For a record that is only inspected, under the lock: its values, and room where fetch writes
     them. */
  mr_value_t value[MR_FIELDS_MAX];
  void *room;
  /* Relaxed: independent counts.  n_bad is also the rows in `bad` and changes under the lock;
     put_others reads it without.  If it misses a record that turns bad meanwhile, the fetch finds
     that record bad again. */
  _Atomic int64_t n_skipped, n_replaced, n_bad;
  pthread_mutex_t lock; /* guards the members below */
  bad_t *bad;           /* [cap] a hash table, at most half full; index -1: a free slot */
  int64_t cap;          /* a power of two; 0: no table */
  mr__quarantine_t quarantine;
};

/* Bad records known so far.  Any thread. */
static inline int64_t mr__care_n_bad(const struct mr__care *t) {
  return atomic_load_explicit(&t->n_bad, memory_order_relaxed);
}

/* Asks the processor for what mr__care_bad will read: the table of many bad records is in no cache.
   Under the lock. */
void mr__care_ask_ahead(const struct mr__care *t, const int64_t *index, int n);
/* The row of a known bad record, valid until the next mr__care_add; NULL if the record is not known
   as bad.  Under the lock. */
const bad_t *mr__care_bad(const struct mr__care *t, int64_t index);
/* Adds a row in its place, or gives the row of that index another replacement.  Under the lock.
   MR_ERR_NOMEM with a sentence. */
mr_err_t mr__care_add(mr_stage_t *s, struct mr__care *t, bad_t row);

/* The quarantine file.  open: reads its lines into t, and opens it; MR_ERR_IO, MR_ERR_NOMEM. close:
   after a failed open too.  The other two under the lock.  add: puts a line together, if there is a
   file; MR_ERR_NOMEM.  write: writes what was added, which is to happen before a record that it
   concerns is given on, so that a killed run finds it; MR_ERR_IO.  Failures have a sentence. */
mr_err_t mr__quarantine_open(mr_stage_t *s, struct mr__care *t);
mr_err_t mr__quarantine_add(mr_stage_t *s, mr__quarantine_t *q, bad_t row, const char *reason);
mr_err_t mr__quarantine_write(mr_stage_t *s, mr__quarantine_t *q);
void mr__quarantine_close(mr__quarantine_t *q);

#endif
