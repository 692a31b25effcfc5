/* What a stage has done: always counted, without a clock on the hot path.

   A worker reads the clock only when it starts and ends waiting; busy time is the rest of its life.
   Only its worker writes a counter; any thread reads it. */
#ifndef MR_PIPELINE_STATS_H
#define MR_PIPELINE_STATS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct mr_stats {
  int workers;
  int64_t items;      /* buffers given, or taken if the stage has no output */
  int64_t alive_ns;   /* sum over the workers; the sum of the next three */
  int64_t busy_ns;    /* neither of the two below */
  int64_t starved_ns; /* waited for an input */
  int64_t blocked_ns; /* waited for room or for a free buffer */
  int64_t dropped;    /* messages dropped because subscribers were slow: mr_set_dropped */
  double depth;       /* mean number of buffers found waiting at an input */
  bool link;          /* it is the end of a link and has reported the next two: mr_set_link */
  int64_t released, committed; /* committed <= released */
} mr_stats_t;

#endif
