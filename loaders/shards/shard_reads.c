/* The table of open files, and the fetch of a burst.  A file is closed when too many are open and
   no read of it is in progress; a clock hand that moves over the table chooses it. */
#include "loaders/shards/shard_reads.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/xio.h"
#include "loaders/shards/shard_names.h"
#include "pipeline/stage.h"

enum { ALIGN = 64, WANTS_MAX = MR_BURST * MR_SHARD_PARTS_READ };

typedef struct open_file {
  int fd;   /* -1: closed */
  int uses; /* reads in progress; it stays open while there are some */
} open_file_t;

/* Memory of one worker; used by that worker alone. */
typedef struct shard_worker {
  uint8_t *room;
  size_t cap;
} shard_worker_t;

struct mr_shard_reads {
  const mr_shards_t *shards;
  pthread_mutex_t lock; /* guards file, n_open and hand */
  open_file_t *file;    /* [shards->n] */
  int n_open, most, hand;
  shard_worker_t of_worker[MR_MAX_READERS];
};

/* A quarter of what the process may open, at least one: it may have other sources. */
static int files_at_once(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) < 0) return 1;
  rlim_t quarter = limit.rlim_cur / 4;
  return limit.rlim_cur == RLIM_INFINITY || quarter >= MR_SHARDS_MAX ? MR_SHARDS_MAX
                                                                     : (int)quarter + 1;
}

/* Sends a notice if reads will open and close files over and over, which costs a random read of a
   cached record five times its time. */
static void say_most_files(const mr_shard_reads_t *r) {
  int files = 0;
  for (int i = 0; i < r->shards->n; i++) files += !r->shards->shard[i].object;
  if (files > r->most)
    mr_notice(
        "%s: it is one of %d files, of which %d can be open at once, a quarter of what the "
        "process may open; reads of the others open them again, which is slower; want a "
        "higher limit (`ulimit -n %d`) or fewer, larger files",
        r->shards->shard[0].path, files, r->most, 4 * files);
}

mr_err_t mr_shard_reads_open(mr_shard_reads_t **out, const mr_shards_t *shards, mr_diag_t *diag) {
  mr_shard_reads_t *r = *out = calloc(1, sizeof *r);
  if (r) r->file = malloc((size_t)shards->n * sizeof *r->file);
  if (!r || !r->file) {
    free(r), *out = NULL;
    return mr_no_memory(diag, "%d files", shards->n);
  }
  for (int i = 0; i < shards->n; i++) r->file[i] = (open_file_t){.fd = -1};
  r->shards = shards;
  r->most = files_at_once();
  pthread_mutex_init(&r->lock, NULL);
  say_most_files(r);
  return MR_OK;
}

void mr_shard_reads_close(mr_shard_reads_t *r) {
  if (!r) return;
  for (int i = 0; i < r->shards->n; i++)
    if (r->file[i].fd >= 0) close(r->file[i].fd);
  for (int w = 0; w < MR_MAX_READERS; w++) free(r->of_worker[w].room);
  pthread_mutex_destroy(&r->lock);
  free(r->file), free(r);
}

/* ---- open files ---- */

/* Closes a file that nothing reads; false if all are in use.  Called with the lock held. */
static bool close_idle_file(mr_shard_reads_t *r) {
  for (int seen = 0; seen < r->shards->n; seen++) {
    open_file_t *f = &r->file[r->hand];
    r->hand = (r->hand + 1) % r->shards->n;
    if (f->fd < 0 || f->uses) continue;
    close(f->fd);
    f->fd = -1, r->n_open--;
    return true;
  }
  return false;
}

/* Idle files give way when there are too many, or the process or the system has no descriptor left.
   Called with the lock held. */
static int open_in_room(mr_shard_reads_t *r, const char *path, int how) {
  while (r->n_open >= r->most && close_idle_file(r)) continue;
  for (;;) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | how);
    int error = errno;
    if (fd >= 0 || (error != EINTR && !(mr_is_shortage(error) && close_idle_file(r)))) {
      errno = error;
      return fd;
    }
  }
}

