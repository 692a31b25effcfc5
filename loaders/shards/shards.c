/* Opens a sharded data set: finds or makes its indexes on several threads, then joins their
   columns. */
#include "loaders/shards/shards.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/file_kind.h"
#include "base/halt.h"
#include "base/suggest.h"
#include "base/xio.h"
#include "loaders/shards/shard_names.h"
#include "loaders/shards/shard_place.h"
#include "pipeline/care.h"

enum { THREADS = 8, QUIET_S = 3 /* between notices of progress */ };
enum { IDENTIFY = 64 /* threads that wait for the sizes of objects; they need little memory */ };

/* What the threads share; the lock guards the members below it. */
typedef struct work {
  const mr_shards_conf_t *conf;
  mr_shards_t *s;
  pthread_mutex_t lock;
  int next, made; /* the first file not taken yet; files whose index is done */
  int *late;      /* [s->n] files whose index another process is making: they come last */
  int n_late, next_late;
  int64_t reported_ns;
  bool reported, unkept, distrusted; /* a notice of progress, of an index that is not kept, or of
                                       one that is not believed has been sent */
  mr_err_t e;
  mr_diag_t diag;
  mr_halt_t halt; /* of the thread that opens them */
} work_t;

/* ---- one file ---- */

static mr_shard_file_t scanned_file(const work_t *w, const mr_shard_t *shard, int fd) {
  return (mr_shard_file_t){.path = shard->path,
                           .size = shard->id.size,
                           .fd = fd,
                           .remote = w->s->remote,
                           .object = shard->object,
                           .trust = {.group = shard->trust.group},
                           .ctx = w->conf->ctx};
}

/* Ends the sentence about a faulty file by what it is, unless that has been said or files of this
   source are so. */
static void say_kind(mr_shard_file_t *file, const char *own, mr_diag_t *fault) {
  char bytes[MR_FILE_LOOK], hint[MR_FILE_HINT];
  size_t n = file->size < MR_FILE_LOOK ? (size_t)file->size : MR_FILE_LOOK,
         at = strlen(fault->text);
  mr_diag_t unsaid = {0};
  if (!n || mr_shard_file_read(file, 0, bytes, n, &unsaid) != MR_OK) return;
  const char *what = mr_file_described(bytes, n);
  const mr_file_kind_t *kind = mr_file_kind(bytes, n);
  if (!what || (own && !strncmp(what, own, strlen(own))) || strstr(fault->text, what)) return;
  if (kind && kind->packer && strstr(fault->text, "compressed by ")) return;
  snprintf(fault->text + at, sizeof fault->text - at, "%s",
           mr_file_kind_hint(bytes, n, hint, sizeof hint));
}

static mr_err_t make_index(const work_t *w, mr_shard_t *shard, int fd, mr_diag_t *diag) {
  const mr_shards_conf_t *c = w->conf;
  mr_diag_t fault = {0};
  mr_shard_file_t file = scanned_file(w, shard, fd);
  mr_shard_draft_t *d = mr_shard_draft_new();
  if (!d) return mr_no_memory(diag, "an index of %s", shard->path);
  mr_err_t e = c->verify && fd >= 0
                   ? c->verify(c->ctx, (int)(shard - w->s->shard), fd, shard->path, &fault)
                   : MR_OK;
  if (e >= 0)
    e = c->scan(&file, d, &fault, diag);
  else
    e = e == MR_ERR_DATA ? MR_OK : mr_diag_relay(diag, e, &fault);
  if (e >= 0 && fault.code < 0) say_kind(&file, c->own, &fault);
  if (e >= 0)
    e = mr_shard_index_make(d, c->kind ? c->kind : "", &shard->kept,
                            fault.code < 0 ? fault.text : NULL, &shard->index, diag);
  mr_shard_file_fini(&file);
  mr_shard_draft_free(d);
  return e;
}

