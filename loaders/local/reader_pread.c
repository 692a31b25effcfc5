/* The pread way: the calling thread reads what the page cache holds; reads that must wait for the
   device go to 32 threads, so that as many are in flight as with io_uring.  All readers of the
   process share the threads, which start at the first such read and end with the last reader. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "loaders/local/reader_private.h"

enum { THREADS = 32 };

/* The reads of one call that wait for the device. */
typedef struct job {
  const mr_reader_t *r;
  const mr_read_t *read;
  size_t n, next, done; /* next: not yet begun */
  mr_err_t e;
  mr_diag_t diag;
  pthread_cond_t whole;
  struct job *after;
} job_t;

/* The lock guards everything; reads themselves run without it. */
static struct pool {
  pthread_mutex_t lock;
  pthread_cond_t work;
  job_t *first, *last; /* with reads not yet begun */
  int readers, threads;
  bool ending;
  pthread_t thread[THREADS];
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER};

/* The state of one reader. */
typedef struct pread {
  const mr_read_t *read; /* [n] the reads of the current call */
  size_t n, next;        /* next: the first not tried yet */
  job_t job;             /* the reads in `left`; job.n is 0 if none waits */
  mr_read_t left[];      /* [depth] reads that wait for the device */
} pread_t;

/* Held to start and to join the threads, so that one caller at a time does either. */
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

mr_err_t mr__reader_plain(const mr_reader_t *r, mr_read_t left, mr_diag_t *diag) {
  while (left.len) {
    size_t want = left.len < r->window ? left.len : r->window;
    ssize_t got = pread(r->fd[left.file], left.dst, want, left.offset);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got <= 0) return mr__reader_fail(r, &left, got < 0 ? -errno : 0, diag);
    left.dst = (char *)left.dst + got, left.offset += got, left.len -= (size_t)got;
  }
  return MR_OK;
}

/* Takes one read of the first job and does it.  Called with the lock held; returns with it held. */
static void do_one(void) {
  job_t *j = pool.first;
  const mr_read_t *read = &j->read[j->next++];
  if (j->next == j->n) {
    pool.first = j->after;
    if (!pool.first) pool.last = NULL;
  }
  bool skip = j->e < 0;
  pthread_mutex_unlock(&pool.lock);
  mr_diag_t diag = {0};
  mr_err_t e = skip ? MR_OK : mr__reader_plain(j->r, *read, &diag);
  pthread_mutex_lock(&pool.lock);
  if (e < 0 && j->e == MR_OK) j->e = e, j->diag = diag;
  if (++j->done == j->n) pthread_cond_signal(&j->whole);
}

static void *thread_main(void *unused) {
  pthread_mutex_lock(&pool.lock);
  while (!pool.ending) {
    if (pool.first)
      do_one();
    else
      pthread_cond_wait(&pool.work, &pool.lock);
  }
  pthread_mutex_unlock(&pool.lock);
  return NULL;
}

/* In a child, which has none of the threads, and whose readers from before the fork are its
   parent's. */
static void pool_begin_again(void) {
  gate = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
  pool = (struct pool){.lock = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER};
}

__attribute__((constructor)) static void pool_outlives_forks(void) {
  pthread_atfork(NULL, NULL, pool_begin_again);
}

/* Starts the threads unless they run.  If none can be started, the calling threads do the reads. */
static void reader_pread_start_threads(void) {
  pthread_mutex_lock(&gate);
  pthread_mutex_lock(&pool.lock);
  bool none = pool.threads == 0;
  pthread_mutex_unlock(&pool.lock);
  int n = 0;
  while (none && n < THREADS && pthread_create(&pool.thread[n], NULL, thread_main, NULL) == 0) n++;
  pthread_mutex_lock(&pool.lock);
  if (none) pool.threads = n;
  pthread_mutex_unlock(&pool.lock);
  pthread_mutex_unlock(&gate);
}

