/* CURVE on a link's socket.  The end that binds is the server; a thread of its context answers
   ZeroMQ's question whether to accept a key (ZAP) from a list of public keys. */
#include <stdlib.h>
#include <string.h>

#include "links/curve_key.h"
#include "links/link_private.h"
#include "links/zap.h"

enum { PEERS_MAX = 256 };

/* The public keys of the accepted peers. */
typedef struct peer_keys {
  int n;
  unsigned char key[PEERS_MAX][MR_ZAP_KEY];
} peer_keys_t;

/* ---- the allow-list ---- */

static mr_err_t read_peers(const char *files, peer_keys_t *z, char first[MR_CURVE_KEY_TEXT],
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
static mr_err_t curve_set_all(mr__socket_t *k, const peer_keys_t *z, const char *pub,
                              const char *sec, const char *peer, mr_diag_t *diag) {
  int one = 1;
  MR_TRY(curve_set(k->socket, ZMQ_CURVE_SECRETKEY, sec, MR_CURVE_KEY_TEXT, "the secret key", diag));
  MR_TRY(curve_set(k->socket, ZMQ_CURVE_PUBLICKEY, pub, MR_CURVE_KEY_TEXT, "the public key", diag));
  if (!k->router)
    return curve_set(k->socket, ZMQ_CURVE_SERVERKEY, peer, MR_CURVE_KEY_TEXT,
                     "the peer's public key", diag);
  MR_TRY(curve_set(k->socket, ZMQ_CURVE_SERVER, &one, sizeof one, "to be the server", diag));
  MR_TRY(curve_set(k->socket, ZMQ_ZAP_DOMAIN, "millrace", 8, "the domain", diag));
  return mr_zap_open(k->context, z->key, z->n, &k->zap, diag);
}

mr_err_t mr__socket_curve(mr__socket_t *k, const mr_link_cfg_t *cfg, mr_diag_t *diag) {
  char pub[MR_CURVE_KEY_TEXT], sec[MR_CURVE_KEY_TEXT], peer[MR_CURVE_KEY_TEXT];
  if (!cfg->key && !cfg->peers) return MR_OK;
  if (!cfg->key)
    return mr_fail(diag, MR_ERR_CONFIG, "peers is given without a key: add key=NAME.key");
  MR_TRY(mr_curve_key_read_secret(cfg->key, pub, sec, diag));
  peer_keys_t peers = {0};
  mr_err_t e = read_peers(cfg->peers, &peers, peer, diag);
  if (e >= 0) e = curve_set_all(k, &peers, pub, sec, peer, diag);
  explicit_bzero(sec, sizeof sec);
  return e;
}
