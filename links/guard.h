/* What connections may take of the process behind a bound ZeroMQ socket.  It belongs to the
   socket's thread. */
#ifndef MR_LINKS_GUARD_H
#define MR_LINKS_GUARD_H

#include <stdbool.h>
#include <stdint.h>
#include <zmq.h>

typedef struct mr_guard mr_guard_t;

enum { MR_GUARD_ANY_BYTES = -1 };

/* Limits how many connections there are (most; mr_listener_most gives a listener's share of the
   descriptors), how long one may be silent in the protocol at first (10 s), and how many bytes of
   incomplete messages it may send (256 KiB; served_bytes for the served peer; with
   MR_GUARD_ANY_BYTES the socket's longest message is the only limit).  A connection beyond a limit
   is closed; if there are too many, the least useful one.  Before the socket is bound.  The caller
   ends it by mr_guard_close.  NULL without memory or sockets. */
mr_guard_t *mr_guard_open(void *context, void *socket, int most, int64_t served_bytes);
void mr_guard_close(mr_guard_t *g); /* before the socket is closed; NULL is fine */

/* Takes note of new connections, and ends those beyond a limit: whenever fd is readable
   (edge-triggered), and after wait_ms (-1: there is no connection). */
void mr_guard_tend(mr_guard_t *g);
int mr_guard_fd(const mr_guard_t *g);
int mr_guard_wait_ms(const mr_guard_t *g);

/* Notes a message; frame: one of its frames.  good: it follows the protocol; served: the served
   peer sent it. */
void mr_guard_heard(mr_guard_t *g, zmq_msg_t *frame, bool good, bool served);

#endif
