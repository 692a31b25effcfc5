/* Collectives of NCCL, on the stream of each rank's device.  NCCL brings ranks together by a unique
   id, which travels by another table, the carrier: the job's own.  Every call is of the kind that
   does not block, and a thread of each communicator watches it: a call that has not ended within
   the limit, an error that NCCL reports, or a failure of the carrier, by which the ranks tell each
   other, aborts it.  What NCCL computes are its own sums, in its own order. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "model/exec/device.h"
#include "ranks/job.h"
#include "ranks/nccl.h"
#include "ranks/processes.h"

enum { WATCH_MS = 20, FILL_BYTES = 1 << 16, ASK_NS = 500000000 };

/* A call that has been given to the stream. */
typedef struct given {
  struct given *next;
  void *mark; /* behind it */
  const char *what;
} given_t;

struct mr_collect {
  const mr__nccl_t *nccl;
  const mr_device_t *device;
  char id[MR_COLLECT_ID];
  int rank, size;
  int name; /* of this rank in sentences: the job's number, where it is one of a job */
  double limit_s;
  const mr_collect_ops_t *carrier;
  mr_collect_t *carried; /* this rank of the carrier's communicator */
  pthread_mutex_t lock;
  pthread_cond_t changed;
  pthread_t watch;
  bool watched, ends;
  mr__nccl_comm_t comm;    /* NULL before the first call and after an abort */
  mr__nccl_comm_t aborted; /* what the thread `aborts` ends */
  pthread_t aborts;
  int64_t asked_ns; /* when the carrier's ranks were asked last */
  mr_diag_t why;    /* of the first failure; code MR_OK: none */
  int missing;
  given_t *first, **last; /* under way */
  int64_t since_ns;       /* when the first of them was given, or the one before it ended */
};

static _Atomic(const mr_collect_ops_t *) nccl_carrier; /* NULL: threads */

void mr__nccl_carry(const mr_collect_ops_t *by) {
  /* release: pairs with the load in nccl_create, which calls what by points at */
  atomic_store_explicit(&nccl_carrier, by, memory_order_release);
}

static mr_err_t check_nccl_rank(const mr_device_t *d, const char *id, int rank, int size,
                                double limit_s, mr_diag_t *diag) {
  if (!d->backend->queue || !d->backend->queue->stream)
    return mr_fail(diag, MR_ERR_CONFIG,
                   "communicator %.40s: device %s has no stream for NCCL: want a CUDA device", id,
                   d->name);
  return mr__collect_check(mr_device_default(), id, rank, size, limit_s, diag);
}

static mr_err_t nccl_create(const mr_device_t *d, const char *id, int rank, int size,
                            double limit_s, mr_collect_t **out, mr_diag_t *diag) {
  const mr__nccl_t *nccl;
  MR_TRY(check_nccl_rank(d, id, rank, size, limit_s, diag));
  MR_TRY(mr__nccl(&nccl, diag));
  mr_collect_t *c = calloc(1, sizeof *c);
  if (!c) return mr_no_memory(diag, "a rank of a communicator");
  /* acquire: pairs with mr__nccl_carry */
  const mr_collect_ops_t *by = atomic_load_explicit(&nccl_carrier, memory_order_acquire);
  *c = (mr_collect_t){.nccl = nccl,
                      .device = d,
                      .rank = rank,
                      .size = size,
                      .name = by ? mr__processes_rank() : rank,
                      .limit_s = limit_s < 1e8 ? limit_s : 1e8,
                      .carrier = by ? by : &mr_collect_threads,
                      .missing = -1};
  strcpy(c->id, id);
  c->last = &c->first;
  mr_err_t e = c->carrier->create(mr_device_default(), id, rank, size, limit_s, &c->carried, diag);
  if (e < 0) return free(c), e;
  pthread_mutex_init(&c->lock, NULL);
  mr_cond_init(&c->changed);
  return *out = c, MR_OK;
}

/* ---- failing; the lock is held ---- */

/* NCCL ends the calls that wait, and then waits itself until no recorded run has calls of the
   communicator: these are forgotten by threads that must not wait for it. */
static void *abort_main(void *arg) {
  mr_collect_t *c = arg;
  c->nccl->ncclCommAbort(c->aborted);
  return NULL;
}

static void abort_comm(mr_collect_t *c) {
  c->aborted = c->comm, c->comm = NULL;
  if (!c->aborted || !pthread_create(&c->aborts, NULL, abort_main, c)) return;
  abort_main(c); /* the system gives no thread */
  c->aborted = NULL;
}