static const char *index_place(const mr_shards_conf_t *c, const mr_shard_t *shard) {
  return mr_shard_where(c->index, shard->remote, shard->remote ? c->remote->cache : NULL);
}

/* The name under which a shard's index is kept: objects that only their queries tell apart have an
   index each. */
static const char *index_name(const mr_shard_t *shard, char text[MR_SHARD_PLACE_MAX]) {
  uint64_t query = shard->url ? mr_remote_query(shard->url) : 0;
  if (!query) return shard->path;
  snprintf(text, MR_SHARD_PLACE_MAX, "%s?%016" PRIx64, shard->path, query);
  return text;
}

/* An index that cannot be kept serves this process alone. */
static void say_unkept(work_t *w, const mr_shard_t *shard, const mr_diag_t *why) {
  pthread_mutex_lock(&w->lock);
  bool first = !w->unkept;
  w->unkept = true;
  pthread_mutex_unlock(&w->lock);
  if (first)
    mr_notice("%s: its index is not kept: %s (index=FOLDER keeps it there)", shard->path,
              why->text);
}

/* One that another user could have written is left as it is. */
static void say_distrusted(work_t *w, const mr_diag_t *why) {
  pthread_mutex_lock(&w->lock);
  bool first = !w->distrusted;
  w->distrusted = true;
  pthread_mutex_unlock(&w->lock);
  if (first) mr_notice("%s: this index is not used, and another one is made", why->text);
}

static bool find_index(work_t *w, mr_shard_t *shard) {
  const mr_shards_conf_t *c = w->conf;
  char path[MR_SHARD_PLACE_MAX], name[MR_SHARD_PLACE_MAX];
  if (!c->kind) return false;
  for (int i = 0; mr_shard_place(index_name(shard, name), index_place(c, shard), i, path); i++) {
    mr_diag_t why = {0};
    mr_err_t e = mr_shard_index_load(path, c->kind, &shard->kept, MR_KEPT_INDEX, &shard->trust,
                                     &shard->index, &why);
    if (e >= 0) return true;
    if (e == MR_ERR_UNAVAILABLE) say_distrusted(w, &why);
  }
  return false;
}

static mr_err_t identify_file(mr_shard_t *shard, int fd, mr_diag_t *diag) {
  struct stat st;
  MR_TRY(mr_shard_id_of(fd, shard->path, &shard->id, diag));
  shard->kept = shard->id;
  shard->trust.has_owner = fstat(fd, &st) == 0;
  if (shard->trust.has_owner) shard->trust.owner = st.st_uid;
  return mr_shard_id_for_index(fd, shard->path, &shard->kept, diag);
}

/* Opens what a shard's name says and identifies it; *fd is -1 for an object. */
static mr_err_t open_named(const work_t *w, mr_shard_t *shard, int *fd, mr_diag_t *diag) {
  char hint[160];
  *fd = -1;
  if (shard->url) {
    if (!shard->object) MR_TRY(mr_remote_object(w->s->remote, shard->url, &shard->object, diag));
    mr_shard_id_of_object(shard->object, &shard->id);
    shard->kept = shard->id;
    return MR_OK;
  }
  *fd = open(shard->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | (shard->unpacked ? O_NOFOLLOW : 0));
  if (*fd < 0 && mr_is_shortage(errno)) return mr_open_short(shard->path, errno, diag);
  int reason = errno;
  if (*fd < 0)
    return mr_fail(diag, MR_ERR_IO, "%s: cannot be opened: %s%s", shard->path, strerror(reason),
                   mr_path_hint(shard->path, hint, sizeof hint));
  if (shard->unpacked) MR_TRY(mr_trusted(*fd, shard->path, MR_KEPT_SHARD, &shard->trust, diag));
  return identify_file(shard, *fd, diag);
}

/* Lets the container check the file, unless it is opened again; an uncompressed one that it gives
   is opened instead. */
