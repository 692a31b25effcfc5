#ifndef MR_PIPELINE_TIMELINE_PRIVATE_H
#define MR_PIPELINE_TIMELINE_PRIVATE_H

#include <stdint.h>

typedef enum mr__event_kind { MR__TOOK, MR__GAVE, MR__STARVES, MR__BLOCKS } mr__event_kind_t;

typedef struct mr__event {
  int64_t at_ns;
  int64_t what; /* number of the first buffer; for a wait its duration, ns */
  int64_t position;
  uint16_t n, stride; /* buffers, and the step from one number to the next */
  uint16_t port;
  uint16_t kind; /* mr__event_kind_t */
} mr__event_t;

_Static_assert(sizeof(mr__event_t) == 32, "memory of a timeline is said in events");

/* One worker's events; written by that worker alone, read after it has ended. */
typedef struct mr__timeline {
  uint64_t n;   /* events so far */
  uint64_t cap; /* a power of two */
  mr__event_t event[];
} mr__timeline_t;

static inline void mr__timeline_note(mr__timeline_t *t, mr__event_t e) {
  t->event[t->n++ & (t->cap - 1)] = e;
}

#endif
