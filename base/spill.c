/* Arrays in unlinked files.  A file grows by fallocate and mremap, so that a growing array is not
   copied, and a full disk is noticed there and not when a page is first written, which would kill
   the process. */
#include "base/spill.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
  SMALL = 16 << 10, /* arrays up to this size stay on the heap: a mapping costs as much */
  PAGE = 4096,
  NAME_MAX_BYTES = 4096
};

size_t mr__spill_heap_max = (size_t)256 << 20;

/* Bytes of arrays on the heap.  Relaxed: a few bytes more or less decide nothing. */
static atomic_size_t in_heap;

static size_t spill_pages(size_t bytes) { return (bytes + PAGE - 1) / PAGE * PAGE; }

/* Maps an unlinked file of n bytes in this folder.  MAP_FAILED if the folder takes no file, lacks
   the room, or has a file system without fallocate. */
static void *spill_map_in(const char *folder, size_t n, int *fd) {
  char path[NAME_MAX_BYTES];
  void *at = MAP_FAILED;
  if (!folder || !*folder) return at;
  if (snprintf(path, sizeof path, "%s/millrace-XXXXXX", folder) >= (int)sizeof path) return at;
  *fd = mkostemp(path, O_CLOEXEC);
  if (*fd < 0) return at;
  unlink(path);
  if (fallocate(*fd, 0, 0, (off_t)n) == 0)
    at = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
  if (at == MAP_FAILED) close(*fd);
  return at;
}

/* Moves an array from the heap to a file of n bytes in the first folder that has room for it.
   False, with nothing changed, if none has. */
static bool spill_map(mr_spill_t *s, size_t n) {
  const char *folder[] = {getenv("TMPDIR"), "/var/tmp", "/tmp"};
  void *at = MAP_FAILED;
  int fd = -1;
  for (size_t i = 0; i < sizeof folder / sizeof *folder && at == MAP_FAILED; i++)
    at = spill_map_in(folder[i], n, &fd);
  if (at == MAP_FAILED) return false;
  if (s->bytes) memcpy(at, s->at, s->bytes);
  mr_spill_free(s);
  *s = (mr_spill_t){at, n, fd, true};
  return true;
}

/* Makes a mapped array n bytes long.  False, with nothing changed, if it cannot. */
static bool spill_extend(mr_spill_t *s, size_t n) {
  if (s->fd < 0 || fallocate(s->fd, 0, 0, (off_t)n) < 0) return false;
  void *at = mremap(s->at, s->bytes, n, MREMAP_MAYMOVE);
  if (at == MAP_FAILED) return false;
  s->at = at, s->bytes = n;
  return true;
}

/* Takes n bytes of the heap, and the array's contents with them.  False, with nothing changed,
   without memory. */
static bool spill_to_heap(mr_spill_t *s, size_t n) {
  void *at = s->mapped ? malloc(n) : realloc(s->at, n);
  if (!at) return false;
  if (s->mapped) {
    memcpy(at, s->at, s->bytes);
    mr_spill_free(s);
  }
  atomic_fetch_add_explicit(&in_heap, n - s->bytes, memory_order_relaxed);
  *s = (mr_spill_t){at, n, -1, false};
  return true;
}

mr_err_t mr_spill_grow(mr_spill_t *s, size_t bytes, const char *what, mr_diag_t *diag) {
  if (bytes <= s->bytes) return MR_OK;
  if (bytes > PTRDIFF_MAX / 2) return mr_no_memory(diag, "%s of %zu bytes", what, bytes);
  size_t heap = atomic_load_explicit(&in_heap, memory_order_relaxed) - (s->mapped ? 0 : s->bytes);
  bool large = bytes > SMALL && (s->mapped || heap + bytes > mr__spill_heap_max);
  /* A file grows without a copy, so a little room to grow is enough there. */
  size_t more = spill_pages(bytes + s->bytes / 8), twice = 2 * s->bytes;
  if (large && (s->mapped ? spill_extend(s, more) : spill_map(s, more))) return MR_OK;
  if (spill_to_heap(s, s->mapped || bytes > twice ? bytes : twice)) return MR_OK;
  return mr_no_memory(diag, "%s of %zu bytes", what, bytes);
}

void mr_spill_settle(mr_spill_t *s) {
  if (s->fd >= 0) close(s->fd);
  s->fd = -1;
}

void mr_spill_free(mr_spill_t *s) {
  mr_spill_settle(s);
  if (s->mapped) {
    munmap(s->at, s->bytes);
  } else {
    free(s->at);
    atomic_fetch_sub_explicit(&in_heap, s->bytes, memory_order_relaxed);
  }
  *s = MR_SPILL_NONE;
}
