/* Files of a folder on a server.  Listing a bucket gives the state of every file; the files of a
   list are asked for theirs, many at a time.  Both are done once: the index file keeps the answer.
 */
#include "loaders/formats/folder_remote.h"

#include <assert.h>
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
#include "base/xio.h"
#include "loaders/remote/remote_private.h"
#include "loaders/shards/shard_place.h"
#include "pipeline/stage.h"

enum { LIST_BYTES_MAX = 1 << 30, ALIGN = 64, IDENTIFY = 64, QUIET_S = 3, ETAG_MAX = 255 };

typedef struct folder_room {
  uint8_t *data;
  size_t cap;
} folder_room_t;

struct mr_folder_remote {
  mr_folder_remote_conf_t conf;
  mr_folder_list_t *list;
  mr_remote_t *remote;
  char *base, *query;         /* heap: the folder without final slashes and query; "?..." or "" */
  char *shown;                /* heap: list or folder without user, password and query */
  char *name;                 /* heap: under which the index is kept */
  uint64_t digest;            /* of the list; 0 without one */
  const mr_object_t **object; /* [list->n]; NULL: not there */
  mr_spill_t object_memory;
  int64_t bytes;
  folder_room_t of_worker[MR_MAX_READERS]; /* each used by its worker alone */
};

static bool is_bucket_url(const char *url) {
  return mr_remote_is(url) && (url[0] == 's' || url[0] == 'S');
}

/* ---- names ---- */

static mr_err_t name_folder(mr_folder_remote_t *f, mr_diag_t *diag) {
  const char *url = f->conf.folder;
  size_t n = is_bucket_url(url) ? strlen(url) : strcspn(url, "?#"), all = n;
  while (n && url[n - 1] == '/') n--;
  f->base = strndup(url, n);
  f->query = url[all] == '?' ? strndup(url + all, strcspn(url + all, "#")) : strdup("");
  f->shown = mr_remote_shown(f->conf.list ? f->conf.list : f->base);
  return f->base && f->query && f->shown ? MR_OK : mr_no_memory(diag, "the name of a folder");
}

/* The URL of a file; a web server's are encoded here, a bucket's where they are requested. */
static mr_err_t file_url(const mr_folder_remote_t *f, const char *path, char out[MR_PATH_MAX],
                         mr_diag_t *diag) {
  size_t n = (size_t)snprintf(out, MR_PATH_MAX, "%s/", f->base);
  bool fits = n < MR_PATH_MAX, s3 = is_bucket_url(f->base);
  if (fits && s3) fits = (size_t)snprintf(out + n, MR_PATH_MAX - n, "%s", path) < MR_PATH_MAX - n;
  if (fits && !s3)
    fits = mr__remote_encode(out, MR_PATH_MAX, &n, path, true) &&
           (size_t)snprintf(out + n, MR_PATH_MAX - n, "%s", f->query) < MR_PATH_MAX - n;
  return fits ? MR_OK : mr_fail(diag, MR_ERR_DATA, "%s: a path is too long", f->shown);
}

/* Servers that differ, or lists, make another index; users, passwords and signatures do not. */
static mr_err_t name_index(mr_folder_remote_t *f, mr_diag_t *diag) {
  char url[MR_PATH_MAX] = "";
  const char *prefix, *list = f->conf.list ? f->conf.list : "";
  char *shown = mr_remote_shown(f->base), *shown_list = mr_remote_shown(list);
  mr_err_t e = shown && shown_list ? MR_OK : mr_no_memory(diag, "a name");
  if (e >= 0 && is_bucket_url(f->base))
    e = mr__remote_bucket(f->remote, f->base, url, &prefix, diag);
  uint64_t hash = XXH3_64bits_withSeed(url, strlen(url), mr_remote_query(f->conf.folder));
  if (mr_remote_is(list)) hash = XXH3_64bits_withSeed(&hash, sizeof hash, mr_remote_query(list));
  if (e >= 0) hash = XXH3_64bits_withSeed(shown_list, strlen(shown_list), hash);
  if (e >= 0 && asprintf(&f->name, "%s#%016" PRIx64, shown, hash) < 0)
    f->name = NULL, e = mr_no_memory(diag, "a name");
  free(shown), free(shown_list);
  return e;
}

