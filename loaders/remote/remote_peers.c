/* Who keeps which block, and how it is asked: each peer has an object of its own for every object,
   with the peer's address and the token.  A peer that fails is left alone for a few seconds, so
   that a dead one costs one request now and then, not one for each block. */
#include "loaders/remote/remote_peers.h"
#include "loaders/remote/remote_answer.h"

#include <ctype.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <xxhash.h>

#include "base/clock.h"
#include "base/halt.h"
#include "base/text.h"
#include "loaders/remote/remote_cache.h"
#include "loaders/remote/remote_engine.h"

#define REST_NS ((int64_t)5 * 1000000000) /* a peer that has failed is asked again after this */
enum { RESTS_MAX = 6 };                   /* each failure doubles it, as often as this */

typedef struct peer {
  char name[256]; /* HOST:PORT */
  uint64_t hash;
  int64_t rests_until_ns;
  int rests; /* since it last answered */
  bool reported;
  mr_object_t **object; /* [n_objects] as it serves them; NULL: not asked yet */
} peer_t;

typedef struct served_object {
  char path[MR_PEER_PATH];
  const mr_object_t *object;
} served_object_t;

struct mr__peers {
  peer_t peer[MR_PEERS_MAX];
  int n, own;
  char token[256];
  served_object_t *served; /* [n_objects] sorted by path */
  int n_objects;
  pthread_mutex_t lock; /* guards rests_until_ns, rests, reported and object of all peers */
};

/* ---- settings ---- */

/* HOST:PORT or [IPv6]:PORT without anything that would make another URL of it. */
static bool is_peer_name(const char *name) {
  const char *port = strrchr(name, ':');
  size_t n = port ? strlen(port + 1) : 0;
  if (!port || port == name || n < 1 || n > 5 || strspn(port + 1, "0123456789") != n) return false;
  for (const char *c = name; c < port; c++)
    if (!isalnum((unsigned char)*c) && !strchr(".-_:[]", *c)) return false;
  return atoi(port + 1) > 0 && atoi(port + 1) < 65536;
}

static mr_err_t add_peer(mr__peers_t *p, const char *name, size_t n, const char *own,
                         mr_diag_t *diag) {
  peer_t *peer = &p->peer[p->n];
  if (p->n == MR_PEERS_MAX)
    return mr_fail(diag, MR_ERR_CONFIG, "setting peers: want at most %d", MR_PEERS_MAX);
  if (n < sizeof peer->name) memcpy(peer->name, name, n);
  if (!is_peer_name(peer->name))
    return mr_fail(diag, MR_ERR_CONFIG, "setting peers: \"%.*s\": want HOST:PORT,HOST:PORT,...",
                   n < 200 ? (int)n : 200, name);
  for (int i = 0; i < p->n; i++)
    if (!strcmp(p->peer[i].name, peer->name))
      return mr_fail(diag, MR_ERR_CONFIG, "setting peers: %s is named twice", peer->name);
  if (!strcmp(peer->name, own)) p->own = p->n;
  peer->hash = XXH3_64bits(peer->name, strlen(peer->name));
  peer->object = calloc((size_t)p->n_objects + 1, sizeof(mr_object_t *));
  return peer->object ? (p->n++, MR_OK) : mr_no_memory(diag, "peers");
}

