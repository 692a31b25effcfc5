/* Objects of servers and blocking reads of their ranges, over the engine's requests in flight
   (remote_engine.c).  A long range is read by several requests at once, since one connection rarely
   uses the full bandwidth; every request asks for the version of the object that was opened. */
#include "loaders/remote/remote.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <xxhash.h>

#include "base/clock.h"
#include "base/halt.h"
#include "base/text.h"
#include "loaders/remote/remote_answer.h"
#include "loaders/remote/remote_engine.h"
#include "loaders/remote/remote_measure.h"
#include "loaders/remote/remote_pieces.h"
#include "loaders/remote/remote_private.h"
#include "loaders/remote/remote_sign.h"
#include "loaders/remote/remote_url.h"
#include "loaders/remote/remote_window.h"

enum { PIECE = 8 << 20 /* most bytes of one request */ };

typedef struct object_row {
  mr_object_t object;
  struct object_row *next;
} object_row_t;

struct mr_remote {
  mr_remote_conf_t conf;
  char region[64];
  const char *endpoint; /* NULL: Amazon's */
  mr__engine_t *engine;
  mr__cache_t *cache;              /* NULL: none */
  _Atomic(mr__window_t *) started; /* NULL: not started, and the members around it may change */
  mr__peers_t *peers;              /* NULL: none */
  mr__engine_t *peer_engine;
  mr__serve_t *serve;
  pthread_mutex_t starting; /* held while it is started */
  pthread_mutex_t lock;     /* guards the members below */
  object_row_t *objects;
  bool said_stateless; /* the notice of say_stateless */
  mr__pieces_t memory; /* of objects, which may be millions */
};

static const char *endpoint_of(const mr_remote_conf_t *conf) {
  const char *of_s3 = getenv("AWS_ENDPOINT_URL_S3"), *of_all = getenv("AWS_ENDPOINT_URL");
  if (conf->endpoint) return conf->endpoint;
  return of_s3 && *of_s3 ? of_s3 : of_all && *of_all ? of_all : NULL;
}

/* A cache that holds no block would be one in name only. */
static mr_err_t check_cache(const mr_remote_conf_t *conf, mr_diag_t *diag) {
  size_t limit;
  if (!conf->cache) return MR_OK;
  MR_TRY(mr_bytes_parse("setting cache-size", conf->cache_size, &limit, diag));
  if (limit >= (size_t)conf->cache_block) return MR_OK;
  return mr_fail(diag, MR_ERR_CONFIG,
                 "setting cache-size: %s, want at least a block, cache-block=%" PRId64,
                 conf->cache_size, conf->cache_block);
}

mr_err_t mr_remote_open(mr_remote_t **out, const mr_remote_conf_t *conf, mr_diag_t *diag) {
  *out = NULL;
  MR_TRY(check_cache(conf, diag));
  mr_remote_t *r = *out = calloc(1, sizeof *r);
  if (!r) return mr_no_memory(diag, "remote objects");
  r->conf = *conf, r->endpoint = endpoint_of(conf);
  if (conf->region)
    snprintf(r->region, sizeof r->region, "%s", conf->region);
  else
    mr__remote_region(r->region, sizeof r->region);
  pthread_mutex_init(&r->lock, NULL);
  pthread_mutex_init(&r->starting, NULL);
  mr_err_t e = mr__engine_open(&r->engine, conf, r->region, diag);
  if (e < 0) mr_remote_close(r), *out = NULL;
  return e;
}

/* NULL: it is not started. */
static mr__window_t *remote_window(mr_remote_t *r) {
  return atomic_load_explicit(&r->started, memory_order_acquire);
}

void mr_remote_rest(mr_remote_t *r) {
  if (!r) return;
  mr__window_t *window = remote_window(r);
  if (window) mr__window_end_serving(window);
  mr__engine_close(r->peer_engine);
  mr__engine_close(r->engine); /* what answers to peers wait for is over now */
  mr__serve_close(r->serve);
  mr__window_destroy(window);
  mr__peers_close(r->peers);
  mr__cache_close(r->cache);
  atomic_store_explicit(&r->started, NULL, memory_order_relaxed); /* nothing reads any more */
  r->peer_engine = r->engine = NULL, r->serve = NULL, r->peers = NULL, r->cache = NULL;
}

