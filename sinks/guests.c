#include "sinks/guests.h"

#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <zmq.h>

#include "base/clock.h"
#include "sinks/background.h"

enum {
  GUESTS_MAX = 64,
  HIGH_WATER = 1000,    /* messages that wait for one subscriber */
  LONGEST_TOPIC = 4096, /* else a peer's size field decides what is allocated */
  CHUNK = 16 << 10,
  GREETING = 11, /* bytes of a connection up to the version of the protocol */
  TURNS = 16,    /* chunks that one guest gets moved before the others have their turn */
};

/* Bytes on their way from one descriptor to the other. */
typedef struct way {
  int from, to;
  bool over; /* nothing follows */
  size_t begin, end;
  char byte[CHUNK];
} way_t;

typedef struct guest {
  int fd, inner; /* the subscriber's connection; ours to its socket */
  void *pub;
  bool greeted;  /* what came first was read */
  way_t in, out; /* from the subscriber; to it */
} guest_t;

struct mr_guests {
  int listener, epoll;
  char address[256], file[108]; /* file: to be removed; "" */
  void *context;
  guest_t *guest[GUESTS_MAX];
  mr_guests_stats_t stats;
};

/* ---- the door ---- */

static mr_err_t fails(const char *address, const char *what, mr_diag_t *diag) {
  return mr_fail(diag, MR_ERR_IO, "cannot bind %s: %s: %s", address, what, strerror(errno));
}

/* A socket file that an earlier run has left is in the way; anything else stays. */
static void remove_left(const char *file) {
  struct stat st;
  if (lstat(file, &st) == 0 && S_ISSOCK(st.st_mode)) unlink(file);
}

static mr_err_t local(const char *name, struct sockaddr_un *at, socklen_t *n, mr_diag_t *diag) {
  size_t len = strlen(name);
  *at = (struct sockaddr_un){.sun_family = AF_UNIX};
  if (len < 1 || len >= sizeof at->sun_path)
    return mr_fail(diag, MR_ERR_CONFIG, "ipc://%s: want a name of 1 to %zu letters", name,
                   sizeof at->sun_path - 1);
  memcpy(at->sun_path, name, len);
  if (name[0] == '@') at->sun_path[0] = 0;
  *n = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + (name[0] != '@'));
  return MR_OK;
}

static mr_err_t listen_local(mr_guests_t *g, const char *name, mr_diag_t *diag) {
  struct sockaddr_un at;
  socklen_t n = 0;
  MR_TRY(local(name, &at, &n, diag));
  if (name[0] != '@') remove_left(name);
  g->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (g->listener < 0 || bind(g->listener, (void *)&at, n) < 0) return fails(name, "socket", diag);
  if (name[0] != '@') snprintf(g->file, sizeof g->file, "%s", name);
  snprintf(g->address, sizeof g->address, "ipc://%s", name);
  return MR_OK;
}

/* "HOST:PORT" or "[HOST]:PORT" into its parts. */
static bool split(const char *text, char *host, size_t n, const char **port) {
  const char *colon = strrchr(text, ':'), *end = colon;
  if (!colon) return false;
  if (text[0] == '[' && end[-1] == ']') text++, end--;
  if (end <= text || (size_t)(end - text) >= n) return false;
  memcpy(host, text, (size_t)(end - text));
  host[end - text] = 0;
  *port = strcmp(colon + 1, "*") ? colon + 1 : "0";
  return **port && strspn(*port, "0123456789") == strlen(*port) && strtol(*port, NULL, 10) < 65536;
}

static mr_err_t bound_to(mr_guests_t *g, const char *host, mr_diag_t *diag) {
  struct sockaddr_storage at;
  socklen_t n = sizeof at;
  if (getsockname(g->listener, (void *)&at, &n) < 0) return fails(host, "address", diag);
  bool v6 = at.ss_family == AF_INET6;
  int port =
      ntohs(v6 ? ((struct sockaddr_in6 *)&at)->sin6_port : ((struct sockaddr_in *)&at)->sin_port);
  const char *name = !v6 && !strcmp(host, "localhost") ? "127.0.0.1" : host;
  snprintf(g->address, sizeof g->address, v6 ? "tcp://[%s]:%d" : "tcp://%s:%d", name, port);
  return MR_OK;
}

