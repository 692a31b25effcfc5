/* A publisher whose subscribers are told apart: behind one address each has a ZeroMQ PUB socket of
   its own, so that what one that is slow has lost is counted, and concerns no other.

   ZeroMQ's own PUB socket lets messages go without a word, and cannot say for whom.  Here the
   connections are accepted by hand and their bytes passed on, unread, to and from the socket that
   was made for each.  One thread; no call blocks but mr_guests_close. */
#ifndef MR_SINKS_GUESTS_H
#define MR_SINKS_GUESTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

typedef struct mr_guests mr_guests_t;

typedef struct mr_guests_stats {
  int present;     /* subscribers now */
  int64_t sent;    /* messages that were made */
  int64_t dropped; /* messages that a subscriber wanted and did not get, summed over them */
  int64_t refused; /* connections beyond the most that are served */
} mr_guests_stats_t;

/* Waits for subscribers at tcp://HOST:PORT on loopback (port * takes a free one), ipc://@NAME or
   ipc://FILE.  NULL with the reason in diag. */
mr_guests_t *mr_guests_open(const char *address, mr_diag_t *diag);
/* What is on its way goes out for linger_ms at most.  NULL is fine. */
void mr_guests_close(mr_guests_t *g, int linger_ms);

int mr_guests_fd(const mr_guests_t *g); /* readable: there is something for pump to do */
/* After so long too, in ms: more have come at once than are let in at once, or one has not spoken
   yet.  -1: no. */
int mr_guests_wait_ms(mr_guests_t *g);
/* Lets subscribers in and out and moves their bytes; true: there is more, which fd may not tell. */
bool mr_guests_pump(mr_guests_t *g);

/* A message of two frames for all who subscribed to its topic, to a path that it lies below (parts
   end with "/"), or to all ("").  The first frame says
   whether anybody may take the second one: true, then mr_guests_text follows; false: nobody is
   there, or nobody reads, and the text need not be made. */
bool mr_guests_topic(mr_guests_t *g, const char *topic);
void mr_guests_text(mr_guests_t *g, const char *text);
void mr_guests_send(mr_guests_t *g, const char *topic, const char *text); /* both */

void mr_guests_stats(const mr_guests_t *g, mr_guests_stats_t *out);
const char *mr_guests_address(const mr_guests_t *g); /* with the port that * took */

#endif
