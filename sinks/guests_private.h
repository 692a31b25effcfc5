/* The parts of a publisher (guests.h): the door, which listens for subscribers, and the way, which
   relays bytes between a subscriber and its socket. */
#ifndef MR_SINKS_GUESTS_PRIVATE_H
#define MR_SINKS_GUESTS_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/err.h"
#include "sinks/background.h"

/* ---- guests_door.c ---- */

typedef struct mr__door {
  int fd;                       /* accepts without blocking; -1: closed */
  char address[256], file[108]; /* with the port that * took; the socket file to remove, or "" */
  mr_turnstile_t turnstile;
} mr__door_t;

/* Listens at tcp://HOST:PORT, ipc://@NAME or ipc://FILE.  MR_ERR_CONFIG for a malformed address,
   MR_ERR_IO if it cannot be bound.  The caller calls mr__door_close after a failure too. */
mr_err_t mr__door_open(mr__door_t *d, const char *address, mr_diag_t *diag);
enum { MR__DOOR_BURST = 64, MR__DOOR_EACH_MS = 100 };
/* Accepts the next connection, at a time of mr_now_ns, and returns its descriptor, which the caller
   closes; -1 if none waits, or if the rate limit holds it back. */
int mr__door_accept(mr__door_t *d, int64_t now_ns);
/* Returns how many ms after that time the rate limit lets the next one in; -1 if it already
   does. */
int mr__door_wait_ms(mr__door_t *d);

void mr__door_close(mr__door_t *d);        /* stops listening; twice is fine */
void mr__door_remove(const mr__door_t *d); /* removes the socket file, if there is one */

/* Fills *at and *n for bind or connect from @NAME or FILE.  MR_ERR_CONFIG for a name that is empty
   or too long. */
mr_err_t mr__door_local(const char *name, struct sockaddr_un *at, socklen_t *n, mr_diag_t *diag);

/* ---- guests_way.c ---- */

enum { MR__WAY_CHUNK = 16 << 10 };

/* A relay from one descriptor to another; both are nonblocking and belong to the caller. */
typedef struct mr__way {
  int from, to;
  bool over;     /* `from` has ended */
  int64_t bytes; /* read so far */
  size_t begin, end;
  char byte[MR__WAY_CHUNK];
} mr__way_t;

/* Moves a limited number of bytes.  MR_OK: there may be more; MR_AGAIN: a descriptor would block
   now; MR_END: `from` has ended, or `to` takes no more. */
mr_err_t mr__way_move(mr__way_t *w);

/* Reads the first bytes of a connection, which mr__way_move passes on later.  MR_OK: it begins with
   the ZeroMQ protocol of 2013 or later; MR_AGAIN: not all bytes are here yet; MR_END: it does not,
   or it is closed. */
mr_err_t mr__way_greet(mr__way_t *w);

#endif