void mr_remote_close(mr_remote_t *r) {
  if (!r) return;
  mr_remote_rest(r);
  mr__pieces_free(&r->memory);
  pthread_mutex_destroy(&r->lock);
  pthread_mutex_destroy(&r->starting);
  free(r);
}

void mr_remote_count(mr_remote_t *r, mr_remote_counts_t *out) {
  mr__window_counts_t counts;
  mr__window_t *window = remote_window(r);
  mr__engine_count(r->engine, out);
  if (!window || !r->cache) return;
  if (r->peer_engine) {
    mr_remote_counts_t of_peers;
    mr__engine_count(r->peer_engine, &of_peers);
    out->peer_bytes = of_peers.bytes;
  }
  mr__window_count(window, &counts);
  out->uses = counts.uses, out->hits = counts.hits, out->lost = counts.lost;
  out->unkept = counts.unkept;
}

bool mr_remote_asked(mr_remote_t *r, mr_asked_t *out) {
  mr_remote_counts_t c;
  if (!r) return false;
  mr_remote_count(r, &c);
  out->requests += c.requests, out->again += c.retries + c.hedges, out->bytes += c.bytes;
  out->uses += c.uses, out->hits += c.hits;
  return true;
}

void mr_remote_report(const mr_remote_counts_t *c, char *text, size_t n) {
  char bytes[24];
  *text = 0;
  if (!c->requests && !c->uses) return; /* all may have come from the cache */
  int len =
      snprintf(text, n, "%s in %" PRId64 " requests, %" PRId64 " retries, %" PRId64 " sent twice",
               mr_bytes_text((size_t)c->bytes, bytes), c->requests, c->retries, c->hedges);
  if (c->peer_bytes && len > 0 && len < (int)n)
    len += snprintf(text + len, n - (size_t)len, "; %s from peers",
                    mr_bytes_text((size_t)c->peer_bytes, bytes));
  if (c->uses && len > 0 && len < (int)n)
    mr_snprintf(text + len, n - (size_t)len,
                "; the cache had %" PRId64 " of %" PRId64 " blocks that were used, %.1f %%",
                c->hits, c->uses, 100.0 * (double)c->hits / (double)c->uses);
}

/* ---- what comes next ---- */

/* Peers may keep their blocks in one folder: takes those that belong to other peers of this folder
   out of own[0,*n), and returns their bytes. */
static int64_t leave_to_peers(const mr_remote_t *r, mr__cached_t *own, size_t *n) {
  bool here[MR_PEERS_MAX];
  int64_t block = r->conf.cache_block, left = 0;
  size_t k = 0;
  for (int i = 0; i < mr__peers_count(r->peers); i++)
    here[i] = mr__cache_knows_peer(r->cache, mr__peers_name(r->peers, i));
  mr__cache_note_peer(r->cache, mr__peers_own(r->peers));
  for (size_t i = 0; i < *n; i++) {
    const mr_object_t *o = own[i].object;
    int owner = mr__peers_owner(r->peers, o, own[i].at / block / MR_PEER_GROUP);
    if (owner < 0 || !here[owner])
      own[k++] = own[i];
    else
      left += o->size - own[i].at < block ? o->size - own[i].at : block;
  }
  return *n = k, left;
}

/* Opens the cache; *blocks is how many this run may keep, own[0,*n_own) what is there already.  A
   disk that is full costs the cache and not the run, as one that fills during it. */
static mr_err_t open_cache(mr_remote_t *r, const mr_object_t *const *object, int n,
                           uint32_t *blocks, mr__cached_t **own, size_t *n_own, mr_diag_t *diag) {
  size_t limit;
  mr_diag_t full = {0};
  MR_TRY(mr_bytes_parse("setting cache-size", r->conf.cache_size, &limit, diag));
  mr_err_t e = mr__cache_open(&r->cache, r->conf.cache, (int64_t)limit, r->conf.ahead,
                              r->conf.cache_block, r->conf.shared, &full);
  if (e == MR_END && r->peers) e = MR_ERR_IO; /* the others count on the blocks that it keeps */
  if (e < 0) return mr_diag_relay(diag, e, &full);
  if (e == MR_END) return mr_notice("%s; this run keeps nothing in it", full.text), MR_OK;
  int64_t most = mr__cache_share(r->cache, object, n, own, n_own);
  if (r->peers) most -= leave_to_peers(r, *own, n_own);
  most = most > 0 ? most / r->conf.cache_block : 0;
  *blocks = most > INT32_MAX ? INT32_MAX : (uint32_t)most;
  return MR_OK;
}

