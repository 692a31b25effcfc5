/* Each subscriber is one ZeroMQ XPUB socket with its own connection to it.  The relay does not
   interpret the bytes; subscriptions are read from the sockets, so that a message goes only to
   subscribers that want it and a refused send is counted for its subscriber. */
#include "sinks/subscribers.h"

#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>
#include <zmq.h>

#include "base/clock.h"
#include "base/halt.h"
#include "sinks/background.h"
#include "sinks/subscribers_private.h"

enum {
  SUBSCRIBERS_MAX = MR_SUBSCRIBERS_MAX,
  HIGH_WATER = 1000,    /* messages queued for one subscriber */
  LONGEST_TOPIC = 4096, /* otherwise a peer's size field would decide what is allocated */
  TOPICS_BYTES = 16384, /* of all subscriptions of one subscriber */
  SAID_BYTES = 65536,   /* what a subscriber may send at once ... */
  SAID_PER_S = 1024,    /* ... and over time: ZeroMQ's own heartbeats */
  HANDSHAKE_MS = 3000,  /* a peer that has not begun the ZeroMQ protocol by then is dropped */
  STUCK_MS = 5000,      /* a subscriber that took nothing for this long may be replaced */
};

typedef struct subscriber {
  int fd, inner; /* the subscriber's connection; our connection to its socket */
  void *pub;
  bool greeted;     /* its first bytes have been checked */
  bool ready;       /* a descriptor has changed, or there is more to move: to be served */
  bool takes;       /* took the first frame of a message and gets the second one */
  int64_t since_ms; /* when it connected */
  int64_t stuck_ms; /* since when it has taken no message that it wanted; 0: it takes them */
  bool wants_too_much;
  size_t n_topics; /* bytes of topics: for each its length (2 bytes) and text */
  unsigned char topics[TOPICS_BYTES];
  mr__relay_t in, out; /* from the subscriber; to it */
} subscriber_t;

struct mr_subscribers {
  mr__listener_t listener;
  int epoll;
  void *context;
  subscriber_t *subscriber[SUBSCRIBERS_MAX];
  mr_subscribers_stats_t stats;
};

/* of: the subscriber that fd belongs to; NULL for the listener. */
static bool subscribers_watch(const mr_subscribers_t *g, int fd, subscriber_t *of) {
  struct epoll_event e = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = of};
  return epoll_ctl(g->epoll, EPOLL_CTL_ADD, fd, &e) == 0;
}

/* Creating the first socket starts the context's I/O threads. */
static void subscribers_start_threads(void *context) {
  void *first = zmq_socket(context, ZMQ_PUB);
  if (first) zmq_close(first);
}

static mr_err_t subscribers_open_all(mr_subscribers_t *g, const char *address, mr_diag_t *diag) {
  MR_TRY(mr__listener_open(&g->listener, address, diag));
  g->epoll = epoll_create1(EPOLL_CLOEXEC);
  g->context = zmq_ctx_new();
  if (g->epoll < 0 || !g->context || !subscribers_watch(g, g->listener.fd, NULL))
    return mr_fail(diag, MR_ERR_IO, "cannot serve %s: %s", address, strerror(errno));
  zmq_ctx_set(g->context, ZMQ_MAX_SOCKETS,
              4 * SUBSCRIBERS_MAX); /* closed ones remain for a while */
  mr_in_background(subscribers_start_threads, g->context);
  return MR_OK;
}

mr_subscribers_t *mr_subscribers_open(const char *address, mr_diag_t *diag) {
  mr_subscribers_t *g = calloc(1, sizeof *g);
  if (!g) return mr_no_memory(diag, "subscribers"), NULL;
  g->epoll = -1;
  if (subscribers_open_all(g, address, diag) >= 0) return g;
  mr_subscribers_close(g, 0);
  return NULL;
}

/* ---- subscriptions ---- */

static size_t length_at(const subscriber_t *u, size_t at) {
  return (size_t)u->topics[at] | (size_t)u->topics[at + 1] << 8;
}

