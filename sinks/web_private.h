/* The parts of the live page (web.c): the graph (web_graph.c), pictures (web_picture.c), messages
   (web_log.c), the stream of events (web_stream.c), and the page's files. */
#ifndef MR_SINKS_WEB_PRIVATE_H
#define MR_SINKS_WEB_PRIVATE_H

#include <microhttpd.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "metrics/report.h"
#include "pipeline/watch/watch.h"

/* ---- the graph as the page draws it: its fixed structure, and its live measurements ---- */

/* Returns stages with their settings (secret ones hidden), edges, class names and the definitions
   of all metrics as JSON, heap, which the caller frees; NULL without memory.  Call it in a stage's
   open alone: it writes texts that the graph keeps, without a lock. */
char *mr_web_run_json(const mr_stage_t *s, const char *run);

typedef struct mr_web_live {
  mr_stats_t *before, *now; /* [n_stages]; reported shares are of the time between them */
  int64_t at_ns;            /* of before */
} mr_web_live_t;

/* Allocates the measurements.  Returns false without memory; the caller calls fini then too. */
bool mr_web_live_init(mr_web_live_t *l, const mr_stage_t *s);
void mr_web_live_fini(mr_web_live_t *l); /* all zero is fine */
/* Returns shares of about the last second and the queues now, in the order of the run's JSON:
   {"stages":[[busy,starved,blocked],...],"edges":[[waiting,lost],...],"limiting":stage}.  Shares
   are in thousandths; [] is a stage without a thread; released and committed follow the shares of a
   link's end; limiting is -1 while unknown.  Heap, the caller frees it; NULL without memory.  One
   thread at a time. */
char *mr_web_live_json(mr_web_live_t *l, const mr_stage_t *s);

/* ---- the newest pictures, which pages request by number ---- */

/* They are kept as pixels and encoded as PNG on request, since most are never requested.  Any
   thread may call. */

enum { MR_WEB_PICTURES = 512 };

typedef struct mr_web_pictures {
  pthread_mutex_t lock;
  bool ready;
  mr_picture_t *kept; /* [MR_WEB_PICTURES], heap */
  uint64_t next;      /* number of the next picture; the newest MR_WEB_PICTURES are kept */
} mr_web_pictures_t;

bool mr_web_pictures_init(mr_web_pictures_t *w); /* false without memory */
void mr_web_pictures_fini(mr_web_pictures_t *w); /* all zero is fine */

/* Keeps a copy of a picture, in place of the oldest if full, and returns its number, from 0. */
uint64_t mr_web_pictures_add(mr_web_pictures_t *w, const mr_picture_t *p);

/* Returns the picture of a number as a PNG of *n bytes, heap, which the caller frees.  NULL if the
   text is no number, if that picture is no longer or not yet there, or without memory or libpng. */
void *mr_web_pictures_png(mr_web_pictures_t *w, const char *number, size_t *n);

/* ---- messages: the whole run for pages that open late, with a bound ---- */

/* A message is formatted once, as a server-sent event, and every client copies from it.  A client
   in the middle of a message holds a reference, so that the log may drop it meanwhile.  The caller
   holds one lock around all calls. */

enum { MR_WEB_LOG_MAX = 1 << 16, MR_WEB_LOG_BYTES = 64 << 20 };

typedef struct mr_web_message {
  int refs;
  bool stays; /* is dropped only for the limit of bytes, after the others */
  size_t n;   /* bytes of text */
  char text[];
} mr_web_message_t;

/* Returns an event (NULL: an unnamed one) whose data is text, one line, with one reference that the
   caller releases with mr_web_message_unref.  NULL without memory. */
mr_web_message_t *mr_web_message(const char *event, const char *text);
void mr_web_message_unref(mr_web_message_t *m); /* NULL is fine */

typedef struct mr_web_log {
  mr_web_message_t **message;
  size_t n, cap;
  size_t bytes;   /* of all messages' texts */
  size_t thinned; /* how often the log was thinned, which makes earlier positions invalid */
} mr_web_log_t;

/* Adds text as an unnamed event; without memory, drops it.  A full log drops every second message
   of its older half except those that stay, so that a curve keeps its shape; if none of
   MR_WEB_LOG_MAX can be dropped, the new one is.  Beyond MR_WEB_LOG_BYTES it drops those that stay
   in the same way once no others are left there: the matrices of a thousand evaluations.  The
   newest message is kept whatever its size. */
void mr_web_log_add(mr_web_log_t *l, const char *text, bool stays);
void mr_web_log_fini(mr_web_log_t *l);

/* ---- the stream of events that open pages read ---- */

/* It sends the messages of the log, and a live text that replaces the one before.  A thread wakes
   waiting clients at most ten times a second, however often records come, so that a burst of steps
   is one write to each page. */

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

/* ---- the page's files, compiled in; sinks/room.cmake generates the table ---- */

typedef struct mr_web_asset {
  const char *path, *type;
  const unsigned char *data;
  size_t n;
} mr_web_asset_t;

extern const mr_web_asset_t mr_web_assets[]; /* static; ends at a NULL path */

#endif
