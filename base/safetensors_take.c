/* The bytes of a file into fresh memory.  The kernel has to clear fresh pages, which takes half as
   long as to copy what its cache has, and a digest takes a sixth: a second thread does both, ahead
   of the reading and behind it, so that a file is read as fast as into memory that is used again.
   Large pages would be cleared sooner, but are slower where a host takes them back when they are
   free, as hosts of virtual machines do. */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/safetensors_private.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* from Linux 5.14; others refuse it, and the reading clears */
#endif

static const size_t piece = 4 << 20, ahead = 32 << 20;

typedef struct beside {
  const mr_safetensors_t *f;
  XXH3_state_t *hash; /* NULL: nothing is hashed */
  size_t from;
  pthread_mutex_t lock;
  pthread_cond_t more;
  size_t have; /* [from,have) is read; under the lock */
  bool ended;  /* no more will be; under the lock */
} beside_t;

static size_t end_of_piece(size_t at, size_t end) { return end - at < piece ? end : at + piece; }

/* Has the kernel clear the pages that begin in a piece; pages keep what they have. */
static size_t clear_piece(const beside_t *b, size_t at) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE), end = end_of_piece(at, b->f->size);
  size_t from = (at + page - 1) / page * page;
  if (from < end) madvise(b->f->map + from, end - from, MADV_POPULATE_WRITE);
  return end;
}

static size_t hash_piece(const beside_t *b, size_t at, size_t have) {
  size_t end = end_of_piece(at, have);
  if (b->hash) XXH3_64bits_update(b->hash, b->f->map + at, end - at);
  return end;
}

static void *beside_main(void *arg) {
  beside_t *b = arg;
  size_t hashed = b->from, cleared = b->from, size = b->f->size;
  for (;;) {
    pthread_mutex_lock(&b->lock);
    while (b->have == hashed && !b->ended && !(cleared < size && cleared < b->have + ahead))
      pthread_cond_wait(&b->more, &b->lock);
    size_t have = b->have;
    bool ended = b->ended;
    pthread_mutex_unlock(&b->lock);
    if (cleared < have) cleared = have;
    if (!ended && cleared < size && cleared < have + ahead)
      cleared = clear_piece(b, cleared);
    else if (hashed < have)
      hashed = hash_piece(b, hashed, have);
    else if (ended)
      return NULL;
  }
}

static void tell_beside(beside_t *b, size_t have, bool ended) {
  pthread_mutex_lock(&b->lock);
  b->have = have, b->ended = ended;
  pthread_cond_signal(&b->more);
  pthread_mutex_unlock(&b->lock);
}

/* Reads up to a piece at *at, and moves *at behind it. */
static mr_err_t take_piece(const mr_safetensors_t *f, int fd, const char *path, size_t *at,
                           size_t end, mr_diag_t *diag) {
  ssize_t k = pread(fd, f->map + *at, end_of_piece(*at, end) - *at, (off_t)*at);
  if (k < 0 && errno == EINTR) return MR_OK;
  if (k < 0) return mr_fail(diag, MR_ERR_IO, "%s: cannot read: %s", path, strerror(errno));
  if (k == 0)
    return mr_fail(diag, MR_ERR_DATA, "%s: was cut to %zu of %zu bytes while it was read", path,
                   *at, f->size);
  *at += (size_t)k;
  return MR_OK;
}

mr_err_t mr__safetensors_take(const mr_safetensors_t *f, int fd, const char *path, size_t from,
                              size_t to, XXH3_state_t *hash, mr_diag_t *diag) {
  beside_t b = {.f = f,
                .hash = hash,
                .from = from,
                .have = from,
                .lock = PTHREAD_MUTEX_INITIALIZER,
                .more = PTHREAD_COND_INITIALIZER};
  pthread_t thread;
  mr_err_t e = MR_OK;
  size_t at = fd < 0 ? to : from;
  bool two = fd >= 0 && to == f->size && to - from > 2 * piece &&
             !pthread_create(&thread, NULL, beside_main, &b);
  while (at < to && e >= 0) {
    e = take_piece(f, fd, path, &at, to, diag);
    if (two) tell_beside(&b, at, false);
  }
  if (two) {
    tell_beside(&b, at, true);
    pthread_join(thread, NULL);
  } else if (hash && e >= 0) {
    XXH3_64bits_update(hash, f->map + from, to - from);
  }
  pthread_cond_destroy(&b.more), pthread_mutex_destroy(&b.lock);
  return e;
}
