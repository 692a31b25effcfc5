/* One direction of a subscriber's connection: bytes are relayed between it and the subscriber's own
   socket, with back-pressure and a limit on each turn.  It knows nothing of messages; only the
   greeting is checked before libzmq sees it. */
#include <errno.h>
#include <unistd.h>

#include "sinks/subscribers_private.h"

enum {
  GREETING = 11, /* bytes of a connection up to the version of the protocol */
  TURNS = 16,    /* chunks moved before other subscribers are served */
};

static bool subscribers_relay_again(ssize_t n) {
  return n < 0 && (errno == EAGAIN || errno == EINTR);
}

static mr_err_t subscribers_relay_move(mr__relay_t *w) {
  if (w->begin == w->end && !w->over) {
    ssize_t n = read(w->from, w->byte, sizeof w->byte);
    if (subscribers_relay_again(n)) return MR_AGAIN;
    w->over = n <= 0;
    w->begin = 0, w->end = n > 0 ? (size_t)n : 0;
    w->bytes += n > 0 ? n : 0;
  }
  if (w->begin == w->end) return MR_END;
  ssize_t n = send(w->to, w->byte + w->begin, w->end - w->begin, MSG_NOSIGNAL);
  if (subscribers_relay_again(n)) return MR_AGAIN;
  if (n <= 0) return MR_END;
  w->begin += (size_t)n;
  return MR_OK;
}

mr_err_t mr__relay_move(mr__relay_t *w) {
  mr_err_t e = MR_OK;
  for (int k = 0; k < TURNS && e == MR_OK; k++) e = subscribers_relay_move(w);
  return e;
}

/* libzmq aborts the process if a peer with a protocol from before 2013 disconnects during the
   handshake.  So only connections that begin with today's greeting pass: ff, 8 bytes, 7f, a version
   of 3 or more. */
mr_err_t mr__relay_greet(mr__relay_t *w) {
  const unsigned char *at = (const unsigned char *)w->byte;
  while (w->end < GREETING) {
    ssize_t n = read(w->from, w->byte + w->end, GREETING - w->end);
    if (subscribers_relay_again(n)) return MR_AGAIN;
    if (n <= 0) return MR_END;
    w->end += (size_t)n;
    if (at[0] != 0xff || (w->end > 9 && at[9] != 0x7f)) return MR_END;
  }
  return at[10] >= 3 ? MR_OK : MR_END;
}
