/* A link of a given bandwidth and latency between a server and its clients.
   usage: paced_link UPSTREAM_PORT GBIT_PER_S RTT_MS

   It prints its port and the port of its counts, then serves until it is killed.  All answers share
   one serial link: a piece leaves when the pieces before it have left, and arrives half a round
   trip later.  Requests travel half a round trip; a connection's first one travels one and a half,
   since the kernel accepts connections at once.  Congestion control is not modelled: a connection
   uses the full bandwidth from its first byte on.  A connection to the port of counts gets one line
   of JSON, and the counts begin anew. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
  PIECE = 64 << 10,
  QUEUE_MOST = 4 << 20,      /* bytes of one connection on the way, as a receive window */
  BACKLOG_NS = 4 * 1000000L, /* the link's queue: more is left in the server's sockets */
  EVENTS = 256,
};

typedef struct piece {
  struct piece *next;
  int64_t due_ns;
  size_t n, sent;
  uint8_t data[];
} piece_t;

typedef struct way {
  int from, to;
  piece_t *first, **last;
  size_t held;
  bool paced, ended, closed; /* ended: the source has no more; closed: the sink knows */
} way_t;

typedef struct link {
  way_t up, down;
  bool fresh, broken;
  struct link *next;
} link_t;

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static double ns_per_byte;
static int64_t half_ns, free_ns; /* when the link has sent all it has accepted */
static int64_t bytes, first_ns, last_ns, requests, connections;
static link_t *links;
static int queue;

static int listen_anywhere(int *port) {
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t len = sizeof a;
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) || listen(fd, 1024)) exit(1);
  getsockname(fd, (struct sockaddr *)&a, &len);
  *port = ntohs(a.sin_port);
  return fd;
}

static void watch_descriptor(int fd, void *what) {
  struct epoll_event e = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = what};
  if (epoll_ctl(queue, EPOLL_CTL_ADD, fd, &e) < 0) exit(1);
}

static void accept_client(int fd, int upstream) {
  for (int client; (client = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0;) {
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                            .sin_port = htons((uint16_t)upstream)};
    int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    link_t *l = calloc(1, sizeof *l);
    if (!l || server < 0 || connect(server, (struct sockaddr *)&a, sizeof a) < 0) exit(1);
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    l->up = (way_t){.from = client, .to = server};
    l->down = (way_t){.from = server, .to = client, .paced = true};
    l->up.last = &l->up.first, l->down.last = &l->down.first;
    l->fresh = true, l->next = links, links = l;
    connections++;
    watch_descriptor(client, l), watch_descriptor(server, l);
  }
}

/* When n bytes that enter now arrive. */
static int64_t arrival_time(link_t *l, const way_t *w, int64_t now, size_t n) {
  if (!w->paced) {
    int64_t travel = l->fresh ? 3 * half_ns : half_ns;
    l->fresh = false, requests++;
    if (!first_ns) first_ns = now;
    return now + travel;
  }
  if (free_ns < now) free_ns = now;
  free_ns += (int64_t)((double)n * ns_per_byte);
  bytes += (int64_t)n, last_ns = free_ns + half_ns;
  return free_ns + half_ns;
}

/* Takes one piece from the source; false if there is nothing, or no room. */
static bool take_piece(link_t *l, way_t *w, int64_t now) {
  if (w->ended || w->held > QUEUE_MOST || (w->paced && free_ns > now + BACKLOG_NS)) return false;
  piece_t *p = malloc(sizeof *p + PIECE);
  if (!p) exit(1);
  ssize_t n = recv(w->from, p->data, PIECE, MSG_DONTWAIT);
  if (n <= 0) {
    if (n == 0 || (errno != EAGAIN && errno != EINTR)) w->ended = true;
    free(p);
    return false;
  }
  piece_t *cut = realloc(p, sizeof *p + (size_t)n);
  if (cut) p = cut;
  p->n = (size_t)n, p->sent = 0, p->next = NULL, p->due_ns = arrival_time(l, w, now, p->n);
  *w->last = p, w->last = &p->next, w->held += p->n;
  return true;
}