/* Stores a topic once per subscription, since ZeroMQ counts them. */
static bool keep_topic(subscriber_t *u, const void *topic, size_t n) {
  if (u->n_topics + 2 + n > sizeof u->topics) return false;
  u->topics[u->n_topics] = (unsigned char)n, u->topics[u->n_topics + 1] = (unsigned char)(n >> 8);
  memcpy(u->topics + u->n_topics + 2, topic, n);
  u->n_topics += 2 + n;
  return true;
}

static void drop_topic(subscriber_t *u, const void *topic, size_t n) {
  for (size_t at = 0, next; at < u->n_topics; at = next) {
    next = at + 2 + length_at(u, at);
    if (next - at != 2 + n || memcmp(u->topics + at + 2, topic, n)) continue;
    memmove(u->topics + at, u->topics + next, u->n_topics - next);
    u->n_topics -= next - at;
    return;
  }
}

/* Reads new subscriptions and unsubscriptions. */
static void hear_topics(subscriber_t *u) {
  unsigned char said[LONGEST_TOPIC + 1];
  for (int n; u->pub && (n = zmq_recv(u->pub, said, sizeof said, ZMQ_DONTWAIT)) >= 0;) {
    if (n < 1 || (size_t)n > sizeof said) continue;
    if (said[0] == 1 && !keep_topic(u, said + 1, (size_t)n - 1)) u->wants_too_much = true;
    if (said[0] == 0) drop_topic(u, said + 1, (size_t)n - 1);
  }
}

/* Whether a subscription covers a topic.  Topics are paths, and a subscription matches whole parts:
   "train" and "train/" cover "train/loss", but "train/loss" does not cover "train/loss_scale". */
static bool topic_covers(const unsigned char *sub, size_t n, const char *topic, size_t len) {
  if (n > len || memcmp(sub, topic, n)) return false;
  return !n || n == len || sub[n - 1] == '/' || topic[n] == '/';
}

static bool wants_topic(const subscriber_t *u, const char *topic, size_t len) {
  for (size_t at = 0; at < u->n_topics; at += 2 + length_at(u, at))
    if (topic_covers(u->topics + at + 2, length_at(u, at), topic, len)) return true;
  return false;
}

/* ---- coming and going ---- */

static void subscribers_leave(mr_subscribers_t *g, int i) {
  subscriber_t *u = g->subscriber[i];
  int none = 0;
  if (u->pub) zmq_setsockopt(u->pub, ZMQ_LINGER, &none, sizeof none), zmq_close(u->pub);
  if (u->fd >= 0) close(u->fd);
  if (u->inner >= 0) close(u->inner);
  free(u);
  g->subscriber[i] = NULL;
  g->stats.present--;
}

/* Creates a subscriber's PUB socket, which refuses messages that it has no room for, and connects
   to it under a secret name.  Its linger time is 0 from the start: otherwise a connection that ends
   with messages queued would keep them for ever, and zmq_ctx_term would wait for that. */
static bool open_socket(mr_subscribers_t *g, subscriber_t *u) {
  uint64_t secret[2];
  char name[80];
  struct sockaddr_un at;
  socklen_t n = 0;
  int64_t longest = LONGEST_TOPIC;
  int on = 1, none = 0, high = HIGH_WATER, patience = HANDSHAKE_MS;
  if (getrandom(secret, sizeof secret, 0) != sizeof secret) return false;
  snprintf(name, sizeof name, "ipc://@millrace-%016" PRIx64 "%016" PRIx64, secret[0], secret[1]);
  u->pub = zmq_socket(g->context, ZMQ_XPUB); /* a PUB that reports subscriptions */
  if (!u->pub) return false;
  zmq_setsockopt(u->pub, ZMQ_XPUB_VERBOSER, &on, sizeof on);
  zmq_setsockopt(u->pub, ZMQ_HANDSHAKE_IVL, &patience, sizeof patience);
  zmq_setsockopt(u->pub, ZMQ_LINGER, &none, sizeof none);
  zmq_setsockopt(u->pub, ZMQ_SNDHWM, &high, sizeof high);
  zmq_setsockopt(u->pub, ZMQ_XPUB_NODROP, &on, sizeof on);
  zmq_setsockopt(u->pub, ZMQ_MAXMSGSIZE, &longest, sizeof longest);
  if (zmq_bind(u->pub, name) < 0 || mr__listener_local(name + 6, &at, &n, NULL) < 0) return false;
  u->inner = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  return u->inner >= 0 && connect(u->inner, (void *)&at, n) == 0 &&
         subscribers_watch(g, u->inner, u) && subscribers_watch(g, u->fd, u);
}