static mr_err_t listen_tcp(mr_guests_t *g, const char *where, mr_diag_t *diag) {
  const struct addrinfo want = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
  struct addrinfo *at = NULL;
  const char *port;
  char host[200];
  int on = 1;
  if (!split(where, host, sizeof host, &port) || getaddrinfo(host, port, &want, &at))
    return mr_fail(diag, MR_ERR_CONFIG, "tcp://%s: want tcp://HOST:PORT", where);
  g->listener = socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  bool good = g->listener >= 0 &&
              !setsockopt(g->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) &&
              !bind(g->listener, at->ai_addr, at->ai_addrlen);
  freeaddrinfo(at);
  return good ? bound_to(g, host, diag) : fails(where, "socket", diag);
}

static bool watch(const mr_guests_t *g, int fd) {
  struct epoll_event e = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET};
  return epoll_ctl(g->epoll, EPOLL_CTL_ADD, fd, &e) == 0;
}

/* The first socket starts the threads that speak with the peers. */
static void start_threads(void *context) {
  void *first = zmq_socket(context, ZMQ_PUB);
  if (first) zmq_close(first);
}

static mr_err_t open_door(mr_guests_t *g, const char *address, mr_diag_t *diag) {
  bool tcp = !strncmp(address, "tcp://", 6);
  if (!tcp && strncmp(address, "ipc://", 6))
    return mr_fail(diag, MR_ERR_CONFIG, "%s: want tcp://HOST:PORT, ipc://@NAME or ipc://FILE",
                   address);
  g->epoll = epoll_create1(EPOLL_CLOEXEC);
  g->context = zmq_ctx_new();
  MR_TRY(tcp ? listen_tcp(g, address + 6, diag) : listen_local(g, address + 6, diag));
  if (g->epoll < 0 || !g->context || listen(g->listener, 16) < 0 || !watch(g, g->listener))
    return fails(address, "listen", diag);
  zmq_ctx_set(g->context, ZMQ_MAX_SOCKETS, 4 * GUESTS_MAX); /* one that closes lingers a little */
  mr_in_background(start_threads, g->context);
  return MR_OK;
}

mr_guests_t *mr_guests_open(const char *address, mr_diag_t *diag) {
  mr_guests_t *g = calloc(1, sizeof *g);
  if (!g) return mr_fail(diag, MR_ERR_NOMEM, "no memory for subscribers"), NULL;
  g->listener = g->epoll = -1;
  if (open_door(g, address, diag) >= 0) return g;
  mr_guests_close(g, 0);
  return NULL;
}

/* ---- coming and going ---- */

static void leave(mr_guests_t *g, int i) {
  guest_t *u = g->guest[i];
  int none = 0;
  if (u->pub) zmq_setsockopt(u->pub, ZMQ_LINGER, &none, sizeof none), zmq_close(u->pub);
  if (u->fd >= 0) close(u->fd);
  if (u->inner >= 0) close(u->inner);
  free(u);
  g->guest[i] = NULL;
  g->stats.present--;
}

/* A PUB socket that refuses what it has no room for, and a connection to it under a name that
   nobody else can know. */
static bool furnish(mr_guests_t *g, guest_t *u) {
  uint64_t secret[2];
  char name[80];
  struct sockaddr_un at;
  socklen_t n = 0;
  int64_t longest = LONGEST_TOPIC;
  int on = 1, high = HIGH_WATER;
  if (getrandom(secret, sizeof secret, 0) != sizeof secret) return false;
  snprintf(name, sizeof name, "ipc://@millrace-%016" PRIx64 "%016" PRIx64, secret[0], secret[1]);
  u->pub = zmq_socket(g->context, ZMQ_PUB);
  if (!u->pub) return false;
  zmq_setsockopt(u->pub, ZMQ_SNDHWM, &high, sizeof high);
  zmq_setsockopt(u->pub, ZMQ_XPUB_NODROP, &on, sizeof on);
  zmq_setsockopt(u->pub, ZMQ_MAXMSGSIZE, &longest, sizeof longest);
  if (zmq_bind(u->pub, name) < 0 || local(name + 6, &at, &n, NULL) < 0) return false;
  u->inner = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  return u->inner >= 0 && connect(u->inner, (void *)&at, n) == 0 && watch(g, u->inner) &&
         watch(g, u->fd);
}

static void let_in(mr_guests_t *g, int fd) {
  int i = 0, on = 1;
  while (i < GUESTS_MAX && g->guest[i]) i++;
  guest_t *u = i < GUESTS_MAX ? calloc(1, sizeof *u) : NULL;
  if (!u) {
    g->stats.refused++;
    close(fd);
    return;
  }
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* has no effect on other sockets */
  u->fd = fd, u->inner = -1;
  g->guest[i] = u;
  g->stats.present++;
  if (!furnish(g, u)) {
    g->stats.refused++;
    leave(g, i);
    return;
  }
  u->in.from = u->out.to = u->fd;
  u->in.to = u->out.from = u->inner;
}

