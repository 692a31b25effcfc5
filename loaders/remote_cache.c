/* The folder of blocks: 256 folders of files named by a hash of the object's name and state, and
   the block's number.  The file `used` beside them holds the number of bytes of all
   blocks.  Runs update it through a shared mapping, and each holds a shared lock on it; a run that
   gets an exclusive lock counts again, which corrects what killed runs left wrong. */
#include "loaders/remote_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/xio.h"

#define ENDING ".block"

enum { FOLDERS = 256, NAME_MAX_BYTES = 80 };

/* Behind the bytes of a block. */
typedef struct block_tail {
  char magic[8];
  uint64_t object[2];
  int64_t at, n;
  uint64_t digest; /* of the bytes and of the members above */
} block_tail_t;
static const char magic[8] = "mrblock1";

struct mr__cache {
  char folder[MR_PATH_MAX];
  int64_t limit, slack, block;
  int fd;                /* of the file `used`; holds the lock */
  _Atomic int64_t *used; /* bytes of all blocks of the folder; shared by processes */
  atomic_uint n_temporary;
};

/* ---- names ---- */

static XXH128_hash_t hash_state(const mr_object_t *o) {
  char text[2 * MR_PATH_MAX];
  int n = snprintf(text, sizeof text, "%s\n%s\n%" PRId64 "\n%" PRId64, o->s3 ? o->url : o->name,
                   o->etag, o->size, o->mtime_ns);
  return XXH3_128bits_withSeed(text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1,
                               mr_remote_query(o->url));
}

