/* Object files.  A file is made whole under another name, so that a run that finds it finds its
   tail; its blocks come and go by entries, each of which is written by one call. */
#include "loaders/remote/remote_object.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#define ENDING ".object"

enum { ENTRIES_AT_ONCE = 4096 };

typedef struct object_tail {
  char magic[8];
  uint64_t state[2];
  int64_t size, block;
  uint64_t digest; /* of the members above */
} object_tail_t;
static const char magic[8] = "mrobject";

/* ---- names ---- */

void mr__object_name(const uint64_t state[2], int64_t block, char out[MR__OBJECT_NAME]) {
  snprintf(out, MR__OBJECT_NAME, "%02x/%016" PRIx64 "%016" PRIx64 "-%" PRIx64 ENDING,
           (unsigned)(state[1] % MR__OBJECT_FOLDERS), state[0], state[1], (uint64_t)block);
}

bool mr__object_name_parse(const char *name, uint64_t state[2], int64_t *block) {
  uint64_t n;
  int end = 0;
  if (sscanf(name, "%16" SCNx64 "%16" SCNx64 "-%" SCNx64 ENDING "%n", &state[0], &state[1], &n,
             &end) != 3 ||
      !end || name[end] || n > INT64_MAX)
    return false;
  return *block = (int64_t)n, true;
}

/* ---- places ---- */

static int64_t table_at(const mr__object_file_t *f) { return (f->size + 15) / 16 * 16; }

static int64_t count_blocks(const mr__object_file_t *f) {
  return f->size / f->block + (f->size % f->block != 0);
}

static int64_t tail_at(const mr__object_file_t *f) {
  return table_at(f) + count_blocks(f) * (int64_t)sizeof(mr__block_entry_t);
}

static int64_t entry_at(const mr__object_file_t *f, int64_t at) {
  return table_at(f) + at / f->block * (int64_t)sizeof(mr__block_entry_t);
}

static int64_t block_bytes(const mr__object_file_t *f, int64_t at) {
  return f->size - at < f->block ? f->size - at : f->block;
}

