/* The folder of blocks: 256 folders of files, one for each object (remote_object.h).  The file
   `used` beside them holds the number of bytes of all blocks.  Runs update it under a lock of its
   second byte, and not through a mapping, which ends the process if another one shortens the file.
   Each holds a shared lock on it; a run that gets an exclusive lock counts again, which corrects
   what killed runs left wrong.  A second lock, on its first byte, is held from the
   opening on: whether other runs hold it can be asked without giving it up, which flock cannot. */
#include "loaders/remote/remote_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/clock.h"
#include "base/halt.h"
#include "base/xio.h"
#include "loaders/remote/remote_opened.h"
#include "loaders/remote/remote_url.h"

#define FILE_PATH_MAX (MR_PATH_MAX + 96)

#define OLD_ENDING ".block" /* of the files of single blocks, which earlier versions wrote */

enum { NAME_MAX_BYTES = 80, FEW_BLOCKS = 64 };

struct mr__cache {
  char folder[MR_PATH_MAX];
  int64_t limit, slack, block;
  int fd;                 /* of the file `used`; holds the lock */
  pthread_mutex_t lock;   /* guards counted, and the number in the file among threads */
  int64_t counted;        /* the number of bytes as this run last knew it */
  mr_trust_t trust;       /* whose files are believed */
  _Atomic int64_t excess; /* bytes by which this run's last write above the limit exceeded it, less
                             what it has evicted since; not positive: it does not exceed it */
  uint64_t drawn;         /* in the names of temporary files: containers have equal process ids */
  atomic_uint n_temporary;
  bool full;    /* its disk had no room for the folders and `used` */
  bool punches; /* a removed block gives its room back; else none is evicted */
  mr__opened_t *opened;
};

/* ---- names ---- */

static XXH128_hash_t hash_state(const mr_object_t *o) {
  char text[2 * MR_PATH_MAX];
  if (o->state[0] | o->state[1])
    return (XXH128_hash_t){.high64 = o->state[0], .low64 = o->state[1]};
  int n = snprintf(text, sizeof text, "%s\n%s\n%" PRId64 "\n%" PRId64, o->s3 ? o->url : o->name,
                   o->etag, o->size, o->mtime_ns);
  return XXH3_128bits_withSeed(text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1,
                               mr_remote_query(o->url));
}

void mr__cache_state_hash(const mr_object_t *o, uint64_t out[2]) {
  XXH128_hash_t h = hash_state(o);
  out[0] = h.high64, out[1] = h.low64;
}

void mr__cache_state(const mr_object_t *o, char out[MR__CACHE_STATE]) {
  XXH128_hash_t h = hash_state(o);
  snprintf(out, MR__CACHE_STATE, "%016" PRIx64 "%016" PRIx64, h.high64, h.low64);
}

bool mr__cache_takes(const mr_object_t *o) {
  return (*o->etag || o->mtime_ns) && o->size <= MR__CACHE_OBJECT_MAX;
}

/* ---- files ---- */

static mr__taken_t cached_file(const mr__cache_t *c, const mr_object_t *o) {
  mr__taken_t t = {.file = {.fd = -1, .size = o->size, .block = c->block, .trust = c->trust},
                   .slot = -1};
  mr__cache_state_hash(o, t.file.state);
  return t;
}

static void cached_path(const mr__cache_t *c, const mr__object_file_t *f, char out[FILE_PATH_MAX]) {
  char name[MR__OBJECT_NAME];
  mr__object_name(f->state, f->block, name);
  snprintf(out, FILE_PATH_MAX, "%s/%s", c->folder, name);
}

/* Takes the file of an object; false without one. */
static bool cached_take(const mr__cache_t *c, const mr_object_t *o, mr__taken_t *t) {
  char path[FILE_PATH_MAX];
  *t = cached_file(c, o);
  if (mr__opened_take(c->opened, t)) return true;
  cached_path(c, &t->file, path);
  for (int tries = 1;; tries++) { /* a file system may know of no links */
    mr__object_open(&t->file, path);
    if (t->file.fd < 0) return false;
    mr__opened_put(c->opened, t);
    if (tries == 3 || mr__object_linked(&t->file)) return true;
    mr__opened_drop(c->opened, t, NULL, NULL); /* an empty one, which was just removed */
  }
}

