/* Collectives of devices whose memory the host cannot read: through the host's, by the table of the
   process's ranks.  The copies wait for the device, so that a run with such calls ends with its
   last exchange on the thread that gives it. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "model/exec/backend.h"
#include "model/exec/device.h"
#include "model/exec/process_ranks.h"

struct mr_collect {
  const mr_device_t *device;
  const mr_collect_ops_t *by;
  mr_collect_t *rank;
  int size;
  char *in, *out; /* of the host, as large as the largest operand and result so far */
  size_t in_bytes, out_bytes;
  pthread_mutex_t lock;
  mr_diag_t why; /* of a failure of this rank alone; code MR_OK: none */
};

static mr_err_t by_host_create(const mr_device_t *d, const char *id, int rank, int size,
                               double limit_s, mr_collect_t **out, mr_diag_t *diag) {
  const mr_process_ranks_t *process = mr_process_ranks();
  mr_collect_t *c = calloc(1, sizeof *c);
  if (!c) return mr_no_memory(diag, "a rank of a communicator");
  *c =
      (mr_collect_t){.device = d, .by = process ? process->ops : &mr_collect_threads, .size = size};
  mr_err_t e = c->by->create(mr_device_default(), id, rank, size, limit_s, &c->rank, diag);
  if (e < 0) return free(c), e;
  pthread_mutex_init(&c->lock, NULL);
  return *out = c, MR_OK;
}

/* Ends the calls of all ranks for what has failed here, which the others are not to take for
   values. */
static void end_calls_for(mr_collect_t *c, mr_err_t e, const mr_diag_t *why) {
  pthread_mutex_lock(&c->lock);
  if (c->why.code >= 0) mr_diag_relay(&c->why, e, why);
  pthread_mutex_unlock(&c->lock);
  (*c->by->abort)(c->rank);
}

static bool has_room(char **at, size_t *room, size_t n) {
  if (n <= *room) return true;
  char *more = realloc(*at, n);
  if (more) *at = more, *room = n;
  return more != NULL;
}

/* The device's result becomes 0xFF. */
static void spoil_result(const mr_collect_t *c, void *out, size_t n) {
  char ff[4096];
  memset(ff, 0xFF, sizeof ff);
  for (size_t at = 0; at < n; at += sizeof ff)
    mr_device_copy(c->device, (char *)out + at, ff, n - at < sizeof ff ? n - at : sizeof ff,
                   MR_COPY_IN);
}

/* The operand in the host's memory, and room for the result; false: the communicator has failed,
   and out[n_out] is spoilt. */
static bool fetch_operand(mr_collect_t *c, const void *in, size_t n, void *out, size_t n_out) {
  mr_diag_t why = {0};
  mr_err_t e = MR_OK;
  if (!has_room(&c->in, &c->in_bytes, n) || !has_room(&c->out, &c->out_bytes, n_out))
    e = mr_no_memory(&why, "what ranks on devices exchange");
  if (e >= 0 && n) mr_device_copy(c->device, c->in, in, n, MR_COPY_OUT);
  if (e >= 0) e = mr_device_usable(c->device, &why);
  if (e >= 0) return true;
  end_calls_for(c, e, &why);
  spoil_result(c, out, n_out);
  return false;
}

static void give_result(mr_collect_t *c, void *out, size_t n) {
  if (n) mr_device_copy(c->device, out, c->out, n, MR_COPY_IN);
}

static void by_host_all_reduce(mr_collect_t *c, mr_reduce_t how, mr_dtype_t t, int64_t n,
                               const void *in, void *out) {
  size_t bytes = (size_t)n * mr_dtype_size(t);
  if (!fetch_operand(c, in, bytes, out, bytes)) return;
  c->by->all_reduce(c->rank, how, t, n, c->in, c->out);
  give_result(c, out, bytes);
}

static void by_host_all_gather(mr_collect_t *c, size_t bytes, const void *in, void *out) {
  if (!fetch_operand(c, in, bytes, out, bytes * (size_t)c->size)) return;
  c->by->all_gather(c->rank, bytes, c->in, c->out);
  give_result(c, out, bytes * (size_t)c->size);
}

static void by_host_reduce_scatter(mr_collect_t *c, mr_dtype_t t, int64_t n, const void *in,
                                   void *out) {
  size_t bytes = (size_t)n * mr_dtype_size(t);
  if (!fetch_operand(c, in, bytes * (size_t)c->size, out, bytes)) return;
  c->by->reduce_scatter(c->rank, t, n, c->in, c->out);
  give_result(c, out, bytes);
}

static void by_host_all_to_all(mr_collect_t *c, size_t bytes, const void *in, void *out) {
  size_t all = bytes * (size_t)c->size;
  if (!fetch_operand(c, in, all, out, all)) return;
  c->by->all_to_all(c->rank, bytes, c->in, c->out);
  give_result(c, out, all);
}

static void by_host_send(mr_collect_t *c, int to, size_t bytes, const void *data) {
  if (fetch_operand(c, data, bytes, NULL, 0)) c->by->send(c->rank, to, bytes, c->in);
}

static void by_host_receive(mr_collect_t *c, int from, size_t bytes, void *data) {
  if (!fetch_operand(c, NULL, 0, data, bytes)) return;
  c->by->receive(c->rank, from, bytes, c->out);
  give_result(c, data, bytes);
}

static void by_host_send_receive(mr_collect_t *c, int to, int from, size_t bytes, const void *in,
                                 void *out) {
  size_t received = from < 0 ? 0 : bytes;
  if (!fetch_operand(c, in, to < 0 ? 0 : bytes, out, received)) return;
  c->by->send_receive(c->rank, to, from, bytes, c->in, c->out);
  give_result(c, out, received);
}

static void by_host_abort(mr_collect_t *c) { (*c->by->abort)(c->rank); }

static mr_err_t by_host_failed(mr_collect_t *c, int *rank, mr_diag_t *diag) {
  mr_err_t e = c->by->failed(c->rank, rank, diag);
  pthread_mutex_lock(&c->lock);
  if (c->why.code < 0) e = mr_diag_relay(diag, c->why.code, &c->why);
  pthread_mutex_unlock(&c->lock);
  return e;
}

static void by_host_destroy(mr_collect_t *c) {
  if (!c) return;
  c->by->destroy(c->rank);
  pthread_mutex_destroy(&c->lock);
  free(c->in), free(c->out);
  free(c);
}

const mr_collect_ops_t mr_collect_by_host = {.name = "by host",
                                             .create = by_host_create,
                                             .all_reduce = by_host_all_reduce,
                                             .all_gather = by_host_all_gather,
                                             .reduce_scatter = by_host_reduce_scatter,
                                             .all_to_all = by_host_all_to_all,
                                             .send = by_host_send,
                                             .receive = by_host_receive,
                                             .send_receive = by_host_send_receive,
                                             .abort = by_host_abort,
                                             .failed = by_host_failed,
                                             .destroy = by_host_destroy};