static void nccl_fail(mr_collect_t *c, mr_err_t code, int missing, const char *text) {
  if (c->why.code < 0) return;
  c->missing = missing;
  mr_fail(&c->why, code, "%s", text);
  (*c->carrier->abort)(c->carried); /* so that the other ranks know */
  abort_comm(c);
  pthread_cond_broadcast(&c->changed);
}

static void nccl_fail_for_memory(mr_collect_t *c, const char *what) {
  mr_diag_t why = {0};
  mr_no_memory(&why, "%s", what);
  nccl_fail(c, MR_ERR_NOMEM, -1, why.text);
}

static void nccl_fail_in(mr_collect_t *c, const char *what, const char *why) {
  char text[480];
  mr_snprintf(text, sizeof text, "communicator %s: rank %d in %s: %.300s", c->id, c->name, what,
              why);
  nccl_fail(c, MR_ERR_UNAVAILABLE, -1, text);
}

static void nccl_fail_by(mr_collect_t *c, const char *what, int result) {
  char text[400];
  const char *last = c->comm ? c->nccl->ncclGetLastError(c->comm) : NULL;
  mr_snprintf(text, sizeof text, "NCCL: %s%s%.200s", c->nccl->ncclGetErrorString(result),
              last && *last ? ": " : "", last ? last : "");
  nccl_fail_in(c, what, text);
}

/* The carrier's failure, if it has one, is this one's too. */
static bool note_carrier_failure(mr_collect_t *c) {
  mr_diag_t diag = {0};
  int missing;
  if (c->carrier->failed(c->carried, &missing, &diag) >= 0) return false;
  nccl_fail(c, diag.code, missing, diag.text);
  return true;
}

/* Releases the lock until something changes, up to ms. */
static void wait_briefly(mr_collect_t *c, int ms) {
  mr_cond_wait_until(&c->changed, &c->lock, mr_now_ns() + (int64_t)ms * 1000000);
}

static bool is_late(const mr_collect_t *c, int64_t since_ns) {
  return (double)(mr_now_ns() - since_ns) > c->limit_s * 1e9;
}

/* Until NCCL has taken what was given last, which may mean that other ranks have come.  The lock is
   not held during waits. */
static bool settle_call(mr_collect_t *c, const char *what, int result) {
  int64_t since = mr_now_ns();
  while (result == MR_NCCL_IN_PROGRESS && c->why.code >= 0) {
    if (c->nccl->ncclCommGetAsyncError(c->comm, &result)) break;
    if (result != MR_NCCL_IN_PROGRESS) break;
    if (is_late(c, since)) {
      nccl_fail_in(c, what, "the other ranks did not come within the limit");
      return false;
    }
    if (!note_carrier_failure(c)) wait_briefly(c, 1);
  }
  if (c->why.code < 0) return false;
  if (result != MR_NCCL_SUCCESS) nccl_fail_by(c, what, result);
  return result == MR_NCCL_SUCCESS;
}

/* ---- the watch ---- */

/* Frees the calls that have ended. */
static void take_ended_calls(mr_collect_t *c) {
  mr_diag_t diag = {0};
  while (c->first) {
    mr_err_t e = mr_device_reached(c->device, c->first->mark, false, &diag);
    if (e == MR_AGAIN) return;
    given_t *g = c->first;
    if (e < 0) nccl_fail_in(c, g->what, diag.text);
    if (!(c->first = g->next)) c->last = &c->first;
    c->since_ns = mr_now_ns();
    free(g);
  }
}

/* The thread that gives calls waits for the device, and does not notice a rank that is lost
   meanwhile. */
static void ask_ranks(mr_collect_t *c) {
  int64_t now = mr_now_ns();
  if (!c->first || !c->carrier->ask || now - c->since_ns < ASK_NS || now - c->asked_ns < ASK_NS)
    return;
  c->asked_ns = now;
  c->carrier->ask(c->carried, c->since_ns, c->first->what);
}

