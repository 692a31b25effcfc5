/* Ranks as threads.  Everything that can fail happens on the caller's thread before any rank
   computes, because a rank that does not come would keep the others waiting in the exchange.  A run
   is a counter that the caller raises; each thread that sees it runs its step, and the last one to
   finish wakes the caller. */
#include "model/train/ranks.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/exec/device.h"
#include "model/exec/mesh_comm.h"
#include "model/train/cut.h"
#include "model/train/step.h"

typedef struct peer {
  mr__ranks_t *all;
  mr_train_step_t *step;
  mr_params_t params;   /* as rank 0's */
  bool same;            /* params have the values of rank 0's */
  mr_mesh_comm_t *mesh; /* of a mesh that cuts arrays: the step has its parts, params has none */
  pthread_t thread;
  bool started;
} peer_t;

struct mr__ranks {
  mr_comm_t *comm;
  mr_mesh_comm_t *mesh; /* rank 0's place in a mesh that cuts arrays; NULL: ranks share parts */
  mr_compute_t compute; /* without the caller's policy */
  mr_optim_t optim;
  int shares; /* mr__step_shares: slots and average, with 3 values too, are rank 0's, of which each
                 rank updates a share */
  int n;      /* other ranks */
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int64_t run; /* runs requested so far */
  int working; /* threads that have not finished the last one */
  bool stop;
  peer_t peer[]; /* [n] of ranks 1, 2, ... */
};

static void *peer_main(void *arg) {
  peer_t *p = arg;
  mr__ranks_t *r = p->all;
  int64_t done = 0;
  pthread_mutex_lock(&r->lock);
  for (;;) {
    while (!r->stop && r->run == done) pthread_cond_wait(&r->changed, &r->lock);
    if (r->stop) break;
    done = r->run;
    pthread_mutex_unlock(&r->lock);
    mr__step_start(mr__train_step_of(p->step));
    pthread_mutex_lock(&r->lock);
    if (--r->working == 0) pthread_cond_broadcast(&r->changed);
  }
  pthread_mutex_unlock(&r->lock);
  mr_backends_leave();
  return NULL;
}

/* Each rank's share of the threads. */
static int threads_of_rank(const mr_train_config_t *t) {
  const mr_device_t *d = t->compute.device ? t->compute.device : mr_device_default();
  int all = t->compute.threads > 0 ? t->compute.threads : mr_device_threads(d);
  return all >= t->ranks ? all / t->ranks : 1;
}

/* What a rank is compiled for: t becomes its own, and own has room for its place. */
static const mr_comm_rank_t *prepare_rank(const mr__ranks_t *r, int rank, mr_train_config_t *t,
                                          mr_comm_rank_t *own) {
  const mr_mesh_comm_t *mesh = rank ? r->peer[rank - 1].mesh : r->mesh;
  t->rank = rank;
  t->compute.threads = threads_of_rank(t);
  *own = mr_comm_rank_of(r->comm, rank, MR__RANKS_AXIS);
  return mesh ? mr_mesh_comm_ranks(mesh) : own;
}

static mr_err_t ranks_step(const mr__ranks_t *r, const mr_loss_t *l, mr_train_config_t t, int rank,
                           mr_train_step_t **out, mr_diag_t *diag) {
  mr_comm_rank_t own;
  const mr_comm_rank_t *comm = prepare_rank(r, rank, &t, &own);
  return mr__train_step_of_rank(l, &t, comm, out, diag);
}

/* All ranks join the communicators of the mesh's axes before one is compiled. */
static mr_err_t join_mesh(mr__ranks_t *r, const mr_train_config_t *t, mr_diag_t *diag) {
  static _Atomic uint64_t count; /* relaxed: makes a name that no other mesh has */
  char id[32];
  mr_mesh_t mesh;
  mr__cut_mesh(t, &mesh);
  snprintf(id, sizeof id, "step %llu",
           (unsigned long long)atomic_fetch_add_explicit(&count, 1, memory_order_relaxed));
  for (int i = 0; i <= r->n; i++)
    MR_TRY(mr_mesh_comm_create(&mr_collect_threads, mr_device_default(), &mesh, id, i,
                               (double)INFINITY, i ? &r->peer[i - 1].mesh : &r->mesh, diag));
  return MR_OK;
}

static mr_err_t peer_start(peer_t *p, mr__ranks_t *r, int rank, mr_diag_t *diag) {
  p->all = r;
  if (pthread_create(&p->thread, NULL, peer_main, p))
    return mr_fail(diag, MR_ERR_NOMEM, "no thread for rank %d of %d", rank, r->n + 1);
  p->started = true;
  return MR_OK;
}