/* Takes the file of an object, which is made if it is missing. */
static mr_err_t cached_make(mr__cache_t *c, const mr_object_t *o, mr__taken_t *t, mr_diag_t *diag) {
  char path[FILE_PATH_MAX], temporary[FILE_PATH_MAX];
  if (cached_take(c, o, t)) return MR_OK;
  unsigned k = atomic_fetch_add_explicit(&c->n_temporary, 1, memory_order_relaxed);
  cached_path(c, &t->file, path);
  snprintf(temporary, sizeof temporary, "%s/%02x/%016" PRIx64 "-%x.new", c->folder,
           (unsigned)(t->file.state[1] % MR__OBJECT_FOLDERS), c->drawn, k);
  MR_TRY(mr__object_make(&t->file, path, temporary, diag));
  mr__opened_put(c->opened, t);
  return MR_OK;
}

static int64_t bytes_of(const mr__cache_t *c, const mr_object_t *o, int64_t at) {
  return o->size - at < c->block ? o->size - at : c->block;
}

/* ---- blocks ---- */

bool mr__cache_has(const mr__cache_t *c, const mr_object_t *o, int64_t at) {
  mr__taken_t t;
  mr__block_entry_t e;
  if (!cached_take(c, o, &t)) return false;
  bool has = mr__object_entry(&t.file, at, &e) && e.digest;
  mr__opened_leave(c->opened, &t);
  return has;
}

/* Reads a block as a whole, compares its digest, and copies a part of it. */
static bool read_verified(const mr__object_file_t *f, int64_t at, int64_t size, int64_t from,
                          int64_t n, void *to, mr__stamp_t *stamp) {
  mr__block_entry_t e;
  uint8_t *data = malloc((size_t)size + 1);
  bool good = data && mr__object_entry(f, at, &e) && e.digest &&
              mr__object_read(f, at, data, size) &&
              mr__object_digest(f, at, data, size) == e.digest;
  if (good) memcpy(to, data + from, (size_t)n), *stamp = e.changes + 1;
  free(data);
  return good;
}

/* Reads a part of a block that has been verified; false if it may have been removed since. */
static bool read_again(const mr__object_file_t *f, int64_t at, int64_t from, int64_t n, void *to,
                       mr__stamp_t stamp) {
  mr__block_entry_t e;
  return mr__object_read(f, at + from, to, n) && mr__object_entry(f, at, &e) && e.digest &&
         e.changes + 1 == stamp;
}

bool mr__cache_read(mr__cache_t *c, const mr_object_t *o, int64_t at, int64_t from, int64_t n,
                    void *to, mr__stamp_t *stamp) {
  mr__taken_t t;
  int64_t size = bytes_of(c, o, at);
  if (from < 0 || n > size - from || !cached_take(c, o, &t)) return *stamp = 0, false;
  bool good = *stamp && read_again(&t.file, at, from, n, to, *stamp);
  if (!good) *stamp = 0, good = read_verified(&t.file, at, size, from, n, to, stamp);
  mr__opened_leave(c->opened, &t);
  if (!good) mr__cache_remove(c, o, at);
  return good;
}

