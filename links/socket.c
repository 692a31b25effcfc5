/* The ZeroMQ side of a link.  A connecting end is a DEALER; the end that binds is a ROUTER, which
   is a DEALER that knows its peers by name: a plain DEALER would deal every other message of the
   stream to any stranger that connects. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/forks.h"
#include "base/halt.h"
#include "base/loopback.h"
#include "base/slow_clients.h"
#include "links/link_private.h"
#include "links/zap.h"

enum {
  RETRY_MS = 20,
  RETRY_MAX_MS = 500,
  LOST_S = 4, /* a host that has not answered for that long is lost */
  HANDSHAKE_MS = 3000,
  LAST_MS = 100, /* for what is sent as a run ends */
};

static bool text_starts_with(const char *text, const char *with) {
  return !strncmp(text, with, strlen(with));
}

static void set_int(void *socket, int option, int value) {
  zmq_setsockopt(socket, option, &value, sizeof value);
}

/* The kernel detects connections to lost hosts; a link has its own beats (MR__LINK_BEAT_MS).  With
   libzmq's beats a stranger could end the process by filling the queue and hanging up: 4.3 aborts
   when a beat is due on such a connection (its issue 4364). */
static void set_keepalive(void *socket) {
  set_int(socket, ZMQ_TCP_KEEPALIVE, 1);
  set_int(socket, ZMQ_TCP_KEEPALIVE_IDLE, 1);
  set_int(socket, ZMQ_TCP_KEEPALIVE_INTVL, 1);
  set_int(socket, ZMQ_TCP_KEEPALIVE_CNT, LOST_S - 1);
  set_int(socket, ZMQ_TCP_MAXRT, LOST_S * 1000);
}

/* sending to a lost peer fails instead of being dropped silently */
static void socket_set_options(mr__socket_t *k, const mr_link_cfg_t *cfg, int64_t longest) {
  void *s = k->socket;
  zmq_setsockopt(s, ZMQ_MAXMSGSIZE, &longest,
                 sizeof longest); /* otherwise a peer's size field decides */
  /* Credit bounds what is in flight; a smaller bound would only hide errors in it. */
  set_int(s, ZMQ_SNDHWM, k->most ? k->most : 2 * MR_LINK_WINDOW_MAX);
  set_int(s, ZMQ_RCVHWM, 2 * MR_LINK_WINDOW_MAX);
  set_int(s, ZMQ_LINGER, 0); /* close waits for acknowledgements itself */
  set_int(s, ZMQ_RECONNECT_IVL, RETRY_MS);
  set_int(s, ZMQ_RECONNECT_IVL_MAX, RETRY_MAX_MS);
  set_keepalive(s);
  set_int(s, ZMQ_HANDSHAKE_IVL, HANDSHAKE_MS);
  set_int(s, ZMQ_IPV6, strchr(cfg->address, '[') != NULL);
  if (k->router) {
    set_int(s, ZMQ_ROUTER_MANDATORY, 1);
  } else {
    set_int(s, ZMQ_IMMEDIATE, 1); /* nothing is queued for an absent peer */
  }
}

/* Accepts ipc:// connections of this user only; other transports are not affected.  With keys the
   keys decide. */
static void only_this_user(void *socket) {
  uid_t uid = geteuid();
  zmq_setsockopt(socket, ZMQ_IPC_FILTER_UID, &uid, sizeof uid);
}

static mr_err_t refuse_address(const mr_link_cfg_t *cfg, mr_diag_t *diag) {
  const char *a = cfg->address ? cfg->address : "";
  if (!text_starts_with(a, "tcp://") && !text_starts_with(a, "ipc://"))
    return mr_fail(diag, MR_ERR_CONFIG,
                   "address = %s: want tcp://HOST:PORT, ipc://@NAME or ipc://FILE", a);
  if (cfg->bind && mr_needs_proof(a) && !cfg->key)
    return mr_fail(
        diag, MR_ERR_CONFIG,
        "bind = %s: an address beyond this machine needs CURVE: make keys with `millrace keys "
        "NAME` and give key=NAME.key peers=PEER.pub, or bind to tcp://127.0.0.1:PORT",
        a);
  return MR_OK;
}

