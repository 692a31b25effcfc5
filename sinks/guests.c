/* Each subscriber is one ZeroMQ XPUB socket with its own connection to it.  The relay does not
   interpret the bytes; subscriptions are read from the sockets, so that a message goes only to
   subscribers that want it and a refused send is counted for its subscriber. */
#include "sinks/guests.h"

#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>
#include <zmq.h>

#include "base/clock.h"
#include "sinks/background.h"
#include "sinks/guests_private.h"

enum {
  GUESTS_MAX = 64,
  HIGH_WATER = 1000,    /* messages queued for one subscriber */
  LONGEST_TOPIC = 4096, /* otherwise a peer's size field would decide what is allocated */
  TOPICS_BYTES = 16384, /* of all subscriptions of one subscriber */
  SAID_BYTES = 65536,   /* what a subscriber may send at once ... */
  SAID_PER_S = 1024,    /* ... and over time: ZeroMQ's own heartbeats */
  HANDSHAKE_MS = 3000,  /* a peer that has not begun the ZeroMQ protocol by then is dropped */
  STUCK_MS = 5000,      /* a subscriber that took nothing for this long may be replaced */
};

typedef struct guest {
  int fd, inner; /* the subscriber's connection; our connection to its socket */
  void *pub;
  bool greeted;     /* its first bytes have been checked */
  bool takes;       /* took the first frame of a message and gets the second one */
  int64_t since_ms; /* when it connected */
  int64_t stuck_ms; /* since when it has taken no message that it wanted; 0: it takes them */
  bool wants_too_much;
  size_t n_topics; /* bytes of topics: for each its length (2 bytes) and text */
  unsigned char topics[TOPICS_BYTES];
  mr__way_t in, out; /* from the subscriber; to it */
} guest_t;

struct mr_guests {
  mr__door_t door;
  int epoll;
  void *context;
  guest_t *guest[GUESTS_MAX];
  mr_guests_stats_t stats;
};

static bool guests_watch(const mr_guests_t *g, int fd) {
  struct epoll_event e = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET};
  return epoll_ctl(g->epoll, EPOLL_CTL_ADD, fd, &e) == 0;
}

/* Creating the first socket starts the context's I/O threads. */
static void guests_start_threads(void *context) {
  void *first = zmq_socket(context, ZMQ_PUB);
  if (first) zmq_close(first);
}

static mr_err_t guests_open_all(mr_guests_t *g, const char *address, mr_diag_t *diag) {
  MR_TRY(mr__door_open(&g->door, address, diag));
  g->epoll = epoll_create1(EPOLL_CLOEXEC);
  g->context = zmq_ctx_new();
  if (g->epoll < 0 || !g->context || !guests_watch(g, g->door.fd))
    return mr_fail(diag, MR_ERR_IO, "cannot serve %s: %s", address, strerror(errno));
  zmq_ctx_set(g->context, ZMQ_MAX_SOCKETS, 4 * GUESTS_MAX); /* closed ones remain for a while */
  mr_in_background(guests_start_threads, g->context);
  return MR_OK;
}

mr_guests_t *mr_guests_open(const char *address, mr_diag_t *diag) {
  mr_guests_t *g = calloc(1, sizeof *g);
  if (!g) return mr_no_memory(diag, "subscribers"), NULL;
  g->epoll = -1;
  if (guests_open_all(g, address, diag) >= 0) return g;
  mr_guests_close(g, 0);
  return NULL;
}

/* ---- coming and going ---- */

static void guests_leave(mr_guests_t *g, int i) {
  guest_t *u = g->guest[i];
  int none = 0;
  if (u->pub) zmq_setsockopt(u->pub, ZMQ_LINGER, &none, sizeof none), zmq_close(u->pub);
  if (u->fd >= 0) close(u->fd);
  if (u->inner >= 0) close(u->inner);
  free(u);
  g->guest[i] = NULL;
  g->stats.present--;
}

/* Creates a subscriber's PUB socket, which refuses messages that it has no room for, and connects
   to it under a secret name.  Its linger time is 0 from the start: otherwise a connection that ends
   with messages queued would keep them for ever, and zmq_ctx_term would wait for that. */
static bool furnish(mr_guests_t *g, guest_t *u) {
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
  if (zmq_bind(u->pub, name) < 0 || mr__door_local(name + 6, &at, &n, NULL) < 0) return false;
  u->inner = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  return u->inner >= 0 && connect(u->inner, (void *)&at, n) == 0 && guests_watch(g, u->inner) &&
         guests_watch(g, u->fd);
}

