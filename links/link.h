/* A link: an edge that leaves the process.  Its sending end gives buffers to its receiving end in
   another process or on another host, each exactly once and in order, whatever dies in between.

   Every buffer has a *number*, counted from the first one of the run.  An acknowledgement carries
   two of them: buffers before *released* are held by nobody on the receiving end any more (credit:
   so many more may come), those before *committed* have had their effect for good, and never come
   again.  What is committed is what is released, or, with by_hand, what mr_link_commit says.  The
   sending end keeps what is not released.  After a lost connection, and after a death of either
   process, the receiving end says the number it goes on from; the sending end sends again from
   there, or, when it no longer holds that buffer, says so (mr_link_asked): its stream must then be
   started anew at that point. A stream is a function of its position, so nothing is lost by this.

   The receiving end grants credit: the sending end never has more than window buffers on the way,
   so no queue in between is ever full.  Between hosts buffers travel as ZeroMQ messages; on one
   host and from a pool made with mr_pool_create_shared they stay where they are, and the message
   carries only their place.  docs/links.md has the protocol frame by frame.

   A link belongs to one thread at a time, which calls mr_link_pump whenever one of its file
   descriptors is readable or its time is up; no call but mr_link_wait and mr_link_close blocks.
   Buffers that it gave may be released by any thread, also after the link was closed. */
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
  MR_LINK_WORDS = 64, /* numbers of a walk's state that a link can carry */
  MR_LINK_NAME_MAX = 64,
  MR_LINK_WINDOW_MAX = 4096,
};

/* Numbers and positions that a peer may name: 35 years at 1000 buffers a second, and what a JSON
   number holds exactly.  Larger ones would overflow where streams multiply them. */
#define MR_LINK_NUMBER_MAX (INT64_C(1) << 40)
#define MR_LINK_POSITION_MAX (INT64_C(1) << 53)

typedef struct mr_link mr_link_t;

typedef struct mr_link_cfg {
  const char *name;    /* of the edge, shorter than MR_LINK_NAME_MAX; both ends must say the same */
  const char *address; /* tcp://HOST:PORT, ipc://@NAME (no file is left behind) or ipc://FILE */
  bool bind;           /* this end waits at the address, the other one comes */
  int window;          /* receiving end: buffers on the way or in use here, [1,MR_LINK_WINDOW_MAX];
                          0: 8 */
  bool by_hand;    /* receiving end: committed is what mr_link_commit names, not what is released */
  bool copy;       /* never by reference, even on one host */
  int linger_ms;   /* how long close waits for what the peer has not acknowledged; 0: 2000 */
  const char *key; /* CURVE: file of this end's secret key (`millrace keys`); NULL: none.  An end
                      that binds beyond loopback must have one */
  const char *peers; /* CURVE: public key files, comma between.  Binding end: who may come;
                        connecting end: the one it expects there */
} mr_link_cfg_t;

/* Where a stream goes on: with the buffer of this number. */
typedef struct mr_link_point {
  int64_t number;   /* buffers before it */
  int64_t epoch;    /* of the buffer before it, 0 at the start */
  int64_t position; /* mr_buf_t.position of the buffer before it, 0 at the start */
  int n_words;
  int64_t word[MR_LINK_WORDS]; /* mr_buf_t.word of the buffer before it */
} mr_link_point_t;

typedef struct mr_link_stats {
  int64_t sent, resent; /* sending end: buffers, those sent more than once counted again */
  int64_t reached;      /* sending end: the number after the last buffer that was sent */
  int64_t received;     /* receiving end: buffers, each once */
  int64_t repeated;     /* receiving end: came again and were dropped */
  int64_t released;     /* all before this number are: nobody on the receiving end holds them */
  int64_t committed;    /* all before it need not come again: <= released */
  int64_t bytes;        /* of payload that travelled in messages */
  int64_t by_reference; /* buffers that stayed in place */
  int64_t connections;  /* times that both ends agreed on a point */
  int64_t malformed;    /* messages refused: bad header, unknown peer, wrong sizes */
  int64_t refused;      /* peers sent away, or that sent this end away; see mr_link_refusal */
  bool connected;
} mr_link_stats_t;

/* Opens the sending end for buffers of this spec (BATCHES or BYTES; the others hold addresses of
   this process: MR_ERR_SHAPE).  first is the number of the buffer that mr_link_send gets first.
   The spec's dataset is copied.  NULL with the reason in diag. */
