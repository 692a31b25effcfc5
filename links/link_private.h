/* The inside of a link: one struct for both ends, link.c what they share, send.c and receive.c
   the two sides of the protocol, receive_pool.c the receiving end's buffers, socket.c ZeroMQ. */
#ifndef MR_LINKS_LINK_PRIVATE_H
#define MR_LINKS_LINK_PRIVATE_H

#include <stdatomic.h>
#include <zmq.h>

#include "links/wire.h"
#include "pipeline/pool.h"

enum {
  MR__LINK_WINDOW = 8,
  MR__LINK_LINGER_MS = 2000,
  MR__LINK_BEAT_MS = 500,    /* silence after which an end says that it is there */
  MR__LINK_KNOCK_MS = 250,   /* between two tries to be heard */
  MR__LINK_RETRY_MS = 10,    /* the same while there is no connection */
  MR__LINK_SILENT_MS = 3000, /* silence after which the peer counts as gone */
  MR__LINK_ACK_MS = 2,       /* an acknowledgement waits so long for the next ones */
  MR__LINK_ID_MAX = 255,
  MR__LINK_PEERS = 32, /* connections that a link's address takes: one is its peer's */
};

/* ---- the socket ---- */

typedef struct mr__zap mr__zap_t;
typedef struct mr__guard mr__guard_t;

/* One ZeroMQ socket: a DEALER where it connects, a ROUTER (a DEALER that tells its peers apart)
   where it binds. */
typedef struct mr__socket {
  void *context, *socket;
  bool router;
  int most;  /* set before open: messages that wait for one peer; 0: credit bounds them */
  int peers; /* set before open, binding end: connections at once; 0: MR__LINK_PEERS */
  int64_t
      unread; /* set before open: bytes of the served peer that may wait here; 0: a stranger's */
  mr__guard_t *guard; /* binding end */
  bool drained;       /* found empty, and nothing sent since: a new message makes fd readable */
  int fd;
  char at[256];
  bool has_file; /* bound to ipc://FILE */
  mr__zap_t *zap;
  unsigned char peer[MR__LINK_ID_MAX]; /* the peer that is being served */
  size_t n_peer;                       /* 0: none yet (ROUTER) */
  unsigned char from[MR__LINK_ID_MAX]; /* who sent what was received last */
  size_t n_from;
} mr__socket_t;

/* longest: bytes of the longest frame that is accepted. */
mr_err_t mr__socket_open(mr__socket_t *k, const mr_link_cfg_t *cfg, int64_t longest,
                         mr_diag_t *diag);
/* Whether the peer's connection still stands, as far as is known here. */
bool mr__socket_peer_stands(mr__socket_t *k, const void *message, size_t n);
void mr__socket_close(mr__socket_t *k, int linger_ms);
/* A message received whole: false, nothing there, and nothing to close. */
typedef struct mr__message {
  int n;    /* frames, at least 1 */
  bool bad; /* more frames, or fewer, than any message of ours has */
  zmq_msg_t frame[MR__LINK_FRAMES];
} mr__message_t;
bool mr__socket_receive(mr__socket_t *k, mr__message_t *m);
void mr__message_close(mr__message_t *m);
/* Sends first (copied) and n_parts frames more, all or none, to peer, or to who spoke last.  The
   frames are taken over in any case.  false: not now. */
bool mr__socket_send(mr__socket_t *k, bool to_from, const void *first, size_t n, zmq_msg_t *part,
                     int n_parts);
/* Sends n frames to peer, or to who spoke last, all or none; they are taken over in any case. */
bool mr__socket_send_all(mr__socket_t *k, bool to_from, zmq_msg_t *part, int n);
bool mr__socket_is_peer(const mr__socket_t *k); /* from is peer */
void mr__socket_set_peer(mr__socket_t *k);      /* peer := from */
bool mr__socket_readable(mr__socket_t *k);