static mr_err_t open_file(const work_t *w, mr_shard_t *shard, bool again, int *fd,
                          mr_diag_t *diag) {
  const mr_shards_conf_t *c = w->conf;
  char *other = NULL;
  mr_err_t e = open_named(w, shard, fd, diag);
  if (e < 0 || again || !c->prepare) return e;
  mr_shard_file_t file = scanned_file(w, shard, *fd);
  e = c->prepare(c->ctx, (int)(shard - w->s->shard), &file, &shard->id, &other, diag);
  mr_shard_file_fini(&file);
  if (e < 0 || !other) return e;
  if (*fd >= 0) close(*fd);
  free(shard->path), free(shard->url);
  shard->path = other, shard->url = NULL, shard->object = NULL, shard->unpacked = true;
  return open_named(w, shard, fd, diag);
}

/* Makes the index and keeps it, unless another process is about to: that one's is waited for, or,
   without `wait`, MR_END comes back. */
static mr_err_t make_kept_index(work_t *w, mr_shard_t *shard, int fd, bool wait, mr_diag_t *diag) {
  char path[MR_SHARD_PLACE_MAX], name[MR_SHARD_PLACE_MAX], lock[MR_SHARD_LOCK_MAX];
  mr_diag_t why = {0};
  bool busy = false;
  if (!w->conf->kind) return make_index(w, shard, fd, diag);
  if (wait && shard->object) MR_TRY(mr_remote_answer(w->s->remote, diag));
  mr_err_t kept =
      mr_shard_place_new(index_name(shard, name), index_place(w->conf, shard), path, &why);
  /* Beside the file who reads it may hold up others either way; a folder of one's own stays one. */
  bool beside = !strncmp(path, shard->path, strlen(shard->path));
  int held = kept >= 0 ? mr_shard_lock(path, beside ? fd : -1, wait, lock, &busy) : -1;
  if (busy) return MR_END;
  bool found = held >= 0 && find_index(w, shard);
  mr_err_t e = found ? MR_OK : make_index(w, shard, fd, diag);
  if (e >= 0 && kept >= 0 && !found)
    kept = mr_shard_index_save(&shard->index, path, &shard->trust, &why);
  mr_shard_unlock(held, lock);
  if (e >= 0 && kept < 0) say_unkept(w, shard, &why);
  return e;
}

/* MR_END: another process is making its index.  The second time, with `wait`, that one is waited
   for. */
static mr_err_t open_shard(work_t *w, mr_shard_t *shard, bool wait, mr_diag_t *diag) {
  int fd;
  mr_err_t e = open_file(w, shard, wait, &fd, diag);
  if (e >= 0 && w->conf->scan && !find_index(w, shard))
    e = make_kept_index(w, shard, fd, wait, diag);
  if (fd >= 0) close(fd);
  if (e != MR_OK || !w->conf->scan) return e;
  if (!shard->index.fault) return MR_OK;
  if (!w->conf->lenient)
    return mr_fail(diag, MR_ERR_DATA, "%s" MR_ON_BAD_ADVICE, shard->index.fault);
  mr_notice("%s; the %" PRId64 " records before it are used", shard->index.fault,
            shard->index.n_records);
  return MR_OK;
}

/* ---- all files ---- */

/* Sends a notice every few seconds.  Called with the lock held. */
static void report_progress(work_t *w) {
  int64_t now = mr_now_ns();
  if (now - w->reported_ns < (int64_t)QUIET_S * 1000000000) return;
  w->reported_ns = now, w->reported = true;
  mr_notice("finding the records of %d files: %d done, %d %%", w->s->n, w->made,
            (int)(100LL * w->made / w->s->n));
}

/* Takes the next file, and says whether to wait for who makes its index; -1: all are taken.  Called
   with the lock held. */
static int take_shard(work_t *w, bool *wait) {
  *wait = w->next == w->s->n;
  if (w->e < 0) return -1;
  if (!*wait) return w->next++;
  return w->next_late < w->n_late ? w->late[w->next_late++] : -1;
}