mr_link_t *mr_link_open_out(const mr_link_cfg_t *cfg, const mr_spec_t *spec, int64_t first,
                            mr_diag_t *diag);

/* Opens the receiving end, going on from a point (NULL: the start).  want: the spec that the
   sending end must have, else mr_link_pump fails with MR_ERR_SHAPE; NULL: any, see mr_link_spec. */
mr_link_t *mr_link_open_in(const mr_link_cfg_t *cfg, const mr_spec_t *want,
                           const mr_link_point_t *point, mr_diag_t *diag);

/* Sending end: waits up to the linger for the peer to acknowledge everything, if mr_link_end was
   called.  Both: tells the peer, closes the socket.  NULL is fine. */
void mr_link_close(mr_link_t *l);

/* Does all that can be done now: takes messages, answers, sends what there is credit for.  MR_OK;
   a failure is final.  An end that connects fails with MR_ERR_SHAPE (specs differ) or MR_ERR_DATA
   (the peer refuses, or sends what cannot be).  An end that binds refuses such a peer and waits for
   another one: whoever can reach an address must not be able to end the process behind it. */
mr_err_t mr_link_pump(mr_link_t *l, mr_diag_t *diag);

/* Why the last of stats.refused peers was refused; "" if none was.  The link's, until the next
   pump. */
const char *mr_link_refusal(const mr_link_t *l);

/* What to wait for before the next pump, if the last one left nothing to do: fills fd[0,n) and
   returns n; *timeout_ms is the longest wait.  Ask mr_link_pending before every wait: these
   descriptors are readable on change only, and the last pump may have made room or brought buffers
   that the caller has not looked at yet (said once). */
int mr_link_fds(mr_link_t *l, struct pollfd fd[MR_LINK_FDS], int *timeout_ms);
bool mr_link_pending(mr_link_t *l);

/* The same for who has nothing else to wait for: returns when pump has something to do, or after
   ms at most (-1: as long as it takes). */
void mr_link_wait(mr_link_t *l, int ms);

/* ---- sending end ---- */

/* Where the peer asked to go on, when it last came: MR_AGAIN, nobody came yet; MR_OK, it is being
   served from there; MR_END: this end does not hold that buffer, or has not come to it: close the
   link, start the stream at *point and open a link with first = point->number. */
mr_err_t mr_link_asked(const mr_link_t *l, mr_link_point_t *point);

/* From now on a peer that asks for this point is answered with why, and not served: the caller's
   stream cannot start there.  Replaces the point before; why is copied, 255 bytes at most. */
void mr_link_refuse(mr_link_t *l, const mr_link_point_t *point, const char *why);

size_t mr_link_room(
    const mr_link_t *l); /* buffers that send takes now: a window's worth unacknowledged */
void mr_link_send(mr_link_t *l, mr_buf_t *b); /* takes over the caller's reference; room > 0 */
void mr_link_end(mr_link_t *l);               /* nothing follows */
bool mr_link_done(const mr_link_t *l); /* ended and all acknowledged, or the peer wants no more */

bool mr_link_left(
    const mr_link_t *l); /* the peer said mr_link_leave: it has done with what it got */

/* ---- receiving end ---- */

const mr_spec_t *mr_link_spec(
    const mr_link_t *l); /* of the sending end, the link's; NULL: unknown */

/* The next buffers in order, up to n; the caller owns them.  Their data is read-only: on one host
   it is the sending end's memory.  mr_buf_t.seq is the number. */
size_t mr_link_take(mr_link_t *l, mr_buf_t **out, size_t n);
size_t mr_link_credit(const mr_link_t *l); /* buffers that the sending end may send now */
bool mr_link_over(const mr_link_t *l);     /* the stream has ended and all of it has been taken */

/* by_hand: everything before number has had its effect for good: a receiving end that goes on after
   a death of its process goes on from there, or later.  Any thread. */
void mr_link_commit(mr_link_t *l, int64_t number);
void mr_link_leave(mr_link_t *l); /* wants no more: the sending end is done */

/* ---- both ---- */

void mr_link_stats(const mr_link_t *l, mr_link_stats_t *out);
const char *mr_link_address(
    const mr_link_t *l); /* bound or connected to, with the port that * took */

/* The pool whose buffers take gives: the stage hands it to its graph (mr_use_pool), which destroys
   it after the last buffer is back; else mr_link_close does, and every buffer must be back. */
mr_pool_t *mr_link_give_pool(mr_link_t *l);

#endif