static int64_t subscribers_now_ms(void) { return mr_now_ns() / 1000000; }

/* How expendable a subscriber is: 3 before its handshake, 2 without subscriptions, 1 if it is
   stuck. */
static int rank_idleness(const subscriber_t *u, int64_t now) {
  if (!u->greeted) return 3;
  if (!u->n_topics) return 2;
  return u->stuck_ms && now - u->stuck_ms > STUCK_MS;
}

/* A free place, or that of the most expendable subscriber, the oldest of several: silent
   connections must not keep subscribers out.  SUBSCRIBERS_MAX if all are in use. */
static int find_place(mr_subscribers_t *g) {
  int64_t now = subscribers_now_ms();
  int least = SUBSCRIBERS_MAX;
  for (int i = 0; i < SUBSCRIBERS_MAX; i++) {
    const subscriber_t *u = g->subscriber[i],
                       *l = least < SUBSCRIBERS_MAX ? g->subscriber[least] : NULL;
    if (!u) return i;
    hear_topics(g->subscriber[i]);
    int how = rank_idleness(u, now), most = l ? rank_idleness(l, now) : 0;
    if (how > most || (how && how == most && u->since_ms < l->since_ms)) least = i;
  }
  if (least < SUBSCRIBERS_MAX) subscribers_leave(g, least);
  return least;
}

static void subscribers_let_in(mr_subscribers_t *g, int fd) {
  int i = find_place(g), on = 1;
  subscriber_t *u = i < SUBSCRIBERS_MAX ? calloc(1, sizeof *u) : NULL;
  if (!u) {
    g->stats.refused++, g->stats.full += i == SUBSCRIBERS_MAX;
    close(fd);
    return;
  }
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* fails harmlessly on Unix sockets */
  u->ready = true, u->fd = fd, u->inner = -1, u->since_ms = subscribers_now_ms();
  g->subscriber[i] = u;
  g->stats.present++;
  if (!open_socket(g, u)) {
    g->stats.refused++;
    subscribers_leave(g, i);
    return;
  }
  u->in.from = u->out.to = u->fd;
  u->in.to = u->out.from = u->inner;
}

/* ---- serving ---- */

static bool subscribers_goes_too_far(const subscriber_t *u, int64_t now) {
  int64_t age = now - u->since_ms;
  return u->wants_too_much || u->in.bytes > SAID_BYTES + age * SAID_PER_S / 1000 ||
         (!u->greeted && age > HANDSHAKE_MS);
}

/* Moves one subscriber's bytes or drops it; true if there is more to move at once. */
static bool serve_subscriber(mr_subscribers_t *g, int i) {
  subscriber_t *u = g->subscriber[i];
  hear_topics(u);
  if (subscribers_goes_too_far(u, subscribers_now_ms())) return subscribers_leave(g, i), false;
  mr_err_t in = u->greeted ? MR_OK : mr__relay_greet(&u->in), out = mr__relay_move(&u->out);
  u->greeted = in == MR_OK;
  if (u->greeted) in = mr__relay_move(&u->in);
  if (in == MR_END || out == MR_END) return subscribers_leave(g, i), false;
  return u->ready = in == MR_OK || out == MR_OK;
}

bool mr_subscribers_pump(mr_subscribers_t *g) { return mr__subscribers_pump_at(g, mr_now_ns()); }