static void *index_main(void *arg) {
  work_t *w = arg;
  bool wait;
  mr_halt_set(w->halt);
  pthread_mutex_lock(&w->lock);
  for (int i; (i = take_shard(w, &wait)) >= 0;) {
    pthread_mutex_unlock(&w->lock);
    mr_diag_t diag = {0};
    mr_err_t e = open_shard(w, &w->s->shard[i], wait, &diag);
    pthread_mutex_lock(&w->lock);
    if (e < 0 && w->e >= 0) w->e = e, w->diag = diag;
    if (e == MR_END)
      w->late[w->n_late++] = i;
    else
      w->made++;
    report_progress(w);
  }
  pthread_mutex_unlock(&w->lock);
  return NULL;
}

/* Asks for the identities of objects. */
static void *identify_main(void *arg) {
  work_t *w = arg;
  mr_halt_set(w->halt);
  pthread_mutex_lock(&w->lock);
  while (w->next < w->s->n && w->e >= 0) {
    mr_shard_t *shard = &w->s->shard[w->next++];
    pthread_mutex_unlock(&w->lock);
    mr_diag_t diag = {0};
    mr_err_t e =
        shard->url ? mr_remote_object(w->s->remote, shard->url, &shard->object, &diag) : MR_OK;
    pthread_mutex_lock(&w->lock);
    if (e < 0 && w->e >= 0) w->e = e, w->diag = diag;
  }
  pthread_mutex_unlock(&w->lock);
  return NULL;
}

/* The round trips of many objects take place at the same time. */
static void identify_all(work_t *w) {
  pthread_t thread[IDENTIFY];
  int n = 0;
  for (; n < IDENTIFY && n < w->s->n; n++)
    if (pthread_create(&thread[n], NULL, identify_main, w) != 0) break;
  for (int i = 0; i < n; i++) pthread_join(thread[i], NULL);
  w->next = 0;
}

static mr_err_t open_all(mr_shards_t *s, const mr_shards_conf_t *conf, mr_diag_t *diag) {
  work_t w = {.conf = conf, .s = s, .halt = mr_halt_get(), .reported_ns = mr_now_ns()};
  bool shared = s->remote && conf->remote->cache; /* what is scanned needs to know all objects */
  pthread_t thread[THREADS];
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  int n = 0, most = cores < THREADS && !s->remote ? (int)cores : THREADS; /* or wait together */
  w.late = malloc((size_t)s->n * sizeof *w.late);
  if (!w.late) return mr_no_memory(diag, "%d files", s->n);
  pthread_mutex_init(&w.lock, NULL);
  if (s->remote && (shared || s->n > THREADS)) identify_all(&w);
  for (; n + 1 < most && n + 1 < s->n; n++)
    if (pthread_create(&thread[n], NULL, index_main, &w) != 0) break;
  index_main(&w);
  for (int i = 0; i < n; i++) pthread_join(thread[i], NULL);
  pthread_mutex_destroy(&w.lock);
  free(w.late);
  if (w.reported && w.e >= 0) mr_notice("found the records of %d files", s->n);
  return mr_diag_relay(diag, w.e, &w.diag);
}

/* ---- columns ---- */

/* The columns of all files so far, and where one of a name is: a list may have 50,000 names. */
typedef struct joined {
  mr_shards_t *s;
  uint32_t *slot; /* [n_slots] by the digests of names: 1 + the column; 0: none */
  uint32_t n_slots;
} joined_t;

/* The slot of a column, or the free one where it would be. */
static uint32_t *joined_slot(const joined_t *j, const char *name, uint32_t kind) {
  uint32_t at = (uint32_t)(XXH3_64bits_withSeed(name, strlen(name), kind) % j->n_slots);
  for (; j->slot[at]; at = (at + 1) % j->n_slots) {
    const mr_shards_column_t *c = &j->s->column[j->slot[at] - 1];
    if (c->kind == kind && !strcmp(c->name, name)) break;
  }
  return &j->slot[at];
}

