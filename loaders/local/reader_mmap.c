/* The mmap way: copies out of a mapping.  A page that the kernel cannot load (the file was
   truncated, the device failed) raises SIGBUS.  The handler jumps out of the copy, and pread reads
   the same bytes instead, so that the failure gets a code and a sentence. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "loaders/local/reader_private.h"

typedef struct map_state {
  char *at[MR_READER_FILES_MAX]; /* NULL for an empty file */
} map_t;

/* The copy in progress in this thread; SIGBUS at an address outside has another cause. */
static _Thread_local struct {
  const char *volatile from;
  volatile size_t len;
  sigjmp_buf out;
} copying;

static struct sigaction before;

static void on_bus(int signo, siginfo_t *info, void *context) {
  const char *at = info->si_addr;
  if (copying.from && at >= copying.from && at < copying.from + copying.len)
    siglongjmp(copying.out, 1);
  /* Not this copy: restore the earlier handler or the default, which gets the repeated fault. */
  sigaction(SIGBUS, &before, NULL);
}

/* Called at every open, because the program may have set its own handler since the last one. */
static void install_bus_handler(void) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  struct sigaction act = {.sa_sigaction = on_bus, .sa_flags = SA_SIGINFO | SA_NODEFER}, now;
  sigemptyset(&act.sa_mask);
  pthread_mutex_lock(&lock);
  if (sigaction(SIGBUS, NULL, &now) == 0 && now.sa_sigaction != on_bus) {
    before = now;
    sigaction(SIGBUS, &act, NULL);
  }
  pthread_mutex_unlock(&lock);
}

static mr_err_t reader_mmap_map_open(mr_reader_t *r, mr_diag_t *diag) {
  map_t *m = r->state = calloc(1, sizeof *m);
  if (!m) return mr_no_memory(diag, "a reader");
  install_bus_handler();
  for (int i = 0; i < r->n_files; i++) {
    if (r->size[i] == 0) continue;
    void *at = mmap(NULL, (size_t)r->size[i], PROT_READ, MAP_SHARED, r->fd[i], 0);
    if (at == MAP_FAILED)
      return mr_fail(diag, MR_ERR_UNAVAILABLE, "%s cannot be mapped (%s)", r->path[i],
                     strerror(errno));
    m->at[i] = at;
  }
  return MR_OK;
}

static void map_close(mr_reader_t *r) {
  map_t *m = r->state;
  for (int i = 0; m && i < r->n_files; i++)
    if (m->at[i]) munmap(m->at[i], (size_t)r->size[i]);
  free(m);
  r->state = NULL;
}

/* False if a page could not be loaded. */
static bool reader_mmap_copy(void *dst, const char *from, size_t len) {
  copying.len = len;
  copying.from = from;
  bool whole = sigsetjmp(copying.out, 0) == 0;
  if (whole) memcpy(dst, from, len);
  copying.from = NULL;
  return whole;
}

static mr_err_t map_read(mr_reader_t *r, const mr_read_t *read, size_t n, mr_diag_t *diag) {
  const map_t *m = r->state;
  for (size_t i = 0; i < n; i++) {
    const mr_read_t *one = &read[i];
    bool inside = one->offset + (int64_t)one->len <= r->size[one->file];
    if (one->len == 0 ||
        (inside && reader_mmap_copy(one->dst, m->at[one->file] + one->offset, one->len)))
      continue;
    MR_TRY(mr__reader_plain(r, *one, diag));
  }
  return MR_OK;
}

const mr_reader_way_t mr__reader_mmap = {
    .merges = false, .open = reader_mmap_map_open, .close = map_close, .read = map_read};
