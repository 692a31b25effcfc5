/* A small HTTP server for sinks that people and programs look at while a run goes on.

   It answers GET alone, and closes on whatever it does not know: another Host than its own (DNS
   rebinding), another Origin (a page of somebody else), a missing or wrong token.  Connections,
   header bytes and the time to a whole request are limited.  It has a thread of its own; nothing
   waits for it. */
#ifndef MR_SINKS_HTTP_H
#define MR_SINKS_HTTP_H

#include <microhttpd.h>
#include <stdatomic.h>

#include "pipeline/stage.h"
#include "sinks/http_address.h"
#include "sinks/http_slow.h"
#include "sinks/turnstile.h"

/* Settings that a stage with a server has. */
typedef struct mr_http_settings {
  const char *bind, *allow_host, *cert, *key;
  int64_t port;
} mr_http_settings_t;

#define MR_HTTP_OPTS(at, default_port)                                                           \
  {.name = "bind",                                                                               \
   .type = MR_OPT_STR,                                                                           \
   .offset = (at) + offsetof(mr_http_settings_t, bind),                                          \
   .unit = "",                                                                                   \
   .def = "127.0.0.1",                                                                           \
   .help = "Address to listen at; addresses beyond loopback need tls-cert and tls-key."},        \
      {.name = "port",                                                                           \
       .type = MR_OPT_INT,                                                                       \
       .offset = (at) + offsetof(mr_http_settings_t, port),                                      \
       .unit = "",                                                                               \
       .def = default_port,                                                                      \
       .lo = 0,                                                                                  \
       .hi = 65535,                                                                              \
       .help =                                                                                   \
           "Port to listen at; 0: any free port; the default is followed by the next free one.", \
       .positional = 1},                                                                         \
      {.name = "allow-host",                                                                     \
       .type = MR_OPT_STR,                                                                       \
       .offset = (at) + offsetof(mr_http_settings_t, allow_host),                                \
       .unit = "",                                                                               \
       .def = "",                                                                                \
       .help = "Additional host name, without port, that requests may use."},                    \
      {.name = "tls-cert",                                                                       \
       .type = MR_OPT_STR,                                                                       \
       .offset = (at) + offsetof(mr_http_settings_t, cert),                                      \
       .unit = "",                                                                               \
       .def = "",                                                                                \
       .help = "File with the certificate, PEM."},                                               \
  {                                                                                              \
    .name = "tls-key", .type = MR_OPT_STR, .offset = (at) + offsetof(mr_http_settings_t, key),   \
    .unit = "", .def = "", .help = "File with the key of the certificate, PEM."                  \
  }

/* The response for a path of an allowed request; NULL: not found.  On the server's thread. */
typedef struct MHD_Response *mr_http_answer_t(void *arg, struct MHD_Connection *c,
                                              const char *path);

typedef struct mr_http {
  struct MHD_Daemon *daemon;
  mr_http_answer_t *answer;
  void *arg;
  bool need_token, tls;
  char token[MR_HTTP_TOKEN];
  const char *allow_host, *bind;
  char *cert, *key; /* heap: the files' text */
  mr_http_slow_t slow;
  mr_turnstile_t turnstile; /* of the thread that answers */
  atomic_int port; /* the one it listens at; 0 until that is known, and nobody gets in before.
                      Relaxed: a number by itself */
} mr_http_t;

/* Fails as the stage s, naming the setting: an address that is none, one beyond loopback without
   TLS. */
mr_err_t mr_http_plan(mr_stage_t *s, const mr_http_settings_t *set);

/* Starts to listen and returns at once; a thread answers from then on.  set lies in the state of s.
   need_token: requests carry ?token=TOKEN or the cookie that the first one gets.  A port that the
   graph sets and another program uses is MR_ERR_IO; in place of the default port the next free one
   is taken, which a line on standard output says.

   folder: where NAME.url (mode 0600, NAME is the stage's) keeps the address, so that the next
   server of this folder has the same token, and the same port if the graph sets none.  NULL: kept
   nowhere. A folder that cannot be written costs only that, with a warning on standard error. */
mr_err_t mr_http_open(mr_http_t *h, mr_stage_t *s, const mr_http_settings_t *set, bool need_token,
                      const char *folder, mr_http_answer_t *answer, void *arg);
void mr_http_close(mr_http_t *h); /* all zero or closed before is fine */

/* "http://127.0.0.1:8080/", with the token if there is one. */
void mr_http_url(const mr_http_t *h, char *text, size_t n);

/* A response that owns text (heap) of a type. */
struct MHD_Response *mr_http_text(void *text, size_t n, const char *type);

#endif