static void *watch_main(void *arg) {
  mr_collect_t *c = arg;
  pthread_mutex_lock(&c->lock);
  while (!c->ends && c->why.code >= 0) {
    int error = MR_NCCL_SUCCESS;
    take_ended_calls(c);
    ask_ranks(c);
    if (c->comm) c->nccl->ncclCommGetAsyncError(c->comm, &error);
    if (error != MR_NCCL_SUCCESS && error != MR_NCCL_IN_PROGRESS)
      nccl_fail_by(c, c->first ? c->first->what : "a call", error);
    else if (c->first && is_late(c, c->since_ns))
      nccl_fail_in(c, c->first->what, "it did not end within the limit: a rank did not come to it");
    else if (!note_carrier_failure(c))
      wait_briefly(c, WATCH_MS);
  }
  pthread_mutex_unlock(&c->lock);
  return NULL;
}

/* ---- connecting ---- */

typedef struct hello {
  mr__nccl_id_t id;
  int version, result, name;
} hello_t;

/* Rank 0's unique id, from all ranks' by the carrier; the lock is released meanwhile. */
static bool fetch_id(mr_collect_t *c, mr__nccl_id_t *id) {
  hello_t own = {.version = c->nccl->version, .name = c->name},
          *all = calloc((size_t)c->size, sizeof *all);
  if (!all) return nccl_fail_for_memory(c, "an id of NCCL"), false;
  if (c->rank == 0) own.result = c->nccl->ncclGetUniqueId(&own.id);
  pthread_mutex_unlock(&c->lock);
  c->carrier->all_gather(c->carried, sizeof own, &own, all);
  pthread_mutex_lock(&c->lock);
  bool good = !note_carrier_failure(c) && c->why.code >= 0;
  char text[160];
  for (int r = 0; r < c->size && good; r++) {
    good = all[r].version == all[0].version && !all[0].result;
    mr_snprintf(text, sizeof text,
                all[0].result
                    ? "rank %d: it cannot make a unique id (result %d)"
                    : "rank %d has NCCL %d, rank %d has %d: want one version on all hosts",
                all[all[0].result ? 0 : r].name, all[0].result ? all[0].result : all[r].version,
                all[0].name, all[0].version);
    if (!good) nccl_fail_in(c, "connecting", text);
  }
  *id = all[0].id;
  free(all);
  return good;
}

static bool connect_ranks(mr_collect_t *c, bool recorded) {
  mr__nccl_id_t id;
  mr__nccl_config_t config = MR_NCCL_CONFIG;
  if (c->comm) return true;
  if (recorded)
    return nccl_fail_in(c, "connecting", "the first call may not be one that is recorded"), false;
  if (!fetch_id(c, &id)) return false;
  mr__nccl_comm_t comm = NULL;
  int result = c->nccl->ncclCommInitRankConfig(&comm, c->size, id, c->rank, &config);
  c->comm = comm;
  if (!comm) return nccl_fail_by(c, "connecting", result), false;
  if (!settle_call(c, "connecting", result)) return false;
  c->watched = !pthread_create(&c->watch, NULL, watch_main, c);
  if (!c->watched) nccl_fail(c, MR_ERR_NOMEM, -1, "the system gives no thread that watches NCCL");
  return c->watched;
}

/* ---- a call ---- */

/* The device's bytes become 0xFF, unless the calling thread records: what is recorded cannot be
   known to fail. */
static void fill_result(mr_collect_t *c, void *out, size_t bytes, bool recorded) {
  size_t step = bytes < FILL_BYTES ? bytes : FILL_BYTES;
  char *ff = recorded || !bytes ? NULL : malloc(step);
  if (!ff) return;
  memset(ff, 0xFF, step);
  for (size_t at = 0; at < bytes; at += step) {
    size_t n = bytes - at < step ? bytes - at : step;
    mr_device_copy(c->device, (char *)out + at, ff, n, MR_COPY_IN);
  }
  free(ff);
}

/* A call from its beginning to its end, on the calling thread. */
typedef struct nccl_call {
  mr_collect_t *c;
  const char *what;
  void *out;
  size_t bytes;
  void *stream;
  bool recorded;
} nccl_call_t;

/* Takes the lock; false: the communicator has failed, and the call is over. */
static bool nccl_begin(mr_collect_t *c, const char *what, void *out, size_t bytes,
                       nccl_call_t *call) {
  *call = (nccl_call_t){.c = c, .what = what, .out = out, .bytes = bytes};
  call->stream = c->device->backend->queue->stream(c->device, &call->recorded);
  pthread_mutex_lock(&c->lock);
  if (c->why.code >= 0 && !note_carrier_failure(c) && connect_ranks(c, call->recorded)) return true;
  pthread_mutex_unlock(&c->lock);
  return fill_result(c, out, bytes, call->recorded), false;
}