/* ---- moving bytes ---- */

static bool again(ssize_t n) { return n < 0 && (errno == EAGAIN || errno == EINTR); }

/* MR_OK: there may be more; MR_AGAIN: not now; MR_END: nothing comes any more, or the other side
   takes nothing. */
static mr_err_t move(way_t *w) {
  if (w->begin == w->end && !w->over) {
    ssize_t n = read(w->from, w->byte, sizeof w->byte);
    if (again(n)) return MR_AGAIN;
    w->over = n <= 0;
    w->begin = 0, w->end = n > 0 ? (size_t)n : 0;
  }
  if (w->begin == w->end) return MR_END;
  ssize_t n = send(w->to, w->byte + w->begin, w->end - w->begin, MSG_NOSIGNAL);
  if (again(n)) return MR_AGAIN;
  if (n <= 0) return MR_END;
  w->begin += (size_t)n;
  return MR_OK;
}

/* libzmq ends the process if a peer speaks the protocol of before 2013 and is gone in the middle of
   it, so nobody gets in who does not begin as today: ff, 8 bytes, 7f, a version of 3 or more.  As
   move. */
static mr_err_t greet(guest_t *u) {
  way_t *w = &u->in;
  ssize_t n = read(w->from, w->byte + w->end, GREETING - w->end);
  if (again(n)) return MR_AGAIN;
  if (n <= 0) return MR_END;
  w->end += (size_t)n;
  const unsigned char *at = (const unsigned char *)w->byte;
  if (at[0] != 0xff || (w->end > 9 && at[9] != 0x7f)) return MR_END;
  if (w->end < GREETING) return MR_OK;
  u->greeted = true;
  return at[10] >= 3 ? MR_OK : MR_END;
}

static mr_err_t greet_all(guest_t *u) {
  mr_err_t e = MR_OK;
  while (!u->greeted && e == MR_OK) e = greet(u);
  return e;
}

/* MR_OK: there is more to move than one turn takes. */
static mr_err_t move_turn(way_t *w) {
  mr_err_t e = MR_OK;
  for (int k = 0; k < TURNS && e == MR_OK; k++) e = move(w);
  return e;
}

/* Whether there is more to do at once. */
static bool serve(mr_guests_t *g, int i) {
  guest_t *u = g->guest[i];
  mr_err_t in = greet_all(u), out = move_turn(&u->out);
  if (in == MR_OK) in = move_turn(&u->in);
  if (in == MR_END || out == MR_END) return leave(g, i), false;
  return in == MR_OK || out == MR_OK;
}

bool mr_guests_pump(mr_guests_t *g) {
  struct epoll_event e[2 * GUESTS_MAX + 1];
  bool more = false;
  epoll_wait(g->epoll, e, sizeof e / sizeof *e, 0); /* edges: all are looked at in any case */
  for (int fd; (fd = accept4(g->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0;)
    let_in(g, fd);
  for (int i = 0; i < GUESTS_MAX; i++)
    if (g->guest[i]) more |= serve(g, i);
  return more;
}

/* ---- messages ---- */

/* The socket takes both frames or none. */
static void send_to(mr_guests_t *g, guest_t *u, const char *topic, const char *text) {
  if (zmq_send(u->pub, topic, strlen(topic), ZMQ_SNDMORE | ZMQ_DONTWAIT) < 0 ||
      zmq_send(u->pub, text, strlen(text), ZMQ_DONTWAIT) < 0)
    g->stats.dropped++;
}

void mr_guests_send(mr_guests_t *g, const char *topic, const char *text) {
  g->stats.sent++;
  for (int i = 0; i < GUESTS_MAX; i++)
    if (g->guest[i]) send_to(g, g->guest[i], topic, text);
}

/* ---- the rest ---- */

/* Closing a socket sends what it still has; then the connection to it ends, and the subscriber's.
 */
static void linger(mr_guests_t *g, int ms) {
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
  if (g->listener >= 0) close(g->listener);
  g->listener = -1;
  if (g->stats.present) linger(g, linger_ms);
  for (int i = 0; i < GUESTS_MAX; i++)
    if (g->guest[i]) leave(g, i);
  if (g->file[0]) unlink(g->file);
  if (g->epoll >= 0) close(g->epoll);
  if (g->context) zmq_ctx_term(g->context);
  free(g);
}

int mr_guests_fd(const mr_guests_t *g) { return g->epoll; }
void mr_guests_stats(const mr_guests_t *g, mr_guests_stats_t *out) { *out = g->stats; }
const char *mr_guests_address(const mr_guests_t *g) { return g->address; }