static const char *index_where(const mr_folder_remote_t *f) {
  return mr_shard_where(f->conf.index, true, f->conf.remote->cache);
}

/* ---- the state of a file, behind its path in the list's text ---- */

typedef struct fixed_state {
  int64_t size, mtime_ns;
} fixed_state_t;

static size_t pack_state(const mr_folder_state_t *s, char out[sizeof(fixed_state_t) + ETAG_MAX]) {
  fixed_state_t fixed = {s->size, s->mtime_ns};
  size_t n = strlen(s->etag);
  if (n > ETAG_MAX) n = 0; /* as if there were none */
  memcpy(out, &fixed, sizeof fixed);
  memcpy(out + sizeof fixed, s->etag, n);
  return sizeof fixed + n;
}

static void packed_state(const mr_folder_list_t *l, int64_t i, mr_folder_state_t *out) {
  const char *at = mr_folder_path(l, i);
  fixed_state_t fixed;
  at += strlen(at) + 1;
  memcpy(&fixed, at, sizeof fixed);
  *out = (mr_folder_state_t){fixed.size, fixed.mtime_ns, at + sizeof fixed};
}

static void state_of_object(const void *ctx, int64_t i, mr_folder_state_t *out) {
  const mr_object_t *o = ((const mr_folder_remote_t *)ctx)->object[i];
  *out = o ? (mr_folder_state_t){o->size, o->mtime_ns, o->etag} : (mr_folder_state_t){-1, 0, ""};
}

static mr_err_t open_known(mr_folder_remote_t *f, int64_t i, const mr_folder_state_t *s,
                           mr_diag_t *diag) {
  char url[MR_PATH_MAX];
  if (s->size < 0) return MR_OK;
  MR_TRY(file_url(f, mr_folder_path(f->list, i), url, diag));
  f->bytes = mr_remote_sum(f->bytes, s->size);
  return mr_remote_known(f->remote, url, s->size, s->mtime_ns, s->etag, &f->object[i], diag);
}

static mr_err_t make_objects(mr_folder_remote_t *f, mr_diag_t *diag) {
  size_t bytes = ((size_t)f->list->n + 1) * sizeof *f->object;
  MR_TRY(mr_spill_grow(&f->object_memory, bytes, "a list of files", diag));
  mr_spill_settle(&f->object_memory);
  f->object = f->object_memory.at;
  memset(f->object, 0, bytes);
  return MR_OK;
}

/* ---- a bucket ---- */

static mr_err_t take_key(void *ctx, const char *path, const mr_folder_state_t *s, mr_diag_t *diag) {
  char packed[sizeof(fixed_state_t) + ETAG_MAX];
  const mr_folder_state_t none = {.size = -1, .etag = ""};
  size_t n = pack_state(s ? s : &none, packed);
  bool is_file;
  return mr_folder_keys_add(ctx, path, packed, n, &is_file, diag);
}

static mr_err_t take_listed_key(void *ctx, const mr_listed_t *file, mr_diag_t *diag) {
  mr_folder_state_t s = {file->size, file->mtime_ns, file->etag};
  return take_key(ctx, file->path, &s, diag);
}

/* Classes without a file, which the index keeps too; heap. */
static const char **empty_classes(const mr_folder_list_t *l) {
  const char **name = calloc((size_t)l->n_empty + 1, sizeof *name);
  for (int i = 0; name && i < l->n_empty; i++) name[i] = l->text + l->empty[i];
  return name;
}

static void state_in_list(const void *ctx, int64_t i, mr_folder_state_t *out) {
  packed_state(((const mr_folder_remote_t *)ctx)->list, i, out);
}

static mr_trust_t listing_trust(const mr_folder_remote_t *f) {
  return (mr_trust_t){.group = f->conf.remote->shared};
}

static void keep_listing(const mr_folder_remote_t *f) {
  const char **empty = empty_classes(f->list); /* a list has none */
  mr_folder_facts_t facts = {.list = f->list,
                             .folder = empty,
                             .n_folders = empty ? f->list->n_empty : 0,
                             .state = f->conf.list ? state_of_object : state_in_list,
                             .ctx = f};
  const mr_trust_t trust = listing_trust(f);
  mr_folder_index_write(f->name, index_where(f), f->digest, &trust, &facts);
  free(empty);
}