static int64_t guests_now_ms(void) { return mr_now_ns() / 1000000; }

/* How expendable a subscriber is: 3 before its handshake, 2 without subscriptions, 1 if it is
   stuck. */
static int idleness(const guest_t *u, int64_t now) {
  if (!u->greeted) return 3;
  if (!u->n_topics) return 2;
  return u->stuck_ms && now - u->stuck_ms > STUCK_MS;
}

/* A free place, or that of the most expendable subscriber, the oldest of several: silent
   connections must not keep subscribers out.  GUESTS_MAX if all are in use. */
static int find_place(mr_guests_t *g) {
  int64_t now = guests_now_ms();
  int least = GUESTS_MAX;
  for (int i = 0; i < GUESTS_MAX; i++) {
    const guest_t *u = g->guest[i], *l = least < GUESTS_MAX ? g->guest[least] : NULL;
    if (!u) return i;
    int how = idleness(u, now), most = l ? idleness(l, now) : 0;
    if (how > most || (how && how == most && u->since_ms < l->since_ms)) least = i;
  }
  if (least < GUESTS_MAX) guests_leave(g, least);
  return least;
}

static void guests_let_in(mr_guests_t *g, int fd) {
  int i = find_place(g), on = 1;
  guest_t *u = i < GUESTS_MAX ? calloc(1, sizeof *u) : NULL;
  if (!u) {
    g->stats.refused++;
    close(fd);
    return;
  }
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* fails harmlessly on Unix sockets */
  u->fd = fd, u->inner = -1, u->since_ms = guests_now_ms();
  g->guest[i] = u;
  g->stats.present++;
  if (!furnish(g, u)) {
    g->stats.refused++;
    guests_leave(g, i);
    return;
  }
  u->in.from = u->out.to = u->fd;
  u->in.to = u->out.from = u->inner;
}

/* ---- subscriptions ---- */

static size_t length_at(const guest_t *u, size_t at) {
  return (size_t)u->topics[at] | (size_t)u->topics[at + 1] << 8;
}

/* Stores a topic once per subscription, since ZeroMQ counts them. */
static bool keep_topic(guest_t *u, const void *topic, size_t n) {
  if (u->n_topics + 2 + n > sizeof u->topics) return false;
  u->topics[u->n_topics] = (unsigned char)n, u->topics[u->n_topics + 1] = (unsigned char)(n >> 8);
  memcpy(u->topics + u->n_topics + 2, topic, n);
  u->n_topics += 2 + n;
  return true;
}

static void drop_topic(guest_t *u, const void *topic, size_t n) {
  for (size_t at = 0, next; at < u->n_topics; at = next) {
    next = at + 2 + length_at(u, at);
    if (next - at != 2 + n || memcmp(u->topics + at + 2, topic, n)) continue;
    memmove(u->topics + at, u->topics + next, u->n_topics - next);
    u->n_topics -= next - at;
    return;
  }
}

/* Reads new subscriptions and unsubscriptions. */
static void hear_topics(guest_t *u) {
  unsigned char said[LONGEST_TOPIC + 1];
  for (int n; u->pub && (n = zmq_recv(u->pub, said, sizeof said, ZMQ_DONTWAIT)) >= 0;) {
    if (n < 1 || (size_t)n > sizeof said) continue;
    if (said[0] == 1 && !keep_topic(u, said + 1, (size_t)n - 1)) u->wants_too_much = true;
    if (said[0] == 0) drop_topic(u, said + 1, (size_t)n - 1);
  }
}

/* Whether a subscription covers a topic.  Topics are paths, and a subscription matches whole parts:
   "train" and "train/" cover "train/loss", but "train/loss" does not cover "train/loss_scale". */
static bool covers(const unsigned char *sub, size_t n, const char *topic, size_t len) {
  if (n > len || memcmp(sub, topic, n)) return false;
  return !n || n == len || sub[n - 1] == '/' || topic[n] == '/';
}

static bool wants(const guest_t *u, const char *topic, size_t len) {
  for (size_t at = 0; at < u->n_topics; at += 2 + length_at(u, at))
    if (covers(u->topics + at + 2, length_at(u, at), topic, len)) return true;
  return false;
}

/* ---- serving ---- */

static bool guests_goes_too_far(const guest_t *u, int64_t now) {
  int64_t age = now - u->since_ms;
  return u->wants_too_much || u->in.bytes > SAID_BYTES + age * SAID_PER_S / 1000 ||
         (!u->greeted && age > HANDSHAKE_MS);
}

