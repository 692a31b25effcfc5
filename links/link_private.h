/* The inside of a link: one struct for both ends.  link.c has what they share, send.c and receive.c
   the two sides of the protocol, receive_pool.c the receiving end's buffers, share.c their memory
   on one host, socket.c ZeroMQ, curve.c its keys, guard.c the limits for unknown peers. */
#ifndef MR_LINKS_LINK_PRIVATE_H
#define MR_LINKS_LINK_PRIVATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zmq.h>

#include "links/guard.h"
#include "links/wire.h"
#include "pipeline/pool.h"

enum {
  MR__LINK_WINDOW = 8,
  MR__LINK_LINGER_MS = 2000,
  MR__LINK_BEAT_MS = 500,    /* silence after which an end sends a beat */
  MR__LINK_KNOCK_MS = 250,   /* between two attempts to connect */
  MR__LINK_RETRY_MS = 10,    /* the same while there is no connection */
  MR__LINK_SILENT_MS = 3000, /* silence after which the peer counts as gone */
  MR__LINK_ACK_MS = 2,       /* how long an acknowledgement waits for further ones */
  MR__LINK_ID_MAX = 255,
  MR__LINK_PEERS = 32, /* most connections at a link's address; one is its peer's */
};

/* ---- the socket ---- */

/* One ZeroMQ socket: a DEALER where it connects, a ROUTER (a DEALER that tells its peers apart)
   where it binds. */
typedef struct mr__socket {
  void *context, *socket;
  bool router;
  int most;          /* set before open: most messages queued for one peer; further ones are not
                        sent; 0: as many as the longest windows have */
  int peers;         /* set before open, binding end: most connections; 0: MR__LINK_PEERS */
  int64_t unread;    /* set before open: unread bytes that the served peer may have here; 0: as a
                        stranger */
  mr_guard_t *guard; /* binding end */
  bool drained;      /* found empty, and nothing sent since: a new message makes fd readable */
  int fd;
  char at[256];
  bool has_file; /* bound to ipc://FILE */
  struct mr_zap *zap;
  unsigned char peer[MR__LINK_ID_MAX]; /* the served peer */
  size_t n_peer;                       /* 0: none yet (ROUTER) */
  unsigned char from[MR__LINK_ID_MAX]; /* the sender of the last message */
  size_t n_from;
  uint32_t forks; /* mr_forks() where it was opened */
} mr__socket_t;

/* Opens and binds or connects the socket; longest: most bytes of an accepted frame.  MR_OK;
   MR_ERR_CONFIG, MR_ERR_IO (the address), MR_ERR_NOMEM, MR_ERR_UNAVAILABLE (CURVE), with a
   sentence.  mr__socket_close is called after a failure too. */
mr_err_t mr__socket_open(mr__socket_t *k, const mr_link_cfg_t *cfg, int64_t longest,
                         mr_diag_t *diag);
/* True if the peer's connection still exists, as far as this end knows; sends it the message. */
bool mr__socket_peer_stands(mr__socket_t *k, const void *message, size_t n);
void mr__socket_close(mr__socket_t *k, int linger_ms);
/* True in a child of the process that opened it, which has the threads that serve the socket. */
bool mr__socket_is_of_parent(const mr__socket_t *k);
/* A whole message.  receive returns false if none is there, and there is then nothing to close. */
typedef struct mr__message {
  int n;    /* frames, at least 1 */
  bool bad; /* more or fewer frames than a message of the protocol has */
  zmq_msg_t frame[MR__LINK_FRAMES];
} mr__message_t;
bool mr__socket_receive(mr__socket_t *k, mr__message_t *m);
void mr__message_close(mr__message_t *m);
/* Sends `first` (copied) and n_parts more frames, all or none, to the peer, or (to_from) to the
   last sender.  The frames are taken over in any case.  False: not possible now. */
