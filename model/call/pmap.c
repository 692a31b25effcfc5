/* One thread and one executable for each device.  A run raises a counter; each thread that sees it
   runs its executable on its part of the arrays, and the last one to finish wakes the caller. */
#include "model/call/pmap.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/forks.h"
#include "model/exec/backend.h"
#include "model/exec/comm.h"
#include "model/exec/exec.h"

typedef struct device {
  mr_pmapped_t *all;
  int rank;
  mr_exec_t *exec;
  const void **in;
  void **out;
  pthread_t thread;
  int64_t done; /* the last run that its thread has begun */
  bool started;
} device_t;

struct mr_pmapped {
  mr_comm_t *comm;
  int n, n_in, n_out;
  size_t *step_in, *step_out; /* bytes from one device's value to the next; 0: shared */
  const void *const *in;      /* of the run in progress */
  void *const *out;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  uint32_t forks; /* mr_forks() where the devices' threads are */
  int64_t run;    /* runs requested so far; a device runs when it has done fewer */
  int working;    /* devices that have not finished the last one */
  bool stop;
  bool without_threads; /* in a child: the system gives too few */
  device_t device[];
};

static void compute_rank(device_t *d) {
  mr_pmapped_t *p = d->all;
  size_t rank = (size_t)d->rank;
  for (int i = 0; i < p->n_in; i++) d->in[i] = (const char *)p->in[i] + rank * p->step_in[i];
  for (int k = 0; k < p->n_out; k++) d->out[k] = (char *)p->out[k] + rank * p->step_out[k];
  mr_exec_run(d->exec, d->in, d->out);
}

static void *device_main(void *arg) {
  device_t *d = arg;
  mr_pmapped_t *p = d->all;
  pthread_mutex_lock(&p->lock);
  for (;;) {
    while (!p->stop && p->run == d->done) pthread_cond_wait(&p->changed, &p->lock);
    if (p->stop) break;
    d->done = p->run;
    pthread_mutex_unlock(&p->lock);
    compute_rank(d);
    pthread_mutex_lock(&p->lock);
    if (--p->working == 0) pthread_cond_broadcast(&p->changed);
  }
  pthread_mutex_unlock(&p->lock);
  return NULL;
}

/* In a child, which has none of the threads: starts them anew. */
static void pmap_start_again(mr_pmapped_t *p) {
  p->forks = mr_forks();
  pthread_mutex_init(&p->lock, NULL);
  pthread_cond_init(&p->changed, NULL);
  for (int i = 0; i < p->n; i++) {
    device_t *d = &p->device[i];
    d->done = p->run;
    d->started = !p->without_threads && !pthread_create(&d->thread, NULL, device_main, d);
    p->without_threads |= !d->started;
  }
}

void mr_pmap_run(mr_pmapped_t *p, const void *const *in, void *const *out) {
  if (p->forks != mr_forks()) pmap_start_again(p);
  if (p->without_threads) {
    for (int k = 0; k < p->n_out; k++) memset(out[k], 0xFF, (size_t)p->n * p->step_out[k]);
    return;
  }
  pthread_mutex_lock(&p->lock);
  p->in = in;
  p->out = out;
  p->working = p->n;
  p->run++;
  pthread_cond_broadcast(&p->changed);
  while (p->working) pthread_cond_wait(&p->changed, &p->lock);
  pthread_mutex_unlock(&p->lock);
}

