/* The messages of the live page: all of a run for who comes late, and bounded. */
#ifndef MR_SINKS_WEB_LOG_H
#define MR_SINKS_WEB_LOG_H

#include <stdbool.h>
#include <stddef.h>

enum { MR_WEB_LOG_MAX = 1 << 16 };

typedef struct mr_web_message {
  char *text; /* heap */
  bool stays; /* never thinned out */
} mr_web_message_t;

typedef struct mr_web_log {
  mr_web_message_t *message;
  size_t n, cap;
  size_t thinned; /* times that half of the older messages went: positions then mean nothing */
} mr_web_log_t;

/* Takes text (heap) over; without memory it is let go.  A full log loses every second message of
   its older half that may go, so that a curve stays a curve. */
void mr_web_log_add(mr_web_log_t *l, char *text, bool stays);
void mr_web_log_fini(mr_web_log_t *l);

#endif