bool mr__socket_send(mr__socket_t *k, bool to_from, const void *first, size_t n, zmq_msg_t *part,
                     int n_parts);
/* Sends n frames, all or none, as above. */
bool mr__socket_send_all(mr__socket_t *k, bool to_from, zmq_msg_t *part, int n);
bool mr__socket_is_peer(const mr__socket_t *k); /* true if the last sender is the peer */
void mr__socket_set_peer(mr__socket_t *k);      /* makes the last sender the peer */
bool mr__socket_readable(mr__socket_t *k);

/* Sets the CURVE keys and the accepted peers; nothing if cfg has none (curve.c). */
mr_err_t mr__socket_curve(mr__socket_t *k, const mr_link_cfg_t *cfg, mr_diag_t *diag);

/* ---- buffers of the receiving end ---- */

/* The memory behind the buffers in use.  It belongs to the pool and lives as long. */
typedef struct mr__rx mr__rx_t;

mr_pool_t *mr__rx_pool(const mr_spec_t *spec, int window, mr__rx_t **rx); /* NULL without memory */
/* Makes a buffer of DATA `number`, whose first frame mr__link_data_read has accepted.  Frames whose
   bytes become the buffer's are moved out of m.  MR_OK; *out is NULL if no buffer is free (the
   peer sent more than it may) or its pool cannot be mapped: the peer must send it again.
   MR_ERR_DATA: impossible sizes, labels or offsets; *out is then NULL too. */
mr_err_t mr__rx_buf(mr__rx_t *rx, mr_pool_t *pool, int64_t number, const mr__link_data_t *d,
                    const mr__link_parts_t *parts, mr__message_t *m, mr_buf_t **out);
bool mr__rx_is_released(const mr__rx_t *rx, int64_t number);
/* Starts a session with a peer that shares its pools: its token of MR__LINK_TOKEN bytes; zeros: it
   does not share. */
void mr__rx_new_session(mr__rx_t *rx, const char *token);

/* ---- pools that the peer maps ---- */

/* Two processes of one host pass descriptors over a stream socket in the abstract namespace, which
   leaves no file behind: the receiving end shows a secret and gets the descriptors of the sending
   end's pools.

   Sending end: */
typedef struct mr__share mr__share_t;
struct mr_link;
mr_err_t mr__share_open(struct mr_link *l, mr_diag_t *diag); /* opens the listening socket */
void mr__share_close(mr__share_t *s);                        /* NULL is fine, here and below */
void mr__share_pump(mr__share_t *s);                         /* accepts the peer */
int mr__share_fd(const mr__share_t *s);                      /* -1: nothing to wait for */
/* Name of this kernel and network namespace. */
void mr__share_host(char text[MR_LINK_NAME_MAX]);
bool mr__share_same_host(const mr__share_t *s, const char *host);
void mr__share_use(mr__share_t *s, bool on); /* a new session: whether its peer takes references */
void mr__share_token(const mr__share_t *s, char token[MR__LINK_TOKEN]);

/* A buffer's place, if the peer can map it. */
typedef struct mr__place {
  bool is_known;
  uint32_t pool;
  uint64_t offset;
} mr__place_t;
mr__place_t mr__share_place(mr__share_t *s, const mr_buf_t *b);

/* Receiving end: connects to the sharing end that wrote this token and belongs to the same user.
   Returns a socket, which the caller closes; -1 if the peer does not share or cannot be reached. */
int mr__share_connect(const char *token);

/* Takes the next descriptor, which the caller closes, and the number of its pool; false if none has
   come. */
bool mr__share_take(int socket, uint32_t *pool, int *fd);

/* Maps a pool's memory for reading; the caller unmaps it with munmap(.., *bytes).  NULL if it
   cannot be mapped or is not sealed against shrinking, so that its owner could make reads fault. */
char *mr__share_map(int fd, size_t *bytes);

/* ---- the link ---- */