/* Watches what has been given to the queue from now on. */
static void watch_queue(mr_collect_t *c, const char *what) {
  given_t *g = calloc(1, sizeof *g);
  if (g) *g = (given_t){.mark = mr_device_mark(c->device), .what = what};
  if (!g || !g->mark) {
    free(g);
    nccl_fail_for_memory(c, "a call of NCCL");
    return;
  }
  if (!c->first) c->since_ns = mr_now_ns();
  *c->last = g, c->last = &g->next;
}

static void nccl_end(nccl_call_t *call, int result) {
  mr_collect_t *c = call->c;
  bool good = settle_call(c, call->what, result);
  if (good && !call->recorded) watch_queue(c, call->what); /* else nccl_given is called later */
  good = good && c->why.code >= 0;
  pthread_mutex_unlock(&c->lock);
  if (!good) fill_result(c, call->out, call->bytes, call->recorded);
}

/* NCCL's number of a dtype; -1: it does not compute with it. */
static int nccl_type(mr_dtype_t t, mr_reduce_t how) {
  switch (t) {
    case MR_BOOL: return how == MR_REDUCE_SUM ? -1 : MR_NCCL_U8;
    case MR_U8: return MR_NCCL_U8;
    case MR_I32: return MR_NCCL_I32;
    case MR_U32: return MR_NCCL_U32;
    case MR_I64: return MR_NCCL_I64;
    case MR_U64: return MR_NCCL_U64;
    case MR_BF16: return MR_NCCL_BF16;
    case MR_F16: return MR_NCCL_F16;
    case MR_F32: return MR_NCCL_F32;
    case MR_F64: return MR_NCCL_F64;
    default: return -1;
  }
}

/* Ends a call whose dtype NCCL does not compute with. */
static void refuse_type(nccl_call_t *call, mr_dtype_t t) {
  char text[80];
  mr_snprintf(text, sizeof text, "NCCL does not compute with %s", mr_dtype_name(t));
  nccl_fail_in(call->c, call->what, text);
  pthread_mutex_unlock(&call->c->lock);
  fill_result(call->c, call->out, call->bytes, call->recorded);
}

static void nccl_all_reduce(mr_collect_t *c, mr_reduce_t how, mr_dtype_t t, int64_t n,
                            const void *in, void *out) {
  static const int op[] = {
      [MR_REDUCE_SUM] = MR_NCCL_SUM, [MR_REDUCE_MAX] = MR_NCCL_MAX, [MR_REDUCE_MIN] = MR_NCCL_MIN};
  int type = nccl_type(t, how);
  nccl_call_t call;
  if (!nccl_begin(c, "all_reduce", out, (size_t)n * mr_dtype_size(t), &call)) return;
  if (type < 0)
    refuse_type(&call, t);
  else
    nccl_end(&call,
             c->nccl->ncclAllReduce(in, out, (size_t)n, type, op[how], c->comm, call.stream));
}

static void nccl_reduce_scatter(mr_collect_t *c, mr_dtype_t t, int64_t n, const void *in,
                                void *out) {
  int type = nccl_type(t, MR_REDUCE_SUM);
  nccl_call_t call;
  if (!nccl_begin(c, "reduce_scatter", out, (size_t)n * mr_dtype_size(t), &call)) return;
  if (type < 0)
    refuse_type(&call, t);
  else
    nccl_end(&call, c->nccl->ncclReduceScatter(in, out, (size_t)n, type, MR_NCCL_SUM, c->comm,
                                               call.stream));
}

static void nccl_all_gather(mr_collect_t *c, size_t bytes, const void *in, void *out) {
  nccl_call_t call;
  if (!nccl_begin(c, "all_gather", out, bytes * (size_t)c->size, &call)) return;
  nccl_end(&call, c->nccl->ncclAllGather(in, out, bytes, MR_NCCL_U8, c->comm, call.stream));
}

/* What several calls in a row gave: the first failure, else whether one is in progress. */
static int worse_of(int a, int b) { return a && a != MR_NCCL_IN_PROGRESS ? a : b ? b : a; }

