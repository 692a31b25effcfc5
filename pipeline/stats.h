/* What a stage has done: counted always, without a clock on the hot path.

   A worker reads the clock only when it starts and ends waiting; busy time is what is left of its
   life.  Every field is written by its worker alone and read by any thread. */
#ifndef MR_PIPELINE_STATS_H
#define MR_PIPELINE_STATS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct mr_stats {
  int workers;
  int64_t items;      /* buffers given, or taken by a stage that gives none */
  int64_t alive_ns;   /* sum over the workers, like the next three, which add up to it */
  int64_t busy_ns;    /* neither of the two below */
  int64_t starved_ns; /* waited for an input */
  int64_t blocked_ns; /* waited for room or for a free buffer */
  int64_t dropped;    /* what it had for somebody who was too slow to take it: mr_set_dropped */
  double depth;       /* mean number of buffers found waiting at an input */
  bool link;          /* the end of a link, which has said the next two: mr_set_link */
  int64_t released, committed; /* committed <= released */
} mr_stats_t;

#endif