/* A request to a peer is sent once: what fails is fetched from the server. */
static mr_err_t open_peers(mr_remote_t *r, const mr_object_t *const *object, int n,
                           mr_diag_t *diag) {
  mr_remote_conf_t once = r->conf;
  once.retries = 0, once.hedge = 0;
  MR_TRY(mr__peers_open(&r->peers, &r->conf, object, n, diag));
  return mr__engine_open(&r->peer_engine, &once, r->region, diag);
}

/* A command that only plans a graph may answer at the address of a run, for a moment.  Without
   `must` the one that comes later then only asks. */
static mr_err_t start_serving(mr_remote_t *r, mr__window_t *window, bool must, mr_diag_t *diag) {
  mr_diag_t why = {0};
  if (!r->peers) return MR_OK;
  mr_err_t e = r->conf.elsewhere
                   ? MR_OK
                   : mr__serve_open(&r->serve, r->peers, mr__window_serve, window, &why);
  if (e < 0 && (must || e != MR_ERR_IO || !mr__peers_own_answers(r->peers)))
    return mr_diag_relay(diag, e, &why);
  mr__peers_wait(r->peers, r->conf.timeout);
  return MR_OK;
}

/* Begins to answer as soon as the process that did so during the plan has ended that. */
static mr_err_t serve_later(mr_remote_t *r, mr__window_t *window, mr_diag_t *diag) {
  int64_t until = mr_now_ns() + (int64_t)(r->conf.timeout * 1e9);
  enum { PAUSE_NS = 20000000 };
  mr_diag_t why = {0};
  mr_err_t e;
  while ((e = mr__serve_open(&r->serve, r->peers, mr__window_serve, window, &why)) == MR_ERR_IO &&
         mr_now_ns() < until && mr_halt_pause(PAUSE_NS))
    continue;
  return mr_diag_relay(diag, e, &why);
}

/* Peers and cache, if there are any, and the window, which takes over what the cache holds. */
static mr_err_t open_window(mr_remote_t *r, const mr_object_t *const *object, int n,
                            mr__window_t **out, mr_diag_t *diag) {
  uint32_t blocks = 0;
  int64_t whole = 0;
  mr__cached_t *own = NULL;
  size_t n_own = 0;
  *out = NULL;
  if (r->conf.peers) MR_TRY(open_peers(r, object, n, diag));
  if (r->conf.cache) MR_TRY(open_cache(r, object, n, &blocks, &own, &n_own, diag));
  for (int i = 0; i < n; i++)
    whole = mr_remote_sum(whole, object[i]->size / r->conf.cache_block + 1);
  mr__window_conf_t conf = {.engine = r->engine,
                            .ahead = r->conf.ahead,
                            .connections = r->conf.connections,
                            .cache = r->cache,
                            .block = r->conf.cache_block,
                            .patience = r->conf.timeout,
                            .peers = r->peers,
                            .peer_engine = r->peer_engine,
                            .capacity = blocks < whole ? blocks : (uint32_t)whole};
  *out = mr__window_create(&conf);
  if (*out) mr__window_take_cached(*out, own, n_own);
  free(own);
  return *out ? MR_OK : mr_no_memory(diag, "remote objects");
}

/* Others use the window once peers have been waited for: a peer that is asked before it is there
   counts as one that has failed. */
static mr_err_t start_window(mr_remote_t *r, const mr_object_t *const *object, int n, bool must,
                             mr_diag_t *diag) {
  mr__window_t *window;
  mr_err_t e = open_window(r, object, n, &window, diag);
  if (e >= 0) e = start_serving(r, window, must, diag);
  if (e >= 0) return atomic_store_explicit(&r->started, window, memory_order_release), MR_OK;
  mr__window_destroy(window);
  mr__engine_close(r->peer_engine);
  mr__peers_close(r->peers);
  mr__cache_close(r->cache);
  r->peer_engine = NULL, r->peers = NULL, r->cache = NULL;
  return e;
}