int64_t mr__object_bytes(int64_t bytes, int64_t block) {
  int64_t rest = bytes - (int64_t)sizeof(object_tail_t), entry = sizeof(mr__block_entry_t);
  if (rest <= 0 || block <= 0 || block > INT64_MAX - entry) return 0;
  int64_t blocks = rest / (block + entry) + (rest % (block + entry) != 0);
  return rest > blocks * entry ? rest - blocks * entry : 0;
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

static bool write_exactly(int fd, int64_t at, const void *from, int64_t n) {
  for (int64_t done = 0; done < n;) {
    ssize_t put = pwrite(fd, (const char *)from + done, (size_t)(n - done), at + done);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    done += put;
  }
  return true;
}

/* ---- the file ---- */

static object_tail_t tail_of(const mr__object_file_t *f) {
  object_tail_t t = {.state = {f->state[0], f->state[1]}, .size = f->size, .block = f->block};
  memcpy(t.magic, magic, sizeof magic);
  t.digest = XXH3_64bits(&t, offsetof(object_tail_t, digest));
  return t;
}

static bool object_whole(const mr__object_file_t *f) {
  struct stat st;
  object_tail_t want = tail_of(f), t;
  return fstat(f->fd, &st) == 0 && S_ISREG(st.st_mode) &&
         st.st_size == tail_at(f) + (int64_t)sizeof t &&
         read_exactly(f->fd, tail_at(f), &t, sizeof t) && !memcmp(&t, &want, sizeof t);
}

void mr__object_open(mr__object_file_t *f, const char *path) {
  f->fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (f->fd < 0 || (!mr_distrust(f->fd, MR_KEPT_BLOCKS, &f->trust) && object_whole(f))) return;
  close(f->fd);
  f->fd = -1;
}

/* A link never replaces another run's file; some file systems have none. */
static mr_err_t place_file(mr__object_file_t *f, const char *path, const char *temporary,
                           mr_diag_t *diag) {
  for (int again = 0; again < 2; again++) {
    if (link(temporary, path) == 0) return MR_OK;
    if (errno != EEXIST) break;
    mr__object_file_t other = *f;
    mr__object_open(&other, path);
    if (other.fd >= 0) {
      close(f->fd);
      return *f = other, MR_OK;
    }
    unlink(path); /* something else, or damaged */
  }
  if (rename(temporary, path) == 0) return MR_OK;
  return mr_fail(diag, MR_ERR_IO, "%s: cannot be written: %s", path, strerror(errno));
}

mr_err_t mr__object_make(mr__object_file_t *f, const char *path, const char *temporary,
                         mr_diag_t *diag) {
  object_tail_t t = tail_of(f);
  f->fd = open(temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
  bool made = f->fd >= 0 && mr_trust_own(f->fd, &f->trust) && ftruncate(f->fd, tail_at(f)) == 0 &&
              write_exactly(f->fd, tail_at(f), &t, sizeof t);
  mr_err_t e =
      made ? place_file(f, path, temporary, diag)
           : mr_fail(diag, MR_ERR_IO, "%s: cannot be written: %s", temporary, strerror(errno));
  if (f->fd >= 0) unlink(temporary);
  if (e >= 0) return MR_OK;
  if (f->fd >= 0) close(f->fd);
  f->fd = -1;
  return e;
}

bool mr__object_linked(const mr__object_file_t *f) {
  struct stat st;
  return fstat(f->fd, &st) == 0 && st.st_nlink > 0;
}

/* ---- blocks ---- */

static struct flock lock_of(const mr__object_file_t *f, int64_t at, short type) {
  return (struct flock){.l_type = type,
                        .l_whence = SEEK_SET,
                        .l_start = entry_at(f, at),
                        .l_len = sizeof(mr__block_entry_t)};
}

bool mr__object_lock(const mr__object_file_t *f, int64_t at) {
  struct flock lock = lock_of(f, at, F_WRLCK);
  int got;
  while ((got = fcntl(f->fd, F_OFD_SETLK, &lock)) < 0 && errno == EINTR) continue;
  return got == 0 || (errno != EAGAIN && errno != EACCES);
}

void mr__object_unlock(const mr__object_file_t *f, int64_t at) {
  struct flock lock = lock_of(f, at, F_UNLCK);
  fcntl(f->fd, F_OFD_SETLK, &lock);
}

bool mr__object_entry(const mr__object_file_t *f, int64_t at, mr__block_entry_t *out) {
  return read_exactly(f->fd, entry_at(f, at), out, sizeof *out);
}

bool mr__object_set(const mr__object_file_t *f, int64_t at, mr__block_entry_t e) {
  return write_exactly(f->fd, entry_at(f, at), &e, sizeof e);
}

uint64_t mr__object_digest(const mr__object_file_t *f, int64_t at, const void *data, int64_t n) {
  const uint64_t about[4] = {f->state[0], f->state[1], (uint64_t)at, (uint64_t)n};
  uint64_t digest = XXH3_64bits_withSeed(data, (size_t)n, XXH3_64bits(about, sizeof about));
  return digest ? digest : 1;
}

bool mr__object_read(const mr__object_file_t *f, int64_t at, void *to, int64_t n) {
  return read_exactly(f->fd, at, to, n);
}

mr_err_t mr__object_write(const mr__object_file_t *f, int64_t at, const void *data, int64_t n,
                          mr__block_entry_t was, mr_diag_t *diag) {
  mr__block_entry_t now = {mr__object_digest(f, at, data, n), was.changes};
  if (write_exactly(f->fd, at, data, n) && mr__object_set(f, at, now)) return MR_OK;
  int error = errno;
  mr__object_set(f, at, was);
  mr__object_punch(f, at, n);
  return mr_fail(diag, MR_ERR_IO, "a block cannot be written: %s", strerror(error));
}

void mr__object_punch(const mr__object_file_t *f, int64_t at, int64_t n) {
  while (fallocate(f->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, n) < 0 && errno == EINTR)
    continue;
}

bool mr__object_punches(int fd) {
  return fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 1 << 20, 1 << 12) == 0 ||
         (errno != EOPNOTSUPP && errno != ENOSYS);
}

/* The first block from i on whose entry is not in a hole of the file: the table of a huge object of
   which little is cached is one. */
static int64_t after_hole(const mr__object_file_t *f, int64_t i) {
  int64_t from = table_at(f) + i * (int64_t)sizeof(mr__block_entry_t);
  int64_t data = lseek(f->fd, from, SEEK_DATA); /* -1: the file system knows of no holes */
  return data > from ? i + (data - from) / (int64_t)sizeof(mr__block_entry_t) : i;
}

/* Calls fn for each block with its entry; with `all` also for those whose entries are holes. */
static bool each_entry(const mr__object_file_t *f, bool all,
                       bool (*fn)(void *ctx, int64_t at, const mr__block_entry_t *e), void *ctx) {
  int64_t blocks = count_blocks(f), most = blocks < ENTRIES_AT_ONCE ? blocks : ENTRIES_AT_ONCE;
  mr__block_entry_t *e = malloc((size_t)most * sizeof *e + 1);
  bool good = e != NULL;
  for (int64_t i = 0; good && (i = all ? i : after_hole(f, i)) < blocks; i += most) {
    int64_t n = blocks - i < most ? blocks - i : most;
    good = read_exactly(f->fd, entry_at(f, i * f->block), e, n * (int64_t)sizeof *e);
    for (int64_t k = 0; k < n && good; k++) good = fn(ctx, (i + k) * f->block, &e[k]);
  }
  free(e);
  return good;
}

typedef struct found {
  const mr__object_file_t *f;
  bool (*fn)(void *ctx, int64_t at, int64_t n);
  void *ctx;
  int64_t bytes;
} found_t;

static bool found_entry(void *arg, int64_t at, const mr__block_entry_t *e) {
  const found_t *t = arg;
  return !e->digest || t->fn(t->ctx, at, block_bytes(t->f, at));
}

bool mr__object_blocks(const mr__object_file_t *f, bool (*fn)(void *ctx, int64_t at, int64_t n),
                       void *ctx) {
  found_t t = {.f = f, .fn = fn, .ctx = ctx};
  return each_entry(f, false, found_entry, &t);
}

static bool count_entry(void *arg, int64_t at, const mr__block_entry_t *e) {
  found_t *t = arg;
  if (e->digest) t->bytes += block_bytes(t->f, at);
  return true;
}

static bool tidy_entry(void *arg, int64_t at, const mr__block_entry_t *e) {
  const found_t *t = arg;
  if (!e->digest) mr__object_punch(t->f, at, block_bytes(t->f, at));
  return true;
}

/* What the disk gives to the table, the tail and parts of pages, at most three pages more than they
   have bytes, is no trace of a kill: one block is, of which these three hide a part. */
void mr__object_tidy(const mr__object_file_t *f) {
  struct stat st;
  found_t t = {.f = f};
  int64_t table = tail_at(f) - table_at(f) + 3 * 4096;
  if (fstat(f->fd, &st) < 0 || !each_entry(f, false, count_entry, &t)) return;
  if ((int64_t)st.st_blocks * 512 - table - t.bytes >= f->block / 2)
    each_entry(f, true, tidy_entry, &t);
}
