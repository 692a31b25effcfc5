/* The Chrome trace event format (JSON), which Perfetto and chrome://tracing open.

   Names and texts may hold any bytes: they are escaped, and each byte outside ASCII becomes '?'.
   Times are nanoseconds of mr_now_ns; the file counts from origin_ns.  No call reports an error:
   the caller checks the stream with ferror.  One thread at a time. */
#ifndef MR_BASE_CHROME_TRACE_H
#define MR_BASE_CHROME_TRACE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct mr_chrome_trace {
  FILE *to;
  int64_t origin_ns;
  bool any; /* an event has been written */
} mr_chrome_trace_t;

/* One argument of an event, shown when it is clicked: text, or else the number. */
typedef struct mr_chrome_arg {
  const char *name; /* NULL ends the list */
  const char *text;
  double number;
} mr_chrome_arg_t;

/* Begins a file on `to`, which stays the caller's: mr_chrome_end completes the JSON and does not
   close it. */
void mr_chrome_begin(mr_chrome_trace_t *t, FILE *to, int64_t origin_ns);
/* Names the row of a thread; `thread` is any number that the caller uses for it in all events. */
void mr_chrome_thread(mr_chrome_trace_t *t, int thread, const char *name);
/* Writes a bar of dur_ns from from_ns on.  args: NULL or a list that ends at a NULL name. */
void mr_chrome_slice(mr_chrome_trace_t *t, int thread, const char *name, const char *category,
                     int64_t from_ns, int64_t dur_ns, const mr_chrome_arg_t *args);
/* Writes one end of an arrow between two slices; at_ns lies inside the slice.  The two ends of an
   arrow share an id. */
void mr_chrome_flow(mr_chrome_trace_t *t, int thread, bool begins, const char *name, uint64_t id,
                    int64_t at_ns);
void mr_chrome_end(mr_chrome_trace_t *t);

#endif