bool mr__socket_is_of_parent(const mr__socket_t *k) { return k->socket && k->forks != mr_forks(); }

mr_err_t mr__socket_open(mr__socket_t *k, const mr_link_cfg_t *cfg, int64_t longest,
                         mr_diag_t *diag) {
  size_t n = sizeof k->at, fd_n = sizeof k->fd;
  MR_TRY(refuse_address(cfg, diag));
  k->router = cfg->bind;
  k->forks = mr_forks();
  k->context = zmq_ctx_new();
  k->socket = k->context ? zmq_socket(k->context, k->router ? ZMQ_ROUTER : ZMQ_DEALER) : NULL;
  if (!k->socket)
    return mr_fail(diag, MR_ERR_NOMEM, "cannot create a socket: %s", zmq_strerror(zmq_errno()));
  socket_set_options(k, cfg, longest);
  MR_TRY(mr__socket_curve(k, cfg, diag));
  if (cfg->bind) MR_TRY(mr_address_make_free(cfg->address, diag));
  if (cfg->bind && !cfg->key) only_this_user(k->socket);
  int most = mr_listener_most(k->peers ? k->peers : MR__LINK_PEERS);
  if (cfg->bind && !(k->guard = mr_guard_open(k->context, k->socket, most, k->unread)))
    return mr_no_memory(diag, "a link");
  int bad = cfg->bind ? zmq_bind(k->socket, cfg->address) : zmq_connect(k->socket, cfg->address);
  if (bad)
    return mr_fail(diag, MR_ERR_IO, "cannot %s %s: %s", cfg->bind ? "bind" : "connect to",
                   cfg->address, zmq_strerror(zmq_errno()));
  zmq_getsockopt(k->socket, ZMQ_LAST_ENDPOINT, k->at, &n);
  k->has_file = cfg->bind && text_starts_with(k->at, "ipc://") && k->at[6] != '@';
  zmq_getsockopt(k->socket, ZMQ_FD, &k->fd, &fd_n);
  return MR_OK;
}

void mr__socket_close(mr__socket_t *k, int linger_ms) {
  if (k->has_file) unlink(k->at + 6); /* while it is still ours */
  mr_guard_close(k->guard);
  if (k->socket) {
    int left = mr_halt_left_ms(linger_ms); /* the other end gets a moment to take what is sent */
    set_int(k->socket, ZMQ_LINGER, left > LAST_MS || left == linger_ms ? left : LAST_MS);
    zmq_close(k->socket);
  }
  mr_zap_close(k->zap);
  if (k->context) zmq_ctx_term(k->context);
  *k = (mr__socket_t){0};
}

static bool has_more_frames(void *socket) {
  int v = 0;
  size_t n = sizeof v;
  zmq_getsockopt(socket, ZMQ_RCVMORE, &v, &n);
  return v;
}

static void socket_drain(void *socket) {
  while (has_more_frames(socket)) {
    zmq_msg_t rest;
    zmq_msg_init(&rest);
    int bad = zmq_msg_recv(&rest, socket, ZMQ_DONTWAIT) < 0;
    zmq_msg_close(&rest);
    if (bad) return;
  }
}

static bool receive_id(mr__socket_t *k) {
  int n = zmq_recv(k->socket, k->from, sizeof k->from, ZMQ_DONTWAIT);
  if (n < 0 || (size_t)n > sizeof k->from) return false;
  k->n_from = (size_t)n;
  return true;
}

static bool receive_frame(mr__socket_t *k, mr__message_t *m) {
  zmq_msg_t *frame = &m->frame[m->n];
  zmq_msg_init(frame);
  bool came = zmq_msg_recv(frame, k->socket, ZMQ_DONTWAIT) >= 0;
  if (came) m->n++;
  if (!came) zmq_msg_close(frame);
  return came;
}

