/* The stream of events that open pages read: the messages of the log, and a live text that replaces
   the one before.  A thread wakes waiting clients at most ten times a second, however often records
   come, so that a burst of steps is one write to each page. */
#ifndef MR_SINKS_WEB_STREAM_H
#define MR_SINKS_WEB_STREAM_H

#include <microhttpd.h>
#include <pthread.h>
#include <stdint.h>

#include "sinks/web_log.h"

typedef struct mr_web_client mr_web_client_t;

typedef struct mr_web_stream {
  pthread_t ticker;
  bool ticking, ready;
  pthread_cond_t wake;  /* signalled to end the ticker */
  pthread_mutex_t lock; /* guards the fields below */
  mr_web_log_t log;
  mr_web_client_t *clients;
  mr_web_message_t *live; /* NULL before the first */
  uint64_t live_number;   /* counts the live texts */
  bool over;
  /* Returns the current live text, heap, which the stream frees; NULL without memory.  Called with
     the lock held, by the ticker and by mr_web_stream_end. */
  char *(*now)(void *arg);
  void *arg;
} mr_web_stream_t;

/* Starts the ticker; now and arg must be set, and s->log may have messages already.  Returns false
   if the thread cannot start; end and fini are called then too. */
bool mr_web_stream_open(mr_web_stream_t *s);
/* Returns a response for one client, which the caller queues and destroys.  It lasts until the run
   is over or the client disconnects, and refers to s until then.  NULL without memory. */
struct MHD_Response *mr_web_stream_events(mr_web_stream_t *s, struct MHD_Connection *connection);
/* Ends the thread, then waits up to two seconds until all clients have received the rest.  Close
   the server between this and mr_web_stream_fini, which frees the log. */
void mr_web_stream_end(mr_web_stream_t *s);
void mr_web_stream_fini(mr_web_stream_t *s);

#endif