/* Room for one column more: the number of columns is the files' own. */
static bool widen_columns(joined_t *j) {
  mr_shards_t *s = j->s;
  uint32_t n = (uint32_t)s->n_columns, room = n ? 2 * n : 1;
  if (n & (n - 1)) return true; /* there is room up to the next power of two */
  mr_shards_column_t *wider = realloc(s->column, room * sizeof *wider);
  if (!wider) return false;
  s->column = wider;
  uint32_t *slot = calloc(2 * room, sizeof *slot);
  if (!slot) return false;
  free(j->slot);
  j->slot = slot, j->n_slots = 2 * room;
  for (uint32_t c = 0; c < n; c++) *joined_slot(j, wider[c].name, wider[c].kind) = c + 1;
  return true;
}

static mr_err_t join_column(joined_t *j, mr_shard_t *shard, uint32_t i, mr_diag_t *diag) {
  mr_shards_t *s = j->s;
  const mr_shard_column_t *from = &shard->index.column[i];
  const char *name = shard->index.text + from->name;
  uint32_t c = j->n_slots ? *joined_slot(j, name, from->kind) : 0;
  if (!c) {
    if (s->n_columns == MR_SHARD_COLUMNS_WIDE)
      return mr_fail(diag, MR_ERR_DATA,
                     "%s: its part %.200s is one name more than the %d that records may have in "
                     "all files; want records whose parts have the same names",
                     shard->path, name, MR_SHARD_COLUMNS_WIDE);
    if (!widen_columns(j)) return mr_no_memory(diag, "columns");
    c = (uint32_t)++s->n_columns;
    s->column[c - 1] = (mr_shards_column_t){
        .name = name, .kind = from->kind, .least = from->least, .most = from->most};
    *joined_slot(j, name, from->kind) = c;
  }
  mr_shards_column_t *to = &s->column[c - 1];
  to->have += from->have;
  if (from->least < to->least) to->least = from->least;
  if (from->most > to->most) to->most = from->most;
  shard->column[i] = c - 1;
  return MR_OK;
}

static mr_err_t join_columns(joined_t *j, mr_shard_t *shard, uint32_t apart, mr_diag_t *diag) {
  shard->column = malloc((shard->index.n_columns + 1) * sizeof *shard->column);
  if (!shard->column) return mr_no_memory(diag, "columns");
  for (uint32_t i = 0; i < shard->index.n_columns; i++) {
    shard->column[i] = MR_SHARD_APART;
    if (!apart || shard->index.column[i].kind < apart) MR_TRY(join_column(j, shard, i, diag));
  }
  return MR_OK;
}

static mr_err_t join_shards(mr_shards_t *s, const mr_shards_conf_t *conf, mr_diag_t *diag) {
  joined_t j = {.s = s};
  mr_err_t e = MR_OK;
  for (int k = 0; k < s->n && e >= 0; k++) {
    mr_shard_t *shard = &s->shard[k];
    shard->first = s->n_records;
    s->n_records += shard->index.n_records;
    s->bytes = mr_remote_sum(s->bytes, shard->id.size);
    e = join_columns(&j, shard, conf->apart, diag);
  }
  free(j.slot);
  if (e < 0 || s->n_records || !conf->scan) return e;
  return mr_fail(diag, MR_ERR_CONFIG, "%s%s: no records", s->shard[0].path,
                 s->n > 1 ? " and the files after it" : "");
}

/* ---- the whole ---- */