bool mr__subscribers_pump_at(mr_subscribers_t *g, int64_t now_ns) {
  struct epoll_event e[2 * SUBSCRIBERS_MAX + 1];
  bool more = false;
  /* Edge-triggered: a subscriber without an event has nothing to move.  Those without a greeting
     are served in any case, because their time may be over. */
  int n = epoll_wait(g->epoll, e, sizeof e / sizeof *e, 0);
  for (int i = 0; i < n; i++)
    if (e[i].data.ptr) ((subscriber_t *)e[i].data.ptr)->ready = true;
  for (int fd; (fd = mr__listener_accept(&g->listener, now_ns)) >= 0;) subscribers_let_in(g, fd);
  for (int i = 0; i < SUBSCRIBERS_MAX; i++)
    if (g->subscriber[i] && (g->subscriber[i]->ready || !g->subscriber[i]->greeted))
      more |= serve_subscriber(g, i);
  return more;
}

/* ---- messages ---- */

/* A socket takes both frames of a message or none. */
bool mr_subscribers_topic(mr_subscribers_t *g, const char *topic) {
  size_t len = strlen(topic);
  bool any = false;
  g->stats.sent++;
  for (int i = 0; i < SUBSCRIBERS_MAX; i++) {
    subscriber_t *u = g->subscriber[i];
    if (!u) continue;
    hear_topics(u);
    u->ready |= u->wants_too_much;
    u->takes = false;
    if (!wants_topic(u, topic, len)) continue;
    u->takes = zmq_send(u->pub, topic, len, ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0;
    g->stats.dropped += !u->takes;
    u->stuck_ms = u->takes ? 0 : u->stuck_ms ? u->stuck_ms : subscribers_now_ms();
    any |= u->takes;
  }
  return any;
}

void mr_subscribers_text(mr_subscribers_t *g, const char *text) {
  for (int i = 0; i < SUBSCRIBERS_MAX; i++) {
    subscriber_t *u = g->subscriber[i];
    if (!u || !u->takes) continue;
    g->stats.dropped += zmq_send(u->pub, text, strlen(text), ZMQ_DONTWAIT) < 0;
    u->takes = false;
  }
}

void mr_subscribers_send(mr_subscribers_t *g, const char *topic, const char *text) {
  if (mr_subscribers_topic(g, topic)) mr_subscribers_text(g, text);
}

/* ---- closing ---- */

/* A closed socket sends its queued messages; then its connection ends, and with it the
   subscriber's. */
static void subscribers_linger(mr_subscribers_t *g, int ms) {
  ms = mr_halt_left_ms(ms);
  int64_t until = mr_now_ns() + ms * INT64_C(1000000);
  for (int i = 0; i < SUBSCRIBERS_MAX; i++) {
    if (!g->subscriber[i]) continue;
    zmq_setsockopt(g->subscriber[i]->pub, ZMQ_LINGER, &ms, sizeof ms);
    zmq_close(g->subscriber[i]->pub);
    g->subscriber[i]->pub = NULL;
  }
  while (g->stats.present) {
    int64_t left = (until - mr_now_ns()) / 1000000;
    struct pollfd any = {.fd = g->epoll, .events = POLLIN};
    bool more = mr_subscribers_pump(g);
    if (left <= 0) return;
    if (g->stats.present && !more) poll(&any, 1, left < 20 ? (int)left : 20);
  }
}

void mr_subscribers_close(mr_subscribers_t *g, int linger_ms) {
  if (!g) return;
  mr__listener_close(&g->listener);
  if (g->stats.present) subscribers_linger(g, linger_ms);
  for (int i = 0; i < SUBSCRIBERS_MAX; i++)
    if (g->subscriber[i]) subscribers_leave(g, i);
  mr__listener_remove(&g->listener);
  if (g->epoll >= 0) close(g->epoll);
  if (g->context) zmq_ctx_term(g->context);
  free(g);
}

int mr_subscribers_fd(const mr_subscribers_t *g) { return g->epoll; }

int mr_subscribers_wait_ms(mr_subscribers_t *g) {
  int wait_ms = mr__listener_wait_ms(&g->listener);
  for (int i = 0; i < SUBSCRIBERS_MAX && wait_ms < 0; i++)
    if (g->subscriber[i] && !g->subscriber[i]->greeted) wait_ms = HANDSHAKE_MS;
  return wait_ms;
}

void mr_subscribers_stats(const mr_subscribers_t *g, mr_subscribers_stats_t *out) {
  *out = g->stats;
}
const char *mr_subscribers_address(const mr_subscribers_t *g) { return g->listener.address; }
