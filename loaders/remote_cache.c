/* The folder of blocks: 256 folders of files named by a hash of the object's name and state, and
   the block's number.  The file `used` beside them holds the number of bytes of all
   blocks.  Runs update it through a shared mapping, and each holds a shared lock on it; a run that
   gets an exclusive lock counts again, which corrects what killed runs left wrong.  A second lock,
   on its first byte, is held from the opening on: whether other runs hold it can be asked without
   giving it up, which flock cannot. */
#include "loaders/remote_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/clock.h"
#include "base/xio.h"

#define ENDING ".block"
#define TEMPORARY_MAX (MR_PATH_MAX + 64)

enum { FOLDERS = 256, NAME_MAX_BYTES = 80, SPARES = 1024 };

/* Behind the bytes of a block. */
typedef struct block_tail {
  char magic[8];
  uint64_t object[2];
  int64_t at, n;
  uint64_t digest; /* of the bytes and of the members above */
} block_tail_t;
static const char magic[8] = "mrblock1";

/* The file of a block that was evicted, for one that is written: ext4 looks long for an inode where
   many files have just been removed, which a full cache does all the time. */
typedef struct spare_file {
  unsigned folder, number; /* of FOLDERS; in its name */
} spare_file_t;

struct mr__cache {
  char folder[MR_PATH_MAX];
  int64_t limit, slack, block;
  int fd;                 /* of the file `used`; holds the lock */
  _Atomic int64_t *used;  /* bytes of all blocks of the folder; shared by processes */
  _Atomic int64_t excess; /* bytes by which this run's last write above the limit exceeded it, less
                             what it has evicted since; not positive: it does not exceed it */
  uint64_t drawn;         /* in the names of temporary files: containers have equal process ids */
  atomic_uint n_temporary;
  pthread_mutex_t lock; /* guards the members below */
  spare_file_t spare[SPARES];
  int n_spares, most_spares;
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

static unsigned block_folder(const mr__cache_t *c, const mr_object_t *o, int64_t at) {
  return (unsigned)((hash_state(o).low64 + (uint64_t)(at / c->block)) % FOLDERS);
}

static void block_path(const mr__cache_t *c, const mr_object_t *o, int64_t at,
                       char out[2 * MR_PATH_MAX]) {
  XXH128_hash_t h = hash_state(o);
  snprintf(out, 2 * MR_PATH_MAX, "%s/%02x/%016" PRIx64 "%016" PRIx64 "-%" PRIx64 "-%" PRIx64 ENDING,
           c->folder, block_folder(c, o, at), h.high64, h.low64, c->block, at / c->block);
}

bool mr__cache_takes(const mr_object_t *o) {
  return (*o->etag || o->mtime_ns) && o->size <= MR__CACHE_OBJECT_MAX;
}

bool mr__cache_has(const mr__cache_t *c, const mr_object_t *o, int64_t at) {
  char path[2 * MR_PATH_MAX];
  block_path(c, o, at, path);
  return access(path, F_OK) == 0;
}

/* ---- blocks ---- */

static uint64_t digest_block(const void *data, int64_t n, const block_tail_t *t) {
  return XXH3_64bits_withSeed(data, (size_t)n, XXH3_64bits(t, offsetof(block_tail_t, digest)));
}

static bool read_exactly(int fd, int64_t at, void *to, int64_t n) {
  for (int64_t have = 0; have < n;) {
    ssize_t got = pread(fd, (char *)to + have, (size_t)(n - have), at + have);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    have += got;
  }
  return true;
}

static bool verify_block(int fd, const block_tail_t *t) {
  uint8_t *data = malloc((size_t)t->n + 1);
  bool good = data && read_exactly(fd, 0, data, t->n) && digest_block(data, t->n, t) == t->digest;
  free(data);
  return good;
}

bool mr__cache_read(mr__cache_t *c, const mr_object_t *o, int64_t at, int64_t from, int64_t n,
                    void *to, bool *verified) {
  char path[2 * MR_PATH_MAX];
  struct stat st;
  block_tail_t t;
  block_path(c, o, at, path);
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return false;
  int64_t size = o->size - at < c->block ? o->size - at : c->block;
  bool good = from >= 0 && n <= size - from;
  if (good && !*verified)
    good = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == size + (int64_t)sizeof t;
  if (good && !*verified) {
    XXH128_hash_t h = hash_state(o);
    good = read_exactly(fd, size, &t, sizeof t) && !memcmp(t.magic, magic, sizeof magic) &&
           t.object[0] == h.low64 && t.object[1] == h.high64 && t.at == at && t.n == size &&
           verify_block(fd, &t);
  }
  good = good && read_exactly(fd, from, to, n);
  close(fd);
  *verified = good;
  if (!good) mr__cache_remove(c, o, at);
  return good;
}

/* A link never replaces another run's block, which has been counted; some file systems have none.
   MR_END: another run has placed it. */
static mr_err_t place_block(const char *temporary, const char *path, mr_diag_t *diag) {
  if (link(temporary, path) == 0) return MR_OK;
  if (errno == EEXIST) return MR_END;
  if (rename(temporary, path) == 0) return MR_OK;
  return mr_fail(diag, MR_ERR_IO, "%s: cannot be written: %s", path, strerror(errno));
}

/* Whether another run uses the folder.  A file system without such locks has no answer: false. */
static bool is_shared(const mr__cache_t *c) {
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
  return fcntl(c->fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

/* ---- spare files ---- */

static void temporary_path(const mr__cache_t *c, spare_file_t f, char out[TEMPORARY_MAX]) {
  snprintf(out, TEMPORARY_MAX, "%s/%02x/%016" PRIx64 "-%x.new", c->folder, f.folder, c->drawn,
           f.number);
}

static spare_file_t new_temporary(mr__cache_t *c, unsigned folder) {
  return (spare_file_t){folder,
                        atomic_fetch_add_explicit(&c->n_temporary, 1, memory_order_relaxed)};
}

/* Keeps the file of a whole block instead of removing it; false if that cannot be.  Another run
   that opened the block before it lost its name may still read it: its lock was there by then, and
   the file is not used again. */
static bool keep_spare(mr__cache_t *c, const char *path, unsigned folder) {
  char temporary[TEMPORARY_MAX];
  spare_file_t f = new_temporary(c, folder);
  pthread_mutex_lock(&c->lock);
  bool room = c->n_spares < c->most_spares;
  pthread_mutex_unlock(&c->lock);
  temporary_path(c, f, temporary);
  if (!room || rename(path, temporary) < 0) return false;
  pthread_mutex_lock(&c->lock);
  room = c->n_spares < c->most_spares && !is_shared(c);
  if (room) c->spare[c->n_spares++] = f;
  pthread_mutex_unlock(&c->lock);
  if (!room) unlink(temporary);
  return true;
}

/* Writes the path of a file for a block into out, and opens it: a spare one, of as many bytes as a
   whole block has with its tail, or a new one.  -1: errno says why. */
static int open_temporary(mr__cache_t *c, unsigned folder, bool whole, char out[TEMPORARY_MAX]) {
  pthread_mutex_lock(&c->lock);
  bool spare = whole && c->n_spares;
  spare_file_t f = spare ? c->spare[--c->n_spares] : (spare_file_t){0};
  pthread_mutex_unlock(&c->lock);
  if (spare) {
    temporary_path(c, f, out);
    int fd = open(out, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd >= 0) return fd; /* else another run has taken it for one that was never finished */
  }
  temporary_path(c, new_temporary(c, folder), out);
  return open(out, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
}

static void remove_spares(mr__cache_t *c) {
  char temporary[TEMPORARY_MAX];
  while (c->n_spares) {
    temporary_path(c, c->spare[--c->n_spares], temporary);
    unlink(temporary);
  }
}

/* A block is not synced to the disk: its digest tells one that a power cut has damaged. */
static mr_err_t write_block(mr__cache_t *c, const char *path, unsigned folder, const void *data,
                            int64_t n, const block_tail_t *t, bool *own, mr_diag_t *diag) {
  char temporary[TEMPORARY_MAX];
  int fd = open_temporary(c, folder, n == c->block, temporary);
  if (fd < 0)
    return mr_fail(diag, MR_ERR_IO, "%s: cannot be written: %s", temporary, strerror(errno));
  mr_err_t e = mr_write_all(fd, data, (size_t)n, temporary, diag);
  if (e >= 0) e = mr_write_all(fd, t, sizeof *t, temporary, diag);
  close(fd);
  if (e >= 0) e = place_block(temporary, path, diag);
  *own = e == MR_OK;
  unlink(temporary);
  return e < 0 ? e : MR_OK;
}

/* Counts n bytes more, before they are written: runs that write at once do not exceed the limit
   together.  False if the folder is full. */
static bool reserve_bytes(mr__cache_t *c, int64_t n, int64_t going) {
  int64_t more = going < c->slack ? going : c->slack;
  int64_t used = atomic_fetch_add_explicit(c->used, n, memory_order_relaxed) + n;
  if (used > c->limit && (used > c->limit + more || is_shared(c)))
    return atomic_fetch_sub_explicit(c->used, n, memory_order_relaxed), false;
  if (used > c->limit) atomic_store_explicit(&c->excess, used - c->limit, memory_order_relaxed);
  return true;
}

mr_err_t mr__cache_write(mr__cache_t *c, const mr_object_t *o, int64_t at, const void *data,
                         int64_t n, int64_t going, bool *own, mr_diag_t *diag) {
  char path[2 * MR_PATH_MAX];
  XXH128_hash_t h = hash_state(o);
  *own = false;
  block_tail_t t = {.object = {h.low64, h.high64}, .at = at, .n = n};
  memcpy(t.magic, magic, sizeof magic);
  t.digest = digest_block(data, n, &t);
  block_path(c, o, at, path);
  if (access(path, F_OK) == 0) return MR_OK; /* another run was faster */
  if (!reserve_bytes(c, n, going)) return MR_END;
  mr_err_t e = write_block(c, path, block_folder(c, o, at), data, n, &t, own, diag);
  if (!*own) atomic_fetch_sub_explicit(c->used, n, memory_order_relaxed);
  return e;
}

static void remove_block(mr__cache_t *c, const mr_object_t *o, int64_t at, bool spare) {
  char path[2 * MR_PATH_MAX];
  int64_t size = o->size - at < c->block ? o->size - at : c->block;
  block_path(c, o, at, path);
  bool kept = spare && size == c->block && keep_spare(c, path, block_folder(c, o, at));
  if (!kept && unlink(path) < 0) return;
  atomic_fetch_sub_explicit(c->used, size, memory_order_relaxed);
  atomic_fetch_sub_explicit(&c->excess, size, memory_order_relaxed);
}

void mr__cache_remove(mr__cache_t *c, const mr_object_t *o, int64_t at) {
  remove_block(c, o, at, false);
}

void mr__cache_evict(mr__cache_t *c, const mr_object_t *o, int64_t at) {
  bool shared = is_shared(c);
  if (!shared || atomic_load_explicit(&c->excess, memory_order_relaxed) > 0)
    remove_block(c, o, at, !shared);
}

/* ---- the folder ---- */

/* A file of the folder that holds no block of this run. */
typedef struct other_block {
  char name[NAME_MAX_BYTES];
  int64_t bytes, mtime_s;
} other_block_t;

/* What the folder holds. */
typedef struct found_blocks {
  other_block_t *other;
  mr__cached_t *own;
  size_t n_other, cap_other, n_own, cap_own;
  int64_t bytes_other, bytes_own;
} found_blocks_t;

/* An object of this run by the name of its blocks. */
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

/* The object that a block's name is of, and where the block lies in it; NULL if it is none of this
   run's, or of other sizes. */
static const mr_object_t *own_block(const mr__cache_t *c, const known_state_t *known, int n,
                                    const char *name, int64_t *at) {
  known_state_t want;
  uint64_t high, low, block, number;
  int end = 0;
  if (sscanf(name, "%16" SCNx64 "%16" SCNx64 "-%" SCNx64 "-%" SCNx64 ENDING "%n", &high, &low,
             &block, &number, &end) != 4 ||
      (size_t)end != strlen(name) || (int64_t)block != c->block)
    return NULL;
  want.hash = (XXH128_hash_t){.low64 = low, .high64 = high};
  const known_state_t *k = bsearch(&want, known, (size_t)n, sizeof *known, compare_hashes);
  if (!k || number > (uint64_t)(k->object->size / c->block)) return NULL;
  *at = (int64_t)number * c->block;
  return *at < k->object->size && mr__cache_takes(k->object) ? k->object : NULL;
}

static bool note_own(const mr__cache_t *c, found_blocks_t *f, const mr_object_t *o, int64_t at) {
  int64_t left = o->size - at;
  if (!grow_list((void **)&f->own, f->n_own, &f->cap_own, sizeof *f->own)) return false;
  f->own[f->n_own++] = (mr__cached_t){o, at};
  f->bytes_own += left < c->block ? left : c->block;
  return true;
}

static bool note_other(found_blocks_t *f, unsigned k, int folder, const char *name) {
  struct stat st;
  if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode)) return true;
  if (!grow_list((void **)&f->other, f->n_other, &f->cap_other, sizeof *f->other)) return false;
  other_block_t *b = &f->other[f->n_other];
  if (snprintf(b->name, sizeof b->name, "%02x/%s", k, name) >= (int)sizeof b->name) return true;
  b->bytes =
      st.st_size > (off_t)sizeof(block_tail_t) ? st.st_size - (off_t)sizeof(block_tail_t) : 0;
  b->mtime_s = (int64_t)st.st_mtim.tv_sec;
  f->n_other++, f->bytes_other += b->bytes;
  return true;
}

/* Lists all blocks; removes what was never finished, if `alone`.  This run's own are known by their
   names alone: what they hold is looked at when they are read. */
static bool list_blocks(const mr__cache_t *c, const mr_object_t *const *object, int n, bool alone,
                        found_blocks_t *out) {
  char path[2 * MR_PATH_MAX];
  known_state_t *known = known_states(object, n);
  bool good = known != NULL;
  for (unsigned k = 0; k < FOLDERS && good; k++) {
    snprintf(path, sizeof path, "%s/%02x", c->folder, k);
    DIR *d = opendir(path);
    for (struct dirent *e; d && good && (e = readdir(d));) {
      const mr_object_t *o;
      int64_t at;
      if (name_ends_with(e->d_name, ".new")) {
        if (alone) unlinkat(dirfd(d), e->d_name, 0);
      } else if (name_ends_with(e->d_name, ENDING)) {
        o = own_block(c, known, n, e->d_name, &at);
        good = o ? note_own(c, out, o, at) : note_other(out, k, dirfd(d), e->d_name);
      }
    }
    if (d) closedir(d);
  }
  free(known);
  return good;
}

static int compare_ages(const void *a, const void *b) {
  const other_block_t *x = a, *y = b;
  return (x->mtime_s > y->mtime_s) - (x->mtime_s < y->mtime_s);
}

/* Takes the lock for this run alone, if no other run uses the folder; share_lock ends that. */
static bool lock_alone(mr__cache_t *c) { return flock(c->fd, LOCK_EX | LOCK_NB) == 0; }

/* A failed lock_alone may have lost the shared lock too. */
static void share_lock(mr__cache_t *c) {
  while (flock(c->fd, LOCK_SH) < 0 && errno == EINTR) continue;
}

/* Removes the oldest blocks of other objects until `wanted` bytes of this run's have room, or
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
    atomic_store_explicit(c->used, f.bytes_other + f.bytes_own, memory_order_relaxed);
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
  int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (fd < 0) return;
  if (n > 0 && n < (int)sizeof line) mr_write_all(fd, line, (size_t)n, path, NULL);
  close(fd);
}

bool mr__cache_knows_peer(const mr__cache_t *c, const char *name) {
  char path[2 * MR_PATH_MAX], line[300];
  bool known = false;
  snprintf(path, sizeof path, "%s/peers", c->folder);
  FILE *f = fopen(path, "re");
  while (f && !known && fgets(line, sizeof line, f)) {
    line[strcspn(line, "\n")] = 0;
    known = !strcmp(line, name);
  }
  if (f) fclose(f);
  return known;
}

/* ---- life ---- */

/* Spare files are written in place, so no other run may read them, and only locks that are known to
   work tell whether there is one.  Their bytes, which do not count, are a small part of the limit.
 */
static void allow_spares(mr__cache_t *c) {
  struct statfs fs;
  int64_t most = c->limit / 16 / c->block;
  if (fstatfs(c->fd, &fs) == 0 && fs.f_type == EXT4_SUPER_MAGIC)
    c->most_spares = most < SPARES ? (int)most : SPARES;
}

/* Another user's folder, or one on a disk that is read-only or full. */
static mr_err_t refuse_folder(const char *folder, const char *what, int error, mr_diag_t *diag) {
  bool full = error == ENOSPC || error == EDQUOT;
  return mr_fail(diag, MR_ERR_IO, "setting cache = %s: %s: %s; %s", folder, what, strerror(error),
                 full ? "make room there, or name a folder on another disk"
                      : "name a folder in which this user may create files");
}

static mr_err_t open_used(mr__cache_t *c, mr_diag_t *diag) {
  char path[2 * MR_PATH_MAX];
  struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_len = 1};
  snprintf(path, sizeof path, "%s/used", c->folder);
  c->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (c->fd < 0 || ftruncate(c->fd, sizeof *c->used) < 0)
    return refuse_folder(c->folder, "its file used cannot be written", errno, diag);
  fcntl(c->fd, F_OFD_SETLK, &lock); /* without such locks, this run counts as none */
  /* A hole in a mapping would end the process by SIGBUS where the disk is full. */
  int error = posix_fallocate(c->fd, 0, sizeof *c->used);
  if (error) return refuse_folder(c->folder, "its file used cannot be written", error, diag);
  c->used = mmap(NULL, sizeof *c->used, PROT_READ | PROT_WRITE, MAP_SHARED, c->fd, 0);
  if (c->used == MAP_FAILED)
    return c->used = NULL,
           mr_fail(diag, MR_ERR_IO, "%s: cannot be mapped: %s", path, strerror(errno));
  return MR_OK;
}

mr_err_t mr__cache_open(mr__cache_t **out, const char *folder, int64_t limit, int64_t slack,
                        int64_t block, mr_diag_t *diag) {
  char path[2 * MR_PATH_MAX];
  mr__cache_t *c = *out = calloc(1, sizeof *c);
  if (!c) return mr_no_memory(diag, "the cache");
  pthread_mutex_init(&c->lock, NULL);
  c->fd = -1, c->limit = limit, c->slack = slack, c->block = block;
  if (getrandom(&c->drawn, sizeof c->drawn, GRND_NONBLOCK) < 0)
    c->drawn = (uint64_t)mr_now_ns() << 20 | (uint64_t)getpid();
  mr_err_t e = snprintf(c->folder, sizeof c->folder, "%s", folder) < (int)sizeof c->folder
                   ? mr_make_folder(folder, diag)
                   : mr_fail(diag, MR_ERR_CONFIG,
                             "setting cache = %.100s...: want a path of less than %zu bytes",
                             folder, sizeof c->folder);
  for (unsigned k = 0; k < FOLDERS && e >= 0; k++) {
    snprintf(path, sizeof path, "%s/%02x", folder, k);
    if (mkdir(path, 0755) < 0 && errno != EEXIST)
      e = refuse_folder(folder, "folders in it cannot be created", errno, diag);
  }
  if (e >= 0) e = open_used(c, diag);
  if (e >= 0) allow_spares(c);
  if (e >= 0) return MR_OK;
  mr__cache_close(c);
  *out = NULL;
  return e;
}

void mr__cache_close(mr__cache_t *c) {
  if (!c) return;
  remove_spares(c);
  pthread_mutex_destroy(&c->lock);
  if (c->used) munmap(c->used, sizeof *c->used);
  if (c->fd >= 0) close(c->fd);
  free(c);
}