typedef enum mr__link_state {
  MR__LINK_ALONE,
  MR__LINK_MET,
  MR__LINK_PLAIN /* sending end: its peer sends plain requests (plain.h) */
} mr__link_state_t;

struct mr_link {
  mr_link_cfg_t cfg; /* its texts are copies */
  bool out;
  bool heard; /* the last pump brought something the caller has not seen */
  int streak; /* pumps in a row that found a message */
  mr__socket_t k;
  mr__link_state_t state;
  uint64_t session;
  int64_t heard_ms, said_ms, tried_ms; /* times of the last message heard, said, and attempt */
  int64_t welcomed_ms;                 /* sending end: of the last WELCOME */
  int64_t reached;                     /* sending end: largest number sent so far, plus 1 */
  mr_diag_t failure;
  mr_link_stats_t stats;
  char refusal[400]; /* the reason of the last refusal */

  mr_spec_t spec; /* known: have_spec */
  bool have_spec, spec_is_wanted;
  void *names; /* owned: memory of the spec's names */

  /* sending end: buffers [first_held,next) are held, of which those before `sent` are in flight;
     those before first_held are released */
  mr_buf_t **held; /* [window], by number % window */
  int64_t first_held, next, sent, limit;
  int64_t acked, committed_heard; /* acked: what the peer released last */
  int64_t wanted;                 /* MR__LINK_PLAIN: requested and not yet sent; -1: none */
  bool ended, end_said;
  bool left, left_said; /* the receiving end wants no more */
  bool left_heard;      /* receiving end: the sending end knows */
  mr_err_t asked_state;
  mr_link_point_t asked;
  mr_link_point_t barred; /* barred_why[0]: a peer that asks for this point is refused */
  char barred_why[256];
  mr__share_t *share;
  char *scratch; /* a first frame */

  /* receiving end: [released,taken) is in use, [taken,expected) waits for mr_link_take */
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

/* Handles a message from k.from, as mr__socket_receive returns it; m stays the caller's. */
void mr__link_hear(mr_link_t *l, mr__message_t *m);

/* Sends a message of one frame: head and body.  False: not possible now. */
bool mr__link_say(mr_link_t *l, mr__link_kind_t kind, int64_t number, const void *body, size_t n);
/* Sends a short message to the last sender, peer or not; text may be NULL. */
void mr__link_answer(mr_link_t *l, mr__link_kind_t kind, uint64_t session, const char *text);
void mr__link_malformed(mr_link_t *l); /* counts it */
/* Ends the session with a peer that cannot be served.  An end that connects fails for good; one
   that binds forgets this peer and waits for another. */
void mr__link_refuse_peer(mr_link_t *l, mr_err_t code, const char *why);
void mr__link_count_refusal(mr_link_t *l, const char *why);
void mr__link_refused(mr_link_t *l, const mr__link_head_t *head, const void *body);
void mr__link_part(mr_link_t *l); /* ends the session; the next attempt is due now */
/* Makes the last sender the peer; false: another one is served. */
bool mr__link_let_in(mr_link_t *l);
/* The spec is known: makes the pool; MR_ERR_NOMEM. */
mr_err_t mr__link_in_ready(mr_link_t *l, mr_diag_t *diag);

/* Handles a message of the other end, its head checked; body has head->body bytes. */
void mr__link_out_hears(mr_link_t *l, const mr__link_head_t *head, const void *body);
void mr__link_in_hears(mr_link_t *l, const mr__link_head_t *head, const void *body,
                       mr__message_t *m);
/* Handles a single frame; true if it was a plain request. */
bool mr__link_out_hears_plain(mr_link_t *l, const void *frame, size_t n);
/* Sends what is due now. */
void mr__link_out_speaks(mr_link_t *l);
void mr__link_in_speaks(mr_link_t *l);
/* Receiving end: the committed number for the next ACK. */
int64_t mr__link_in_committed(const mr_link_t *l);

#endif
