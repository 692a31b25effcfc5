/* Whole files in bursts.  Each worker has two bursts: the one it was given, and the one being read
   ahead.  Slots of announced bursts are jobs in a list; any reading thread takes the next one. */
#include "loaders/local/files.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/xio.h"

enum { THREADS_MAX = 64 };

typedef struct slot {
  int64_t index;
  uint8_t *data; /* [cap] grows, with one byte more than the largest file so far */
  size_t cap, size;
  mr_err_t code; /* MR_ERR_IO: reason is an errno; MR_ERR_DATA: 0, or the size of a large file;
                    MR_ERR_NOMEM: 0, or the errno of open */
  int64_t reason;
} slot_t;

typedef struct files_burst {
  slot_t slot[MR_BURST];
  int n, begun, done;       /* slots; taken by threads; read.  Under the lock while announced */
  struct files_burst *next; /* in the list of announced bursts with slots to take */
} files_burst_t;

typedef struct files_worker {
  files_burst_t burst[2];
  int now;        /* the burst that was given last; the other one may be announced */
  bool announced; /* used by this worker alone */
} files_worker_t;

struct mr_files {
  mr_files_conf_t conf;
  int folder;
  files_worker_t *of_worker[MR_MAX_READERS]; /* made by its worker */
  pthread_t thread[THREADS_MAX];
  int n_threads;
  pthread_mutex_t lock; /* guards the members below and begun, done and next of announced bursts */
  pthread_cond_t work, read;
  files_burst_t *first, **last;
  bool ends;
};

/* ---- one file ---- */

static mr_err_t slot_fail(slot_t *s, mr_err_t code, int64_t reason) {
  s->reason = reason;
  return s->code = code;
}

