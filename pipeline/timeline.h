/* A timeline of a running graph: what each worker did with which buffer, and when it waited.

   Off by default; then a burst costs one comparison.  Each worker keeps its last events in memory
   of a fixed size. */
#ifndef MR_PIPELINE_TIMELINE_H
#define MR_PIPELINE_TIMELINE_H

#include <stdio.h>

#include "base/err.h"

typedef struct mr_graph mr_graph_t;

/* Switches the timeline on, before start: events kept for each worker, a power of two (32 bytes
   each). */
void mr_timeline_keep(mr_graph_t *g, int events);

/* After join: writes a Chrome trace.  A worker is a thread of the trace; a slice is named after the
   number of the buffer that it worked on, arrows follow a buffer from stage to stage.  Write errors
   stay in `to` (ferror). */
void mr_timeline_write(const mr_graph_t *g, FILE *to);

#endif