/* Whether another run uses the folder.  A file system without such locks has no answer: false. */
static bool is_shared(const mr__cache_t *c) {
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
  return fcntl(c->fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

enum {
  COUNT_AT = 1,      /* byte of `used` whose lock guards the number */
  PAUSE_NS = 1000000 /* between two tries to lock what another run has locked, for a moment */
};

static void lock_count(const mr__cache_t *c, short type) {
  struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = COUNT_AT, .l_len = 1};
  while (fcntl(c->fd, F_OFD_SETLK, &lock) < 0)
    if ((errno != EINTR && errno != EAGAIN && errno != EACCES) || !mr_halt_pause(PAUSE_NS)) return;
}

/* Adds n to the number of bytes, or sets it, and returns the new one.  A file that another process
   has shortened, or a disk that fails, leaves what this run knows. */
static int64_t count_bytes(mr__cache_t *c, int64_t n, bool set) {
  int64_t used;
  pthread_mutex_lock(&c->lock);
  lock_count(c, F_WRLCK); /* without such locks, runs at once may miscount until the next start */
  if (pread(c->fd, &used, sizeof used, 0) != sizeof used) used = c->counted;
  c->counted = used = set ? n : used + n;
  ssize_t put = pwrite(c->fd, &used, sizeof used, 0);
  (void)put;
  lock_count(c, F_UNLCK);
  pthread_mutex_unlock(&c->lock);
  return used;
}

/* Counts n bytes more, before they are written: runs that write at once do not exceed the limit
   together.  False if the folder is full. */
static bool reserve_bytes(mr__cache_t *c, int64_t n, int64_t going) {
  int64_t more = going < c->slack ? going : c->slack;
  int64_t used = count_bytes(c, n, false);
  if (used > c->limit && (used > c->limit + more || is_shared(c)))
    return count_bytes(c, -n, false), false;
  if (used > c->limit) atomic_store_explicit(&c->excess, used - c->limit, memory_order_relaxed);
  return true;
}

/* Writes a block that no other run writes; *stamp stays 0 if it is there.  It is not synced to the
   disk: its digest tells one that a power cut has damaged. */
static mr_err_t write_block(const mr__object_file_t *f, int64_t at, const void *data, int64_t n,
                            mr__stamp_t *stamp, mr_diag_t *diag) {
  mr__block_entry_t e = {0};
  if (!mr__object_lock(f, at)) return MR_OK;
  mr_err_t code = MR_OK;
  if (!mr__object_entry(f, at, &e))
    code = mr_fail(diag, MR_ERR_IO, "its table cannot be read");
  else if (!e.digest)
    code = mr__object_write(f, at, data, n, e, diag);
  if (code >= 0 && !e.digest) *stamp = e.changes + 1;
  mr__object_unlock(f, at);
  return code;
}

mr_err_t mr__cache_write(mr__cache_t *c, const mr_object_t *o, int64_t at, const void *data,
                         int64_t n, int64_t going, mr__stamp_t *stamp, mr_diag_t *diag) {
  mr__taken_t t;
  mr_diag_t why = {0};
  *stamp = 0;
  if (mr__cache_has(c, o, at)) return MR_OK; /* another run was faster */
  if (!reserve_bytes(c, n, going)) return MR_END;
  mr_err_t e = cached_make(c, o, &t, diag);
  if (e >= 0) {
    e = write_block(&t.file, at, data, n, stamp, &why);
    mr__opened_leave(c->opened, &t);
    if (e < 0) mr_diag_prefix(diag, e, &why, "%s", c->folder);
  }
  if (!*stamp) count_bytes(c, -n, false);
  return e;
}

/* A file without a block, of an object of few blocks, of which there may be many. */
static bool is_empty(const mr__object_file_t *f) {
  mr__block_entry_t e;
  if (f->size > FEW_BLOCKS * f->block) return false;
  for (int64_t at = 0; at < f->size; at += f->block)
    if (!mr__object_entry(f, at, &e) || e.digest) return false;
  return true;
}

typedef struct emptied {
  const mr__cache_t *cache;
  const mr__object_file_t *file;
} emptied_t;

static void unlink_file(void *ctx) {
  const emptied_t *e = ctx;
  char path[FILE_PATH_MAX];
  cached_path(e->cache, e->file, path);
  if (is_empty(e->file)) unlink(path);
}

/* alone: no other run uses the folder. */
static void remove_block(mr__cache_t *c, const mr_object_t *o, int64_t at, bool alone) {
  mr__taken_t t;
  mr__block_entry_t e;
  int64_t n = bytes_of(c, o, at);
  if (!cached_take(c, o, &t)) return;
  bool mine = mr__object_lock(&t.file, at); /* else another run is just writing or removing it */
  bool gone = mine && mr__object_entry(&t.file, at, &e) && e.digest &&
              mr__object_set(&t.file, at, (mr__block_entry_t){0, e.changes + 1});
  if (gone) mr__object_punch(&t.file, at, n);
  if (mine) mr__object_unlock(&t.file, at);
  emptied_t emptied = {c, &t.file};
  if (gone && alone && is_empty(&t.file))
    mr__opened_drop(c->opened, &t, unlink_file, &emptied);
  else
    mr__opened_leave(c->opened, &t);
  if (!gone) return;
  count_bytes(c, -n, false);
  atomic_fetch_sub_explicit(&c->excess, n, memory_order_relaxed);
}

void mr__cache_remove(mr__cache_t *c, const mr_object_t *o, int64_t at) {
  remove_block(c, o, at, false);
}

void mr__cache_evict(mr__cache_t *c, const mr_object_t *o, int64_t at) {
  bool shared = is_shared(c);
  if (c->punches && (!shared || atomic_load_explicit(&c->excess, memory_order_relaxed) > 0))
    remove_block(c, o, at, !shared);
}

/* ---- the folder ---- */

/* A file of the folder that holds no block of this run. */
typedef struct other_file {
  char name[NAME_MAX_BYTES];
  int64_t bytes, mtime_s;
} other_file_t;

/* What the folder holds. */
typedef struct found_blocks {
  other_file_t *other;
  mr__cached_t *own;
  size_t n_other, cap_other, n_own, cap_own;
  int64_t bytes_other, bytes_own;
} found_blocks_t;

/* An object of this run by the name of its file. */
typedef struct known_state {
  XXH128_hash_t hash;
  const mr_object_t *object;
} known_state_t;

static int compare_hashes(const void *a, const void *b) { return XXH128_cmp(a, b); }

/* Sorts the objects by hash; heap, NULL without memory. */
static known_state_t *known_states(const mr_object_t *const *object, int n) {
  known_state_t *known = malloc(((size_t)n + 1) * sizeof *known);
  for (int i = 0; known && i < n; i++) known[i] = (known_state_t){hash_state(object[i]), object[i]};
  if (known) qsort(known, (size_t)n, sizeof *known, compare_hashes);
  return known;
}

/* Makes room for one more; false without memory. */
static bool grow_list(void **list, size_t n, size_t *cap, size_t each) {
  if (n < *cap) return true;
  size_t more = *cap ? 2 * *cap : 1024;
  void *p = realloc(*list, more * each);
  if (!p) return false;
  *list = p, *cap = more;
  return true;
}

static bool name_ends_with(const char *name, const char *ending) {
  size_t n = strlen(name), k = strlen(ending);
  return n >= k && !strcmp(name + n - k, ending);
}

/* The object whose file has this name; NULL if this run has no such object, or blocks of another
   size. */
static const mr_object_t *own_object(const mr__cache_t *c, const known_state_t *known, int n,
                                     const char *name) {
  uint64_t state[2];
  int64_t block;
  if (!mr__object_name_parse(name, state, &block) || block != c->block) return NULL;
  known_state_t want = {.hash = {.high64 = state[0], .low64 = state[1]}};
  const known_state_t *k = bsearch(&want, known, (size_t)n, sizeof *known, compare_hashes);
  return k && mr__cache_takes(k->object) ? k->object : NULL;
}

typedef struct noting {
  found_blocks_t *found;
  const mr_object_t *object;
} noting_t;

static bool note_own(void *ctx, int64_t at, int64_t n) {
  noting_t *t = ctx;
  found_blocks_t *f = t->found;
  if (!grow_list((void **)&f->own, f->n_own, &f->cap_own, sizeof *f->own)) return false;
  f->own[f->n_own++] = (mr__cached_t){t->object, at};
  f->bytes_own += n;
  return true;
}

/* Notes the blocks of an object by its table alone: what they hold is looked at when they are read.
   False without memory. */
static bool note_blocks(found_blocks_t *f, const mr_object_t *o, const mr__object_file_t *file,
                        bool alone) {
  noting_t noting = {f, o};
  if (alone) mr__object_tidy(file);
  return mr__object_blocks(file, note_own, &noting);
}

/* The bytes of a file's blocks, which the disk knows up to parts of pages. */
static int64_t bytes_of_file(const char *name, const struct stat *st) {
  uint64_t state[2];
  int64_t block, on_disk = (int64_t)st->st_blocks * 512, all = st->st_size;
  if (mr__object_name_parse(name, state, &block)) all = mr__object_bytes(all, block);
  return on_disk < all ? on_disk : all;
}

static bool note_other(found_blocks_t *f, unsigned k, int folder, const char *name) {
  struct stat st;
  if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode)) return true;
  if (!grow_list((void **)&f->other, f->n_other, &f->cap_other, sizeof *f->other)) return false;
  other_file_t *b = &f->other[f->n_other];
  if (snprintf(b->name, sizeof b->name, "%02x/%s", k, name) >= (int)sizeof b->name) return true;
  b->bytes = bytes_of_file(name, &st);
  b->mtime_s = (int64_t)st.st_mtim.tv_sec;
  f->n_other++, f->bytes_other += b->bytes;
  return true;
}