/* The ranks' places in their communicators, without steps.  The caller ends *out, which is NULL
   without memory, also after a failure. */
static mr_err_t take_places(const mr_train_config_t *config, mr__ranks_t **out, mr_diag_t *diag) {
  int n = config->ranks - 1;
  if (mr__step_device(&config->compute))
    return mr_fail(diag, MR_ERR_CONFIG,
                   "%d ranks: device %s is not the processors', which ranks of one process share",
                   config->ranks, config->compute.device->name);
  mr__ranks_t *r = calloc(1, sizeof *r + (size_t)n * sizeof r->peer[0]);
  if (!r) return mr_no_memory(diag, "a step of %d ranks", config->ranks);
  *out = r;
  pthread_mutex_init(&r->lock, NULL);
  pthread_cond_init(&r->changed, NULL);
  r->n = n, r->optim = config->optim, r->compute = config->compute;
  r->shares = mr__step_shares(config);
  r->compute.policy = NULL;
  mr_err_t e = mr_comm_create(config->ranks, (double)INFINITY, &r->comm, diag);
  if (e >= 0 && config->mesh) e = join_mesh(r, config, diag);
  return e;
}

mr_err_t mr__ranks_create(const mr_loss_t *l, const mr_train_config_t *config, mr__ranks_t **out,
                          mr_train_step_t **own, mr_diag_t *diag) {
  int n = config->ranks - 1;
  mr__ranks_t *r = NULL;
  mr_err_t e = take_places(config, &r, diag);
  if (e >= 0) e = ranks_step(r, l, *config, 0, own, diag);
  for (int i = 0; i < n && e >= 0; i++)
    e = ranks_step(r, l, *config, i + 1, &r->peer[i].step, diag);
  for (int i = 0; i < n && e >= 0; i++) e = peer_start(&r->peer[i], r, i + 1, diag);
  if (e >= 0) return *out = r, MR_OK;
  mr_train_step_destroy(*own);
  *own = NULL;
  mr__ranks_destroy(r);
  return e;
}

mr_err_t mr_train_step_plan_rank(const mr_loss_t *l, const mr_train_config_t *config,
                                 mr_params_t *list, mr_exec_t **out, mr_diag_t *diag) {
  mr_train_config_t t = *config;
  mr__ranks_t *r = NULL;
  mr_comm_rank_t own;
  if (t.ranks <= 1) {
    t.mesh = NULL;
    return mr__train_step_plan_of_rank(l, &t, NULL, list, out, diag);
  }
  MR_TRY(mr_train_parts_check(&t, diag));
  mr_err_t e = take_places(&t, &r, diag);
  const mr_comm_rank_t *comm = e >= 0 ? prepare_rank(r, t.rank, &t, &own) : NULL;
  if (e >= 0) e = mr__train_step_plan_of_rank(l, &t, comm, list, out, diag);
  mr__ranks_destroy(r);
  return e;
}

void mr__ranks_destroy(mr__ranks_t *r) {
  if (!r) return;
  pthread_mutex_lock(&r->lock);
  r->stop = true;
  pthread_cond_broadcast(&r->changed);
  pthread_mutex_unlock(&r->lock);
  for (int i = 0; i < r->n; i++) {
    peer_t *p = &r->peer[i];
    if (p->started) pthread_join(p->thread, NULL);
    mr_train_step_destroy(p->step);
    mr_mesh_comm_destroy(p->mesh);
    mr_params_fini(&p->params);
  }
  mr_mesh_comm_destroy(r->mesh);
  pthread_cond_destroy(&r->changed);
  pthread_mutex_destroy(&r->lock);
  mr_comm_destroy(r->comm);
  free(r);
}

/* ---- parameters ---- */

/* Takes the arenas of a rank's parameters, which are those of `from`. */
static mr_err_t peer_take_params(const mr__ranks_t *r, mr_params_t *p, const mr_params_t *from,
                                 mr_diag_t *diag) {
  mr_train_want_sets(&r->compute, r->shares ? NULL : &r->optim, p);
  for (int i = 0; i < from->n; i++)
    MR_TRY(mr_params_add(p, from->param[i].name, from->param[i].aval, from->param[i].init, diag));
  return mr_params_alloc(p, diag);
}

