/* A link: an edge that leaves the process.  Its sending end gives buffers to its receiving end in
   another process or on another host, each exactly once and in order, whichever process dies in
   between.

   Every buffer has a *number*, counted from the first one of the run.  An acknowledgement carries
   two of them.  Buffers before *released* are no longer in use at the receiving end (credit: this
   many more may come).  Buffers before *committed* have had their effect for good, and are never
   sent again.  Committed is what is released or, with by_hand, what mr_link_commit says.  The
   sending end keeps what is not released.  After a lost connection, or after either process died,
   the receiving end names the number it resumes from; the sending end sends again from there or, if
   it no longer holds that buffer, reports the point (mr_link_asked), and its stream must be
   restarted there.  A stream is a function of its position, so nothing is lost by this.

   The receiving end grants credit: the sending end never has more than `window` buffers in flight,
   so no queue in between fills up.  Between hosts buffers travel as ZeroMQ messages; on one host,
   buffers from a pool made with mr_pool_create_shared stay in place, and the message carries only
   their place.  docs/links.md has the protocol frame by frame.

   A link belongs to one thread at a time, which calls mr_link_pump whenever one of its file
   descriptors is readable or its timeout is over; no call but mr_link_wait and mr_link_close
   blocks.  Any thread may release the buffers that it gave, also after the link was closed.

   Implemented in link.c (both ends), send.c and receive.c. */
#ifndef MR_LINKS_LINK_H
#define MR_LINKS_LINK_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "pipeline/buffer.h"

enum {
  MR_LINK_FDS = 3,
  MR_LINK_WORDS = 64, /* most numbers of a walk's state that a link carries */
  MR_LINK_NAME_MAX = 64,
  MR_LINK_WINDOW_MAX = 4096,
};

/* Largest number and position that a peer may name: 35 years at 1000 buffers a second, and what a
   JSON number holds exactly.  Larger ones would overflow where streams multiply them. */
#define MR_LINK_NUMBER_MAX (INT64_C(1) << 40)
#define MR_LINK_POSITION_MAX (INT64_C(1) << 53)

typedef struct mr_link mr_link_t;

typedef struct mr_link_cfg {
  const char *name;    /* the edge's name, shorter than MR_LINK_NAME_MAX; both ends must give the
                          same */
  const char *address; /* tcp://HOST:PORT, ipc://@NAME (no file is left behind) or ipc://FILE */
  bool bind;           /* this end listens at the address, the other one connects */
  int window;          /* receiving end: most buffers in flight or in use here,
                          [1,MR_LINK_WINDOW_MAX]; 0: 8 */
  bool by_hand;    /* receiving end: mr_link_commit says what is committed, not what is released */
  bool copy;       /* never by reference, not even on one host */
  int linger_ms;   /* how long close waits for acknowledgements; 0: 2000 */
  const char *key; /* CURVE: file of this end's secret key (`millrace keys`); NULL: none.  An end
                      that binds beyond loopback must have one */
  const char *peers; /* CURVE: public key files, separated by commas.  Binding end: the accepted
                        peers; connecting end: the expected one */
} mr_link_cfg_t;

/* A point to resume a stream from: before the buffer of this number. */
typedef struct mr_link_point {
  int64_t number;   /* buffers before the point */
  int64_t epoch;    /* of the buffer before it, 0 at the start */
  int64_t position; /* mr_buf_t.position of the buffer before it, 0 at the start */
  int n_words;
  int64_t word[MR_LINK_WORDS]; /* mr_buf_t.word of the buffer before it */
} mr_link_point_t;

typedef struct mr_link_stats {
  int64_t sent, resent; /* sending end: buffers; a buffer sent again counts again */
  int64_t reached;      /* sending end: the number after the last buffer sent */
  int64_t received;     /* receiving end: buffers, each once */
  int64_t repeated;     /* receiving end: sent again and dropped */
  int64_t released;     /* buffers before this number are released */
  int64_t committed;    /* buffers before it are never sent again; <= released */
  int64_t bytes;        /* payload that travelled in messages */
  int64_t by_reference; /* buffers that stayed in place */
  int64_t connections;  /* how often both ends agreed on a point */
  int64_t malformed;    /* messages refused: bad header, unknown peer, wrong sizes */
  int64_t refused;      /* refusals, of a peer or by one; see mr_link_refusal */
  bool connected;
} mr_link_stats_t;

/* Opens the sending end for buffers of this spec; first is the number of the buffer that
   mr_link_send gets first.  cfg and spec, with its dataset, are copied.  The caller closes it with
   mr_link_close.  NULL with a sentence in diag: MR_ERR_SHAPE for another flow than BATCHES or BYTES
   (the others hold addresses of this process) and for a spec that does not fit the wire;
   MR_ERR_CONFIG, MR_ERR_IO (the address), MR_ERR_NOMEM, MR_ERR_UNAVAILABLE (CURVE). */
mr_link_t *mr_link_open_out(const mr_link_cfg_t *cfg, const mr_spec_t *spec, int64_t first,
                            mr_diag_t *diag);

