/* The Chrome trace event format (JSON), which Perfetto and chrome://tracing open.

   Names and texts may hold anything: they are escaped.  Times are nanoseconds of mr_now_ns; the
   file counts from origin.  Errors of the stream are the caller's to look at (ferror). */
#ifndef MR_BASE_CHROME_TRACE_H
#define MR_BASE_CHROME_TRACE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct mr_chrome_trace {
  FILE *to;
  int64_t origin_ns;
  bool any; /* an event stands already */
} mr_chrome_trace_t;

/* One argument of an event, shown when it is clicked: text, or else the number. */
typedef struct mr_chrome_arg {
  const char *name; /* NULL ends the list */
  const char *text;
  double number;
} mr_chrome_arg_t;

void mr_chrome_begin(mr_chrome_trace_t *t, FILE *to, int64_t origin_ns);
void mr_chrome_thread(mr_chrome_trace_t *t, int thread, const char *name);
/* args: NULL or a list. */
void mr_chrome_slice(mr_chrome_trace_t *t, int thread, const char *name, const char *category,
                     int64_t from_ns, int64_t dur_ns, const mr_chrome_arg_t *args);
/* One end of an arrow between two slices: each lies inside its slice.  Ends of one id belong
   together. */
void mr_chrome_flow(mr_chrome_trace_t *t, int thread, bool begins, const char *name, uint64_t id,
                    int64_t at_ns);
void mr_chrome_end(mr_chrome_trace_t *t);

#endif
