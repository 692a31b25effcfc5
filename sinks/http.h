/* A small HTTP server for sinks that users and programs read while a run is in progress.

   It answers GET alone and refuses a foreign Host (DNS rebinding), a foreign Origin (another site's
   page) and a missing or wrong token.  Connections, header bytes and the time to a complete request
   are limited.  It has its own thread; the graph never waits for it.

   Implemented in http.c; the file that keeps an address in http_address.c. */
#ifndef MR_SINKS_HTTP_H
#define MR_SINKS_HTTP_H

#include <microhttpd.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/slow_clients.h"
#include "pipeline/stage.h"
#include "sinks/background.h"

enum { MR_HTTP_TOKEN = 33 }; /* bytes of a token: 32 hexadecimal digits and the end */

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

/* Returns the response for a path of an allowed request, which the server destroys; NULL: not
   found.  Called on the server's thread. */
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
  int most;         /* connections at a time */
  mr_slow_clients_t slow;
  mr_rate_limit_t rate; /* used by the server's thread alone */
  atomic_int port; /* the port it listens at; 0 until known, when every Host is refused.  Relaxed:
                      it orders nothing else */
} mr_http_t;

/* Checks the settings of stage s.  MR_ERR_CONFIG, with the setting in the sentence, for a malformed
   address, one beyond loopback without TLS, or a certificate without a key. */
mr_err_t mr_http_plan(mr_stage_t *s, const mr_http_settings_t *set);

/* Starts to listen and returns at once; a thread answers from then on.  set must be part of the
   state of s; answer and arg must live until close.  need_token: requests carry ?token=TOKEN, the
   cookie that the first response sets, or an Authorization header "Bearer TOKEN".  MR_ERR_IO if it
   cannot listen; if only the default port is in use, it takes the next free one and prints that on
   standard output.  Also failures of reading the TLS files; MR_ERR_NOMEM.  The caller calls
   mr_http_close after a failure too.

   folder: where NAME.url (mode 0600, NAME is the stage's) keeps the address, so that the next
   server of this folder has the same token, and the same port if the graph sets none.  NULL: the
   address is not kept.  If the file cannot be written, a notice reports it and the server runs. */
mr_err_t mr_http_open(mr_http_t *h, mr_stage_t *s, const mr_http_settings_t *set, bool need_token,
                      const char *folder, mr_http_answer_t *answer, void *arg);
void mr_http_close(mr_http_t *h); /* joins the threads; fine if all zero or closed already */

/* Writes "http://127.0.0.1:8080/", with the token if one is needed, into text[0,n). */
void mr_http_url(const mr_http_t *h, char *text, size_t n);

/* Returns a response with text[0,n) (heap) of this type; it takes over text.  NULL without memory,
   and text is freed. */
struct MHD_Response *mr_http_text(void *text, size_t n, const char *type);

/* A file keeps a live page's address with its token, for the page of a resumed run and for
   `millrace top`.  Only its owner can read it (http_address.c).

   Reads a file that mr_http_address_write has written into token and *port.  Returns false, with
   both unchanged, if the file is missing or has other contents, or if another user owns it or may
   read or write it, because its token is no secret then. */
bool mr_http_address_read(const char *path, char token[MR_HTTP_TOKEN], int *port);

/* Writes url and a newline to path, mode 0600, whole or not at all.  MR_ERR_IO on failure. */
mr_err_t mr_http_address_write(const char *path, const char *url, mr_diag_t *diag);

#endif
