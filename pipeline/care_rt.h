/* What care.c and care_fetch.c share. */
#ifndef MR_PIPELINE_CARE_RT_H
#define MR_PIPELINE_CARE_RT_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/ranges.h"
#include "pipeline/care_private.h"
#include "pipeline/stage.h"

/* A bad record of the source and the one that stands in for it. */
typedef struct bad {
  int64_t index, other;
} bad_t;

struct mr__care {
  mr_ranges_t skip;
  bool replaces;
  int64_t most; /* bad records that are borne; -1: any number */
  int fd;       /* of the quarantine file, -1: none */
  void *zero;   /* as many zeros as the longest field has bytes */
  /* Of a record that is only looked at, with the lock held; room for what fetch writes of it. */
  mr_value_t value[MR_FIELDS_MAX];
  void *room;
  /* Relaxed: counts that stand for themselves.  n_bad is the length of bad as well and changes
     under the lock; put_others looks at it without, and a record that turns bad meanwhile is found
     bad. */
  _Atomic int64_t n_skipped, n_replaced, n_bad;
  pthread_mutex_t lock; /* the rest */
  bad_t *bad;           /* [n_bad] by index */
  int64_t cap;
};

/* How many bad records are known.  Any thread. */
static inline int64_t mr__care_n_bad(const struct mr__care *t) {
  return atomic_load_explicit(&t->n_bad, memory_order_relaxed);
}

/* The row of a record that is known to be bad, or NULL.  With the lock held. */
const bad_t *mr__care_bad(const struct mr__care *t, int64_t index);
mr_err_t mr__care_add(mr_stage_t *s, struct mr__care *t, bad_t row);

/* Writes a line of the quarantine file, if there is one. */
mr_err_t mr__care_tell(mr_stage_t *s, const struct mr__care *t, bad_t row, const char *reason);

#endif