/* Gives what is due to the sink; lowers *next to when more is due. */
static void give_pieces(link_t *l, way_t *w, int64_t now, int64_t *next) {
  while (w->first && w->first->due_ns <= now) {
    piece_t *p = w->first;
    ssize_t n = send(w->to, p->data + p->sent, p->n - p->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return; /* EPOLLOUT says when */
    if (n < 0) {
      l->broken = true;
      return;
    }
    p->sent += (size_t)n;
    if (p->sent < p->n) continue;
    w->held -= p->n;
    if (!(w->first = p->next)) w->last = &w->first;
    free(p);
  }
  if (w->first && w->first->due_ns < *next) *next = w->first->due_ns;
  if (w->ended && !w->first && !w->closed) w->closed = true, shutdown(w->to, SHUT_WR);
}

static void end_link(link_t **at) {
  link_t *l = *at;
  *at = l->next;
  close(l->up.from), close(l->up.to);
  for (way_t *w = &l->up;; w = &l->down) {
    for (piece_t *p = w->first, *next; p; p = next) next = p->next, free(p);
    if (w == &l->down) break;
  }
  free(l);
}

/* Moves all links on, one piece a connection in turn; returns when something is due. */
static int64_t move_all(void) {
  int64_t next = INT64_MAX, now = now_ns();
  for (bool more = true; more;) {
    more = false;
    for (link_t *l = links; l; l = l->next)
      more |= take_piece(l, &l->down, now) | take_piece(l, &l->up, now);
  }
  for (link_t **at = &links; *at;) {
    link_t *l = *at;
    give_pieces(l, &l->up, now, &next), give_pieces(l, &l->down, now, &next);
    if (l->broken || (l->up.closed && l->down.closed))
      end_link(at);
    else
      at = &l->next;
  }
  if (free_ns > now + BACKLOG_NS && free_ns - BACKLOG_NS < next) next = free_ns - BACKLOG_NS;
  return next;
}

static void tell_counts(int fd) {
  int client = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
  if (client < 0) return;
  dprintf(client, "{\"bytes\":%lld,\"requests\":%lld,\"connections\":%lld,\"seconds\":%.6f}\n",
          (long long)bytes, (long long)requests, (long long)connections,
          last_ns > first_ns ? (double)(last_ns - first_ns) / 1e9 : 0);
  close(client);
  bytes = first_ns = last_ns = requests = connections = 0;
}

int main(int argc, char **argv) {
  struct epoll_event e[EVENTS];
  int port, counts_port;
  if (argc != 4) return fprintf(stderr, "usage: paced_link UPSTREAM_PORT GBIT_PER_S RTT_MS\n"), 2;
  prctl(PR_SET_PDEATHSIG, 15);
  prctl(PR_SET_TIMERSLACK, 50000UL);
  ns_per_byte = 8 / atof(argv[2]), half_ns = (int64_t)(atof(argv[3]) * 1e6 / 2);
  queue = epoll_create1(EPOLL_CLOEXEC);
  int fd = listen_anywhere(&port), counts = listen_anywhere(&counts_port);
  watch_descriptor(fd, NULL), watch_descriptor(counts, &counts);
  printf("%d %d\n", port, counts_port);
  fflush(stdout);
  for (;;) {
    int64_t wait = move_all(), now = now_ns();
    wait = wait == INT64_MAX ? INT64_C(1000000000) : wait > now ? wait - now : 0;
    struct timespec t = {wait / 1000000000, wait % 1000000000};
    int n = epoll_pwait2(queue, e, EVENTS, &t, NULL);
    for (int i = 0; i < n; i++) {
      if (!e[i].data.ptr) accept_client(fd, atoi(argv[1]));
      if (e[i].data.ptr == &counts) tell_counts(counts);
    }
  }
}
