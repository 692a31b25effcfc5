/* The messages of the live page: the whole run for pages that open late, with a bound.

   A message is formatted once, as a server-sent event, and every client copies from it.  A client
   in the middle of a message holds a reference, so that the log may drop it meanwhile.  The caller
   holds one lock around all calls. */
#ifndef MR_SINKS_WEB_LOG_H
#define MR_SINKS_WEB_LOG_H

#include <stdbool.h>
#include <stddef.h>

enum { MR_WEB_LOG_MAX = 1 << 16 };

typedef struct mr_web_message {
  int refs;
  bool stays; /* never dropped */
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
  size_t thinned; /* how often the log was thinned, which makes earlier positions invalid */
} mr_web_log_t;

/* Adds text as an unnamed event; without memory, drops it.  A full log drops every second message
   of its older half except those that stay, so that a curve keeps its shape; if none can be
   dropped, the new one is. */
void mr_web_log_add(mr_web_log_t *l, const char *text, bool stays);
void mr_web_log_fini(mr_web_log_t *l);

#endif
