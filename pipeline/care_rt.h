/* The runtime state that care.c and care_fetch.c share. */
#ifndef MR_PIPELINE_CARE_RT_H
#define MR_PIPELINE_CARE_RT_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/ranges.h"
#include "pipeline/care_private.h"
#include "pipeline/stage.h"

/* A bad record of the source and its replacement. */
typedef struct bad {
  int64_t index, other;
} bad_t;

struct mr__care {
  mr_ranges_t skip;
  bool replaces;
  int64_t most; /* bad records tolerated; -1: any number */
  int fd;       /* the quarantine file; -1: none */
  void *zero;   /* zeros, as many bytes as the longest field */
  /* For a record that is only inspected, under the lock: its values, and room where fetch writes
     them. */
  mr_value_t value[MR_FIELDS_MAX];
  void *room;
  /* Relaxed: independent counts.  n_bad is also the length of `bad` and changes under the lock;
     put_others reads it without.  If it misses a record that turns bad meanwhile, the fetch finds
     that record bad again. */
  _Atomic int64_t n_skipped, n_replaced, n_bad;
  pthread_mutex_t lock; /* guards the members below */
  bad_t *bad;           /* [n_bad] sorted by index */
  int64_t cap;
};

/* Bad records known so far.  Any thread. */
static inline int64_t mr__care_n_bad(const struct mr__care *t) {
  return atomic_load_explicit(&t->n_bad, memory_order_relaxed);
}

/* The row of a known bad record, valid until the next mr__care_add; NULL if the record is not known
   as bad.  Under the lock. */
const bad_t *mr__care_bad(const struct mr__care *t, int64_t index);
/* Adds a row in its place.  Under the lock.  MR_ERR_NOMEM with a sentence. */
mr_err_t mr__care_add(mr_stage_t *s, struct mr__care *t, bad_t row);

/* Appends a line to the quarantine file, if there is one.  MR_ERR_NOMEM, MR_ERR_IO with a
   sentence. */
mr_err_t mr__care_tell(mr_stage_t *s, const struct mr__care *t, bad_t row, const char *reason);

#endif
