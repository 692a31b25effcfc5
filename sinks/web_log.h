/* The messages of the live page: all of a run for who comes late, and bounded.

   A message is written once, framed as a server-sent event, and every client copies from it; who is
   in the middle of one holds a reference, so that the log may let it go meanwhile.  One lock of the
   caller's goes around all calls. */
#ifndef MR_SINKS_WEB_LOG_H
#define MR_SINKS_WEB_LOG_H

#include <stdbool.h>
#include <stddef.h>

enum { MR_WEB_LOG_MAX = 1 << 16 };

typedef struct mr_web_message {
  int refs;
  bool stays; /* never thinned out */
  size_t n;   /* bytes of text */
  char text[];
} mr_web_message_t;

/* An event (NULL: the unnamed one) whose data is text, a line, with one reference for the caller.
   NULL without memory. */
mr_web_message_t *mr_web_message(const char *event, const char *text);
void mr_web_message_unref(mr_web_message_t *m); /* NULL is fine */

typedef struct mr_web_log {
  mr_web_message_t **message;
  size_t n, cap;
  size_t thinned; /* times that half of the older messages went: positions then mean nothing */
} mr_web_log_t;

/* Adds text as an unnamed event; without memory it is let go.  A full log loses every second
   message of its older half that may go, so that a curve stays a curve. */
void mr_web_log_add(mr_web_log_t *l, const char *text, bool stays);
void mr_web_log_fini(mr_web_log_t *l);

#endif