/* Limits what connections may take of the process: how many there are (most, and a quarter of the
   descriptors), how long one may say nothing of the protocol (10 s), and how many bytes may come
   that belong to no whole message (256 KiB; served_bytes for the peer that is served).  One that
   goes too far is closed; where there are too many, the one that is missed least.  It belongs to
   the thread of the socket.  Before the socket is bound.  NULL: no memory. */
mr__guard_t *mr__guard_open(void *context, void *socket, int most, int64_t served_bytes);
void mr__guard_close(mr__guard_t *g); /* before the socket is closed; NULL is fine */
void mr__guard_tend(mr__guard_t *g);  /* whenever fd is readable (on change), and after wait_ms */
int mr__guard_fd(const mr__guard_t *g);
int mr__guard_wait_ms(const mr__guard_t *g); /* -1: nobody is there */
/* A message came; frame: one of its.  good: it was one of the protocol; served: its sender is. */
void mr__guard_heard(mr__guard_t *g, zmq_msg_t *frame, bool good, bool served);

/* CURVE keys and who may come; nothing if cfg has none (curve.c). */
mr_err_t mr__socket_curve(mr__socket_t *k, const mr_link_cfg_t *cfg, mr_diag_t *diag);
void mr__zap_stop(mr__zap_t *z); /* before the context goes; NULL is fine */

/* ---- buffers of the receiving end ---- */

/* What the buffers in use stand on.  It belongs to the pool and lives as long. */
typedef struct mr__rx mr__rx_t;

mr_pool_t *mr__rx_pool(const mr_spec_t *spec, int window, mr__rx_t **rx); /* NULL: no memory */
/* A buffer for DATA number, a message of which mr__link_data_read has believed the first frame.
   Frames whose bytes become the buffer's are taken out of m.  MR_OK; MR_AGAIN: none is free (the
   peer sent more than it may), or its pool cannot be mapped; MR_ERR_DATA: sizes, labels or offsets
   that cannot be. */
mr_err_t mr__rx_buf(mr__rx_t *rx, mr_pool_t *pool, int64_t number, const mr__link_data_t *d,
                    const mr__link_parts_t *parts, mr__message_t *m, mr_buf_t **out);
bool mr__rx_is_released(const mr__rx_t *rx, int64_t number);
/* A peer that shares its pools: its token of MR__LINK_TOKEN bytes, zeros: it does not. */
void mr__rx_new_session(mr__rx_t *rx, const char *token);

/* ---- pools that the peer maps ---- */

/* The sending end's side of one host: it hands the descriptors of its pools to the peer, over a
   socket without a name in the file system. */
typedef struct mr__share mr__share_t;
struct mr_link;
mr_err_t mr__share_open(struct mr_link *l, mr_diag_t *diag); /* nothing if the address is tcp:// */
void mr__share_close(mr__share_t *s);                        /* NULL is fine, as in the others */
void mr__share_pump(mr__share_t *s);                         /* lets peers in and hands out */
int mr__share_fd(const mr__share_t *s);                      /* -1: nothing to wait for */
void mr__share_host(char text[MR_LINK_NAME_MAX]);            /* names this kernel's network */
bool mr__share_same_host(const mr__share_t *s, const char *host);
void mr__share_use(mr__share_t *s, bool on); /* a new session: whether its peer takes references */
void mr__share_token(const mr__share_t *s, char token[MR__LINK_TOKEN]);

/* Where a buffer lies, if the peer can map it. */
typedef struct mr__place {
  bool is_known;
  uint32_t pool;
  uint64_t offset;
} mr__place_t;
mr__place_t mr__share_place(mr__share_t *s, const mr_buf_t *b);

/* ---- the link ---- */

typedef enum mr__link_state {
  MR__LINK_ALONE,
  MR__LINK_MET,
  MR__LINK_PLAIN /* sending end: its peer makes plain requests (plain.h) */
} mr__link_state_t;