static mr_err_t pmap_start(mr_pmapped_t *p, const mr_fn_t *f, int rank, const char *axis,
                           const mr_pmap_options_t *options, mr_diag_t *diag) {
  const mr_device_t *on = options && options->device ? options->device[rank] : NULL;
  int threads = options && options->threads ? options->threads : on ? mr_device_threads(on) : 1;
  device_t *d = &p->device[rank];
  mr_comm_rank_t speaks = mr_comm_rank_of(p->comm, rank, axis);
  mr_compile_options_t o = {.device = on, .threads = threads, .rank = axis ? &speaks : NULL};
  if (on && !on->backend->host)
    return mr_fail(diag, MR_ERR_CONFIG,
                   "pmap: device %s of rank %d: want a share of the processors, as cpu:0/%d",
                   on->name, rank, p->n);
  d->all = p;
  d->rank = rank;
  d->in = calloc((size_t)p->n_in + 1, sizeof *d->in);
  d->out = calloc((size_t)p->n_out + 1, sizeof *d->out);
  if (!d->in || !d->out) return mr_no_memory(diag, "pmap");
  MR_TRY(mr_compile(f, &o, &d->exec, diag));
  if (pthread_create(&d->thread, NULL, device_main, d))
    return mr_fail(diag, MR_ERR_NOMEM, "pmap: no thread for device %d of %d", rank, p->n);
  d->started = true;
  return MR_OK;
}

mr_err_t mr_pmap(const mr_fn_t *f, const char *axis_name, int devices,
                 const mr_pmap_options_t *options, mr_pmapped_t **out, mr_diag_t *diag) {
  mr_comm_t *comm;
  double limit = options && options->limit_s ? options->limit_s : (double)INFINITY;
  MR_TRY(mr_comm_create(devices, limit, &comm, diag));
  mr_pmapped_t *p = calloc(1, sizeof *p + (size_t)devices * sizeof p->device[0]);
  size_t *step = calloc((size_t)(f->n_in + f->n_out) + 1, sizeof *step);
  if (!p || !step) {
    mr_comm_destroy(comm);
    free(p);
    free(step);
    return mr_no_memory(diag, "pmap");
  }
  p->comm = comm;
  p->forks = mr_forks();
  p->n = devices, p->n_in = f->n_in, p->n_out = f->n_out;
  p->step_in = step, p->step_out = step + f->n_in;
  pthread_mutex_init(&p->lock, NULL);
  pthread_cond_init(&p->changed, NULL);
  for (int i = 0; i < f->n_in; i++)
    if (!options || !options->shared || !options->shared[i])
      p->step_in[i] = mr_aval_bytes(&f->in[i]->aval);
  for (int k = 0; k < f->n_out; k++) p->step_out[k] = mr_aval_bytes(&f->out[k]->aval);
  mr_err_t err = MR_OK;
  for (int i = 0; i < devices && err >= 0; i++) err = pmap_start(p, f, i, axis_name, options, diag);
  if (err < 0) {
    mr_pmap_destroy(p);
    return err;
  }
  *out = p;
  return MR_OK;
}

mr_err_t mr_pmap_failed(const mr_pmapped_t *p, int *rank, mr_diag_t *diag) {
  for (*rank = 0; p->without_threads && p->device[*rank].started;) ++*rank;
  if (p->without_threads)
    return mr_fail(diag, MR_ERR_UNAVAILABLE,
                   "pmap: no thread for device %d of %d in a process that was forked since", *rank,
                   p->n);
  return mr_comm_failed(p->comm, rank, diag);
}

void mr_pmap_destroy(mr_pmapped_t *p) {
  if (!p) return;
  if (p->forks != mr_forks())
    pthread_mutex_init(&p->lock, NULL), pthread_cond_init(&p->changed, NULL);
  pthread_mutex_lock(&p->lock);
  p->stop = true;
  pthread_cond_broadcast(&p->changed);
  pthread_mutex_unlock(&p->lock);
  for (int i = 0; i < p->n; i++) {
    device_t *d = &p->device[i];
    if (d->started && p->forks == mr_forks()) pthread_join(d->thread, NULL);
    mr_exec_destroy(d->exec);
    free(d->in);
    free(d->out);
  }
  pthread_cond_destroy(&p->changed);
  pthread_mutex_destroy(&p->lock);
  mr_comm_destroy(p->comm);
  free(p->step_in);
  free(p);
}