static mr_err_t peer_copy_params(const mr__ranks_t *r, peer_t *p, const mr_params_t *from,
                                 mr_diag_t *diag) {
  if (p->same) return MR_OK;
  if (!p->params.n && peer_take_params(r, &p->params, from, diag) < 0) {
    mr_params_fini(&p->params);
    return diag->code;
  }
  for (int i = 0; i < p->params.n_sets; i++) {
    const mr_param_set_t *to = &p->params.set[i];
    const mr_param_set_t *set = mr_params_set(from, to->kind, to->number);
    if (set) memcpy(to->data, set->data, from->arena_size * mr_dtype_size(to->dtype));
  }
  p->same = true;
  return MR_OK;
}

static void peer_copy_state(mr_train_step_t *to, mr_train_step_t *from) {
  *mr_train_step_scale(to) = *mr_train_step_scale(from);
  mr_train_fp8_t a = mr_train_step_fp8(to), b = mr_train_step_fp8(from);
  size_t n = (size_t)b.n * MR_FP8_TENSORS;
  if (!n) return;
  memcpy(a.scale, b.scale, n * sizeof *a.scale);
  memcpy(a.amax, b.amax, n * (size_t)b.history * sizeof *a.amax);
}

/* ---- runs ---- */

mr_err_t mr__ranks_prepare(mr__ranks_t *r, mr_train_step_t *own, const mr_params_t *params,
                           const void *const *field, const mr_train_in_t *given, mr_diag_t *diag) {
  for (int i = 0; i < r->n; i++) {
    peer_t *p = &r->peer[i];
    peer_copy_state(p->step, own);
    if (p->mesh) {
      mr__train_step_take_parts(p->step, params);
      MR_TRY(mr__train_step_prepare_parts(p->step, field, given, diag));
      continue;
    }
    if (r->shares < 3) MR_TRY(peer_copy_params(r, p, params, diag));
    const mr_params_t *values = r->shares < 3 ? &p->params : params;
    const mr_params_t *shares = r->shares ? params : values;
    MR_TRY(mr__train_step_prepare(p->step, values, shares, field, given, diag));
  }
  return MR_OK;
}

void mr__ranks_run(mr__ranks_t *r, void (*start)(mr_train_step_t *own), mr_train_step_t *own) {
  pthread_mutex_lock(&r->lock);
  r->working = r->n;
  r->run++;
  pthread_cond_broadcast(&r->changed);
  pthread_mutex_unlock(&r->lock);
  start(own);
  pthread_mutex_lock(&r->lock);
  while (r->working) pthread_cond_wait(&r->changed, &r->lock);
  pthread_mutex_unlock(&r->lock);
}

void mr__ranks_begun(mr__ranks_t *r) {
  for (int i = 0; i < r->n; i++) mr__train_step_of(r->peer[i].step)->runs.begun++;
}

void mr__ranks_stale(mr__ranks_t *r) {
  for (int i = 0; i < r->n; i++) {
    r->peer[i].same = false;
    if (r->peer[i].mesh) mr__train_step_stale(r->peer[i].step);
  }
}

void mr__ranks_join(const mr__ranks_t *r, mr_params_t *whole) {
  for (int i = 0; i < r->n; i++) mr__train_step_join_parts(r->peer[i].step, whole);
}

mr_err_t mr__ranks_read(mr__ranks_t *r, const float *reported, int n, mr_diag_t *diag) {
  for (int i = 0; i < r->n; i++) {
    mr__runs_t *runs = &mr__train_step_of(r->peer[i].step)->runs;
    const float *own = mr__runs_reported(runs);
    if (memcmp(own, reported, (size_t)n * sizeof *own))
      return mr_fail(diag, MR_ERR_DATA,
                     "rank %d of %d reports loss %.9g and a norm of the parameters of %.9g, rank 0 "
                     "%.9g and %.9g: they have lost step",
                     i + 1, r->n + 1, (double)own[MR_REPORT_LOSS],
                     (double)own[MR_REPORT_PARAM_NORM], (double)reported[MR_REPORT_LOSS],
                     (double)reported[MR_REPORT_PARAM_NORM]);
  }
  for (int i = 0; i < r->n; i++) mr__train_step_of(r->peer[i].step)->runs.read++;
  return MR_OK;
}

bool mr__ranks_share(const mr__ranks_t *r) { return r->shares > 0; }

void mr__ranks_gate(mr__ranks_t *r, bool (*may_write)(void *arg), void *arg) {
  for (int i = 0; i < r->n; i++)
    mr_exec_gate(mr__train_step_of(r->peer[i].step)->exec, may_write, arg);
}

void mr__ranks_retake(mr__ranks_t *r) {
  for (int i = 0; i < r->n; i++) mr_train_step_retake(r->peer[i].step);
}
