/* What a publisher's subscribers come through: the door they knock at, and the bytes that are
   passed on between them and their sockets. */
#ifndef MR_SINKS_GUESTS_PRIVATE_H
#define MR_SINKS_GUESTS_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/err.h"
#include "sinks/turnstile.h"

/* ---- guests_door.c ---- */

typedef struct mr__door {
  int fd;                       /* accepts without blocking; -1: closed */
  char address[256], file[108]; /* with the port that * took; to be removed, or "" */
  mr_turnstile_t turnstile;
} mr__door_t;

/* Listens at tcp://HOST:PORT, ipc://@NAME or ipc://FILE.  To be closed after a failure too. */
mr_err_t mr__door_open(mr__door_t *d, const char *address, mr_diag_t *diag);
/* The next who waits there, at a time of mr_now_ns; -1: none, or more have come than are let in. */
enum { MR__DOOR_BURST = 64, MR__DOOR_EACH_MS = 100 };
int mr__door_accept(mr__door_t *d, int64_t now_ns);
/* How long the next one is to wait since then, in ms; -1: not at all. */
int mr__door_wait_ms(mr__door_t *d);

void mr__door_close(mr__door_t *d);        /* nobody comes any more; twice is fine */
void mr__door_remove(const mr__door_t *d); /* the file, if there is one */

/* Where @NAME or FILE is: for bind and connect. */
mr_err_t mr__door_local(const char *name, struct sockaddr_un *at, socklen_t *n, mr_diag_t *diag);

/* ---- guests_way.c ---- */

enum { MR__WAY_CHUNK = 16 << 10 };

/* Bytes on their way from one descriptor to the other, neither of which blocks. */
typedef struct mr__way {
  int from, to;
  bool over;     /* nothing follows */
  int64_t bytes; /* read so far */
  size_t begin, end;
  char byte[MR__WAY_CHUNK];
} mr__way_t;

/* Moves what one turn takes.  MR_OK: there may be more; MR_AGAIN: not now; MR_END: nothing comes
   any more, or the other side takes nothing. */
mr_err_t mr__way_move(mr__way_t *w);

/* Reads the first bytes of a connection, which move passes on later.  MR_OK: it begins as ZeroMQ
   does since 2013; MR_AGAIN: not all is there; MR_END: it does not, or is gone. */
mr_err_t mr__way_greet(mr__way_t *w);

#endif
