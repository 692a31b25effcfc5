/* An HTTP server over libmicrohttpd: checks each request, adds security headers to each response,
   and limits how fast connections come in.  The server's thread runs at low priority. */
#include "sinks/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/loopback.h"
#include "base/xio.h"
#include "sinks/background.h"

enum { CONNECTIONS = 32, IDLE_S = 20, HEAD_BYTES = 16 << 10 };
enum { DEFAULT_PORTS = 100 /* ports to try from the default one on */ };
enum { BURST = 64, EACH_NS = 20000000 /* new connections at once, then one every 20 ms */ };

/* ---- addresses ---- */

typedef union address {
  struct sockaddr sa;
  struct sockaddr_in v4;
  struct sockaddr_in6 v6;
} address_t;

static bool parse_address(const char *text, int port, address_t *out) {
  memset(out, 0, sizeof *out);
  if (inet_pton(AF_INET, text, &out->v4.sin_addr) == 1) {
    out->v4.sin_family = AF_INET, out->v4.sin_port = htons((uint16_t)port);
    return true;
  }
  if (inet_pton(AF_INET6, text, &out->v6.sin6_addr) != 1) return false;
  out->v6.sin6_family = AF_INET6, out->v6.sin6_port = htons((uint16_t)port);
  return true;
}

mr_err_t mr_http_plan(mr_stage_t *s, const mr_http_settings_t *set) {
  address_t a;
  if (!parse_address(set->bind, 0, &a))
    return mr_stage_fail(s, MR_ERR_CONFIG, "bind = %s: want an IPv4 or IPv6 address", set->bind);
  bool tls = set->cert[0] && set->key[0];
  if (!tls && (set->cert[0] || set->key[0]))
    return mr_stage_fail(s, MR_ERR_CONFIG, "tls-cert and tls-key: want both or neither");
  if (mr_needs_proof(set->bind) && !tls)
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "bind = %s is beyond this machine: want tls-cert and tls-key beside it, "
                         "or an SSH tunnel to the loopback address",
                         set->bind);
  return MR_OK;
}

/* ---- access ---- */

static int port_of(const mr_http_t *h) {
  return atomic_load_explicit(&h->port, memory_order_relaxed);
}

/* Whether host is NAME, or NAME:PORT with our port. */
static bool host_is(const mr_http_t *h, const char *host, const char *name) {
  size_t n = strlen(name);
  char port[8];
  if (!n || strncasecmp(host, name, n)) return false;
  snprintf(port, sizeof port, ":%d", port_of(h));
  return !host[n] || !strcmp(host + n, port);
}

static bool is_host_allowed(const mr_http_t *h, const char *host) {
  char six[64];
  if (!host) return false;
  snprintf(six, sizeof six, "[%s]", h->bind);
  return host_is(h, host, "localhost") || host_is(h, host, "127.0.0.1") ||
         host_is(h, host, "[::1]") || host_is(h, host, h->bind) || host_is(h, host, six) ||
         host_is(h, host, h->allow_host);
}

/* Browsers send the origin of a page's requests; other programs send none. */
static bool is_origin_allowed(const mr_http_t *h, const char *origin) {
  const char *scheme = h->tls ? "https://" : "http://";
  size_t n = strlen(scheme);
  return !origin || (!strncmp(origin, scheme, n) && is_host_allowed(h, origin + n));
}

/* Compares in constant time, so that the time does not reveal how many digits are right. */
static bool same_token(const mr_http_t *h, const char *text) {
  unsigned differ = 0;
  if (!text || strlen(text) < MR_HTTP_TOKEN - 1) return false;
  for (int i = 0; i < MR_HTTP_TOKEN - 1; i++) differ |= (unsigned)(h->token[i] ^ text[i]);
  return !differ;
}

static void cookie_name(const mr_http_t *h, char *name, size_t n) {
  snprintf(name, n, "millrace_%d", port_of(h));
}

static bool has_token(const mr_http_t *h, struct MHD_Connection *c) {
  char name[32];
  const char *bearer = MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Authorization");
  cookie_name(h, name, sizeof name);
  return same_token(h, MHD_lookup_connection_value(c, MHD_GET_ARGUMENT_KIND, "token")) ||
         same_token(h, MHD_lookup_connection_value(c, MHD_COOKIE_KIND, name)) ||
         (bearer && !strncmp(bearer, "Bearer ", 7) && same_token(h, bearer + 7));
}