/* Opens the receiving end, resuming from a point (NULL: the start).  want: the spec that the
   sending end must have, else mr_link_pump fails with MR_ERR_SHAPE; NULL: any, see mr_link_spec.
   The caller owns it and closes it with mr_link_close; it fails as mr_link_open_out does. */
mr_link_t *mr_link_open_in(const mr_link_cfg_t *cfg, const mr_spec_t *want,
                           const mr_link_point_t *point, mr_diag_t *diag);

/* Closes either end.  Blocks up to the linger: the sending end until the peer has acknowledged
   everything, if mr_link_end was called; the receiving end until the peer knows what it has
   received.  NULL is fine. */
void mr_link_close(mr_link_t *l);

/* Does all that can be done now: reads messages, answers, sends what credit allows.  MR_OK, or a
   failure with a sentence, which is final.  An end that connects fails with MR_ERR_SHAPE (specs
   differ) or MR_ERR_DATA (the peer refuses, or sends what is invalid).  An end that binds refuses
   such a peer and waits for another one: a stranger who reaches an address must not be able to end
   the process behind it.  Either end may fail with MR_ERR_NOMEM.  MR_ERR_USAGE in a child of the
   process that opened it, where mr_link_wait returns at once, and mr_link_close does nothing. */
mr_err_t mr_link_pump(mr_link_t *l, mr_diag_t *diag);

/* Why the last of stats.refused peers was refused; "" without one, never NULL.  Owned by the link,
   valid until the next pump. */
const char *mr_link_refusal(const mr_link_t *l);

/* What to wait for before the next pump, after one that left nothing to do: mr_link_fds fills
   fd[0,n) and returns n, in [1,MR_LINK_FDS]; *timeout_ms is the longest wait, >= 0.  Call
   mr_link_pending before every wait and do not wait if it returns true: these descriptors are
   edge-triggered, and the last pump may have made room or brought buffers that the caller has not
   seen yet (reported once). */
int mr_link_fds(mr_link_t *l, struct pollfd fd[MR_LINK_FDS], int *timeout_ms);
bool mr_link_pending(mr_link_t *l);

/* For callers with nothing else to poll: blocks until pump has something to do, or for ms (-1: no
   limit). */
void mr_link_wait(mr_link_t *l, int ms);

/* ---- sending end ---- */

/* The point at which the peer last asked to resume, in *point.  MR_AGAIN: no peer has asked yet,
   *point is zero.  MR_OK: the peer is served from there.  MR_END: this end does not hold that
   buffer, or has not reached it: close the link, restart the stream at *point and open a link with
   first = point->number. */
mr_err_t mr_link_asked(const mr_link_t *l, mr_link_point_t *point);

/* Refuses, from now on, a peer that asks for this point, because the stream cannot start there; the
   peer gets the reason `why`. Replaces an earlier point; why is copied, up to 255 bytes. */
void mr_link_refuse(mr_link_t *l, const mr_link_point_t *point, const char *why);

/* Buffers that mr_link_send takes now, [0,window]: a window of unacknowledged ones.  0 after
   mr_link_end, or once the peer wants no more. */
size_t mr_link_room(const mr_link_t *l);
void mr_link_send(mr_link_t *l, mr_buf_t *b); /* takes over the caller's reference; room > 0 */
void mr_link_end(mr_link_t *l);               /* ends the stream */
/* True if all is acknowledged after the end, or the peer wants no more. */
bool mr_link_done(const mr_link_t *l);

/* True if the peer called mr_link_leave: it wants no more. */
bool mr_link_left(const mr_link_t *l);

/* ---- receiving end ---- */

/* The sending end's spec, owned by the link; NULL while it is unknown. */
const mr_spec_t *mr_link_spec(const mr_link_t *l);

/* Takes up to n buffers in order and returns how many, [0,n]; the caller owns them.  Their data is
   read-only: on one host it is the sending end's memory.  mr_buf_t.seq is the number. */
size_t mr_link_take(mr_link_t *l, mr_buf_t **out, size_t n);
/* Buffers that the sending end may send now, [0,window]. */
size_t mr_link_credit(const mr_link_t *l);
/* True if the stream has ended and all of it has been taken. */
bool mr_link_over(const mr_link_t *l);

/* With by_hand: commits the buffers before `number`: a receiving end that resumes after its process
   died does so from there, or later.  Any thread. */
void mr_link_commit(mr_link_t *l, int64_t number);
void mr_link_leave(mr_link_t *l); /* wants no more buffers; the sending end is done */

/* ---- both ---- */

void mr_link_stats(const mr_link_t *l, mr_link_stats_t *out);
/* The address bound or connected to, never NULL, with the port chosen for *; owned by the link. */
const char *mr_link_address(const mr_link_t *l);

/* The pool of the buffers that mr_link_take returns; NULL while the spec is unknown.  The caller
   becomes its owner: a stage hands it to its graph (mr_use_pool), which destroys it after the last
   buffer is back.  Without this call mr_link_close destroys it, and every buffer must be back. */
mr_pool_t *mr_link_give_pool(mr_link_t *l);

#endif
