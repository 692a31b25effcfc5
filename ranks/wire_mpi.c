/* The wire of MPI: parcels are its messages, which never overtake each other between two ranks. The
   thread that receives makes all calls, so that the library may allow one at a time: it sends what
   others have queued, and asks each rank whether a message has come.  MPI has no wait with a limit:
   while a call waits the thread asks again and again, yielding the processor, and else now and
   then.

   MPI cannot be started twice in a process, nor ended by some ranks alone: when something has
   failed it is not ended, and mpirun ends the job. */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "ranks/mpi.h"
#include "ranks/wire.h"

enum { IDLE_NS = 1000000, SPIN_NS = 2000000, NAP_NS = 50000, BYE_NS = 2000000000, LEVEL = 2 };

/* A parcel that MPI has. */
typedef struct moving {
  struct moving *next;
  mr__parcel_t *parcel; /* NULL: none */
  int to, bytes;        /* in all */
  mr__mpi_request_t request;
} moving_t;

struct mr__wire {
  const mr__mpi_t *mpi;
  int rank, size;
  bool own;             /* this wire has started MPI */
  pthread_mutex_t lock; /* of what follows, which other threads queue */
  pthread_cond_t changed;
  moving_t *queued, **queued_last;
  bool woken;
  moving_t *sending; /* of the thread that receives, as all below */
  moving_t *coming;  /* [size], at most one of each rank */
  int next;          /* the rank to be asked first */
};

static bool mpi_wire_send(mr__wire_t *w, int to, mr__parcel_t *p) {
  moving_t *m = calloc(1, sizeof *m);
  if (!m) return p->drop(p), false;
  *m = (moving_t){.parcel = p, .to = to, .bytes = (int)(sizeof *p->head + p->head->bytes)};
  pthread_mutex_lock(&w->lock);
  *w->queued_last = m, w->queued_last = &m->next;
  w->woken = true;
  pthread_cond_signal(&w->changed);
  pthread_mutex_unlock(&w->lock);
  return true;
}

static void mpi_wire_wake(mr__wire_t *w) {
  pthread_mutex_lock(&w->lock);
  w->woken = true;
  pthread_cond_signal(&w->changed);
  pthread_mutex_unlock(&w->lock);
}

static void drop_moving(moving_t *m) {
  m->parcel->drop(m->parcel);
  free(m);
}

/* Starts what is queued and drops what has left. */
static void push_sends(mr__wire_t *w) {
  pthread_mutex_lock(&w->lock);
  moving_t *m = w->queued, **last = &w->sending;
  w->queued = NULL, w->queued_last = &w->queued;
  pthread_mutex_unlock(&w->lock);
  while (*last) {
    bool done = true;
    moving_t *s = *last;
    w->mpi->test(&s->request, &done);
    if (done)
      *last = s->next, drop_moving(s);
    else
      last = &s->next;
  }
  for (moving_t *next; m; m = next) { /* in order: messages to one rank must not change places */
    next = m->next, m->next = NULL;
    if (w->mpi->send(m->parcel->head, m->bytes, m->to, &m->request))
      drop_moving(m); /* the rank that misses it says so */
    else
      *last = m, last = &m->next;
  }
}

/* Begins to receive the next message of a rank, if one has come. */
static void begin_receive(mr__wire_t *w, int from) {
  moving_t *m = &w->coming[from];
  bool came = false;
  int n = 0;
  if (w->mpi->probe(from, &came, &n) || !came || n < 0) return;
  mr__parcel_t *p = mr__parcel_new((size_t)n);
  if (!p) return; /* it stays where it is */
  m->parcel = p, m->bytes = n;
  if (w->mpi->receive(p->head, n, from, &m->request)) p->drop(p), m->parcel = NULL;
}

static mr__parcel_t *poll_ranks(mr__wire_t *w) {
  for (int i = 0; i < w->size; i++) {
    int from = (w->next + i) % w->size;
    moving_t *m = &w->coming[from];
    bool done = false;
    if (from == w->rank) continue;
    if (!m->parcel) begin_receive(w, from);
    if (!m->parcel || w->mpi->test(&m->request, &done) || !done) continue;
    mr__parcel_t *p = m->parcel;
    m->parcel = NULL;
    w->next = from;
    if (mr__head_is_good(p->head, (size_t)m->bytes, w->size) && (int)p->head->from == from)
      return p;
    p->drop(p);
  }
  return NULL;
}

static mr__parcel_t *mpi_wire_receive(mr__wire_t *w, int ms, bool soon) {
  int64_t begin = mr_now_ns(), end = ms < 0 ? INT64_MAX : begin + (int64_t)ms * 1000000;
  for (;;) {
    push_sends(w);
    mr__parcel_t *p = poll_ranks(w);
    int64_t now = mr_now_ns();
    if (p) return p;
    bool spins = soon && now - begin < SPIN_NS;
    if (spins) sched_yield();
    pthread_mutex_lock(&w->lock);
    int64_t until = now + (soon || w->sending ? NAP_NS : IDLE_NS);
    if (!spins && !w->woken) mr_cond_wait_until(&w->changed, &w->lock, until < end ? until : end);
    bool woken = w->woken;
    w->woken = false;
    pthread_mutex_unlock(&w->lock);
    if (woken && !soon) return NULL; /* a call may wait now */
    if (now >= end) return NULL;
  }
}

