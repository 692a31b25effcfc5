/* Limits what strangers may take of the process behind an address: connections, bytes and time.

   libzmq accepts any connection while there are descriptors, and keeps the frames of a message that
   never ends.  It reports each connection (zmq_socket_monitor), and the kernel counts its bytes:
   connections beyond a limit are shut down, and libzmq then closes them.  An honest peer reconnects
   by itself.  By then the descriptor may belong to another file, so each is identified by its
   inode. */
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "links/guard.h"
#include "links/link_private.h"

enum {
  SWEEP_MS = 100,
  SPEAK_MS = 10000,         /* a connection without a message of the protocol is then closed */
  IDLE_MS = 5000,           /* one with a newer message is not closed for a newcomer */
  STRANGER_BYTES = 1 << 18, /* of incomplete messages */
};

typedef struct connection {
  int fd;
  ino_t inode;
  int64_t since_ms, good_ms; /* accepted; last followed the protocol, 0: not yet */
  uint64_t bytes;            /* received when its last whole message was noticed */
  bool spoke;                /* a whole message came since the last sweep */
} connection_t;

struct mr_guard {
  void *socket, *events;
  int fd, most, n;
  int served; /* descriptor of the served peer; -1 */
  int64_t served_bytes, swept_ms;
  connection_t at[];
};

mr_guard_t *mr_guard_open(void *context, void *socket, int most, int64_t served_bytes) {
  static _Atomic uint64_t count; /* relaxed: makes a unique name */
  char name[64];
  int none = 0;
  size_t n = sizeof(int);
  mr_guard_t *g = calloc(1, sizeof *g + (size_t)most * sizeof *g->at);
  if (!g) return NULL;
  g->socket = socket, g->most = most, g->served = -1, g->served_bytes = served_bytes;
  snprintf(name, sizeof name, "inproc://guard-%llu",
           (unsigned long long)atomic_fetch_add_explicit(&count, 1, memory_order_relaxed));
  g->events = zmq_socket(context, ZMQ_PAIR);
  bool good = g->events && !zmq_setsockopt(g->events, ZMQ_RCVHWM, &none, sizeof none) &&
              !zmq_socket_monitor(socket, name, ZMQ_EVENT_ACCEPTED) &&
              !zmq_connect(g->events, name) && !zmq_getsockopt(g->events, ZMQ_FD, &g->fd, &n);
  if (good) return g;
  mr_guard_close(g);
  return NULL;
}

void mr_guard_close(mr_guard_t *g) {
  if (!g) return;
  zmq_socket_monitor(g->socket, NULL, 0);
  if (g->events) zmq_close(g->events);
  free(g);
}

int mr_guard_fd(const mr_guard_t *g) { return g->fd; }
int mr_guard_wait_ms(const mr_guard_t *g) { return g->n ? SWEEP_MS : -1; }

/* ---- connections ---- */

static bool is_connected(const connection_t *c) {
  struct stat st;
  return fstat(c->fd, &st) == 0 && st.st_ino == c->inode && S_ISSOCK(st.st_mode);
}

static uint64_t guard_bytes_of(const connection_t *c) {
  struct tcp_info info = {0};
  socklen_t n = sizeof info;
  /* The kernel counts no bytes of other sockets, which only this user can reach. */
  return getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &info, &n) < 0 ? 0 : info.tcpi_bytes_received;
}

static void guard_forget(mr_guard_t *g, int i) { g->at[i] = g->at[--g->n]; }

static void guard_cut(mr_guard_t *g, int i) {
  if (is_connected(&g->at[i])) shutdown(g->at[i].fd, SHUT_RDWR);
  guard_forget(g, i);
}

/* The least useful connection: the oldest of those that never followed the protocol, else the one
   that has been silent for longest.  -1: all are in use. */
static int least_useful(const mr_guard_t *g, int64_t now) {
  int least = -1;
  for (int i = 0; i < g->n; i++) {
    const connection_t *c = &g->at[i], *l = least < 0 ? NULL : &g->at[least];
    if (c->fd == g->served || (c->good_ms && now - c->good_ms < IDLE_MS)) continue;
    if (!l || c->good_ms < l->good_ms || (c->good_ms == l->good_ms && c->since_ms < l->since_ms))
      least = i;
  }
  return least;
}

static void note_accepted(mr_guard_t *g, int fd, int64_t good_ms, int64_t now) {
  connection_t c = {.fd = fd, .since_ms = now, .good_ms = good_ms};
  struct stat st;
  for (int i = g->n - 1; i >= 0; i--)
    if (g->at[i].fd == fd || !is_connected(&g->at[i])) guard_forget(g, i);
  if (fstat(fd, &st) < 0 || !S_ISSOCK(st.st_mode)) return; /* gone already */
  c.inode = st.st_ino;
  if (g->n == g->most) {
    int i = least_useful(g, now);
    if (i >= 0) guard_cut(g, i);
  }
  if (g->n == g->most)
    shutdown(fd, SHUT_RDWR);
  else
    g->at[g->n++] = c;
}

/* ---- what happens ---- */

/* An event is a frame of its kind (2 bytes) and a value (4 bytes), then a frame of the address.
   good_fd: a message that follows the protocol has come by this one; -1 */
static void hear_events(mr_guard_t *g, int good_fd, int64_t now) {
  unsigned char event[6], address[256];
  int value, n;
  while ((n = zmq_recv(g->events, event, sizeof event, ZMQ_DONTWAIT)) >= 0) {
    memcpy(&value, event + 2, sizeof value);
    zmq_recv(g->events, address, sizeof address, 0);
    if (n == sizeof event) note_accepted(g, value, value == good_fd ? now : 0, now);
  }
}

static bool guard_goes_too_far(const mr_guard_t *g, connection_t *c, int64_t now) {
  uint64_t bytes = guard_bytes_of(c);
  int64_t most = c->fd == g->served ? g->served_bytes : STRANGER_BYTES;
  if (c->spoke) c->bytes = bytes;
  c->spoke = false;
  bool many = g->served_bytes != MR_GUARD_ANY_BYTES && bytes - c->bytes > (uint64_t)most;
  return many || (!c->good_ms && now - c->since_ms > SPEAK_MS);
}

void mr_guard_tend(mr_guard_t *g) {
  int64_t now = mr__link_now_ms();
  hear_events(g, -1, now);
  if (now - g->swept_ms < SWEEP_MS) return;
  g->swept_ms = now;
  for (int i = g->n - 1; i >= 0; i--) {
    if (!is_connected(&g->at[i]))
      guard_forget(g, i);
    else if (guard_goes_too_far(g, &g->at[i], now))
      guard_cut(g, i);
  }
}

static connection_t *connection_of(mr_guard_t *g, int fd) {
  for (int i = 0; i < g->n; i++)
    if (g->at[i].fd == fd) return &g->at[i];
  return NULL;
}

void mr_guard_heard(mr_guard_t *g, zmq_msg_t *frame, bool good, bool served) {
  int fd = zmq_msg_get(frame, ZMQ_SRCFD);
  int64_t now = mr__link_now_ms();
  if (served) g->served = fd;
  connection_t *c = connection_of(g, fd);
  if (c && !is_connected(c)) guard_forget(g, (int)(c - g->at)), c = NULL; /* who had fd before */
  if (!c) { /* its first message is here before its event was heard */
    hear_events(g, good ? fd : -1, now);
    c = connection_of(g, fd);
  }
  if (!c) return;
  c->spoke = true;
  if (good) c->good_ms = now;
}