static mr_err_t open_failed(const char *path, int error, mr_diag_t *diag) {
  if (mr_is_shortage(error)) return mr_open_short(path, error, diag);
  return mr_fail(diag, MR_ERR_IO, "%s: cannot be opened: %s", path, strerror(error));
}

static mr_err_t check_unchanged(const mr_shard_t *shard, int fd, mr_diag_t *diag) {
  mr_shard_id_t now;
  if (shard->unpacked) MR_TRY(mr_trusted(fd, shard->path, MR_KEPT_SHARD, &shard->trust, diag));
  MR_TRY(mr_shard_id_of(fd, shard->path, &now, diag));
  if (!memcmp(&now, &shard->id, sizeof now)) return MR_OK;
  return mr_fail(diag, MR_ERR_DATA, "%s: has changed since the graph was planned", shard->path);
}

/* Takes a file for reading; let_go ends that. */
static mr_err_t take_file(mr_shard_reads_t *r, const mr_shard_t *shard, int *fd, mr_diag_t *diag) {
  open_file_t *f = &r->file[shard - r->shards->shard];
  mr_err_t e = MR_OK;
  pthread_mutex_lock(&r->lock);
  if (f->fd < 0) {
    int opened = open_in_room(r, shard->path, shard->unpacked ? O_NOFOLLOW : 0);
    e = opened < 0 ? open_failed(shard->path, errno, diag) : check_unchanged(shard, opened, diag);
    if (e < 0 && opened >= 0) close(opened);
    if (e >= 0) {
      f->fd = opened, r->n_open++;
      posix_fadvise(opened, 0, 0, POSIX_FADV_RANDOM); /* advice: parts are far from each other */
    }
  }
  if (e >= 0) f->uses++, *fd = f->fd;
  pthread_mutex_unlock(&r->lock);
  return e;
}

static void let_go(mr_shard_reads_t *r, const mr_shard_t *shard) {
  pthread_mutex_lock(&r->lock);
  r->file[shard - r->shards->shard].uses--;
  pthread_mutex_unlock(&r->lock);
}

/* ---- reading ---- */

static size_t room_of(int64_t size) {
  return ((size_t)size + 2 * ALIGN - 1) / ALIGN * ALIGN; /* and at least 64 zeros behind it */
}

static mr_err_t lay_out(shard_worker_t *l, mr_shard_want_t *want, int n, mr_diag_t *diag) {
  size_t bytes = 0;
  for (int i = 0; i < n; i++) {
    if (want[i].pass) continue;
    if (want[i].size > MR_SHARD_PART_MAX + MR_SHARD_HEAD_MAX)
      return mr_fail(diag, MR_ERR_DATA,
                     "%s: %" PRId64 " bytes at byte %" PRId64 ", want at most %d",
                     want[i].shard->path, want[i].size, want[i].at, MR_SHARD_PART_MAX);
    bytes += room_of(want[i].size) + ALIGN;
  }
  if (bytes > l->cap) {
    free(l->room);
    l->cap = (bytes + bytes / 2) / ALIGN * ALIGN + ALIGN;
    l->room = aligned_alloc(ALIGN, l->cap);
    if (!l->room) l->cap = 0;
    if (!l->room) return mr_no_memory(diag, "%zu bytes of records", bytes);
  }
  uint8_t *at = l->room;
  for (int i = 0; i < n; i++) {
    want[i].data = NULL;
    if (want[i].pass) continue;
    want[i].data = at;
    at += room_of(want[i].size) + ALIGN;
    memset(want[i].data + want[i].size, 0, ALIGN);
  }
  return MR_OK;
}

/* Copies what the page cache holds; returns how many bytes. */
static int64_t read_cached_part(int fd, const mr_shard_want_t *w) {
  struct iovec v = {w->data, (size_t)w->size};
  ssize_t got = w->size ? preadv2(fd, &v, 1, w->at, RWF_NOWAIT) : 0;
  return got > 0 ? got : 0;
}

