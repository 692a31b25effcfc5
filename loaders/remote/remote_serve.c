/* Answers peers with ranges of objects, over libmicrohttpd, a thread for each connection: an answer
   may wait for the server of the objects.  Without a proof of the token there is no answer but that
   the process is there. */
#include <arpa/inet.h>
#include <inttypes.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/slow_clients.h"
#include "loaders/remote/remote_answer.h"
#include "loaders/remote/remote_peers.h"

enum { CONNECTIONS = 1024, IDLE_S = 10 /* to a request that proves the token */ };

struct mr__serve {
  struct mr__serve *next; /* in the list of this process */
  const mr__peers_t *peers;
  mr__serve_fn *fn;
  void *arg;
  struct MHD_Daemon *daemon;
  mr_slow_clients_t slow;
};

/* Those of this process, each at a port of its own. */
static struct {
  pthread_mutex_t lock;
  mr__serve_t *first;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Adds s to the list; false if another one answers under this name. */
static bool enlist_server(mr__serve_t *s) {
  pthread_mutex_lock(&all.lock);
  const mr__serve_t *other = all.first;
  while (other && strcmp(mr__peers_own(other->peers), mr__peers_own(s->peers))) other = other->next;
  if (!other) s->next = all.first, all.first = s;
  pthread_mutex_unlock(&all.lock);
  return !other;
}

static void delist_server(mr__serve_t *s) {
  pthread_mutex_lock(&all.lock);
  mr__serve_t **at = &all.first;
  while (*at != s) at = &(*at)->next;
  *at = s->next;
  pthread_mutex_unlock(&all.lock);
}

static enum MHD_Result say_status(struct MHD_Connection *c, unsigned status) {
  static char text[] = "";
  struct MHD_Response *r = MHD_create_response_from_buffer(0, text, MHD_RESPMEM_PERSISTENT);
  if (r) MHD_add_response_header(r, "Connection", "close"); /* a stranger holds it no longer */
  enum MHD_Result done = r ? MHD_queue_response(c, status, r) : MHD_NO;
  if (r) MHD_destroy_response(r);
  return done;
}

/* The headers by which the engine of the other end knows bytes and state. */
static void describe_range(struct MHD_Response *r, const mr_object_t *o,
                           const mr_proof_about_t *about, const char *asked, const uint8_t *data) {
  int64_t at = about->at, n = about->size;
  char text[300], proof[MR_PROOF_TEXT];
  time_t t = (time_t)(o->mtime_ns / 1000000000);
  struct tm tm;
  snprintf(text, sizeof text, "bytes %" PRId64 "-%" PRId64 "/%" PRId64, at, at + n - 1, o->size);
  MHD_add_response_header(r, "Content-Range", text);
  if (*o->etag) MHD_add_response_header(r, "ETag", o->etag);
  if (t && gmtime_r(&t, &tm) && strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &tm))
    MHD_add_response_header(r, "Last-Modified", text);
  if (mr__proof_answer(about, asked, data, proof))
    MHD_add_response_header(r, "Millrace-Proof", proof);
}

static enum MHD_Result give_range(const mr__serve_t *s, struct MHD_Connection *c,
                                  const mr_object_t *o, const mr_proof_about_t *about,
                                  const char *asked) {
  int64_t at = about->at, n = about->size;
  if (at > o->size - n) return say_status(c, 416);
  uint8_t *data = malloc((size_t)n);
  if (!data || s->fn(s->arg, o, at, n, data) != MR_OK) {
    free(data);
    return say_status(c, 503);
  }
  struct MHD_Response *r = MHD_create_response_from_buffer((size_t)n, data, MHD_RESPMEM_MUST_FREE);
  if (!r) return free(data), MHD_NO;
  describe_range(r, o, about, asked, data);
  enum MHD_Result done = MHD_queue_response(c, 206, r);
  MHD_destroy_response(r);
  return done;
}

static int serve_fd_of(struct MHD_Connection *c) {
  return MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
}