/* Names the next shard and takes the name over; the first URL opens what reads them. */
static mr_err_t name_shard(mr_shards_t *s, char **name, const mr_shards_conf_t *conf,
                           mr_diag_t *diag) {
  mr_shard_t *shard = &s->shard[s->n];
  bool remote = mr_remote_is(*name);
  shard->path = mr_remote_shown(*name);
  if (!shard->path) return mr_no_memory(diag, "the name of a file");
  if (!remote) return MR_OK;
  shard->url = *name, *name = NULL, shard->remote = true;
  shard->trust.group = conf->remote && conf->remote->shared;
  if (s->remote) return MR_OK;
  if (!conf->remote)
    return mr_fail(diag, MR_ERR_CONFIG, "%s: want a local file, not a URL", shard->path);
  return mr_remote_open(&s->remote, conf->remote, diag);
}

static mr_err_t shards_names(const mr_shards_conf_t *conf, mr_shard_names_t *names,
                             mr_diag_t *diag) {
  *names = (mr_shard_names_t){0};
  if (!conf->n_names) return mr_shard_names_expand(conf->files, names, diag);
  for (int i = 0; i < conf->n_names; i++) MR_TRY(mr_shard_names_add(names, conf->names[i], diag));
  return MR_OK;
}

static mr_err_t shards_make(mr_shards_t **out, const mr_shards_conf_t *conf, mr_diag_t *diag) {
  mr_shard_names_t names;
  mr_err_t e = shards_names(conf, &names, diag);
  mr_shards_t *s = *out = e < 0 ? NULL : calloc(1, sizeof *s);
  if (s) s->shard = calloc((size_t)names.n, sizeof *s->shard);
  if (e >= 0 && (!s || !s->shard)) e = mr_no_memory(diag, "the files");
  for (; e >= 0 && s->n < names.n; s->n++) e = name_shard(s, &names.at[s->n], conf, diag);
  mr_shard_names_fini(&names);
  return e;
}

mr_err_t mr_shards_open(mr_shards_t **out, const mr_shards_conf_t *conf, mr_diag_t *diag) {
  *out = NULL;
  mr_err_t e = shards_make(out, conf, diag);
  if (e >= 0) e = open_all(*out, conf, diag);
  if (e >= 0) e = join_shards(*out, conf, diag);
  if (e >= 0) return MR_OK;
  mr_shards_close(*out);
  *out = NULL;
  return e;
}

void mr_shards_close(mr_shards_t *s) {
  if (!s) return;
  for (int k = 0; s->shard && k < s->n; k++) {
    mr_shard_index_close(&s->shard[k].index);
    free(s->shard[k].column), free(s->shard[k].path), free(s->shard[k].url);
  }
  mr_remote_close(s->remote);
  free(s->shard), free(s->column), free(s);
}

const mr_shard_t *mr_shards_find(const mr_shards_t *s, int64_t number) {
  int low = 0, high = s->n; /* the last shard whose first record is not behind number */
  while (high - low > 1) {
    int middle = low + (high - low) / 2;
    if (s->shard[middle].first <= number)
      low = middle;
    else
      high = middle;
  }
  return &s->shard[low];
}

bool mr_shards_part(const mr_shard_t *shard, int64_t number, int column, mr_shard_part_t *part) {
  const mr_shard_index_t *x = &shard->index;
  const mr_shard_record_t *r = mr_shard_index_row(x, number - shard->first);
  for (uint64_t p = r[0].part; p < r[1].part; p++) {
    if (shard->column[x->part[p].column] != (uint32_t)column) continue;
    *part = x->part[p];
    if (x->even) part->at += (number - shard->first) * part->size;
    return true;
  }
  return false;
}

const char *mr_shards_key(const mr_shard_t *shard, int64_t number) {
  return shard->index.text + mr_shard_index_row(&shard->index, number - shard->first)->key;
}

int mr_shards_column(const mr_shards_t *s, const char *name, bool *twice) {
  int found = -1;
  for (int c = 0; c < s->n_columns; c++) {
    if (strcmp(s->column[c].name, name)) continue;
    if (twice) *twice = found >= 0;
    if (found < 0) found = c;
  }
  return found;
}
