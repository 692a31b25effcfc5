/* Objects of servers and blocking reads of their ranges, over the engine's requests in flight
   (remote_engine.c).  A long range is read by several requests at once, since one connection rarely
   uses the full bandwidth; every request asks for the version of the object that was opened. */
#include "loaders/remote.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "loaders/remote_private.h"
#include "loaders/remote_window.h"

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
  mr__cache_t *cache;   /* NULL: none */
  mr__window_t *window; /* NULL: not started */
  pthread_mutex_t lock; /* guards objects */
  object_row_t *objects;
};

static const char *endpoint_of(const mr_remote_conf_t *conf) {
  const char *of_s3 = getenv("AWS_ENDPOINT_URL_S3"), *of_all = getenv("AWS_ENDPOINT_URL");
  if (conf->endpoint) return conf->endpoint;
  return of_s3 && *of_s3 ? of_s3 : of_all && *of_all ? of_all : NULL;
}

mr_err_t mr_remote_open(mr_remote_t **out, const mr_remote_conf_t *conf, mr_diag_t *diag) {
  mr_remote_t *r = *out = calloc(1, sizeof *r);
  if (!r) return mr_no_memory(diag, "remote objects");
  r->conf = *conf, r->endpoint = endpoint_of(conf);
  if (conf->region)
    snprintf(r->region, sizeof r->region, "%s", conf->region);
  else
    mr__remote_region(r->region, sizeof r->region);
  pthread_mutex_init(&r->lock, NULL);
  mr_err_t e = mr__engine_open(&r->engine, conf, r->region, diag);
  if (e < 0) mr_remote_close(r), *out = NULL;
  return e;
}

void mr_remote_close(mr_remote_t *r) {
  if (!r) return;
  mr__engine_close(r->engine);
  mr__window_destroy(r->window);
  mr__cache_close(r->cache);
  for (object_row_t *o = r->objects, *next; o; o = next) {
    next = o->next;
    free(o->object.name), free(o->object.url), free(o);
  }
  pthread_mutex_destroy(&r->lock);
  free(r);
}

void mr_remote_count(mr_remote_t *r, mr_remote_counts_t *out) {
  mr__window_counts_t window;
  mr__engine_count(r->engine, out);
  if (!r->cache || !r->window) return;
  mr__window_count(r->window, &window);
  out->uses = window.uses, out->hits = window.hits, out->lost = window.lost;
}

/* ---- what comes next ---- */

/* Opens the cache; *blocks is how many this run may keep. */
static mr_err_t open_cache(mr_remote_t *r, const mr_object_t *const *object, int n,
                           uint32_t *blocks, mr_diag_t *diag) {
  size_t limit;
  MR_TRY(mr_bytes_parse("setting cache-size", r->conf.cache_size, &limit, diag));
  MR_TRY(mr__cache_open(&r->cache, r->conf.cache, (int64_t)limit, r->conf.ahead,
                        r->conf.cache_block, diag));
  int64_t most = mr__cache_share(r->cache, object, n) / r->conf.cache_block;
  *blocks = most > INT32_MAX ? INT32_MAX : (uint32_t)most;
  return MR_OK;
}

static mr_err_t start_window(mr_remote_t *r, const mr_object_t *const *object, int n,
                             mr_diag_t *diag) {
  uint32_t blocks = 0;
  int64_t whole = 0;
  if (r->conf.cache) MR_TRY(open_cache(r, object, n, &blocks, diag));
  for (int i = 0; i < n; i++) whole += object[i]->size / r->conf.cache_block + 1;
  mr__window_conf_t conf = {.engine = r->engine,
                            .ahead = r->conf.ahead,
                            .cache = r->cache,
                            .block = r->conf.cache_block,
                            .capacity = blocks < whole ? blocks : (uint32_t)whole};
  r->window = mr__window_create(&conf);
  if (!r->window) return mr_no_memory(diag, "remote objects");
  for (int i = 0; i < n; i++) mr__window_find_cached(r->window, object[i]);
  return MR_OK;
}

mr_err_t mr_remote_start(mr_remote_t *r, mr_diag_t *diag) {
  int n = 0;
  if (r->window) return MR_OK;
  for (object_row_t *o = r->objects; o; o = o->next) n++;
  const mr_object_t **object = malloc(((size_t)n + 1) * sizeof *object);
  if (!object) return mr_no_memory(diag, "%d objects", n);
  n = 0;
  for (object_row_t *o = r->objects; o; o = o->next) object[n++] = &o->object;
  mr_err_t e = start_window(r, object, n, diag);
  free(object);
  return e;
}