static void block_path(const mr__cache_t *c, const mr_object_t *o, int64_t at,
                       char out[2 * MR_PATH_MAX]) {
  XXH128_hash_t h = hash_state(o);
  int64_t number = at / c->block;
  snprintf(out, 2 * MR_PATH_MAX, "%s/%02x/%016" PRIx64 "%016" PRIx64 "-%" PRIx64 "-%" PRIx64 ENDING,
           c->folder, (unsigned)((h.low64 + (uint64_t)number) % FOLDERS), h.high64, h.low64,
           c->block, number);
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
  bool good = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
              st.st_size == size + (int64_t)sizeof t && from >= 0 && n <= size - from;
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
 */
static bool place_block(const char *temporary, const char *path) {
  if (link(temporary, path) == 0 || errno == EEXIST) return true;
  return rename(temporary, path) == 0;
}

/* A block is not synced to the disk: its digest tells one that a power cut has damaged. */
static mr_err_t write_block(mr__cache_t *c, const char *path, const void *data, int64_t n,
                            const block_tail_t *t, mr_diag_t *diag) {
  char temporary[2 * MR_PATH_MAX + 64];
  snprintf(temporary, sizeof temporary, "%.*s/%x-%x.new", (int)(strrchr(path, '/') - path), path,
           (unsigned)getpid(), atomic_fetch_add_explicit(&c->n_temporary, 1, memory_order_relaxed));
  int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (fd < 0)
    return mr_fail(diag, MR_ERR_IO, "%s: cannot be written: %s", temporary, strerror(errno));
  mr_err_t e = mr_write_all(fd, data, (size_t)n, temporary, diag);
  if (e >= 0) e = mr_write_all(fd, t, sizeof *t, temporary, diag);
  close(fd);
  if (e >= 0 && !place_block(temporary, path))
    e = mr_fail(diag, MR_ERR_IO, "%s: cannot be written: %s", path, strerror(errno));
  else if (e >= 0)
    atomic_fetch_add_explicit(c->used, n, memory_order_relaxed);
  unlink(temporary);
  return e;
}

mr_err_t mr__cache_write(mr__cache_t *c, const mr_object_t *o, int64_t at, const void *data,
                         int64_t n, mr_diag_t *diag) {
  char path[2 * MR_PATH_MAX];
  XXH128_hash_t h = hash_state(o);
  block_tail_t t = {.object = {h.low64, h.high64}, .at = at, .n = n};
  memcpy(t.magic, magic, sizeof magic);
  t.digest = digest_block(data, n, &t);
  block_path(c, o, at, path);
  if (access(path, F_OK) == 0) return MR_OK; /* another run was faster */
  if (atomic_load_explicit(c->used, memory_order_relaxed) + n > c->limit + c->slack) return MR_END;
  return write_block(c, path, data, n, &t, diag);
}

void mr__cache_remove(mr__cache_t *c, const mr_object_t *o, int64_t at) {
  char path[2 * MR_PATH_MAX];
  int64_t size = o->size - at < c->block ? o->size - at : c->block;
  block_path(c, o, at, path);
  if (unlink(path) == 0) atomic_fetch_sub_explicit(c->used, size, memory_order_relaxed);
}

/* ---- the folder ---- */

/* One file of the folder. */
typedef struct found_block {
  char name[NAME_MAX_BYTES];
  int64_t bytes, mtime_s;
  bool own; /* of an object of this run */
} found_block_t;

typedef struct found_blocks {
  found_block_t *at;
  size_t n, cap;
  int64_t bytes, own;
} found_blocks_t;

static bool name_ends_with(const char *name, const char *ending) {
  size_t n = strlen(name), k = strlen(ending);
  return n >= k && !strcmp(name + n - k, ending);
}

static bool note_block(found_blocks_t *f, const char *name, const struct stat *st, bool own) {
  if (f->n == f->cap) {
    size_t cap = f->cap ? 2 * f->cap : 1024;
    found_block_t *more = realloc(f->at, cap * sizeof *more);
    if (!more) return false;
    f->at = more, f->cap = cap;
  }
  found_block_t *b = &f->at[f->n++];
  snprintf(b->name, sizeof b->name, "%s", name);
  b->bytes =
      st->st_size > (off_t)sizeof(block_tail_t) ? st->st_size - (off_t)sizeof(block_tail_t) : 0;
  b->mtime_s = (int64_t)st->st_mtim.tv_sec, b->own = own;
  f->bytes += b->bytes, f->own += own ? b->bytes : 0;
  return true;
}

static bool is_own(const char *name, const mr_object_t *const *object, int n) {
  char state[40];
  for (int i = 0; i < n; i++) {
    XXH128_hash_t h = hash_state(object[i]);
    snprintf(state, sizeof state, "%016" PRIx64 "%016" PRIx64 "-", h.high64, h.low64);
    if (!strncmp(name, state, strlen(state))) return true;
  }
  return false;
}

/* Lists all blocks; removes what was never finished, if `alone`. */
static bool list_blocks(const mr__cache_t *c, const mr_object_t *const *object, int n, bool alone,
                        found_blocks_t *out) {
  char path[2 * MR_PATH_MAX], name[NAME_MAX_BYTES];
  bool good = true;
  for (unsigned k = 0; k < FOLDERS && good; k++) {
    snprintf(path, sizeof path, "%s/%02x", c->folder, k);
    DIR *d = opendir(path);
    for (struct dirent *e; d && good && (e = readdir(d));) {
      struct stat st;
      bool block = name_ends_with(e->d_name, ENDING), rest = name_ends_with(e->d_name, ".new");
      if ((!block && !rest) || fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
          !S_ISREG(st.st_mode))
        continue;
      if (rest) {
        if (alone) unlinkat(dirfd(d), e->d_name, 0);
      } else if (snprintf(name, sizeof name, "%02x/%s", k, e->d_name) < (int)sizeof name) {
        good = note_block(out, name, &st, is_own(e->d_name, object, n));
      }
    }
    if (d) closedir(d);
  }
  return good;
}

static int compare_ages(const void *a, const void *b) {
  const found_block_t *x = a, *y = b;
  return (x->mtime_s > y->mtime_s) - (x->mtime_s < y->mtime_s);
}

/* Takes the lock for this run alone, if no other run uses the folder; share_lock ends that. */
static bool lock_alone(mr__cache_t *c) { return flock(c->fd, LOCK_EX | LOCK_NB) == 0; }

/* A failed lock_alone may have lost the shared lock too. */
static void share_lock(mr__cache_t *c) {
  while (flock(c->fd, LOCK_SH) < 0 && errno == EINTR) continue;
}

int64_t mr__cache_share(mr__cache_t *c, const mr_object_t *const *object, int n) {
  char path[2 * MR_PATH_MAX];
  found_blocks_t f = {0};
  int64_t wanted = 0;
  bool alone = lock_alone(c);
  for (int i = 0; i < n; i++) wanted += object[i]->size;
  if (wanted > c->limit) wanted = c->limit;
  if (!list_blocks(c, object, n, alone, &f)) f.bytes = c->limit; /* as if it were full */
  if (alone && f.n) {
    qsort(f.at, f.n, sizeof *f.at, compare_ages);
    for (size_t i = 0; i < f.n && f.bytes - f.own + wanted > c->limit; i++) {
      if (f.at[i].own) continue;
      snprintf(path, sizeof path, "%s/%s", c->folder, f.at[i].name);
      if (unlink(path) == 0) f.bytes -= f.at[i].bytes;
    }
  }
  if (alone) atomic_store_explicit(c->used, f.bytes, memory_order_relaxed);
  share_lock(c);
  int64_t others = f.bytes - f.own;
  free(f.at);
  return others < c->limit ? c->limit - others : 0;
}

static mr_err_t open_used(mr__cache_t *c, mr_diag_t *diag) {
  char path[2 * MR_PATH_MAX];
  snprintf(path, sizeof path, "%s/used", c->folder);
  c->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (c->fd < 0 || ftruncate(c->fd, sizeof *c->used) < 0)
    return mr_fail(diag, MR_ERR_IO, "%s: cannot be written: %s", path, strerror(errno));
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
  c->fd = -1, c->limit = limit, c->slack = slack, c->block = block;
  mr_err_t e = snprintf(c->folder, sizeof c->folder, "%s", folder) < (int)sizeof c->folder
                   ? mr_make_folder(folder, diag)
                   : mr_fail(diag, MR_ERR_CONFIG,
                             "setting cache = %.100s...: want a path of less than %zu bytes",
                             folder, sizeof c->folder);
  for (unsigned k = 0; k < FOLDERS && e >= 0; k++) {
    snprintf(path, sizeof path, "%s/%02x", folder, k);
    if (mkdir(path, 0755) < 0 && errno != EEXIST)
      e = mr_fail(diag, MR_ERR_IO, "%s: cannot be created: %s", path, strerror(errno));
  }
  if (e >= 0) e = open_used(c, diag);
  if (e >= 0) mr__cache_share(c, NULL, 0);
  if (e >= 0) return MR_OK;
  mr__cache_close(c);
  *out = NULL;
  return e;
}

void mr__cache_close(mr__cache_t *c) {
  if (!c) return;
  if (c->used) munmap(c->used, sizeof *c->used);
  if (c->fd >= 0) close(c->fd);
  free(c);
}