static mr_err_t pread_open(mr_reader_t *r, mr_diag_t *diag) {
  r->state = calloc(1, sizeof(pread_t) + r->depth * sizeof(mr_read_t));
  if (!r->state) return mr_no_memory(diag, "%u reads", r->depth);
  pthread_mutex_lock(&pool.lock);
  pool.readers++;
  pthread_mutex_unlock(&pool.lock);
  return MR_OK;
}

static void pread_close(mr_reader_t *r) {
  if (!r->state) return;
  free(r->state);
  r->state = NULL;
  pthread_mutex_lock(&gate);
  pthread_mutex_lock(&pool.lock);
  bool last = --pool.readers == 0;
  int n = pool.threads;
  if (last) {
    pool.ending = true;
    pthread_cond_broadcast(&pool.work);
  }
  pthread_mutex_unlock(&pool.lock);
  for (int i = 0; last && i < n; i++) pthread_join(pool.thread[i], NULL);
  if (last) pool.threads = 0, pool.ending = false;
  pthread_mutex_unlock(&gate);
}

/* Reads what the page cache holds and leaves the rest in *read.  False if something is left. */
static bool read_cached(const mr_reader_t *r, mr_read_t *read) {
  struct iovec v = {read->dst, read->len};
  ssize_t got = preadv2(r->fd[read->file], &v, 1, read->offset, RWF_NOWAIT);
  if (got <= 0) return read->len == 0; /* also where the file system has no RWF_NOWAIT */
  read->dst = (char *)read->dst + got, read->offset += got, read->len -= (size_t)got;
  return read->len == 0;
}

static void give_to_pool(job_t *j) {
  reader_pread_start_threads();
  pthread_cond_init(&j->whole, NULL);
  pthread_mutex_lock(&pool.lock);
  *(pool.last ? &pool.last->after : &pool.first) = j;
  pool.last = j;
  pthread_cond_broadcast(&pool.work);
  pthread_mutex_unlock(&pool.lock);
}

/* Blocks until the pool has done a job; this thread does reads of it too. */
static mr_err_t wait_for_pool(job_t *j, mr_diag_t *diag) {
  pthread_mutex_lock(&pool.lock);
  while (j->next < j->n) do_one();
  while (j->done < j->n) pthread_cond_wait(&j->whole, &pool.lock);
  pthread_mutex_unlock(&pool.lock);
  pthread_cond_destroy(&j->whole);
  j->n = 0;
  return mr_diag_relay(diag, j->e, &j->diag);
}

/* Tries reads in the page cache until `depth` of them must wait; those go to the pool. */
static void begin_some(mr_reader_t *r, pread_t *t) {
  size_t waiting = 0;
  for (; t->next < t->n && waiting < r->depth; t->next++) {
    t->left[waiting] = t->read[t->next];
    if (!read_cached(r, &t->left[waiting])) waiting++;
  }
  t->job = (job_t){.r = r, .read = t->left, .n = waiting};
  if (waiting) give_to_pool(&t->job);
}

static void pread_begin(mr_reader_t *r, const mr_read_t *read, size_t n) {
  pread_t *t = r->state;
  t->read = read, t->n = n, t->next = 0;
  begin_some(r, t);
}

static mr_err_t pread_finish(mr_reader_t *r, mr_diag_t *diag) {
  pread_t *t = r->state;
  for (;; begin_some(r, t)) {
    if (t->job.n) MR_TRY(wait_for_pool(&t->job, diag));
    if (t->next == t->n) return MR_OK;
  }
}

/* A single read that must wait is not worth waking another thread. */
static mr_err_t pread_one(mr_reader_t *r, mr_read_t read, mr_diag_t *diag) {
  return read_cached(r, &read) ? MR_OK : mr__reader_plain(r, read, diag);
}

static mr_err_t pread_read(mr_reader_t *r, const mr_read_t *read, size_t n, mr_diag_t *diag) {
  if (n == 1) return pread_one(r, *read, diag);
  pread_begin(r, read, n);
  return pread_finish(r, diag);
}

const mr_reader_way_t mr__reader_pread = {.merges = true,
                                          .open = pread_open,
                                          .close = pread_close,
                                          .read = pread_read,
                                          .begin = pread_begin,
                                          .finish = pread_finish};
