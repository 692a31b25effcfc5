/* CURVE on a link's socket.  The end that binds is the server; a thread of its context answers
   ZeroMQ's question whether to accept a key (ZAP) from a list of public keys. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "links/curve_key.h"
#include "links/link_private.h"

enum { PEERS_MAX = 256, KEY_BYTES = 32, FIELD_MAX = 256 };

struct mr__zap {
  void *asked, *stop, *stopped; /* REP; a PAIR between the owner and the thread */
  pthread_t thread;
  bool running;
  int n;
  unsigned char key[PEERS_MAX][KEY_BYTES];
};

/* ---- the allow-list ---- */

static mr_err_t read_peers(const char *files, mr__zap_t *z, char first[MR_CURVE_KEY_TEXT],
                           mr_diag_t *diag) {
  char name[4096], text[MR_CURVE_KEY_TEXT];
  for (const char *at = files; at && *at; at += strcspn(at, ",") + (at[strcspn(at, ",")] == ',')) {
    size_t n = strcspn(at, ",");
    if (n >= sizeof name || z->n == PEERS_MAX)
      return mr_fail(diag, MR_ERR_CONFIG, "peers: want at most %d files", PEERS_MAX);
    memcpy(name, at, n), name[n] = 0;
    MR_TRY(mr_curve_key_read_public(name, text, diag));
    if (!z->n) memcpy(first, text, sizeof text);
    zmq_z85_decode(z->key[z->n++], text);
  }
  if (z->n) return MR_OK;
  return mr_fail(
      diag, MR_ERR_CONFIG,
      "key is given without peers: name the public keys of the accepted peers, peers=A.pub,B.pub");
}

static bool is_known(const mr__zap_t *z, const unsigned char *key, int n) {
  for (int i = 0; n == KEY_BYTES && i < z->n; i++)
    if (!memcmp(z->key[i], key, KEY_BYTES)) return true;
  return false;
}

/* ---- ZAP ---- */

static void curve_say(void *s, const char *text, int flags) {
  zmq_send(s, text, strlen(text), flags);
}

/* Reads a request (version, id, domain, address, identity, mechanism, credentials) and answers
   it. */
static void curve_answer(mr__zap_t *z) {
  unsigned char field[7][FIELD_MAX];
  int size[7] = {0}, more = 1;
  size_t n = sizeof more;
  for (int i = 0; more; i++) {
    unsigned char rest[FIELD_MAX];
    int k = zmq_recv(z->asked, i < 7 ? field[i] : rest, FIELD_MAX, 0);
    if (i < 7) size[i] = k;
    if (k < 0 || zmq_getsockopt(z->asked, ZMQ_RCVMORE, &more, &n)) return;
  }
  bool good = size[5] == 5 && !memcmp(field[5], "CURVE", 5) && is_known(z, field[6], size[6]);
  curve_say(z->asked, "1.0", ZMQ_SNDMORE);
  zmq_send(z->asked, field[1], size[1] > FIELD_MAX ? FIELD_MAX : (size_t)size[1], ZMQ_SNDMORE);
  curve_say(z->asked, good ? "200" : "400", ZMQ_SNDMORE);
  curve_say(z->asked, good ? "OK" : "not on the list", ZMQ_SNDMORE);
  curve_say(z->asked, good ? "peer" : "", ZMQ_SNDMORE);
  curve_say(z->asked, "", 0);
}

static void *zap_main(void *arg) {
  mr__zap_t *z = arg;
  zmq_pollitem_t item[2] = {{z->asked, 0, ZMQ_POLLIN, 0}, {z->stopped, 0, ZMQ_POLLIN, 0}};
  while (zmq_poll(item, 2, -1) >= 0 && !(item[1].revents & ZMQ_POLLIN))
    if (item[0].revents & ZMQ_POLLIN) curve_answer(z);
  return NULL;
}