/* "3 days old", from a listing's age in seconds; a clock that was set back gives 0. */
static const char *age_text(int64_t age_s, char *text, size_t n) {
  static const struct {
    int64_t s;
    const char *name;
  } unit[] = {{86400, "day"}, {3600, "hour"}, {60, "minute"}};
  for (size_t i = 0; i < sizeof unit / sizeof *unit; i++) {
    int64_t k = age_s / unit[i].s;
    if (k < 1) continue;
    snprintf(text, n, "%" PRId64 " %s%s old", k, unit[i].name, k == 1 ? "" : "s");
    return text;
  }
  snprintf(text, n, "less than a minute old");
  return text;
}

static void say_kept(const mr_folder_remote_t *f, int64_t written_s) {
  char when[64] = "", age[64];
  time_t t = (time_t)written_s;
  struct tm tm;
  if (gmtime_r(&t, &tm)) strftime(when, sizeof when, "%Y-%m-%d %H:%M UTC", &tm);
  mr_notice("%s: the listing of %s, %s, is used, %" PRId64
            " files; files added since are not in it (relist=true lists anew)",
            f->shown, when, age_text((int64_t)time(NULL) - written_s, age, sizeof age), f->list->n);
}

static mr_err_t list_bucket(mr_folder_remote_t *f, mr_diag_t *diag) {
  mr_folder_keys_t keys;
  int64_t written_s = 0;
  mr_folder_keys_begin(&keys, f->list, f->shown, f->conf.max_files);
  const mr_trust_t trust = listing_trust(f);
  mr_err_t e = f->conf.relist ? MR_END
                              : mr_folder_index_read(f->name, index_where(f), 0, &trust, take_key,
                                                     &keys, &written_s, diag);
  bool kept = e == MR_OK;
  if (e == MR_END) e = mr_remote_list(f->remote, f->base, take_listed_key, &keys, diag);
  MR_TRY(mr_folder_keys_end(&keys, f->conf.allow_empty, e, diag));
  if (kept)
    say_kept(f, written_s);
  else
    keep_listing(f); /* before there are objects, which need as much memory as that */
  MR_TRY(make_objects(f, diag));
  for (int64_t i = 0; i < f->list->n; i++) {
    mr_folder_state_t s;
    packed_state(f->list, i, &s);
    MR_TRY(open_known(f, i, &s, diag));
  }
  return MR_OK;
}

/* ---- a list ---- */

static mr_err_t read_list(mr_folder_remote_t *f, void **text, size_t *n, mr_diag_t *diag) {
  const mr_object_t *o;
  const char *list = f->conf.list;
  if (!mr_remote_is(list)) return mr_read_file(list, LIST_BYTES_MAX, text, n, diag);
  MR_TRY(mr_remote_object(f->remote, list, &o, diag));
  if (o->size > LIST_BYTES_MAX)
    return mr_fail(diag, MR_ERR_DATA, "%s: %" PRId64 " bytes, want at most %d", o->name, o->size,
                   LIST_BYTES_MAX);
  *n = (size_t)o->size;
  char *to = *text = malloc(*n + 1);
  if (!to) return mr_no_memory(diag, "%s, %zu bytes", o->name, *n);
  to[*n] = 0;
  mr_remote_want_t want = {o, 0, o->size, to};
  mr_err_t e = mr_remote_read(f->remote, &want, 1, diag);
  if (e < 0) free(to);
  return e;
}

typedef struct kept_rows {
  mr_folder_remote_t *f;
  int64_t i;
} kept_rows_t;

static mr_err_t take_kept_row(void *ctx, const char *path, const mr_folder_state_t *s,
                              mr_diag_t *diag) {
  kept_rows_t *k = ctx;
  if (k->i == k->f->list->n || !s || strcmp(path, mr_folder_path(k->f->list, k->i)))
    return mr_fail(diag, MR_ERR_DATA, "%s: its index is of another list", k->f->shown);
  return open_known(k->f, k->i++, s, diag);
}

/* What the threads share that ask for the states of files.  Relaxed: each number is taken once, and
   failed only ends the others soon; results are read after the threads are joined. */
