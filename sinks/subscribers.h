/* A publisher that counts drops per subscriber: behind one address each subscriber has its own
   ZeroMQ PUB socket, so that messages dropped for a slow one are counted and do not affect others.

   A shared PUB socket drops messages silently and does not report for which subscriber.  Here
   connections are accepted directly, and their bytes are relayed between the subscriber and its
   socket.  subscribers.c holds the subscribers, subscribers_listener.c the listener,
   subscribers_relay.c the relay.  One thread at a time; no call blocks except mr_subscribers_close.
 */
#ifndef MR_SINKS_SUBSCRIBERS_H
#define MR_SINKS_SUBSCRIBERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum { MR_SUBSCRIBERS_MAX = 1024 }; /* that one publisher serves at a time */

typedef struct mr_subscribers mr_subscribers_t;

typedef struct mr_subscribers_stats {
  int present;     /* subscribers now */
  int64_t sent;    /* messages published */
  int64_t dropped; /* messages that a subscriber wanted and did not get, over all subscribers */
  int64_t refused; /* connections beyond the maximum, or that could not be served, */
  int64_t full;    /* and of these: those that came while MR_SUBSCRIBERS_MAX were served */
} mr_subscribers_stats_t;

/* Listens at tcp://HOST:PORT (port * takes a free one), ipc://@NAME or ipc://FILE.  The caller
   keeps the address on this machine (base/loopback.h).  Returns a publisher that the caller ends
   with mr_subscribers_close; NULL on failure, with MR_ERR_CONFIG for a malformed address, MR_ERR_IO
   or MR_ERR_NOMEM in diag. */
mr_subscribers_t *mr_subscribers_open(const char *address, mr_diag_t *diag);
/* Sends messages still queued for up to linger_ms, then disconnects all subscribers and frees g.
   NULL is fine. */
void mr_subscribers_close(mr_subscribers_t *g, int linger_ms);

/* Returns a descriptor that is readable when mr_subscribers_pump has work.  It belongs to g. */
int mr_subscribers_fd(const mr_subscribers_t *g);
/* Returns after how many ms mr_subscribers_pump must be called even if the descriptor is not
   readable: a connection waits for the rate limit, or a peer has not begun its handshake.  -1: no
   such time. */
int mr_subscribers_wait_ms(mr_subscribers_t *g);
/* Accepts and drops subscribers and moves their bytes.  Returns true if there is more to move at
   once, which the descriptor may not report. */
bool mr_subscribers_pump(mr_subscribers_t *g);

/* A message has two frames, topic and text.  It goes to the subscribers of its topic, of a path
   that contains it (parts end with "/"), or of everything ("").  mr_subscribers_topic sends the
   first frame and returns whether any subscriber took it: true, then mr_subscribers_text must
   follow; false, then the text need not be built.  mr_subscribers_send does both. */
bool mr_subscribers_topic(mr_subscribers_t *g, const char *topic);
void mr_subscribers_text(mr_subscribers_t *g, const char *text);
void mr_subscribers_send(mr_subscribers_t *g, const char *topic, const char *text);

void mr_subscribers_stats(const mr_subscribers_t *g,
                          mr_subscribers_stats_t *out); /* counts since open */
/* Returns the address with the port that * took.  Belongs to g and lives until close. */
const char *mr_subscribers_address(const mr_subscribers_t *g);

#endif
