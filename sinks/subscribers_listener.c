/* The listening socket of a publisher and its public address, with a rate limit on new
   connections. */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/loopback.h"
#include "base/xio.h"
#include "sinks/subscribers_private.h"

enum { WAITING = 16 /* connections in the kernel's accept queue */ };

static mr_err_t fail_bind(const char *address, const char *what, mr_diag_t *diag) {
  return mr_fail(diag, MR_ERR_IO, "cannot bind %s: %s: %s", address, what, strerror(errno));
}

mr_err_t mr__listener_local(const char *name, struct sockaddr_un *at, socklen_t *n,
                            mr_diag_t *diag) {
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

static mr_err_t listen_local(mr__listener_t *d, const char *address, mr_diag_t *diag) {
  const char *name = address + 6; /* after "ipc://" */
  struct sockaddr_un at;
  socklen_t n = 0;
  MR_TRY(mr__listener_local(name, &at, &n, diag));
  MR_TRY(mr_address_make_free(address, diag));
  d->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (d->fd < 0 || bind(d->fd, (void *)&at, n) < 0) return fail_bind(name, "socket", diag);
  if (name[0] != '@') snprintf(d->file, sizeof d->file, "%s", name);
  snprintf(d->address, sizeof d->address, "ipc://%s", name);
  return MR_OK;
}

/* Splits "HOST:PORT" or "[HOST]:PORT" into host and port; port * becomes 0. */
static bool listener_split(const char *text, char *host, size_t n, const char **port) {
  const char *colon = strrchr(text, ':'), *end = colon;
  if (!colon) return false;
  if (text[0] == '[' && end[-1] == ']') text++, end--;
  if (end <= text || (size_t)(end - text) >= n) return false;
  memcpy(host, text, (size_t)(end - text));
  host[end - text] = 0;
  *port = strcmp(colon + 1, "*") ? colon + 1 : "0";
  return **port && strspn(*port, "0123456789") == strlen(*port) && strtol(*port, NULL, 10) < 65536;
}

static mr_err_t bound_to(mr__listener_t *d, const char *host, mr_diag_t *diag) {
  struct sockaddr_storage at;
  socklen_t n = sizeof at;
  if (getsockname(d->fd, (void *)&at, &n) < 0) return fail_bind(host, "address", diag);
  bool v6 = at.ss_family == AF_INET6;
  int port =
      ntohs(v6 ? ((struct sockaddr_in6 *)&at)->sin6_port : ((struct sockaddr_in *)&at)->sin_port);
  const char *name = !v6 && !strcmp(host, "localhost") ? "127.0.0.1" : host;
  snprintf(d->address, sizeof d->address, v6 ? "tcp://[%s]:%d" : "tcp://%s:%d", name, port);
  return MR_OK;
}

static mr_err_t listen_tcp(mr__listener_t *d, const char *where, mr_diag_t *diag) {
  const struct addrinfo want = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
  struct addrinfo *at = NULL;
  const char *port;
  char host[200];
  int on = 1;
  if (!listener_split(where, host, sizeof host, &port) || getaddrinfo(host, port, &want, &at))
    return mr_fail(diag, MR_ERR_CONFIG,
                   "tcp://%s: want tcp://HOST:PORT with a PORT up to 65535, or * for a free one",
                   where);
  d->fd = socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  bool good = d->fd >= 0 && !setsockopt(d->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) &&
              !bind(d->fd, at->ai_addr, at->ai_addrlen);
  freeaddrinfo(at);
  return good ? bound_to(d, host, diag) : fail_bind(where, "socket", diag);
}

mr_err_t mr__listener_open(mr__listener_t *d, const char *address, mr_diag_t *diag) {
  bool tcp = !strncmp(address, "tcp://", 6);
  *d = (mr__listener_t){
      .fd = -1, .rate = mr_rate_limit(MR__LISTENER_BURST, MR__LISTENER_EACH_MS * INT64_C(1000000))};
  if (!tcp && strncmp(address, "ipc://", 6))
    return mr_fail(diag, MR_ERR_CONFIG, "%s: want tcp://HOST:PORT, ipc://@NAME or ipc://FILE",
                   address);
  mr_fd_reserve();
  MR_TRY(tcp ? listen_tcp(d, address + 6, diag) : listen_local(d, address, diag));
  return listen(d->fd, WAITING) < 0 ? fail_bind(address, "listen", diag) : MR_OK;
}

/* The rate limit is here because each connection costs a ZeroMQ socket. */
int mr__listener_accept(mr__listener_t *d, int64_t now_ns) {
  if (mr_rate_limit_wait_ns(&d->rate, now_ns)) return -1;
  int fd = accept4(d->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd >= 0) mr_rate_limit_pass(&d->rate);
  return fd;
}

int mr__listener_wait_ms(mr__listener_t *d) {
  int64_t ns = mr_rate_limit_wait_ns(&d->rate, d->rate.at_ns);
  return d->fd < 0 || !ns ? -1 : (int)(ns / 1000000) + 1;
}

void mr__listener_close(mr__listener_t *d) {
  if (d->fd >= 0) close(d->fd);
  d->fd = -1;
}

void mr__listener_remove(const mr__listener_t *d) {
  if (d->file[0]) unlink(d->file);
}