typedef struct asking {
  mr_folder_remote_t *f;
  atomic_llong next;
  atomic_bool failed;
  pthread_mutex_t lock; /* guards the members below */
  mr_err_t e;
  mr_diag_t diag;
  int64_t reported_ns;
  mr_halt_t halt; /* of the thread that asks */
} asking_t;

static mr_err_t ask_state(mr_folder_remote_t *f, int64_t i, mr_diag_t *diag) {
  char url[MR_PATH_MAX];
  MR_TRY(file_url(f, mr_folder_path(f->list, i), url, diag));
  return f->conf.lenient ? mr_remote_find(f->remote, url, &f->object[i], diag)
                         : mr_remote_object(f->remote, url, &f->object[i], diag);
}

static void report_asked(asking_t *a, int64_t i) {
  int64_t now = mr_now_ns();
  pthread_mutex_lock(&a->lock);
  bool due = now - a->reported_ns > (int64_t)QUIET_S * 1000000000;
  if (due) a->reported_ns = now;
  pthread_mutex_unlock(&a->lock);
  if (due)
    mr_notice("%s: asking for %" PRId64 " files: %d %% done", a->f->shown, a->f->list->n,
              (int)(100 * i / a->f->list->n));
}

static void *ask_main(void *arg) {
  asking_t *a = arg;
  mr_halt_set(a->halt);
  while (!atomic_load_explicit(&a->failed, memory_order_relaxed)) {
    int64_t i = atomic_fetch_add_explicit(&a->next, 1, memory_order_relaxed);
    if (i >= a->f->list->n) break;
    mr_diag_t why = {0};
    mr_err_t e = ask_state(a->f, i, &why);
    report_asked(a, i);
    if (e >= 0) continue;
    atomic_store_explicit(&a->failed, true, memory_order_relaxed);
    pthread_mutex_lock(&a->lock);
    if (a->e >= 0) a->e = e, a->diag = why;
    pthread_mutex_unlock(&a->lock);
  }
  return NULL;
}

static mr_err_t folder_ask_all(mr_folder_remote_t *f, mr_diag_t *diag) {
  pthread_t thread[IDENTIFY];
  asking_t a = {.f = f, .halt = mr_halt_get(), .reported_ns = mr_now_ns()};
  int n = 0;
  pthread_mutex_init(&a.lock, NULL);
  for (; n < IDENTIFY && n + 1 < f->list->n; n++)
    if (pthread_create(&thread[n], NULL, ask_main, &a) != 0) break;
  ask_main(&a);
  for (int i = 0; i < n; i++) pthread_join(thread[i], NULL);
  pthread_mutex_destroy(&a.lock);
  return mr_diag_relay(diag, a.e, &a.diag);
}

static mr_err_t folder_take_list(mr_folder_remote_t *f, mr_diag_t *diag) {
  void *text;
  size_t n;
  int64_t written_s = 0;
  MR_TRY(read_list(f, &text, &n, diag));
  mr_err_t e = mr_folder_list_parse(f->list, f->shown, text, n, f->conf.max_files, diag);
  f->digest = XXH3_64bits(text, n) | 1;
  free(text);
  MR_TRY(e);
  MR_TRY(make_objects(f, diag));
  kept_rows_t kept = {f, 0};
  const mr_trust_t trust = listing_trust(f);
  if (!f->conf.relist)
    e = mr_folder_index_read(f->name, index_where(f), f->digest, &trust, take_kept_row, &kept,
                             &written_s, diag);
  if (e == MR_OK && kept.i == f->list->n) return say_kept(f, written_s), MR_OK;
  f->bytes = 0; /* of an index that is of another list */
  if (e >= 0) e = folder_ask_all(f, diag);
  for (int64_t i = 0; i < f->list->n && e >= 0; i++)
    if (f->object[i]) f->bytes = mr_remote_sum(f->bytes, f->object[i]->size);
  if (e >= 0) keep_listing(f);
  return e;
}

/* ---- life ---- */

