/* The parts of a publisher (subscribers.h): the listener, which accepts their connections, and the
   relay, which moves bytes between a subscriber and its socket. */
#ifndef MR_SINKS_SUBSCRIBERS_PRIVATE_H
#define MR_SINKS_SUBSCRIBERS_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/err.h"
#include "sinks/background.h"
#include "sinks/subscribers.h"

/* ---- subscribers.c ---- */

/* mr_subscribers_pump, which accepts connections as at a time of mr_now_ns that the caller says. */
bool mr__subscribers_pump_at(mr_subscribers_t *g, int64_t now_ns);

/* ---- subscribers_listener.c ---- */

typedef struct mr__listener {
  int fd;                       /* accepts without blocking; -1: closed */
  char address[256], file[108]; /* with the port that * took; the socket file to remove, or "" */
  mr_rate_limit_t rate;
} mr__listener_t;

/* Listens at tcp://HOST:PORT, ipc://@NAME or ipc://FILE.  MR_ERR_CONFIG for a malformed address,
   MR_ERR_IO if it cannot be bound.  The caller calls mr__listener_close after a failure too. */
mr_err_t mr__listener_open(mr__listener_t *d, const char *address, mr_diag_t *diag);
enum { MR__LISTENER_BURST = 64, MR__LISTENER_EACH_MS = 100 };
/* Accepts the next connection, at a time of mr_now_ns, and returns its descriptor, which the caller
   closes; -1 if none waits, or if the rate limit holds it back. */
int mr__listener_accept(mr__listener_t *d, int64_t now_ns);
/* Returns how many ms after that time the rate limit lets the next one in; -1 if it already
   does. */
int mr__listener_wait_ms(mr__listener_t *d);

void mr__listener_close(mr__listener_t *d);        /* stops listening; twice is fine */
void mr__listener_remove(const mr__listener_t *d); /* removes the socket file, if there is one */

/* Fills *at and *n for bind or connect from @NAME or FILE.  MR_ERR_CONFIG for a name that is empty
   or too long. */
mr_err_t mr__listener_local(const char *name, struct sockaddr_un *at, socklen_t *n,
                            mr_diag_t *diag);

/* ---- subscribers_relay.c ---- */

enum { MR__RELAY_CHUNK = 16 << 10 };

/* A relay from one descriptor to another; both are nonblocking and belong to the caller. */
typedef struct mr__relay {
  int from, to;
  bool over;     /* `from` has ended */
  int64_t bytes; /* read so far */
  size_t begin, end;
  char byte[MR__RELAY_CHUNK];
} mr__relay_t;

/* Moves a limited number of bytes.  MR_OK: there may be more; MR_AGAIN: a descriptor would block
   now; MR_END: `from` has ended, or `to` takes no more. */
mr_err_t mr__relay_move(mr__relay_t *w);

/* Reads the first bytes of a connection, which mr__relay_move passes on later.  MR_OK: it begins
   with the ZeroMQ protocol of 2013 or later; MR_AGAIN: not all bytes are here yet; MR_END: it does
   not, or it is closed. */
mr_err_t mr__relay_greet(mr__relay_t *w);

#endif