/* Notes a file.  One that is damaged counts as another object's: it goes where room is needed, and
   is replaced when a block of its object is written. */
static bool note_file(const mr__cache_t *c, found_blocks_t *f, const mr_object_t *o, unsigned k,
                      int folder, const char *name, bool alone) {
  char path[FILE_PATH_MAX];
  mr__object_file_t file = {.fd = -1};
  if (o) {
    file = cached_file(c, o).file;
    cached_path(c, &file, path);
    mr__object_open(&file, path);
  }
  if (file.fd < 0) return note_other(f, k, folder, name);
  bool good = note_blocks(f, o, &file, alone);
  close(file.fd);
  return good;
}

/* Lists all files; removes what was never finished, if `alone`. */
static bool list_blocks(const mr__cache_t *c, const mr_object_t *const *object, int n, bool alone,
                        found_blocks_t *out) {
  char path[2 * MR_PATH_MAX];
  known_state_t *known = known_states(object, n);
  bool good = known != NULL;
  for (unsigned k = 0; k < MR__OBJECT_FOLDERS && good; k++) {
    snprintf(path, sizeof path, "%s/%02x", c->folder, k);
    DIR *d = opendir(path);
    for (struct dirent *e; d && good && (e = readdir(d));) {
      if (name_ends_with(e->d_name, ".new")) {
        if (alone) unlinkat(dirfd(d), e->d_name, 0);
      } else if (name_ends_with(e->d_name, ".object") || name_ends_with(e->d_name, OLD_ENDING)) {
        const mr_object_t *o = own_object(c, known, n, e->d_name);
        good = note_file(c, out, o, k, dirfd(d), e->d_name, alone);
      }
    }
    if (d) closedir(d);
  }
  free(known);
  return good;
}