static mr_err_t take_peers(mr__peers_t *p, const mr_remote_conf_t *conf, mr_diag_t *diag) {
  const char *given =
      conf->peer_token && *conf->peer_token ? conf->peer_token : getenv("MILLRACE_PEER_TOKEN");
  size_t n = given ? strlen(given) : 0;
  if (!conf->cache)
    return mr_fail(diag, MR_ERR_CONFIG, "setting peers: want cache=FOLDER too, which they share");
  if (!conf->peer)
    return mr_fail(diag, MR_ERR_CONFIG,
                   "setting peers: want peer=HOST:PORT too, the one of them that this process is");
  if (n < MR_PEER_TOKEN_MIN || n >= sizeof p->token || strcspn(given, " \t\r\n") != n)
    return mr_fail(diag, MR_ERR_CONFIG,
                   "setting peers: want a token of %d to %zu bytes without spaces in "
                   "MILLRACE_PEER_TOKEN or peer-token=, the same in all processes",
                   MR_PEER_TOKEN_MIN, sizeof p->token - 1);
  if (conf->cache_block > MR_SERVE_MOST)
    return mr_fail(diag, MR_ERR_CONFIG,
                   "setting cache-block = %" PRId64
                   ": with setting peers want at most %d bytes, "
                   "the longest answer of a peer",
                   conf->cache_block, MR_SERVE_MOST);
  memcpy(p->token, given, n + 1);
  for (const char *at = conf->peers, *next; at; at = next ? next + 1 : NULL) {
    next = strchr(at, ',');
    MR_TRY(add_peer(p, at, next ? (size_t)(next - at) : strlen(at), conf->peer, diag));
  }
  if (p->own >= 0) return MR_OK;
  return mr_fail(diag, MR_ERR_CONFIG, "setting peer = %.200s: want one of those that peers names",
                 conf->peer);
}

static int compare_paths(const void *a, const void *b) {
  const served_object_t *x = a, *y = b;
  return strcmp(x->path, y->path);
}

mr_err_t mr__peers_open(mr__peers_t **out, const mr_remote_conf_t *conf,
                        const mr_object_t *const *object, int n, mr_diag_t *diag) {
  mr__peers_t *p = *out = calloc(1, sizeof *p);
  if (!p) return mr_no_memory(diag, "peers");
  pthread_mutex_init(&p->lock, NULL);
  p->own = -1, p->n_objects = n;
  p->served = calloc((size_t)n + 1, sizeof *p->served);
  mr_err_t e = p->served ? take_peers(p, conf, diag) : mr_no_memory(diag, "peers");
  for (int i = 0; i < n && e >= 0; i++) {
    p->served[i].object = object[i], p->served[i].path[0] = '/';
    mr__cache_state(object[i], p->served[i].path + 1);
  }
  if (e >= 0) qsort(p->served, (size_t)n, sizeof *p->served, compare_paths);
  if (e >= 0) return MR_OK;
  mr__peers_close(p);
  *out = NULL;
  return e;
}

void mr__peers_close(mr__peers_t *p) {
  if (!p) return;
  for (int i = 0; i < p->n; i++) {
    for (int k = 0; k < p->n_objects; k++) {
      mr_object_t *o = p->peer[i].object[k];
      if (o) free(o->name), free(o->url), free(o);
    }
    free(p->peer[i].object);
  }
  pthread_mutex_destroy(&p->lock);
  explicit_bzero(p->token, sizeof p->token);
  free(p->served), free(p);
}

const char *mr__peers_own(const mr__peers_t *p) { return p->peer[p->own].name; }
int mr__peers_count(const mr__peers_t *p) { return p->n; }
const char *mr__peers_name(const mr__peers_t *p, int peer) { return p->peer[peer].name; }

/* ---- asking ---- */

int mr__peers_owner(const mr__peers_t *p, const mr_object_t *o, int64_t group) {
  uint64_t what[3] = {0, 0, (uint64_t)group}, most = 0;
  int owner = p->own;
  mr__cache_state_hash(o, what);
  for (int i = 0; i < p->n; i++) {
    uint64_t h = XXH3_64bits_withSeed(what, sizeof what, p->peer[i].hash);
    if (i && h <= most) continue;
    most = h, owner = i;
  }
  return owner == p->own ? -1 : owner;
}

/* The place of an object in the list that is sorted by path; -1: none. */
static int served_number(const mr__peers_t *p, const mr_object_t *o) {
  served_object_t want = {.path = "/"};
  mr__cache_state(o, want.path + 1);
  const served_object_t *s =
      bsearch(&want, p->served, (size_t)p->n_objects, sizeof *p->served, compare_paths);
  return s ? (int)(s - p->served) : -1;
}

static mr_object_t *make_object(const mr__peers_t *p, const peer_t *peer, int number) {
  const mr_object_t *o = p->served[number].object;
  mr_object_t *own = calloc(1, sizeof *own);
  if (!own) return NULL;
  *own = *o;
  own->s3 = false, own->token = p->token, own->peer = peer->name;
  own->name = own->url = NULL;
  if (asprintf(&own->name, "peer %s: %s", peer->name, o->name) < 0) own->name = NULL;
  if (asprintf(&own->url, "http://%s%s", peer->name, p->served[number].path) < 0) own->url = NULL;
  if (own->name && own->url) return own;
  free(own->name), free(own->url), free(own);
  return NULL;
}

