/* Windows over a file that is read once.  A remote one is streamed in windows that grow as long as
   they follow each other, each by several requests at once; a gap that leaves the window is not
   read.  The first one is small, since some containers have their index in front. */
#include "loaders/shards/shard_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WINDOW = 1 << 20, REMOTE_WINDOW = 32 << 20, STREAK = 3 };
enum { REMOTE_FIRST = 1 << 18, GROWTH = 4 };

static mr_err_t read_local(const mr_shard_file_t *f, int64_t at, void *to, size_t n,
                           mr_diag_t *diag) {
  for (size_t have = 0; have < n;) {
    ssize_t got = pread(f->fd, (char *)to + have, n - have, at + (int64_t)have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      return mr_fail(diag, MR_ERR_IO, "%s: cannot be read at byte %" PRId64 ": %s", f->path, at,
                     strerror(errno));
    if (got == 0) return MR_END;
    have += (size_t)got;
  }
  return MR_OK;
}

static mr_err_t read_from(const mr_shard_file_t *f, int64_t at, void *to, size_t n,
                          mr_diag_t *diag) {
  if (f->fd >= 0) return read_local(f, at, to, n, diag);
  mr_remote_want_t want = {f->object, at, (int64_t)n, to};
  return mr_remote_load(f->remote, &want, !f->once, diag);
}

/* Bytes of the window that begins at byte `at`. */
static size_t window_size(const mr_shard_file_t *f, int64_t at) {
  if (f->fd >= 0) return WINDOW;
  int64_t gap = at - (f->window_at + (int64_t)f->window_n);
  if (!f->window || gap < 0 || gap > (int64_t)f->cap) return REMOTE_FIRST;
  return f->cap < REMOTE_WINDOW / GROWTH ? GROWTH * f->cap : REMOTE_WINDOW;
}

static mr_err_t fill_window(mr_shard_file_t *f, int64_t at, mr_diag_t *diag) {
  size_t cap = window_size(f, at);
  if (cap != f->cap) {
    free(f->window);
    f->cap = f->window_n = 0;
    f->window = malloc(cap);
    if (!f->window) return mr_no_memory(diag, "the scan of %s", f->path);
    f->cap = cap;
  }
  int64_t left = f->size - at;
  f->window_at = at, f->window_n = 0;
  size_t n = left < (int64_t)f->cap ? (size_t)left : f->cap;
  mr_err_t e = read_from(f, at, f->window, n, diag);
  if (e == MR_OK) f->window_n = n;
  return e;
}

static bool in_window(const mr_shard_file_t *f, int64_t at) {
  return at >= f->window_at && at < f->window_at + (int64_t)f->window_n;
}

mr_err_t mr_shard_file_read(mr_shard_file_t *f, int64_t at, void *to, size_t n, mr_diag_t *diag) {
  if (at < 0 || at > f->size || (int64_t)n > f->size - at) return MR_END;
  f->streak = at == f->next ? f->streak + 1 : 0;
  f->next = at + (int64_t)n;
  if (f->streak < STREAK && f->fd >= 0 && !in_window(f, at)) return read_local(f, at, to, n, diag);
  while (n) {
    if (!in_window(f, at)) {
      if (n >= (f->fd >= 0 ? WINDOW : REMOTE_WINDOW)) return read_from(f, at, to, n, diag);
      mr_err_t e = fill_window(f, at, diag);
      if (e != MR_OK) return e;
    }
    size_t skip = (size_t)(at - f->window_at), some = f->window_n - skip;
    if (some > n) some = n;
    memcpy(to, f->window + skip, some);
    to = (char *)to + some, at += (int64_t)some, n -= some;
  }
  return MR_OK;
}

void mr_shard_file_fini(mr_shard_file_t *f) {
  free(f->window);
  f->window = NULL, f->window_n = 0;
}
