/* The stream of events that open pages read: what the log holds, and a live text that replaces the
   one before.  A thread wakes those who wait, ten times a second at most, however often records
   come: a burst of steps is then one write to each page. */
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
  pthread_cond_t wake;  /* the ticker, to end */
  pthread_mutex_t lock; /* the rest */
  mr_web_log_t log;
  mr_web_client_t *clients;
  mr_web_message_t *live; /* NULL: none yet */
  uint64_t live_number;   /* counts the texts of live */
  bool over;
  /* The live text of now (heap), NULL without memory; called by the ticker, under the lock. */
  char *(*now)(void *arg);
  void *arg;
} mr_web_stream_t;

/* s->log may hold messages already; now and arg are set.  False without a thread. */
bool mr_web_stream_open(mr_web_stream_t *s);
/* A response that lasts until the run is over or the client is gone; NULL without memory. */
struct MHD_Response *mr_web_stream_events(mr_web_stream_t *s, struct MHD_Connection *connection);
/* Clients get what is left, for half a second; then the thread ends.  The server must be closed
   before mr_web_stream_fini gives the rest back. */
void mr_web_stream_end(mr_web_stream_t *s);
void mr_web_stream_fini(mr_web_stream_t *s);

#endif
