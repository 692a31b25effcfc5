/* One thread and one executable for each rank.  A run raises a counter; each thread that sees it
   does its part of the work, and the last one to finish wakes the caller. */
#include "model/call/rank_threads.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/forks.h"
#include "model/exec/backend.h"
#include "model/exec/device.h"
#include "model/exec/mesh_comm.h"

typedef struct rank_thread {
  mr__rank_threads_t *all;
  int rank;
  mr_mesh_comm_t *comm;
  mr_exec_t *exec;
  pthread_t thread;
  int64_t done; /* the last run that its thread has begun */
  bool started;
} rank_thread_t;

struct mr__rank_threads {
  const char *what;
  int n;
  mr__rank_work *work; /* of the run in progress */
  void *arg;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  uint32_t forks; /* mr_forks() where the threads are */
  int64_t run;    /* runs requested so far; a rank runs when it has done fewer */
  int working;    /* ranks that have not finished the last one */
  bool stop;
  bool without_threads; /* in a child: the system gives too few */
  rank_thread_t rank[];
};

static void *rank_thread_main(void *arg) {
  rank_thread_t *d = arg;
  mr__rank_threads_t *t = d->all;
  pthread_mutex_lock(&t->lock);
  for (;;) {
    while (!t->stop && t->run == d->done) pthread_cond_wait(&t->changed, &t->lock);
    if (t->stop) break;
    d->done = t->run;
    mr__rank_work *work = t->work;
    void *of = t->arg;
    pthread_mutex_unlock(&t->lock);
    work(of, d->rank, d->exec);
    pthread_mutex_lock(&t->lock);
    if (--t->working == 0) pthread_cond_broadcast(&t->changed);
  }
  pthread_mutex_unlock(&t->lock);
  return NULL;
}

/* In a child, which has none of the threads: starts them anew. */
static void start_ranks_again(mr__rank_threads_t *t) {
  t->forks = mr_forks();
  pthread_mutex_init(&t->lock, NULL);
  pthread_cond_init(&t->changed, NULL);
  for (int i = 0; i < t->n; i++) {
    rank_thread_t *d = &t->rank[i];
    d->done = t->run;
    d->started = !t->without_threads && !pthread_create(&d->thread, NULL, rank_thread_main, d);
    t->without_threads |= !d->started;
  }
}

bool mr__rank_threads_run(mr__rank_threads_t *t, mr__rank_work *work, void *arg) {
  if (t->forks != mr_forks()) start_ranks_again(t);
  if (t->without_threads) return false;
  pthread_mutex_lock(&t->lock);
  t->work = work, t->arg = arg;
  t->working = t->n;
  t->run++;
  pthread_cond_broadcast(&t->changed);
  while (t->working) pthread_cond_wait(&t->changed, &t->lock);
  pthread_mutex_unlock(&t->lock);
  return true;
}

/* A name for the mesh that no other of the process can be mistaken for. */
static void name_mesh(char id[32]) {
  static _Atomic uint64_t count; /* relaxed: makes a unique name */
  snprintf(id, 32, "graph %llu",
           (unsigned long long)atomic_fetch_add_explicit(&count, 1, memory_order_relaxed));
}

static const mr_device_t *device_of(const mr_pmap_options_t *o, int rank) {
  return o && o->device ? o->device[rank] : NULL;
}

/* All ranks join before one is compiled, so that none can be too late. */
static mr_err_t join_ranks(mr__rank_threads_t *t, const mr_mesh_t *mesh, const mr_pmap_options_t *o,
                           mr_diag_t *diag) {
  char id[32];
  double limit = o && o->limit_s ? o->limit_s : (double)INFINITY;
  name_mesh(id);
  for (int r = 0; r < t->n; r++) {
    const mr_device_t *on = device_of(o, r);
    if (on && !on->backend->host)
      return mr_fail(diag, MR_ERR_CONFIG,
                     "%s: device %s of rank %d: want a share of the processors, as cpu:0/%d",
                     t->what, on->name, r, t->n);
    MR_TRY(mr_mesh_comm_create(&mr_collect_threads, mr_device_default(), mesh, id, r, limit,
                               &t->rank[r].comm, diag));
  }
  return MR_OK;
}