/* All objects; heap, NULL without memory. */
static const mr_object_t **list_objects(mr_remote_t *r, int *n) {
  *n = 0;
  pthread_mutex_lock(&r->lock);
  for (object_row_t *o = r->objects; o; o = o->next) ++*n;
  const mr_object_t **object = malloc(((size_t)*n + 1) * sizeof *object);
  *n = 0;
  for (object_row_t *o = r->objects; o && object; o = o->next) object[(*n)++] = &o->object;
  pthread_mutex_unlock(&r->lock);
  return object;
}

static mr_err_t start_objects(mr_remote_t *r, bool must, mr_diag_t *diag) {
  int n;
  if (!r->conf.cache && !r->conf.peers) return start_window(r, NULL, 0, must, diag);
  const mr_object_t **object = list_objects(r, &n);
  if (!object) return mr_no_memory(diag, "objects");
  mr_err_t e = start_window(r, object, n, must, diag);
  free(object);
  return e;
}

static mr_err_t start_planning(mr_remote_t *r, mr_diag_t *diag) {
  pthread_mutex_lock(&r->starting);
  mr_err_t e = remote_window(r) ? MR_OK : start_objects(r, false, diag);
  pthread_mutex_unlock(&r->starting);
  return e;
}

mr_err_t mr_remote_start(mr_remote_t *r, mr_diag_t *diag) {
  pthread_mutex_lock(&r->starting);
  mr__window_t *window = remote_window(r);
  mr_err_t e = !window                 ? start_objects(r, true, diag)
               : r->peers && !r->serve ? serve_later(r, window, diag)
                                       : MR_OK;
  pthread_mutex_unlock(&r->starting);
  return e;
}

mr_err_t mr_remote_answer(mr_remote_t *r, mr_diag_t *diag) {
  return r && r->conf.peers ? start_planning(r, diag) : MR_OK;
}

mr_err_t mr_remote_measure(mr_remote_t *r, int64_t record_bytes, double seconds, mr_served_t *out,
                           mr_diag_t *diag) {
  int n, full = 0;
  if (!r) return MR_END;
  const mr_object_t **object = list_objects(r, &n);
  if (!object) return mr_no_memory(diag, "objects");
  for (int i = 0; i < n; i++)
    if (object[i]->size) object[full++] = object[i];
  out->record_bytes = record_bytes, out->connections = r->conf.connections;
  out->cached = r->conf.cache != NULL;
  mr_err_t e =
      full ? mr__remote_measure(&r->conf, r->region, object, full, record_bytes, seconds, out, diag)
           : MR_END;
  free(object);
  return e;
}

uint64_t mr_remote_states(mr_remote_t *r) {
  uint64_t sum = 0;
  if (!r) return 0;
  pthread_mutex_lock(&r->lock);
  for (object_row_t *o = r->objects; o; o = o->next)
    sum += XXH3_64bits(o->object.state, sizeof o->object.state);
  bool any = r->objects;
  pthread_mutex_unlock(&r->lock);
  return any && !sum ? 1 : sum;
}

int64_t mr_remote_tell(mr_remote_t *r, const mr_remote_want_t *want, int n) {
  mr__window_t *window = remote_window(r);
  return window ? mr__window_tell(window, want, n) : 0;
}

/* ---- waiting for requests ---- */

typedef struct wait {
  pthread_mutex_t lock;
  pthread_cond_t over;
  int left;
} wait_t;

static void note_done(mr__request_t *q, void *arg) {
  wait_t *w = arg;
  pthread_mutex_lock(&w->lock);
  if (!--w->left) pthread_cond_signal(&w->over);
  pthread_mutex_unlock(&w->lock);
}

/* Sends q[0,n) and waits for all; the first failure in their order.  Those that are under way when
   the run is to end are given up: no server can hold it. */
static mr_err_t send_all(mr_remote_t *r, mr__request_t *q, int n, mr_diag_t *diag) {
  wait_t w = {.left = n};
  pthread_mutex_init(&w.lock, NULL);
  pthread_cond_init(&w.over, NULL);
  for (int i = 0; i < n; i++) {
    q[i].done = note_done, q[i].arg = &w;
    mr__engine_submit(r->engine, &q[i]);
  }
  pthread_mutex_lock(&w.lock);
  while (w.left && mr_halt_wait(&w.over, &w.lock)) continue;
  if (w.left) mr__engine_drop(r->engine, q, n);
  while (w.left) pthread_cond_wait(&w.over, &w.lock); /* the engine waits for nothing */
  pthread_mutex_unlock(&w.lock);
  pthread_cond_destroy(&w.over), pthread_mutex_destroy(&w.lock);
  for (int i = 0; i < n; i++)
    if (q[i].code < 0) return mr_diag_relay(diag, q[i].code, &q[i].diag);
  return MR_OK;
}