static mr_err_t read_rest(int fd, const mr_shard_want_t *w, int64_t have, mr_diag_t *diag) {
  while (have < w->size) {
    ssize_t got = pread(fd, w->data + have, (size_t)(w->size - have), w->at + have);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got == 0)
      return mr_fail(diag, MR_ERR_DATA, "%s: ends at byte %" PRId64 ", want %" PRId64 " bytes more",
                     w->shard->path, w->at + have, w->size - have);
    if (got < 0)
      return mr_fail(diag, MR_ERR_IO, "%s: cannot be read at byte %" PRId64 ": %s", w->shard->path,
                     w->at + have, strerror(errno));
    have += got;
  }
  return MR_OK;
}

/* Reads the first of want[0,n), as many as it can have open at once, at least one; *count is how
   many. */
static mr_err_t fetch_together(mr_shard_reads_t *r, const mr_shard_want_t *want, int n, int *count,
                               mr_diag_t *diag) {
  int fd[WANTS_MAX], taken = 0;
  int64_t have[WANTS_MAX];
  mr_diag_t why = {0};
  mr_err_t e = MR_OK;
  for (; taken < n; taken++) {
    const mr_shard_want_t *w = &want[taken];
    if (w->pass) continue;
    e = take_file(r, w->shard, &fd[taken], &why);
    if (e < 0) break;
    have[taken] = read_cached_part(fd[taken], w);
    if (have[taken] < w->size)
      posix_fadvise(fd[taken], w->at + have[taken], w->size - have[taken], POSIX_FADV_WILLNEED);
  }
  if (e == MR_ERR_NOMEM && taken) e = MR_OK; /* these give their descriptors to the others */
  if (e < 0) mr_diag_relay(diag, e, &why);
  for (int i = 0; i < taken && e >= 0; i++)
    if (!want[i].pass) e = read_rest(fd[i], &want[i], have[i], diag);
  for (int i = 0; i < taken; i++)
    if (!want[i].pass) let_go(r, want[i].shard);
  *count = taken;
  return e;
}

/* Reads local parts, and then all parts of objects at once. */
static mr_err_t fetch_mixed(mr_shard_reads_t *r, const mr_shard_want_t *want, int n,
                            mr_diag_t *diag) {
  mr_shard_want_t local[WANTS_MAX];
  mr_remote_want_t remote[WANTS_MAX];
  int n_local = 0, n_remote = 0;
  for (int i = 0; i < n; i++) {
    const mr_object_t *o = want[i].shard->object;
    if (o)
      remote[n_remote++] = (mr_remote_want_t){o, want[i].at, want[i].size, want[i].data};
    else
      local[n_local++] = want[i];
  }
  for (int at = 0, taken; at < n_local; at += taken)
    MR_TRY(fetch_together(r, local + at, n_local - at, &taken, diag));
  return mr_remote_read(r->shards->remote, remote, n_remote, diag);
}

mr_err_t mr_shard_reads_fetch(mr_shard_reads_t *r, int worker, mr_shard_want_t *want, int n,
                              mr_diag_t *diag) {
  assert(worker >= 0 && worker < MR_MAX_READERS && n <= WANTS_MAX);
  mr_err_t e = lay_out(&r->of_worker[worker], want, n, diag);
  if (r->shards->remote) return e < 0 ? e : fetch_mixed(r, want, n, diag);
  for (int at = 0, taken; at < n && e >= 0; at += taken)
    e = fetch_together(r, want + at, n - at, &taken, diag);
  return e;
}

static bool is_same_part(const mr_shard_want_t *a, const mr_shard_want_t *b) {
  return a->shard == b->shard && a->at == b->at && a->size == b->size;
}

void mr_shard_reads_ahead(mr_shard_reads_t *r, const mr_shard_want_t *want, int n) {
  for (int i = 0; i < n; i++) {
    int fd;
    if (i && is_same_part(&want[i], &want[i - 1])) continue; /* records of one group */
    if (want[i].shard->object || !want[i].size || take_file(r, want[i].shard, &fd, NULL) < 0)
      continue;
    posix_fadvise(fd, want[i].at, want[i].size, POSIX_FADV_WILLNEED);
    let_go(r, want[i].shard);
  }
}
