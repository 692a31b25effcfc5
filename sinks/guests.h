/* A publisher that counts drops per subscriber: behind one address each subscriber has its own
   ZeroMQ PUB socket, so that messages dropped for a slow one are counted and do not affect others.

   A shared PUB socket drops messages silently and does not report for which subscriber.  Here
   connections are accepted directly, and their bytes are relayed between the subscriber and its
   socket.  guests.c holds the subscribers, guests_door.c the listener, guests_way.c the relay.  One
   thread at a time; no call blocks except mr_guests_close. */
#ifndef MR_SINKS_GUESTS_H
#define MR_SINKS_GUESTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

typedef struct mr_guests mr_guests_t;

typedef struct mr_guests_stats {
  int present;     /* subscribers now */
  int64_t sent;    /* messages published */
  int64_t dropped; /* messages that a subscriber wanted and did not get, over all subscribers */
  int64_t refused; /* connections beyond the maximum, or that could not be served */
} mr_guests_stats_t;

/* Listens at tcp://HOST:PORT (port * takes a free one), ipc://@NAME or ipc://FILE.  The caller
   keeps the address on this machine (base/loopback.h).  Returns a publisher that the caller ends
   with mr_guests_close; NULL on failure, with MR_ERR_CONFIG for a malformed address, MR_ERR_IO or
   MR_ERR_NOMEM in diag. */
mr_guests_t *mr_guests_open(const char *address, mr_diag_t *diag);
/* Sends messages still queued for up to linger_ms, then disconnects all subscribers and frees g.
   NULL is fine. */
void mr_guests_close(mr_guests_t *g, int linger_ms);

/* Returns a descriptor that is readable when mr_guests_pump has work.  It belongs to g. */
int mr_guests_fd(const mr_guests_t *g);
/* Returns after how many ms mr_guests_pump must be called even if the descriptor is not readable: a
   connection waits for the rate limit, or a peer has not begun its handshake.  -1: no such time. */
int mr_guests_wait_ms(mr_guests_t *g);
/* Accepts and drops subscribers and moves their bytes.  Returns true if there is more to move at
   once, which the descriptor may not report. */
bool mr_guests_pump(mr_guests_t *g);

/* A message has two frames, topic and text.  It goes to the subscribers of its topic, of a path
   that contains it (parts end with "/"), or of everything ("").  mr_guests_topic sends the first
   frame and returns whether any subscriber took it: true, then mr_guests_text must follow; false,
   then the text need not be built.  mr_guests_send does both. */
bool mr_guests_topic(mr_guests_t *g, const char *topic);
void mr_guests_text(mr_guests_t *g, const char *text);
void mr_guests_send(mr_guests_t *g, const char *topic, const char *text);

void mr_guests_stats(const mr_guests_t *g, mr_guests_stats_t *out); /* counts since open */
/* Returns the address with the port that * took.  Belongs to g and lives until close. */
const char *mr_guests_address(const mr_guests_t *g);

#endif