/* ---- objects ---- */

/* What a name says of an object, until its row is made. */
typedef struct naming {
  char *name; /* heap */
  char url[MR_PATH_MAX];
  bool s3;
} naming_t;

static bool is_s3(const char *url) { return (url[0] == 's' || url[0] == 'S') && url[1] == '3'; }

static mr_err_t name_object(const mr_remote_t *r, const char *url, naming_t *o, mr_diag_t *diag) {
  mr_diag_t why = {0};
  o->s3 = is_s3(url), o->name = NULL;
  if (o->s3) {
    mr_err_t e = mr__remote_s3_url(url, r->endpoint, r->region, o->url, &why);
    if (e < 0) return mr_diag_relay(diag, e, &why);
  } else if (snprintf(o->url, sizeof o->url, "%s", url) >= (int)sizeof o->url) {
    return mr_fail(diag, MR_ERR_CONFIG, "a URL of %zu bytes: want at most %zu", strlen(url),
                   sizeof o->url - 1);
  }
  o->name = mr_remote_shown(url);
  return o->name ? MR_OK : mr_no_memory(diag, "the name of an object");
}

static mr_err_t keep_object(mr_remote_t *r, const naming_t *n, const mr_object_t *state,
                            const mr_object_t **out, mr_diag_t *diag) {
  size_t name = strlen(n->name) + 1, etag = strlen(state->etag) + 1;
  size_t url =
      strcmp(n->name, n->url) ? strlen(n->url) + 1 : 0; /* 0: the name, which is the same */
  pthread_mutex_lock(&r->lock);
  object_row_t *row = mr__pieces_take(&r->memory, sizeof *row + name + url + etag, diag);
  pthread_mutex_unlock(&r->lock);
  if (!row) return MR_ERR_NOMEM;
  char *text = (char *)(row + 1);
  mr_object_t *o = &row->object;
  *o = *state;
  o->s3 = n->s3, o->name = memcpy(text, n->name, name);
  o->url = url ? memcpy(text + name, n->url, url) : o->name;
  o->etag = memcpy(text + name + url, state->etag, etag);
  mr__cache_state_hash(o, o->state);
  pthread_mutex_lock(&r->lock);
  row->next = r->objects, r->objects = row;
  pthread_mutex_unlock(&r->lock);
  *out = o;
  return MR_OK;
}

/* Says once of an object that nothing but its size tells one state from another. */
static void say_stateless(mr_remote_t *r, const mr_object_t *o) {
  pthread_mutex_lock(&r->lock);
  bool said = r->said_stateless;
  r->said_stateless = true;
  pthread_mutex_unlock(&r->lock);
  if (!said)
    mr_notice(
        "%s: the server sends neither ETag nor Last-Modified, so that a new object of the same "
        "size "
        "is taken for the one before; nothing of it is kept in cache=, but indexes of it are: give "
        "changed data a new name",
        o->name);
}

static mr_err_t open_object(mr_remote_t *r, const char *url, const mr_object_t **out, long *status,
                            mr_diag_t *diag) {
  naming_t n;
  *out = NULL;
  MR_TRY(name_object(r, url, &n, diag));
  mr_object_t o = {.name = n.name, .url = n.url, .s3 = n.s3, .size = -1, .etag = ""};
  mr__request_t q = {.object = &o, .at = 0, .size = 1};
  mr_err_t e = send_all(r, &q, 1, diag);
  *status = q.status;
  mr_object_t state = {.size = q.total, .mtime_ns = q.mtime_ns, .etag = q.etag};
  if (e >= 0) e = keep_object(r, &n, &state, out, diag);
  if (e >= 0 && !*state.etag && !state.mtime_ns) say_stateless(r, *out);
  free(n.name);
  return e;
}