static mr_err_t slot_read(const mr_files_t *f, slot_t *s, int fd) {
  struct stat st;
  if (fstat(fd, &st) < 0) return slot_fail(s, MR_ERR_IO, errno);
  if (!S_ISREG(st.st_mode)) return slot_fail(s, MR_ERR_DATA, 0);
  if (st.st_size > f->conf.max_bytes) return slot_fail(s, MR_ERR_DATA, st.st_size);
  if ((size_t)st.st_size >= s->cap) {
    free(s->data);
    s->cap = (size_t)st.st_size + (size_t)st.st_size / 4 + 4096;
    s->data = malloc(s->cap);
    if (!s->data) return s->cap = 0, slot_fail(s, MR_ERR_NOMEM, 0);
  }
  while (s->size < (size_t)st.st_size) {
    ssize_t n = pread(fd, s->data + s->size, (size_t)st.st_size - s->size, (off_t)s->size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return slot_fail(s, MR_ERR_IO, errno);
    if (n == 0) break; /* it has become shorter */
    s->size += (size_t)n;
  }
  return MR_OK;
}

/* O_NONBLOCK: opening a pipe must not wait for its writer. */
static void slot_fill(const mr_files_t *f, slot_t *s) {
  const char *path = f->conf.path(f->conf.ctx, s->index);
  s->code = MR_OK, s->size = 0;
  int fd;
  do {
    fd = openat(f->folder, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  } while (fd < 0 && errno == EINTR);
  if (fd < 0) {
    slot_fail(s, mr_is_shortage(errno) ? MR_ERR_NOMEM : MR_ERR_IO, errno);
    return;
  }
  slot_read(f, s, fd);
  close(fd);
}

static mr_err_t slot_short(const slot_t *s, const char *folder, const char *path, mr_diag_t *diag) {
  char whole[MR_PATH_MAX];
  if (!s->reason) return mr_no_memory(diag, "%s/%s", folder, path);
  snprintf(whole, sizeof whole, "%s/%s", folder, path);
  return mr_open_short(whole, (int)s->reason, diag);
}

static mr_err_t slot_report(const mr_files_t *f, const slot_t *s, mr_diag_t *diag) {
  const char *folder = f->conf.folder, *path = f->conf.path(f->conf.ctx, s->index);
  switch (s->code) {
    case MR_OK: return MR_OK;
    case MR_ERR_NOMEM: return slot_short(s, folder, path, diag);
    case MR_ERR_IO:
      return mr_fail(diag, MR_ERR_IO, "%s/%s: cannot be read: %s", folder, path,
                     strerror((int)s->reason));
    default: break;
  }
  if (!s->reason) return mr_fail(diag, MR_ERR_DATA, "%s/%s: is not a regular file", folder, path);
  return mr_fail(diag, MR_ERR_DATA, "%s/%s: %" PRId64 " bytes, want at most max-bytes=%" PRId64,
                 folder, path, s->reason, f->conf.max_bytes);
}

/* ---- reading threads ---- */

static void *files_run(void *arg) {
  mr_files_t *f = arg;
  pthread_mutex_lock(&f->lock);
  for (;;) {
    while (!f->first && !f->ends) pthread_cond_wait(&f->work, &f->lock);
    if (f->ends) break;
    files_burst_t *b = f->first;
    slot_t *s = &b->slot[b->begun++];
    if (b->begun == b->n && !(f->first = b->next)) f->last = &f->first;
    pthread_mutex_unlock(&f->lock);
    slot_fill(f, s);
    pthread_mutex_lock(&f->lock);
    if (++b->done == b->n) pthread_cond_broadcast(&f->read);
  }
  pthread_mutex_unlock(&f->lock);
  return NULL;
}

static void burst_wait(mr_files_t *f, files_burst_t *b) {
  pthread_mutex_lock(&f->lock);
  while (b->done < b->n) pthread_cond_wait(&f->read, &f->lock);
  pthread_mutex_unlock(&f->lock);
}

/* ---- life ---- */

mr_err_t mr_files_open(mr_files_t **out, const mr_files_conf_t *conf, mr_diag_t *diag) {
  mr_files_t *f = *out = calloc(1, sizeof *f);
  if (!f) return mr_no_memory(diag, "reading files");
  f->conf = *conf, f->last = &f->first;
  pthread_mutex_init(&f->lock, NULL);
  pthread_cond_init(&f->work, NULL), pthread_cond_init(&f->read, NULL);
  f->folder = open(conf->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  mr_err_t e = MR_OK;
  if (f->folder < 0)
    e = mr_fail(diag, MR_ERR_IO, "%s: the folder cannot be read: %s", conf->folder,
                strerror(errno));
  while (e >= 0 && f->n_threads < conf->threads && f->n_threads < THREADS_MAX &&
         !pthread_create(&f->thread[f->n_threads], NULL, files_run, f))
    f->n_threads++; /* with fewer threads, or none, files are read all the same */
  if (e < 0) mr_files_close(f), *out = NULL;
  return e;
}

static void files_worker_free(files_worker_t *l) {
  for (int i = 0; l && i < 2 * MR_BURST; i++) free(l->burst[i / MR_BURST].slot[i % MR_BURST].data);
  free(l);
}

void mr_files_close(mr_files_t *f) {
  if (!f) return;
  pthread_mutex_lock(&f->lock);
  f->ends = true;
  pthread_cond_broadcast(&f->work);
  pthread_mutex_unlock(&f->lock);
  for (int i = 0; i < f->n_threads; i++) pthread_join(f->thread[i], NULL);
  for (int w = 0; w < MR_MAX_READERS; w++) files_worker_free(f->of_worker[w]);
  if (f->folder >= 0) close(f->folder);
  pthread_cond_destroy(&f->work), pthread_cond_destroy(&f->read);
  pthread_mutex_destroy(&f->lock);
  free(f);
}

/* ---- bursts ---- */

static files_worker_t *files_worker(mr_files_t *f, int worker) {
  assert(worker >= 0 && worker < MR_MAX_READERS);
  if (!f->of_worker[worker]) f->of_worker[worker] = calloc(1, sizeof *f->of_worker[worker]);
  return f->of_worker[worker];
}

static void burst_set(files_burst_t *b, const int64_t *index, int n) {
  assert(n <= MR_BURST);
  b->n = n, b->begun = b->done = 0, b->next = NULL;
  for (int i = 0; i < n; i++) b->slot[i].index = index[i];
}

static bool burst_is(const files_burst_t *b, const int64_t *index, int n) {
  bool same = b->n == n;
  for (int i = 0; i < n && same; i++) same = b->slot[i].index == index[i];
  return same;
}

bool mr_files_ahead(mr_files_t *f, int worker, const int64_t *index, int n) {
  files_worker_t *l = f->n_threads ? files_worker(f, worker) : NULL;
  if (!l || !n) return l;
  files_burst_t *b = &l->burst[!l->now];
  if (l->announced) burst_wait(f, b);
  burst_set(b, index, n);
  l->announced = true;
  pthread_mutex_lock(&f->lock);
  *f->last = b, f->last = &b->next;
  pthread_cond_broadcast(&f->work);
  pthread_mutex_unlock(&f->lock);
  return true;
}

mr_err_t mr_files_fetch(mr_files_t *f, int worker, const int64_t *index, int n, uint8_t **data,
                        size_t *size, mr_diag_t *diag) {
  files_worker_t *l = files_worker(f, worker);
  if (!l) return mr_no_memory(diag, "reading files");
  files_burst_t *b = &l->burst[!l->now];
  if (l->announced) burst_wait(f, b);
  bool known = l->announced && burst_is(b, index, n);
  l->announced = false, l->now = !l->now;
  if (!known) burst_set(b, index, n);
  for (int i = 0; i < n && !known; i++) slot_fill(f, &b->slot[i]);
  for (int i = 0; i < n; i++) {
    if (known && b->slot[i].code == MR_ERR_NOMEM) slot_fill(f, &b->slot[i]); /* now it may do */
    MR_TRY(slot_report(f, &b->slot[i], diag));
    data[i] = b->slot[i].data, size[i] = b->slot[i].size;
  }
  return MR_OK;
}