static int compare_ages(const void *a, const void *b) {
  const other_file_t *x = a, *y = b;
  return (x->mtime_s > y->mtime_s) - (x->mtime_s < y->mtime_s);
}

/* Takes the lock for this run alone, if no other run uses the folder; share_lock ends that. */
static bool lock_alone(mr__cache_t *c) { return flock(c->fd, LOCK_EX | LOCK_NB) == 0; }

/* A failed lock_alone may have lost the shared lock too. */
static void share_lock(mr__cache_t *c) {
  while (flock(c->fd, LOCK_SH | LOCK_NB) < 0)
    if ((errno != EINTR && errno != EWOULDBLOCK) || !mr_halt_pause(PAUSE_NS)) return;
}

/* Removes the oldest files of other objects until `wanted` bytes of this run's have room, or
   another run comes, of whose objects they may be. */
static void make_room(mr__cache_t *c, found_blocks_t *f, int64_t wanted) {
  char path[2 * MR_PATH_MAX];
  if (f->n_other) qsort(f->other, f->n_other, sizeof *f->other, compare_ages);
  for (size_t i = 0; i < f->n_other && f->bytes_other > c->limit - wanted && !is_shared(c); i++) {
    snprintf(path, sizeof path, "%s/%s", c->folder, f->other[i].name);
    if (unlink(path) == 0) f->bytes_other -= f->other[i].bytes;
  }
}