struct mr_link {
  mr_link_cfg_t cfg; /* its texts are copies */
  bool out;
  bool heard; /* the last pump brought what the caller has not looked at */
  int streak; /* pumps in a row that found a message */
  mr__socket_t k;
  mr__link_state_t state;
  uint64_t session;
  int64_t heard_ms, said_ms, tried_ms; /* last time that ... */
  int64_t reached;                     /* sending end: largest number sent so far, plus 1 */
  mr_diag_t failure;
  mr_link_stats_t stats;
  char refusal[400]; /* the last one's reason */

  mr_spec_t spec; /* known: have_spec */
  bool have_spec, spec_is_wanted;
  void *names; /* owned: the spec's dataset */

  /* sending end: held[first_held, next) by number, of which those before sent are on the way; those
     before first_held are released */
  mr_buf_t **held; /* [window], by number % window */
  int64_t first_held, next, sent, limit;
  int64_t acked, committed_heard; /* receiving end: acked is what it said last */
  int64_t wanted;                 /* MR__LINK_PLAIN: asked for and not yet sent; -1: nothing */
  bool ended, end_said;
  bool left, left_said; /* the receiving end wants no more */
  bool left_heard;      /* receiving end: the other one knows */
  mr_err_t asked_state;
  mr_link_point_t asked;
  mr_link_point_t barred; /* barred_why[0]: who asks for this point is refused */
  char barred_why[256];
  mr__share_t *share;
  char *scratch; /* a first frame */

  /* receiving end: [released, taken) is in use, [taken, expected) waits for take */
  mr_buf_t **came; /* [window], by number % window */
  mr_link_point_t point;
  int64_t expected, taken, released, released_said, committed_said, total;
  int64_t ack_due_ms;
  _Atomic int64_t committed;
  bool pool_is_given;
  mr_pool_t *pool;
  mr__rx_t *rx;
};

int64_t mr__link_now_ms(void);

/* A message as mr__socket_receive gives it, from k.from; m stays the caller's. */
void mr__link_hear(mr_link_t *l, mr__message_t *m);

/* Sends a message of one frame: head and body.  false: not now. */
bool mr__link_say(mr_link_t *l, mr__link_kind_t kind, int64_t number, const void *body, size_t n);
/* A few words to who spoke last, peer or not; text may be NULL. */
void mr__link_answer(mr_link_t *l, mr__link_kind_t kind, uint64_t session, const char *text);
void mr__link_malformed(mr_link_t *l); /* counts it */
/* The peer is of no use: ends the session.  An end that connects fails for good, with its name for
   where; one that binds forgets this peer and waits for another. */
void mr__link_refuse_peer(mr_link_t *l, mr_err_t code, const char *why);
void mr__link_count_refusal(mr_link_t *l, const char *why);
void mr__link_refused(mr_link_t *l, const mr__link_head_t *head, const void *body);
void mr__link_part(mr_link_t *l); /* the session is over; the next try to meet is due */
bool mr__link_let_in(
    mr_link_t *l); /* makes who spoke last the peer; false: another one is served */
mr_err_t mr__link_in_ready(mr_link_t *l, mr_diag_t *diag); /* the spec is known: makes the pool */

/* One message of the other side, its head checked; body is head->body bytes. */
void mr__link_out_hears(mr_link_t *l, const mr__link_head_t *head, const void *body);
void mr__link_in_hears(mr_link_t *l, const mr__link_head_t *head, const void *body,
                       mr__message_t *m);
/* A frame that is no message of the protocol: true if it was a plain request. */
bool mr__link_out_hears_plain(mr_link_t *l, const void *frame, size_t n);
/* What there is to say now. */
void mr__link_out_speaks(mr_link_t *l);
void mr__link_in_speaks(mr_link_t *l);
int64_t mr__link_in_committed(const mr_link_t *l); /* receiving end: for the next ACK */

#endif