static void nccl_all_to_all(mr_collect_t *c, size_t bytes, const void *in, void *out) {
  const mr__nccl_t *f = c->nccl;
  nccl_call_t call;
  if (!nccl_begin(c, "all_to_all", out, bytes * (size_t)c->size, &call)) return;
  int result = f->ncclGroupStart();
  for (int r = 0; r < c->size; r++) {
    const char *give = (const char *)in + (size_t)r * bytes;
    char *take = (char *)out + (size_t)r * bytes;
    result = worse_of(result, f->ncclSend(give, bytes, MR_NCCL_U8, r, c->comm, call.stream));
    result = worse_of(result, f->ncclRecv(take, bytes, MR_NCCL_U8, r, c->comm, call.stream));
  }
  nccl_end(&call, worse_of(result, f->ncclGroupEnd()));
}

static void nccl_send_receive(mr_collect_t *c, int to, int from, size_t bytes, const void *in,
                              void *out) {
  const mr__nccl_t *f = c->nccl;
  const char *what = to < 0 ? "receive" : from < 0 ? "send" : "send_receive";
  nccl_call_t call;
  if (!nccl_begin(c, what, out, from < 0 ? 0 : bytes, &call)) return;
  int result = f->ncclGroupStart();
  if (to >= 0)
    result = worse_of(result, f->ncclSend(in, bytes, MR_NCCL_U8, to, c->comm, call.stream));
  if (from >= 0)
    result = worse_of(result, f->ncclRecv(out, bytes, MR_NCCL_U8, from, c->comm, call.stream));
  nccl_end(&call, worse_of(result, f->ncclGroupEnd()));
}

static void nccl_send(mr_collect_t *c, int to, size_t bytes, const void *data) {
  nccl_send_receive(c, to, -1, bytes, data, NULL);
}

static void nccl_receive(mr_collect_t *c, int from, size_t bytes, void *data) {
  nccl_send_receive(c, -1, from, bytes, NULL, data);
}

static void nccl_given(mr_collect_t *c) {
  pthread_mutex_lock(&c->lock);
  if (c->why.code >= 0 && c->comm) watch_queue(c, "a recorded run");
  pthread_mutex_unlock(&c->lock);
}

/* ---- the end ---- */

static void nccl_abort(mr_collect_t *c) {
  char text[128];
  mr_snprintf(text, sizeof text, "communicator %s: it was aborted", c->id);
  pthread_mutex_lock(&c->lock);
  nccl_fail(c, MR_ERR_UNAVAILABLE, -1, text);
  pthread_mutex_unlock(&c->lock);
}

static mr_err_t nccl_failed(mr_collect_t *c, int *rank, mr_diag_t *diag) {
  pthread_mutex_lock(&c->lock);
  note_carrier_failure(c);
  *rank = c->missing;
  mr_err_t e = mr_diag_relay(diag, c->why.code, &c->why);
  pthread_mutex_unlock(&c->lock);
  return e;
}

/* What was given is over: it has ended, or the watch has aborted it. */
static void wait_for_calls(mr_collect_t *c) {
  mr_diag_t unsaid = {0};
  while (c->first && c->why.code >= 0) wait_briefly(c, 1);
  for (given_t *g; (g = c->first);) {
    c->first = g->next;
    mr_device_reached(c->device, g->mark, true, &unsaid);
    free(g);
  }
}

static void nccl_destroy(mr_collect_t *c) {
  if (!c) return;
  pthread_mutex_lock(&c->lock);
  wait_for_calls(c);
  c->ends = true;
  pthread_cond_broadcast(&c->changed);
  pthread_mutex_unlock(&c->lock);
  if (c->watched) pthread_join(c->watch, NULL);
  pthread_mutex_lock(&c->lock);
  if (c->comm && settle_call(c, "leaving", c->nccl->ncclCommFinalize(c->comm)))
    c->nccl->ncclCommDestroy(c->comm);
  pthread_mutex_unlock(&c->lock);
  if (c->aborted) pthread_join(c->aborts, NULL); /* leaving may have failed too */
  c->carrier->destroy(c->carried);
  pthread_cond_destroy(&c->changed);
  pthread_mutex_destroy(&c->lock);
  free(c);
}

const mr_collect_ops_t mr_collect_nccl = {.name = "nccl",
                                          .recorded = true,
                                          .create = nccl_create,
                                          .all_reduce = nccl_all_reduce,
                                          .all_gather = nccl_all_gather,
                                          .reduce_scatter = nccl_reduce_scatter,
                                          .all_to_all = nccl_all_to_all,
                                          .send = nccl_send,
                                          .receive = nccl_receive,
                                          .send_receive = nccl_send_receive,
                                          .given = nccl_given,
                                          .abort = nccl_abort,
                                          .failed = nccl_failed,
                                          .destroy = nccl_destroy};