int64_t mr__cache_share(mr__cache_t *c, const mr_object_t *const *object, int n, mr__cached_t **own,
                        size_t *n_own) {
  found_blocks_t f = {0};
  int64_t wanted = 0;
  bool alone = lock_alone(c);
  for (int i = 0; i < n; i++)
    if (mr__cache_takes(object[i])) wanted = mr_remote_sum(wanted, object[i]->size);
  if (wanted > c->limit) wanted = c->limit;
  if (!alone) share_lock(c); /* another run may be listing, and removing */
  if (!list_blocks(c, object, n, alone, &f)) f.bytes_other = c->limit; /* as if it were full */
  if (alone) {
    make_room(c, &f, wanted);
    count_bytes(c, f.bytes_other + f.bytes_own, true);
  }
  if (alone) share_lock(c);
  free(f.other);
  *own = f.own, *n_own = f.n_own;
  return f.bytes_other < c->limit ? c->limit - f.bytes_other : 0;
}

/* ---- peers in one folder ---- */

void mr__cache_note_peer(mr__cache_t *c, const char *name) {
  char path[2 * MR_PATH_MAX], line[300];
  if (mr__cache_knows_peer(c, name)) return;
  snprintf(path, sizeof path, "%s/peers", c->folder);
  int n = snprintf(line, sizeof line, "%s\n", name);
  int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644);
  if (fd < 0) return;
  if (!mr_distrust(fd, MR_KEPT_BLOCKS, &c->trust)) {
    if (c->trust.group) mr_trust_own(fd, &c->trust);
    if (n > 0 && n < (int)sizeof line) mr_write_all(fd, line, (size_t)n, path, NULL);
  }
  close(fd);
}

bool mr__cache_knows_peer(const mr__cache_t *c, const char *name) {
  char path[2 * MR_PATH_MAX], line[300];
  bool known = false;
  snprintf(path, sizeof path, "%s/peers", c->folder);
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  FILE *f = fd >= 0 && !mr_distrust(fd, MR_KEPT_BLOCKS, &c->trust) ? fdopen(fd, "r") : NULL;
  if (fd >= 0 && !f) close(fd);
  while (f && !known && fgets(line, sizeof line, f)) {
    line[strcspn(line, "\n")] = 0;
    known = !strcmp(line, name);
  }
  if (f) fclose(f);
  return known;
}

/* ---- life ---- */

/* Another user's folder, or one on a disk that is read-only or full. */
static mr_err_t refuse_folder(mr__cache_t *c, const char *what, int error, mr_diag_t *diag) {
  c->full = error == ENOSPC || error == EDQUOT;
  return mr_fail(diag, MR_ERR_IO, "setting cache = %s: %s: %s; %s", c->folder, what,
                 strerror(error),
                 c->full ? "make room there, or name a folder on another disk"
                         : "name a folder in which this user may create files");
}

/* What another user could write is not used: their blocks would have any digest they like. */
static mr_err_t trust_in_cache(const mr__cache_t *c, int fd, const char *path, mr_diag_t *diag) {
  mr_diag_t why = {0};
  mr_err_t e = mr_trusted(fd, path, MR_KEPT_BLOCKS, &c->trust, &why);
  if (e >= 0) return MR_OK;
  return mr_fail(diag, e, "setting cache = %s: %s%s", c->folder, why.text,
                 c->trust.group ? "" : "; `shared` believes the folder of a group");
}