static mr_err_t start_rank(mr__rank_threads_t *t, const mr_fn_t *f, int rank, int n_axes,
                           const char *axis, const mr_pmap_options_t *options, mr_diag_t *diag) {
  const mr_device_t *on = device_of(options, rank);
  int threads = options && options->threads ? options->threads : on ? mr_device_threads(on) : 1;
  rank_thread_t *d = &t->rank[rank];
  mr_comm_rank_t along[MR_MESH_AXES];
  memcpy(along, mr_mesh_comm_ranks(d->comm), (size_t)n_axes * sizeof *along);
  if (axis) along[0].axis = axis;
  mr_compile_options_t o = {
      .device = on, .threads = threads, .rank = n_axes ? along : NULL, .n_ranks = n_axes};
  MR_TRY(mr_compile(f, &o, &d->exec, diag));
  if (pthread_create(&d->thread, NULL, rank_thread_main, d))
    return mr_fail(diag, MR_ERR_NOMEM, "%s: no thread for device %d of %d", t->what, rank, t->n);
  d->started = true;
  return MR_OK;
}

mr_err_t mr__rank_threads_create(const char *what, const mr_fn_t *f, const mr_mesh_t *mesh,
                                 const char *axis, const mr_pmap_options_t *options,
                                 mr__rank_threads_t **out, mr_diag_t *diag) {
  int n = mr_mesh_ranks(mesh);
  if (n < 1 || n > MR_COLLECT_RANKS)
    return mr_fail(diag, MR_ERR_CONFIG, "%s: %d devices, want 1 to %d", what, n, MR_COLLECT_RANKS);
  mr__rank_threads_t *t = calloc(1, sizeof *t + (size_t)n * sizeof t->rank[0]);
  if (!t) return mr_no_memory(diag, "%s", what);
  t->what = what, t->n = n, t->forks = mr_forks();
  pthread_mutex_init(&t->lock, NULL);
  pthread_cond_init(&t->changed, NULL);
  for (int r = 0; r < n; r++) t->rank[r].all = t, t->rank[r].rank = r;
  mr_err_t e = join_ranks(t, mesh, options, diag);
  for (int r = 0; r < n && e >= 0; r++) e = start_rank(t, f, r, mesh->n, axis, options, diag);
  if (e < 0) return mr__rank_threads_destroy(t), e;
  return *out = t, MR_OK;
}

mr_err_t mr__rank_threads_failed(const mr__rank_threads_t *t, int *rank, mr_diag_t *diag) {
  for (*rank = 0; t->without_threads && t->rank[*rank].started;) ++*rank;
  if (t->without_threads)
    return mr_fail(diag, MR_ERR_UNAVAILABLE,
                   "%s: no thread for device %d of %d in a process that was forked since", t->what,
                   *rank, t->n);
  for (int r = 0; r < t->n; r++) { /* a group of one axis may have failed alone */
    mr_err_t e = mr_mesh_comm_failed(t->rank[r].comm, rank, diag);
    if (e < 0) return e;
  }
  return MR_OK;
}

void mr__rank_threads_destroy(mr__rank_threads_t *t) {
  if (!t) return;
  if (t->forks != mr_forks())
    pthread_mutex_init(&t->lock, NULL), pthread_cond_init(&t->changed, NULL);
  pthread_mutex_lock(&t->lock);
  t->stop = true;
  pthread_cond_broadcast(&t->changed);
  pthread_mutex_unlock(&t->lock);
  for (int r = 0; r < t->n; r++) {
    rank_thread_t *d = &t->rank[r];
    if (d->started && t->forks == mr_forks()) pthread_join(d->thread, NULL);
    mr_exec_destroy(d->exec);
  }
  for (int r = 0; r < t->n; r++) mr_mesh_comm_destroy(t->rank[r].comm);
  pthread_cond_destroy(&t->changed);
  pthread_mutex_destroy(&t->lock);
  free(t);
}