const mr_object_t *mr__peers_object(mr__peers_t *p, int peer, const mr_object_t *o) {
  peer_t *at = &p->peer[peer];
  const mr_object_t *found = NULL;
  int number = served_number(p, o);
  pthread_mutex_lock(&p->lock);
  if (number >= 0 && mr_now_ns() >= at->rests_until_ns) {
    if (!at->object[number]) at->object[number] = make_object(p, at, number);
    found = at->object[number];
  }
  pthread_mutex_unlock(&p->lock);
  return found;
}

bool mr__peers_rests(mr__peers_t *p, int peer) {
  pthread_mutex_lock(&p->lock);
  bool rests = mr_now_ns() < p->peer[peer].rests_until_ns;
  pthread_mutex_unlock(&p->lock);
  return rests;
}

void mr__peers_answered(mr__peers_t *p, int peer) {
  pthread_mutex_lock(&p->lock);
  p->peer[peer].rests = 0;
  pthread_mutex_unlock(&p->lock);
}

/* Requests that were in flight together fail together, and count as one failure. */
void mr__peers_failed(mr__peers_t *p, int peer, const char *why) {
  peer_t *at = &p->peer[peer];
  int64_t now = mr_now_ns();
  pthread_mutex_lock(&p->lock);
  bool first = !at->reported;
  at->reported = true;
  if (now >= at->rests_until_ns) {
    at->rests_until_ns = now + (REST_NS << at->rests);
    if (at->rests < RESTS_MAX) at->rests++;
  }
  pthread_mutex_unlock(&p->lock);
  if (first) mr_notice("%s: its blocks are fetched from the server while it does not answer", why);
}

/* Asks whether the process of a peer is there. */
static bool peer_is_there(const peer_t *peer, mr_diag_t *why) {
  char url[300], text[64];
  snprintf(url, sizeof url, "http://%s/", peer->name);
  *why = (mr_diag_t){0};
  return mr__engine_plain("GET", url, NULL, text, sizeof text, why) >= 0;
}

bool mr__peers_own_answers(const mr__peers_t *p) {
  mr_diag_t why;
  return peer_is_there(&p->peer[p->own], &why);
}

/* All are asked in turn, so that one that keeps each question waiting leaves time for the others.
 */
void mr__peers_wait(mr__peers_t *p, double seconds) {
  int64_t until = mr_now_ns() + (int64_t)(seconds * 1e9);
  enum { PAUSE_NS = 50000000 };
  bool there[MR_PEERS_MAX] = {0};
  mr_diag_t why = {0};
  char reason[700];
  there[p->own] = true;
  for (int left = p->n - 1; left && mr_now_ns() < until;) {
    for (int i = 0; i < p->n && mr_now_ns() < until; i++)
      if (!there[i] && peer_is_there(&p->peer[i], &why)) there[i] = true, left--;
    if (left && !mr_halt_pause(PAUSE_NS)) break;
  }
  for (int i = 0; i < p->n; i++) {
    if (there[i]) continue;
    snprintf(reason, sizeof reason, "peer %s: no answer within %.3g s (setting timeout)",
             p->peer[i].name, seconds);
    mr__peers_failed(p, i, reason);
  }
}

/* ---- answering ---- */

const mr_object_t *mr__peers_find(const mr__peers_t *p, const char *path) {
  served_object_t want;
  if (strlen(path) != MR_PEER_PATH - 1) return NULL;
  memcpy(want.path, path, MR_PEER_PATH);
  const served_object_t *s =
      bsearch(&want, p->served, (size_t)p->n_objects, sizeof *p->served, compare_paths);
  return s ? s->object : NULL;
}

mr_proof_about_t mr__peers_about(const mr__peers_t *p, const char *path, int64_t at, int64_t n) {
  return (mr_proof_about_t){p->token, mr__peers_own(p), path, at, n};
}