/* Checks a folder of the cache, and opens one that was just made to the cache's group. */
static mr_err_t check_folder_trust(mr__cache_t *c, const char *path, bool made, mr_diag_t *diag) {
  int link = path == c->folder ? 0 : O_NOFOLLOW; /* the one that is named may be one */
  int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | link);
  if (fd < 0) return refuse_folder(c, "it cannot be opened", errno, diag);
  if (made && c->trust.group) mr_trust_own(fd, &c->trust);
  mr_err_t e = trust_in_cache(c, fd, path, diag);
  close(fd);
  return e;
}

static mr_err_t make_folders(mr__cache_t *c, mr_diag_t *diag) {
  char path[2 * MR_PATH_MAX];
  bool made = access(c->folder, F_OK) < 0;
  mr_err_t e = mr_make_own_folder(c->folder, diag);
  if (e < 0 && errno == ENOSPC) return refuse_folder(c, "it cannot be created", errno, diag);
  MR_TRY(e);
  MR_TRY(check_folder_trust(c, c->folder, made, diag));
  for (unsigned k = 0; k < MR__OBJECT_FOLDERS; k++) {
    snprintf(path, sizeof path, "%s/%02x", c->folder, k);
    made = mkdir(path, 0755) == 0;
    if (!made && errno != EEXIST)
      return refuse_folder(c, "folders in it cannot be created", errno, diag);
    MR_TRY(check_folder_trust(c, path, made, diag));
  }
  return MR_OK;
}

static mr_err_t open_used(mr__cache_t *c, mr_diag_t *diag) {
  char path[2 * MR_PATH_MAX];
  struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_len = 1};
  snprintf(path, sizeof path, "%s/used", c->folder);
  c->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (c->fd < 0) return refuse_folder(c, "its file used cannot be written", errno, diag);
  if (c->trust.group) mr_trust_own(c->fd, &c->trust); /* of another member: it is so already */
  MR_TRY(trust_in_cache(c, c->fd, path, diag));
  if (ftruncate(c->fd, sizeof c->counted) < 0)
    return refuse_folder(c, "its file used cannot be written", errno, diag);
  fcntl(c->fd, F_OFD_SETLK, &lock); /* without such locks, this run counts as none */
  int error = posix_fallocate(c->fd, 0, sizeof c->counted); /* no room for a number: say it now */
  if (error) return refuse_folder(c, "its file used cannot be written", error, diag);
  return MR_OK;
}

mr_err_t mr__cache_open(mr__cache_t **out, const char *folder, int64_t limit, int64_t slack,
                        int64_t block, bool group, mr_diag_t *diag) {
  mr__cache_t *c = *out = calloc(1, sizeof *c);
  if (!c) return mr_no_memory(diag, "the cache");
  c->fd = -1, c->limit = limit, c->slack = slack, c->block = block;
  c->trust.group = group;
  pthread_mutex_init(&c->lock, NULL);
  if (getrandom(&c->drawn, sizeof c->drawn, GRND_NONBLOCK) < 0)
    c->drawn = (uint64_t)mr_now_ns() << 20 | (uint64_t)getpid();
  mr_err_t e = snprintf(c->folder, sizeof c->folder, "%s", folder) < (int)sizeof c->folder
                   ? make_folders(c, diag)
                   : mr_fail(diag, MR_ERR_CONFIG,
                             "setting cache = %.100s...: want a path of less than %zu bytes",
                             folder, sizeof c->folder);
  if (e >= 0) e = open_used(c, diag);
  if (e >= 0 && !(c->opened = mr__opened_new())) e = mr_no_memory(diag, "the cache");
  if (e >= 0) c->punches = mr__object_punches(c->fd);
  if (e >= 0) return MR_OK;
  bool full = c->full;
  mr__cache_close(c);
  *out = NULL;
  return full ? MR_END : e;
}

void mr__cache_close(mr__cache_t *c) {
  if (!c) return;
  mr__opened_close(c->opened);
  pthread_mutex_destroy(&c->lock);
  if (c->fd >= 0) close(c->fd);
  free(c);
}