static mr_err_t curve_start(mr__zap_t *z, void *context, mr_diag_t *diag) {
  sigset_t all, before;
  z->asked = zmq_socket(context, ZMQ_REP);
  z->stop = zmq_socket(context, ZMQ_PAIR);
  z->stopped = zmq_socket(context, ZMQ_PAIR);
  if (!z->asked || !z->stop || !z->stopped)
    return mr_fail(diag, MR_ERR_NOMEM, "cannot create the sockets that check peers' keys: %s",
                   zmq_strerror(zmq_errno()));
  if (zmq_bind(z->asked, "inproc://zeromq.zap.01") || zmq_bind(z->stop, "inproc://stop") ||
      zmq_connect(z->stopped, "inproc://stop"))
    return mr_fail(diag, MR_ERR_IO, "cannot bind the sockets that check peers' keys: %s",
                   zmq_strerror(zmq_errno()));
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  int error = pthread_create(&z->thread, NULL, zap_main, z);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  z->running = error == 0;
  if (z->running) return MR_OK;
  return mr_fail(diag, MR_ERR_NOMEM, "cannot start the thread that checks peers' keys: %s",
                 strerror(error));
}

void mr__zap_stop(mr__zap_t *z) {
  if (!z) return;
  if (z->running) {
    zmq_send(z->stop, "", 0, 0);
    pthread_join(z->thread, NULL);
  }
  if (z->asked) zmq_close(z->asked);
  if (z->stop) zmq_close(z->stop);
  if (z->stopped) zmq_close(z->stopped);
  free(z);
}

/* ---- the socket ---- */

static mr_err_t curve_set(void *socket, int option, const void *value, size_t n, const char *what,
                          mr_diag_t *diag) {
  if (!zmq_setsockopt(socket, option, value, n)) return MR_OK;
  if (zmq_errno() == EINVAL && !zmq_has("curve"))
    return mr_fail(diag, MR_ERR_UNAVAILABLE, "this ZeroMQ library has no CURVE");
  return mr_fail(diag, MR_ERR_CONFIG, "CURVE: ZeroMQ refuses %s: %s", what,
                 zmq_strerror(zmq_errno()));
}

/* The end that binds asks the thread about each peer; the one that connects knows its peer's
   key. */
static mr_err_t curve_set_all(mr__socket_t *k, mr__zap_t *z, const char *pub, const char *sec,
                              const char *peer, mr_diag_t *diag) {
  int one = 1;
  MR_TRY(curve_set(k->socket, ZMQ_CURVE_SECRETKEY, sec, MR_CURVE_KEY_TEXT, "the secret key", diag));
  MR_TRY(curve_set(k->socket, ZMQ_CURVE_PUBLICKEY, pub, MR_CURVE_KEY_TEXT, "the public key", diag));
  if (!k->router)
    return curve_set(k->socket, ZMQ_CURVE_SERVERKEY, peer, MR_CURVE_KEY_TEXT,
                     "the peer's public key", diag);
  MR_TRY(curve_set(k->socket, ZMQ_CURVE_SERVER, &one, sizeof one, "to be the server", diag));
  MR_TRY(curve_set(k->socket, ZMQ_ZAP_DOMAIN, "millrace", 8, "the domain", diag));
  return curve_start(z, k->context, diag);
}

mr_err_t mr__socket_curve(mr__socket_t *k, const mr_link_cfg_t *cfg, mr_diag_t *diag) {
  char pub[MR_CURVE_KEY_TEXT], sec[MR_CURVE_KEY_TEXT], peer[MR_CURVE_KEY_TEXT];
  if (!cfg->key && !cfg->peers) return MR_OK;
  if (!cfg->key)
    return mr_fail(diag, MR_ERR_CONFIG, "peers is given without a key: add key=NAME.key");
  MR_TRY(mr_curve_key_read_secret(cfg->key, pub, sec, diag));
  mr__zap_t *z = calloc(1, sizeof *z);
  mr_err_t e = z ? read_peers(cfg->peers, z, peer, diag) : mr_no_memory(diag, "a link");
  if (e >= 0) e = curve_set_all(k, z, pub, sec, peer, diag);
  explicit_bzero(sec, sizeof sec);
  if (e >= 0 && k->router) return k->zap = z, MR_OK;
  mr__zap_stop(z);
  return e;
}