static enum MHD_Result serve_request(void *arg, struct MHD_Connection *c, const char *url,
                                     const char *method, const char *version, const char *upload,
                                     size_t *upload_size, void **state) {
  mr__serve_t *s = arg;
  static int seen;
  if (!*state && !strcmp(method, "GET")) return *state = &seen, MHD_YES;
  if (strcmp(method, "GET") || *upload_size) return MHD_NO;
  if (!strcmp(url, "/")) return say_status(c, 200);
  const char *asked = MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Authorization"),
             *range = MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Range");
  int64_t at, n;
  if (!asked || strncmp(asked, "Millrace ", 9) || !range ||
      !mr__serve_range(range, INT64_MAX, &at, &n))
    return say_status(c, 401);
  mr_proof_about_t about = mr__peers_about(s->peers, url, at, n);
  if (!mr__proof_asked(&about, asked + 9)) return say_status(c, 401);
  mr_slow_clients_answer(&s->slow, serve_fd_of(c));
  const mr_object_t *o = mr__peers_find(s->peers, url);
  return o ? give_range(s, c, o, &about, asked + 9) : say_status(c, 404);
}

static void serve_on_connection(void *arg, struct MHD_Connection *c, void **state,
                                enum MHD_ConnectionNotificationCode code) {
  mr__serve_t *s = arg;
  if (code == MHD_CONNECTION_NOTIFY_STARTED) mr_slow_clients_begin(&s->slow, serve_fd_of(c));
  if (code == MHD_CONNECTION_NOTIFY_CLOSED) mr_slow_clients_end(&s->slow, serve_fd_of(c));
}

static void serve_on_completed(void *arg, struct MHD_Connection *c, void **state,
                               enum MHD_RequestTerminationCode code) {
  mr_slow_clients_wait(&((mr__serve_t *)arg)->slow, serve_fd_of(c));
}

static struct MHD_Daemon *begin_answering(mr__serve_t *s, const struct addrinfo *a) {
  unsigned flags = MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL;
  int most = mr_listener_most(CONNECTIONS);
  if (a->ai_family == AF_INET6) flags |= MHD_USE_IPv6;
  if (!mr_slow_clients_open(&s->slow, most, IDLE_S)) return NULL;
  return MHD_start_daemon(flags, 0, NULL, NULL, serve_request, s, MHD_OPTION_SOCK_ADDR, a->ai_addr,
                          MHD_OPTION_CONNECTION_LIMIT, (unsigned)most, MHD_OPTION_NOTIFY_CONNECTION,
                          serve_on_connection, s, MHD_OPTION_NOTIFY_COMPLETED, serve_on_completed,
                          s, MHD_OPTION_CONNECTION_TIMEOUT, IDLE_S, MHD_OPTION_END);
}

mr_err_t mr__serve_open(mr__serve_t **out, const mr__peers_t *p, mr__serve_fn *fn, void *arg,
                        mr_diag_t *diag) {
  const char *name = mr__peers_own(p), *port = strrchr(name, ':');
  char host[256];
  bool six = *name == '[';
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV}, *a = NULL;
  mr__serve_t *s = *out = calloc(1, sizeof *s);
  if (!s) return mr_no_memory(diag, "answers to peers");
  *s = (mr__serve_t){.peers = p, .fn = fn, .arg = arg};
  if (!enlist_server(s)) {
    free(s);
    *out = NULL;
    return mr_fail(diag, MR_ERR_CONFIG,
                   "setting peer = %s: another source of this process answers there; want peers= "
                   "and peer= with a port for each source",
                   name);
  }
  snprintf(host, sizeof host, "%.*s", (int)(port - name) - 2 * six, name + six);
  int code = getaddrinfo(host, port + 1, &hints, &a);
  s->daemon = code ? NULL : begin_answering(s, a);
  if (a) freeaddrinfo(a);
  if (s->daemon) return MR_OK;
  mr_slow_clients_close(&s->slow);
  delist_server(s);
  free(s);
  *out = NULL;
  return mr_fail(diag, MR_ERR_IO,
                 "setting peer = %s: %s; want an address of this machine with a free port", name,
                 code ? gai_strerror(code) : "cannot be listened at");
}

void mr__serve_close(mr__serve_t *s) {
  if (!s) return;
  MHD_stop_daemon(s->daemon);
  mr_slow_clients_close(&s->slow);
  delist_server(s);
  free(s);
}