static enum MHD_Result count_host(void *arg, enum MHD_ValueKind kind, const char *name,
                                  const char *value) {
  *(int *)arg += !strcasecmp(name, MHD_HTTP_HEADER_HOST);
  return MHD_YES;
}

/* With two Host headers, the one checked might not be the one that a proxy used. */
static bool says_one_host(struct MHD_Connection *c) {
  int hosts = 0;
  MHD_get_connection_values(c, MHD_HEADER_KIND, count_host, &hosts);
  return hosts == 1;
}

/* 0 if the request is allowed, else the status to refuse it with. */
static unsigned refusal_status(const mr_http_t *h, struct MHD_Connection *c, const char *method) {
  if (strcmp(method, MHD_HTTP_METHOD_GET)) return MHD_HTTP_METHOD_NOT_ALLOWED;
  if (!says_one_host(c) ||
      !is_host_allowed(h, MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Host")) ||
      !is_origin_allowed(h, MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Origin")))
    return MHD_HTTP_FORBIDDEN;
  if (h->need_token && !has_token(h, c)) return MHD_HTTP_UNAUTHORIZED;
  return 0;
}

/* ---- answering ---- */

static int fd_of(struct MHD_Connection *c) {
  return MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
}

struct MHD_Response *mr_http_text(void *text, size_t n, const char *type) {
  struct MHD_Response *r = MHD_create_response_from_buffer(n, text, MHD_RESPMEM_MUST_FREE);
  if (!r) free(text);
  if (r) MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type);
  return r;
}

static struct MHD_Response *http_plain(const char *text) {
  return mr_http_text(strdup(text), strlen(text), "text/plain; charset=utf-8");
}

/* The headers of every response. */
static void add_headers(struct MHD_Response *r) {
  static const char *const always[][2] = {
      {"Content-Security-Policy",
       "default-src 'none'; script-src 'self'; style-src 'self'; style-src-attr 'unsafe-inline'; "
       "img-src 'self'; connect-src "
       "'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
      {"X-Content-Type-Options", "nosniff"},
      {"Referrer-Policy", "no-referrer"},
      {"Cross-Origin-Resource-Policy", "same-origin"},
      {"Cross-Origin-Opener-Policy", "same-origin"},
      {"Cache-Control", "no-store"}};
  for (size_t i = 0; i < sizeof always / sizeof *always; i++)
    MHD_add_response_header(r, always[i][0], always[i][1]);
}

/* Sets the cookie, which holds the token; only for an allowed request. */
static void add_cookie(const mr_http_t *h, struct MHD_Connection *c, struct MHD_Response *r) {
  char name[32], cookie[160];
  if (!h->need_token || !MHD_lookup_connection_value(c, MHD_GET_ARGUMENT_KIND, "token")) return;
  cookie_name(h, name, sizeof name);
  snprintf(cookie, sizeof cookie, "%s=%s; Path=/; HttpOnly; SameSite=Strict%s", name, h->token,
           h->tls ? "; Secure" : "");
  MHD_add_response_header(r, MHD_HTTP_HEADER_SET_COOKIE, cookie);
}

static enum MHD_Result on_request(void *arg, struct MHD_Connection *c, const char *url,
                                  const char *method, const char *version, const char *upload,
                                  size_t *upload_size, void **state) {
  mr_http_t *h = arg;
  static int seen;
  if (!*state) { /* called with the headers alone; a body, if any, is not read */
    *state = &seen;
    if (!refusal_status(h, c, method) && !*upload_size) return MHD_YES;
  }
  unsigned status = refusal_status(h, c, method);
  bool allowed = !status;
  struct MHD_Response *r = status ? NULL : h->answer(h->arg, c, url);
  if (!status && !r) status = MHD_HTTP_NOT_FOUND;
  if (!r)
    r = http_plain(status == MHD_HTTP_UNAUTHORIZED
                       ? "The token is missing: use the whole URL that millrace has printed.\n"
                       : "refused\n");
  if (!r) return MHD_NO;
  add_headers(r);
  if (allowed) add_cookie(h, c, r);
  mr_slow_clients_answer(&h->slow, fd_of(c));
  enum MHD_Result done = MHD_queue_response(c, status ? status : MHD_HTTP_OK, r);
  MHD_destroy_response(r);
  return done;
}

/* ---- a connection's time ---- */

/* Delays the server's only thread by the rate limit: open pages get their events that much later,
   and new connections wait in the kernel. */
static void http_let_in(mr_http_t *h) {
  int64_t ns = mr_rate_limit_wait_ns(&h->rate, mr_now_ns());
  struct timespec t = {.tv_nsec = ns};
  if (ns) nanosleep(&t, NULL);
  mr_rate_limit_pass(&h->rate);
}

static void on_connection(void *arg, struct MHD_Connection *c, void **state,
                          enum MHD_ConnectionNotificationCode code) {
  mr_http_t *h = arg;
  if (code == MHD_CONNECTION_NOTIFY_STARTED)
    http_let_in(h), mr_slow_clients_begin(&h->slow, fd_of(c));
  if (code == MHD_CONNECTION_NOTIFY_CLOSED) mr_slow_clients_end(&h->slow, fd_of(c));
}

static void on_completed(void *arg, struct MHD_Connection *c, void **state,
                         enum MHD_RequestTerminationCode code) {
  mr_slow_clients_wait(&((mr_http_t *)arg)->slow, fd_of(c));
}

/* ---- life ---- */

static bool draw_token(char *token) {
  uint8_t bytes[(MR_HTTP_TOKEN - 1) / 2];
  if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes) return false;
  for (size_t i = 0; i < sizeof bytes; i++) snprintf(token + 2 * i, 3, "%02x", bytes[i]);
  return true;
}

static void log_nothing(void *arg, const char *fmt, va_list ap) {}

static mr_err_t read_tls(mr_http_t *h, mr_stage_t *s, const mr_http_settings_t *set) {
  mr_diag_t why = {0};
  size_t n;
  void *cert = NULL, *key = NULL;
  h->tls = set->cert[0] != 0;
  if (!h->tls) return MR_OK;
  mr_err_t e = mr_read_file(set->cert, 1 << 20, &cert, &n, &why);
  if (e >= 0) e = mr_read_file(set->key, 1 << 20, &key, &n, &why);
  h->cert = cert, h->key = key;
  return mr_stage_relay(s, e, &why);
}

typedef struct listen {
  mr_http_t *h;
  const address_t *at;
  int error; /* errno, where h->daemon is NULL afterwards */
} listen_t;

/* Uses poll, not epoll: with epoll the end of a half-closed connection can go unnoticed until the
   time-out.  Does not set MHD_OPTION_LISTENING_ADDRESS_REUSE: it sets SO_REUSEPORT, with which two
   servers can share a port and a request reaches either. */
static void start_daemon(void *arg) {
  listen_t *l = arg;
  mr_http_t *h = l->h;
  unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL | MHD_ALLOW_SUSPEND_RESUME |
                   MHD_USE_ERROR_LOG | (l->at->sa.sa_family == AF_INET6 ? MHD_USE_IPv6 : 0) |
                   (h->tls ? MHD_USE_TLS : 0);
  h->daemon =
      MHD_start_daemon(flags, 0, NULL, NULL, on_request, h, MHD_OPTION_EXTERNAL_LOGGER, log_nothing,
                       NULL, MHD_OPTION_SOCK_ADDR, &l->at->sa, MHD_OPTION_CONNECTION_LIMIT,
                       (unsigned)h->most, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_S,
                       MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEAD_BYTES,
                       MHD_OPTION_NOTIFY_CONNECTION, on_connection, h, MHD_OPTION_NOTIFY_COMPLETED,
                       on_completed, h, h->tls ? MHD_OPTION_HTTPS_MEM_CERT : MHD_OPTION_END,
                       h->cert, MHD_OPTION_HTTPS_MEM_KEY, h->key, MHD_OPTION_END);
  l->error = h->daemon ? 0 : errno;
}

/* Listens at one port; returns 0 or errno. */
static int listen_at(mr_http_t *h, const mr_http_settings_t *set, int64_t port) {
  address_t a;
  parse_address(set->bind, (int)port, &a);
  listen_t l = {h, &a, 0};
  mr_in_background(start_daemon, &l);
  return l.error;
}

/* Listens at the port that is set; else at the last run's port, the default one, or the next
   free. */
static mr_err_t listen_somewhere(mr_http_t *h, mr_stage_t *s, const mr_http_settings_t *set,
                                 int last_port) {
  bool given = mr_setting_given(s, (size_t)((const char *)&set->port - (const char *)s->state));
  bool any = !set->port || !given;
  if (any && last_port && !listen_at(h, set, last_port)) return MR_OK;
  if (given || !set->port) {
    int error = listen_at(h, set, set->port);
    if (!error) return MR_OK;
    return mr_stage_fail(s, MR_ERR_IO, "port = %" PRId64 ": cannot listen at %s: %s%s", set->port,
                         set->bind, strerror(error),
                         error == EADDRINUSE ? "; choose another port, or 0 for any free one" : "");
  }
  int64_t port = set->port, end = port + DEFAULT_PORTS;
  int error = listen_at(h, set, port);
  while (error == EADDRINUSE && port + 1 < end) error = listen_at(h, set, ++port);
  if (error)
    return mr_stage_fail(s, MR_ERR_IO, "ports %" PRId64 " to %" PRId64 ": cannot listen at %s: %s",
                         set->port, port, set->bind, strerror(error));
  if (port != set->port)
    mr_announce("%s: port %" PRId64 " is in use, port %" PRId64 " is taken instead", s->name,
                set->port, port);
  return MR_OK;
}

/* Takes token and port of the server before, or draws a new token. */
static mr_err_t take_address(mr_http_t *h, mr_stage_t *s, const char *file, int *last_port) {
  if (file && mr_http_address_read(file, h->token, last_port)) return MR_OK;
  return draw_token(h->token) ? MR_OK
                              : mr_stage_fail(s, MR_ERR_IO, "cannot draw random bytes for a token");
}

static void keep_address(const mr_http_t *h, const mr_stage_t *s, const char *file) {
  mr_diag_t why = {0};
  char url[512];
  mr_http_url(h, url, sizeof url);
  if (mr_http_address_write(file, url, &why) < 0)
    mr_notice("%s: a resumed run will have another token: %s", s->name, why.text);
}

mr_err_t mr_http_open(mr_http_t *h, mr_stage_t *s, const mr_http_settings_t *set, bool need_token,
                      const char *folder, mr_http_answer_t *answer, void *arg) {
  char path[MR_PATH_MAX];
  int last_port = 0;
  *h = (mr_http_t){.answer = answer,
                   .arg = arg,
                   .need_token = need_token,
                   .most = mr_listener_most(CONNECTIONS),
                   .rate = mr_rate_limit(BURST, EACH_NS),
                   .bind = set->bind,
                   .allow_host = set->allow_host};
  bool keeps = folder && snprintf(path, sizeof path, "%s/%s.url", folder, s->name) < MR_PATH_MAX;
  MR_TRY(take_address(h, s, keeps ? path : NULL, &last_port));
  MR_TRY(read_tls(h, s, set));
  if (!mr_slow_clients_open(&h->slow, h->most, IDLE_S))
    return mr_stage_fail(s, MR_ERR_NOMEM, "cannot start the thread that ends slow connections");
  mr_err_t e = listen_somewhere(h, s, set, last_port);
  if (e < 0) {
    mr_http_close(h);
    return e;
  }
  atomic_store_explicit(&h->port, MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_BIND_PORT)->port,
                        memory_order_relaxed);
  if (keeps) keep_address(h, s, path);
  return MR_OK;
}

void mr_http_close(mr_http_t *h) {
  if (h->daemon) MHD_stop_daemon(h->daemon);
  h->daemon = NULL;
  mr_slow_clients_close(&h->slow);
  free(h->cert), free(h->key);
  h->cert = h->key = NULL;
}

void mr_http_url(const mr_http_t *h, char *text, size_t n) {
  bool six = strchr(h->bind, ':') != NULL;
  snprintf(text, n, "%s://%s%s%s:%d/%s%s", h->tls ? "https" : "http", six ? "[" : "", h->bind,
           six ? "]" : "", port_of(h), h->need_token ? "?token=" : "",
           h->need_token ? h->token : "");
}