/* Takes one whole message into m, all of its frames, and returns true; false if none has come.
   m->bad: it is no message of a link, because it has no frame beside its sender's id, or too many.
 */
static bool receive_message(mr__socket_t *k, mr__message_t *m) {
  if (k->router && !receive_id(k)) return false;
  m->bad = k->router && !has_more_frames(k->socket);
  if (m->bad) {
    zmq_msg_init(&m->frame[m->n++]); /* from a peer that sends nothing but its id */
    return true;
  }
  do {
    if (!receive_frame(k, m)) return false;
  } while (m->n < MR__LINK_FRAMES && has_more_frames(k->socket));
  m->bad = has_more_frames(k->socket);
  if (m->bad) socket_drain(k->socket);
  return true;
}

bool mr__socket_receive(mr__socket_t *k, mr__message_t *m) {
  m->n = 0, m->bad = false;
  k->drained = !receive_message(k, m);
  if (k->drained) mr__message_close(m);
  return !k->drained;
}

void mr__message_close(mr__message_t *m) {
  while (m->n) zmq_msg_close(&m->frame[--m->n]);
}

/* A later frame is queued or refused as the first frame of its message was. */
static bool send_rest(mr__socket_t *k, zmq_msg_t *part, int n_parts) {
  int done = 0;
  for (bool good = true; good && done < n_parts; done += good)
    good = zmq_msg_send(&part[done], k->socket,
                        ZMQ_DONTWAIT | (done + 1 < n_parts ? ZMQ_SNDMORE : 0)) >= 0;
  for (int i = 0; i < n_parts; i++) zmq_msg_close(&part[i]); /* a sent one is empty now */
  return done == n_parts;
}

bool mr__socket_send(mr__socket_t *k, bool to_from, const void *first, size_t n, zmq_msg_t *part,
                     int n_parts) {
  const unsigned char *id = to_from ? k->from : k->peer;
  size_t n_id = to_from ? k->n_from : k->n_peer;
  int flags = ZMQ_DONTWAIT;
  k->drained = false; /* sending may process incoming events and clear fd */
  bool good = !k->router || n_id;
  if (good && k->router) good = zmq_send(k->socket, id, n_id, flags | ZMQ_SNDMORE) >= 0;
  if (good) good = zmq_send(k->socket, first, n, flags | (n_parts ? ZMQ_SNDMORE : 0)) >= 0;
  if (good) return send_rest(k, part, n_parts);
  for (int i = 0; i < n_parts; i++) zmq_msg_close(&part[i]);
  return false;
}

bool mr__socket_send_all(mr__socket_t *k, bool to_from, zmq_msg_t *part, int n) {
  const unsigned char *id = to_from ? k->from : k->peer;
  size_t n_id = to_from ? k->n_from : k->n_peer;
  k->drained = false;
  bool good =
      !k->router || (n_id && zmq_send(k->socket, id, n_id, ZMQ_DONTWAIT | ZMQ_SNDMORE) >= 0);
  if (good) return send_rest(k, part, n);
  for (int i = 0; i < n; i++) zmq_msg_close(&part[i]);
  return false;
}

bool mr__socket_is_peer(const mr__socket_t *k) {
  return !k->router || (k->n_peer == k->n_from && !memcmp(k->peer, k->from, k->n_from));
}

void mr__socket_set_peer(mr__socket_t *k) {
  memcpy(k->peer, k->from, k->n_from);
  k->n_peer = k->n_from;
}

bool mr__socket_readable(mr__socket_t *k) {
  int events = 0;
  size_t n = sizeof events;
  if (k->drained) return false;
  zmq_getsockopt(k->socket, ZMQ_EVENTS, &events, &n);
  return events & ZMQ_POLLIN;
}

bool mr__socket_peer_stands(mr__socket_t *k, const void *message, size_t n) {
  if (!k->router) return true;
  return k->n_peer && mr__socket_send(k, false, message, n, NULL, 0);
}