static mr_err_t folder_open_listed(mr_folder_remote_t *f, mr_diag_t *diag) {
  MR_TRY(name_folder(f, diag));
  MR_TRY(mr_remote_open(&f->remote, f->conf.remote, diag));
  MR_TRY(name_index(f, diag));
  if (f->conf.list) {
    MR_TRY(folder_take_list(f, diag));
  } else if (is_bucket_url(f->base)) {
    MR_TRY(list_bucket(f, diag));
  } else {
    return mr_fail(diag, MR_ERR_CONFIG,
                   "path=%s: a web server does not list its files: want list=URL or list=FILE, CSV "
                   "or JSON lines with file_name and label",
                   f->shown);
  }
  return MR_OK;
}

mr_err_t mr_folder_remote_open(mr_folder_remote_t **out, const mr_folder_remote_conf_t *conf,
                               mr_folder_list_t *list, mr_diag_t *diag) {
  mr_folder_remote_t *f = *out = calloc(1, sizeof *f);
  *list = (mr_folder_list_t){0};
  if (!f) return mr_no_memory(diag, "a folder");
  f->conf = *conf, f->list = list, f->object_memory = MR_SPILL_NONE;
  mr_err_t e = folder_open_listed(f, diag);
  if (e >= 0) return MR_OK;
  mr_folder_list_free(list);
  mr_folder_remote_close(f);
  *out = NULL;
  return e;
}

void mr_folder_remote_close(mr_folder_remote_t *f) {
  if (!f) return;
  mr_remote_close(f->remote);
  for (int w = 0; w < MR_MAX_READERS; w++) free(f->of_worker[w].data);
  mr_spill_free(&f->object_memory);
  free(f->base), free(f->query), free(f->shown), free(f->name);
  free(f);
}

mr_remote_t *mr_folder_remote_of(const mr_folder_remote_t *f) { return f->remote; }
int64_t mr_folder_remote_bytes(const mr_folder_remote_t *f) { return f->bytes; }

/* ---- reading ---- */

static mr_err_t folder_check_file(const mr_folder_remote_t *f, int64_t i, mr_diag_t *diag) {
  const mr_object_t *o = f->object[i];
  if (!o)
    return mr_fail(diag, MR_ERR_DATA, "%s: names %s, which the server does not have", f->shown,
                   mr_folder_path(f->list, i));
  if (o->size <= f->conf.max_bytes) return MR_OK;
  return mr_fail(diag, MR_ERR_DATA, "%s: %" PRId64 " bytes, want at most max-bytes=%" PRId64,
                 o->name, o->size, f->conf.max_bytes);
}

static size_t room_for(int64_t size) { return ((size_t)size + 2 * ALIGN) / ALIGN * ALIGN; }

mr_err_t mr_folder_remote_fetch(mr_folder_remote_t *f, int worker, const int64_t *number, int n,
                                uint8_t **data, size_t *size, mr_diag_t *diag) {
  mr_remote_want_t want[MR_BURST];
  size_t bytes = 0;
  assert(worker >= 0 && worker < MR_MAX_READERS && n <= MR_BURST);
  folder_room_t *room = &f->of_worker[worker];
  for (int i = 0; i < n; i++) {
    MR_TRY(folder_check_file(f, number[i], diag));
    bytes += room_for(f->object[number[i]]->size);
  }
  if (bytes > room->cap) {
    free(room->data);
    room->cap = (bytes + bytes / 2) / ALIGN * ALIGN + ALIGN;
    room->data = aligned_alloc(ALIGN, room->cap);
    if (!room->data) return room->cap = 0, mr_no_memory(diag, "%zu bytes of files", bytes);
  }
  uint8_t *at = room->data;
  for (int i = 0; i < n; i++) {
    const mr_object_t *o = f->object[number[i]];
    want[i] = (mr_remote_want_t){o, 0, o->size, at};
    data[i] = at, size[i] = (size_t)o->size;
    memset(at + o->size, 0, room_for(o->size) - (size_t)o->size);
    at += room_for(o->size);
  }
  return mr_remote_read(f->remote, want, n, diag);
}

int64_t mr_folder_remote_tell(mr_folder_remote_t *f, const int64_t *number, int n) {
  mr_remote_want_t want[MR_BURST];
  int k = 0;
  for (int i = 0; i < n; i++) {
    const mr_object_t *o = f->object[number[i]];
    if (o && o->size <= f->conf.max_bytes) want[k++] = (mr_remote_want_t){o, 0, o->size, NULL};
  }
  return mr_remote_tell(f->remote, want, k);
}
