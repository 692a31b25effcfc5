/* A small HTTP server in a thread: one file, ranges, and a connection that can be cut. */
#ifndef MR_TESTS_APPS_HTTP_H
#define MR_TESTS_APPS_HTTP_H

#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

typedef struct http {
  const char *body;
  size_t size;
  bool ranges;                 /* answers Range; else always the whole file */
  _Atomic size_t cut;          /* bytes of a body after which the connection breaks; 0: never */
  atomic_int cuts_left;        /* connections that still break */
  atomic_int requests, ranged; /* how many came, how many of them with Range */
  atomic_size_t sent;
  int fd, port;
  pthread_t thread;
} http_t;

static inline void http_send(int c, const char *data, size_t n) {
  while (n > 0) {
    ssize_t k = send(c, data, n, MSG_NOSIGNAL);
    if (k <= 0) return;
    data += k;
    n -= (size_t)k;
  }
}

static inline void http_answer(http_t *h, int c) {
  char request[4096], head[512];
  size_t n = 0;
  while (n < sizeof request - 1) {
    ssize_t k = recv(c, request + n, sizeof request - 1 - n, 0);
    if (k <= 0) return;
    n += (size_t)k;
    request[n] = 0;
    if (strstr(request, "\r\n\r\n")) break;
  }
  size_t from = 0, to = SIZE_MAX;
  const char *range = strstr(request, "Range: bytes=");
  atomic_fetch_add(&h->requests, 1);
  if (range) atomic_fetch_add(&h->ranged, 1);
  if (range && h->ranges) sscanf(range, "Range: bytes=%zu-%zu", &from, &to);
  size_t left = from < h->size ? h->size - from : 0;
  if (to >= from && to - from < left) left = to - from + 1;
  if (range && h->ranges && !left) {
    http_send(c, head,
              (size_t)snprintf(head, sizeof head,
                               "HTTP/1.1 416 Range Not Satisfiable\r\nContent-Length: 0\r\n"
                               "Content-Range: bytes */%zu\r\nConnection: close\r\n\r\n",
                               h->size));
    return;
  }
  int k =
      range && h->ranges
          ? snprintf(head, sizeof head,
                     "HTTP/1.1 206 Partial Content\r\nContent-Length: %zu\r\nContent-Range: bytes "
                     "%zu-%zu/%zu\r\nConnection: close\r\n\r\n",
                     left, from, from + left - 1, h->size)
          : snprintf(head, sizeof head,
                     "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n", left);
  http_send(c, head, (size_t)k);
  size_t part = h->cut;
  if (part && part < left && atomic_fetch_sub(&h->cuts_left, 1) > 0) left = part;
  atomic_fetch_add(&h->sent, left); /* before who gets it may ask how much it was */
  http_send(c, h->body + from, left);
}

static inline void *http_serve(void *arg) {
  http_t *h = arg;
  for (int c; (c = accept(h->fd, NULL, NULL)) >= 0; close(c)) {
    http_answer(h, c);
    shutdown(c, SHUT_WR);
    char rest[256];
    while (recv(c, rest, sizeof rest, 0) > 0) continue;
  }
  return NULL;
}

/* Opens its socket only: for a test that answers by itself. */
static inline int http_listen(http_t *h) {
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t n = sizeof a;
  h->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (h->fd < 0 || bind(h->fd, (struct sockaddr *)&a, n) || listen(h->fd, 8)) return -1;
  if (getsockname(h->fd, (struct sockaddr *)&a, &n)) return -1;
  h->port = ntohs(a.sin_port);
  return 0;
}

static inline int http_start(http_t *h) {
  if (http_listen(h)) return -1;
  return pthread_create(&h->thread, NULL, http_serve, h);
}

static inline void http_stop(http_t *h) {
  shutdown(h->fd, SHUT_RDWR); /* wakes accept */
  pthread_join(h->thread, NULL);
  close(h->fd);
}

#endif