mr_err_t mr_remote_known(mr_remote_t *r, const char *url, int64_t size, int64_t mtime_ns,
                         const char *etag, const mr_object_t **out, mr_diag_t *diag) {
  naming_t n;
  mr_object_t state = {.size = size, .mtime_ns = mtime_ns, .etag = etag, .listed = true};
  *out = NULL;
  MR_TRY(name_object(r, url, &n, diag));
  mr_err_t e = mr__remote_is_etag(etag, strlen(etag))
                   ? keep_object(r, &n, &state, out, diag)
                   : mr_fail(diag, MR_ERR_DATA,
                             "%s: is listed with an ETag with a control character", n.name);
  free(n.name);
  return e;
}

mr_err_t mr__remote_page(mr_remote_t *r, const char *url, const char *name, bool s3,
                         mr__page_t *page, mr_diag_t *diag) {
  mr_object_t o = {.name = (char *)name, .url = (char *)url, .s3 = s3, .size = -1, .etag = ""};
  mr__request_t q = {.object = &o, .page = page};
  return send_all(r, &q, 1, diag);
}

mr_err_t mr__remote_bucket(const mr_remote_t *r, const char *name, char out[MR_PATH_MAX],
                           const char **prefix, mr_diag_t *diag) {
  return mr__remote_s3_bucket(name, r->endpoint, r->region, out, prefix, diag);
}

mr_err_t mr_remote_object(mr_remote_t *r, const char *url, const mr_object_t **out,
                          mr_diag_t *diag) {
  long status = 0;
  return open_object(r, url, out, &status, diag);
}

mr_err_t mr_remote_find(mr_remote_t *r, const char *url, const mr_object_t **out, mr_diag_t *diag) {
  long status = 0;
  mr_diag_t why = {0};
  bool s3 = is_s3(url);
  mr_err_t e = open_object(r, url, out, &status, &why);
  if (e == MR_ERR_IO && (status == 404 || (s3 && status == 403))) return MR_OK;
  return mr_diag_relay(diag, e, &why);
}

/* ---- reading ---- */

static int pieces_of(const mr_remote_want_t *w) {
  return w->to ? (int)((w->size + PIECE - 1) / PIECE) : 0;
}

static mr_err_t read_now(mr_remote_t *r, const mr_remote_want_t *want, int n, mr_diag_t *diag) {
  int all = 0, k = 0;
  for (int i = 0; i < n; i++) all += pieces_of(&want[i]);
  if (!all) return MR_OK;
  mr__request_t *q = calloc((size_t)all, sizeof *q);
  if (!q) return mr_no_memory(diag, "%d requests", all);
  for (int i = 0; i < n; i++)
    for (int64_t at = 0; want[i].to && at < want[i].size; at += PIECE, k++) {
      int64_t left = want[i].size - at;
      q[k].object = want[i].object, q[k].at = want[i].at + at;
      q[k].size = left < PIECE ? left : PIECE, q[k].to = (uint8_t *)want[i].to + at;
    }
  mr_err_t e = send_all(r, q, all, diag);
  free(q);
  return e;
}

/* Takes what was fetched ahead, and asks the server for the rest. */
mr_err_t mr_remote_read(mr_remote_t *r, const mr_remote_want_t *want, int n, mr_diag_t *diag) {
  mr__window_t *window = remote_window(r);
  if (!window || !n) return read_now(r, want, n, diag);
  mr_remote_want_t *rest = malloc((size_t)n * sizeof *rest);
  if (!rest) return mr_no_memory(diag, "%d parts", n);
  mr_err_t e = MR_OK;
  int n_rest = 0;
  mr__window_begin(window);
  for (int i = 0; i < n && e >= 0; i++) {
    e = mr__window_take(window, &want[i], diag);
    if (e == MR_END) rest[n_rest++] = want[i];
  }
  if (e >= 0) e = read_now(r, rest, n_rest, diag);
  free(rest);
  return e;
}

mr_err_t mr_remote_load(mr_remote_t *r, const mr_remote_want_t *want, bool again, mr_diag_t *diag) {
  bool cached = r->conf.cache && mr__cache_takes(want->object) && (again || r->conf.peers);
  mr_err_t e = cached ? start_planning(r, diag) : MR_END;
  if (e < 0) return e;
  if (!cached || !r->cache) return read_now(r, want, 1, diag); /* none: its disk is full */
  e = mr__window_load(remote_window(r), want, diag);
  return e == MR_END ? read_now(r, want, 1, diag) : e;
}