int64_t mr_remote_tell(mr_remote_t *r, const mr_remote_want_t *want, int n) {
  return r->window ? mr__window_tell(r->window, want, n) : 0;
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

/* Sends q[0,n) and waits for all; the first failure in their order. */
static mr_err_t send_all(mr_remote_t *r, mr__request_t *q, int n, mr_diag_t *diag) {
  wait_t w = {.left = n};
  pthread_mutex_init(&w.lock, NULL);
  pthread_cond_init(&w.over, NULL);
  for (int i = 0; i < n; i++) {
    q[i].done = note_done, q[i].arg = &w;
    mr__engine_submit(r->engine, &q[i]);
  }
  pthread_mutex_lock(&w.lock);
  while (w.left) pthread_cond_wait(&w.over, &w.lock);
  pthread_mutex_unlock(&w.lock);
  pthread_cond_destroy(&w.over), pthread_mutex_destroy(&w.lock);
  for (int i = 0; i < n; i++)
    if (q[i].code < 0) return mr_diag_relay(diag, q[i].code, &q[i].diag);
  return MR_OK;
}

/* ---- objects ---- */

static mr_err_t name_object(const mr_remote_t *r, const char *url, mr_object_t *o,
                            mr_diag_t *diag) {
  char at[MR_PATH_MAX];
  o->s3 = (url[0] == 's' || url[0] == 'S') && url[1] == '3';
  if (o->s3) {
    mr_diag_t why = {0};
    mr_err_t e = mr__remote_s3_url(url, r->endpoint, r->region, at, &why);
    if (e < 0) return mr_diag_relay(diag, e, &why);
  }
  o->name = mr_remote_shown(url);
  o->url = strdup(o->s3 ? at : url);
  return o->name && o->url ? MR_OK : mr_no_memory(diag, "the name of an object");
}

static mr_err_t identify(mr_remote_t *r, mr_object_t *o, long *status, mr_diag_t *diag) {
  mr__request_t q = {.object = o, .at = 0, .size = 1};
  o->size = -1;
  mr_err_t e = send_all(r, &q, 1, diag);
  *status = q.status;
  if (e < 0) return e;
  o->size = q.total, o->mtime_ns = q.mtime_ns;
  memcpy(o->etag, q.etag, sizeof o->etag);
  return MR_OK;
}

static mr_err_t open_object(mr_remote_t *r, const char *url, const mr_object_t **out, long *status,
                            mr_diag_t *diag) {
  object_row_t *row = calloc(1, sizeof *row);
  *out = NULL;
  if (!row) return mr_no_memory(diag, "an object");
  mr_err_t e = name_object(r, url, &row->object, diag);
  if (e >= 0) e = identify(r, &row->object, status, diag);
  if (e < 0) {
    free(row->object.name), free(row->object.url), free(row);
    return e;
  }
  pthread_mutex_lock(&r->lock);
  row->next = r->objects, r->objects = row;
  pthread_mutex_unlock(&r->lock);
  *out = &row->object;
  return MR_OK;
}

mr_err_t mr_remote_object(mr_remote_t *r, const char *url, const mr_object_t **out,
                          mr_diag_t *diag) {
  long status = 0;
  return open_object(r, url, out, &status, diag);
}

mr_err_t mr_remote_find(mr_remote_t *r, const char *url, const mr_object_t **out, mr_diag_t *diag) {
  long status = 0;
  mr_diag_t why = {0};
  bool s3 = url[0] == 's' || url[0] == 'S';
  mr_err_t e = open_object(r, url, out, &status, &why);
  if (e == MR_ERR_IO && (status == 404 || (s3 && status == 403))) return MR_OK;
  return mr_diag_relay(diag, e, &why);
}

/* ---- reading ---- */

static int pieces_of(const mr_remote_want_t *w) { return (int)((w->size + PIECE - 1) / PIECE); }

static mr_err_t read_now(mr_remote_t *r, const mr_remote_want_t *want, int n, mr_diag_t *diag) {
  int all = 0, k = 0;
  for (int i = 0; i < n; i++) all += pieces_of(&want[i]);
  if (!all) return MR_OK;
  mr__request_t *q = calloc((size_t)all, sizeof *q);
  if (!q) return mr_no_memory(diag, "%d requests", all);
  for (int i = 0; i < n; i++)
    for (int64_t at = 0; at < want[i].size; at += PIECE, k++) {
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
  if (!r->window || !n) return read_now(r, want, n, diag);
  mr_remote_want_t *rest = malloc((size_t)n * sizeof *rest);
  if (!rest) return mr_no_memory(diag, "%d parts", n);
  mr_err_t e = MR_OK;
  int n_rest = 0;
  mr__window_begin(r->window);
  for (int i = 0; i < n && e >= 0; i++) {
    e = mr__window_take(r->window, &want[i], diag);
    if (e == MR_END) rest[n_rest++] = want[i];
  }
  if (e >= 0) e = read_now(r, rest, n_rest, diag);
  free(rest);
  return e;
}