/* Moves one subscriber's bytes or drops it; true if there is more to move at once. */
static bool serve(mr_guests_t *g, int i) {
  guest_t *u = g->guest[i];
  hear_topics(u);
  if (guests_goes_too_far(u, guests_now_ms())) return guests_leave(g, i), false;
  mr_err_t in = u->greeted ? MR_OK : mr__way_greet(&u->in), out = mr__way_move(&u->out);
  u->greeted = in == MR_OK;
  if (u->greeted) in = mr__way_move(&u->in);
  if (in == MR_END || out == MR_END) return guests_leave(g, i), false;
  return in == MR_OK || out == MR_OK;
}

bool mr_guests_pump(mr_guests_t *g) {
  struct epoll_event e[2 * GUESTS_MAX + 1];
  bool more = false;
  epoll_wait(g->epoll, e, sizeof e / sizeof *e, 0); /* edge-triggered: all are served in any case */
  for (int fd; (fd = mr__door_accept(&g->door, mr_now_ns())) >= 0;) guests_let_in(g, fd);
  for (int i = 0; i < GUESTS_MAX; i++)
    if (g->guest[i]) more |= serve(g, i);
  return more;
}

/* ---- messages ---- */

/* A socket takes both frames of a message or none. */
bool mr_guests_topic(mr_guests_t *g, const char *topic) {
  size_t len = strlen(topic);
  bool any = false;
  g->stats.sent++;
  for (int i = 0; i < GUESTS_MAX; i++) {
    guest_t *u = g->guest[i];
    if (!u) continue;
    hear_topics(u);
    u->takes = false;
    if (!wants(u, topic, len)) continue;
    u->takes = zmq_send(u->pub, topic, len, ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0;
    g->stats.dropped += !u->takes;
    u->stuck_ms = u->takes ? 0 : u->stuck_ms ? u->stuck_ms : guests_now_ms();
    any |= u->takes;
  }
  return any;
}

void mr_guests_text(mr_guests_t *g, const char *text) {
  for (int i = 0; i < GUESTS_MAX; i++) {
    guest_t *u = g->guest[i];
    if (!u || !u->takes) continue;
    g->stats.dropped += zmq_send(u->pub, text, strlen(text), ZMQ_DONTWAIT) < 0;
    u->takes = false;
  }
}

void mr_guests_send(mr_guests_t *g, const char *topic, const char *text) {
  if (mr_guests_topic(g, topic)) mr_guests_text(g, text);
}

/* ---- closing ---- */

/* A closed socket sends its queued messages; then its connection ends, and with it the
   subscriber's. */
static void guests_linger(mr_guests_t *g, int ms) {
  int64_t until = mr_now_ns() + ms * INT64_C(1000000);
  for (int i = 0; i < GUESTS_MAX; i++) {
    if (!g->guest[i]) continue;
    zmq_setsockopt(g->guest[i]->pub, ZMQ_LINGER, &ms, sizeof ms);
    zmq_close(g->guest[i]->pub);
    g->guest[i]->pub = NULL;
  }
  while (g->stats.present) {
    int64_t left = (until - mr_now_ns()) / 1000000;
    struct epoll_event e;
    bool more = mr_guests_pump(g);
    if (left <= 0) return;
    if (g->stats.present && !more) epoll_wait(g->epoll, &e, 1, left < 20 ? (int)left : 20);
  }
}

void mr_guests_close(mr_guests_t *g, int linger_ms) {
  if (!g) return;
  mr__door_close(&g->door);
  if (g->stats.present) guests_linger(g, linger_ms);
  for (int i = 0; i < GUESTS_MAX; i++)
    if (g->guest[i]) guests_leave(g, i);
  mr__door_remove(&g->door);
  if (g->epoll >= 0) close(g->epoll);
  if (g->context) zmq_ctx_term(g->context);
  free(g);
}

int mr_guests_fd(const mr_guests_t *g) { return g->epoll; }

int mr_guests_wait_ms(mr_guests_t *g) {
  int door = mr__door_wait_ms(&g->door);
  for (int i = 0; i < GUESTS_MAX && door < 0; i++)
    if (g->guest[i] && !g->guest[i]->greeted) door = HANDSHAKE_MS;
  return door;
}

void mr_guests_stats(const mr_guests_t *g, mr_guests_stats_t *out) { *out = g->stats; }
const char *mr_guests_address(const mr_guests_t *g) { return g->door.address; }