static void mpi_wire_close(mr__wire_t *w, bool whole) {
  if (!w) return;
  int64_t until = mr_now_ns() + BYE_NS;
  for (bool first = true; first || (w->sending && (whole || mr_now_ns() < until)); first = false) {
    push_sends(w);
    sched_yield();
  }
  if (whole && w->own) w->mpi->end();
  pthread_cond_destroy(&w->changed);
  pthread_mutex_destroy(&w->lock);
  bool held = w->sending != NULL; /* by MPI, which still points into it */
  for (int r = 0; r < w->size; r++) held = held || w->coming[r].parcel;
  if (!held) free(w->coming), free(w);
}

static mr_err_t check_library(const mr__mpi_t *mpi, const mr_mpi_library_t *m, void *lib,
                              const char *path, mr_diag_t *diag) {
  char text[8192] = "";
  const char *missing = mpi->load(lib);
  if (missing)
    return mr_fail(diag, MR_ERR_UNAVAILABLE, "%.200s has no %s: install %s", path, missing,
                   m->package);
  mpi->version(text);
  bool is_open_mpi = !strncmp(text, "Open MPI", 8);
  text[strcspn(text, "\n,")] = 0;
  if (is_open_mpi != (mpi == &mr__mpi_open_mpi))
    return mr_fail(diag, MR_ERR_UNAVAILABLE, "%.200s is %.80s and not %s: install %s", path, text,
                   m->family, m->package);
  if (!mpi->ended()) return MR_OK;
  return mr_fail(diag, MR_ERR_UNAVAILABLE,
                 "communicator=mpi: this process has ended MPI, which cannot be started again");
}

static mr_err_t start_mpi(mr__wire_t *w, const mr_launch_t *l, const char *path, mr_diag_t *diag) {
  int level = 0, rank = -1, size = -1, e = w->mpi->start(&w->own, &level, &rank, &size);
  if (e) return mr_fail(diag, MR_ERR_UNAVAILABLE, "%.200s: MPI does not start (error %d)", path, e);
  int want = w->own ? LEVEL : LEVEL + 1;
  if (level < want)
    return mr_fail(diag, MR_ERR_UNAVAILABLE,
                   "%.200s gives thread level %d (0 single, 1 funneled, 2 serialized, 3 multiple), "
                   "and millrace needs %d: use communicator=zmq, or a library with thread support",
                   path, level, want);
  if (rank == l->rank && size == l->size) return MR_OK;
  return mr_fail(
      diag, MR_ERR_UNAVAILABLE,
      "%s has started rank %d of %d, but %.200s is rank %d of %d: the library is not the "
      "launcher's; install the launcher's own, or use communicator=zmq",
      mr_launcher_name(l->launcher), l->rank, l->size, path, rank, size);
}

static mr_err_t mpi_wire_open(const mr__wire_cfg_t *cfg, mr__wire_t **out, int *missing,
                              mr_diag_t *diag) {
  char path[512];
  void *lib = NULL;
  *missing = -1;
  if (!cfg->launch->mpi)
    return mr_fail(
        diag, MR_ERR_CONFIG,
        "communicator=mpi: %s gives these processes no MPI: start them by mpirun, or by srun "
        "with --mpi=pmi2 or pmix, or use communicator=zmq",
        mr_launcher_name(cfg->launch->launcher));
  const mr_mpi_library_t *m = mr_mpi_library_find(cfg->launch, &lib, path, sizeof path);
  if (!m)
    return mr_fail(diag, MR_ERR_UNAVAILABLE,
                   "communicator=mpi: no library for %s (%.300s): install %s", cfg->launch->mpi,
                   *path ? path : "none is found",
                   mr_mpi_fits(mr_mpi_libraries, cfg->launch->mpi) ? mr_mpi_libraries[0].package
                                                                   : mr_mpi_libraries[1].package);
  MR_TRY(check_library(m->calls, m, lib, path, diag));
  mr__wire_t *w = calloc(1, sizeof *w);
  moving_t *coming = calloc((size_t)cfg->launch->size, sizeof *coming);
  if (!w || !coming)
    return free(w), free(coming), mr_no_memory(diag, "a job of %d ranks", cfg->launch->size);
  w->mpi = m->calls, w->rank = cfg->launch->rank, w->size = cfg->launch->size;
  w->coming = coming, w->queued_last = &w->queued;
  pthread_mutex_init(&w->lock, NULL);
  mr_cond_init(&w->changed);
  mr_err_t e = start_mpi(w, cfg->launch, path, diag);
  if (e < 0) return mpi_wire_close(w, false), e;
  return *out = w, MR_OK;
}

const mr__wire_ops_t mr__wire_mpi = {.name = "mpi",
                                     .polls = true,
                                     .open = mpi_wire_open,
                                     .send = mpi_wire_send,
                                     .receive = mpi_wire_receive,
                                     .wake = mpi_wire_wake,
                                     .close = mpi_wire_close};
