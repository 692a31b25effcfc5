/* Collectives of devices whose memory the host cannot read: through the host's, by the table of the
   process's ranks.  The copies wait for the device, so that a run with such calls ends with its
   last exchange on the thread that gives it. */
#include <stdlib.h>

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
  return *out = c, MR_OK;
}

/* Room for n bytes at *at; false without memory, and then the calls of all ranks fail. */
static bool has_room(mr_collect_t *c, char **at, size_t *room, size_t n) {
  if (n <= *room) return true;
  char *more = realloc(*at, n);
  if (more) *at = more, *room = n;
  if (!more) (*c->by->abort)(c->rank);
  return more != NULL;
}

/* The operand in the host's memory, and room for the result; false: the communicator has failed. */
static bool fetch_operand(mr_collect_t *c, const void *in, size_t n, size_t n_out) {
  if (!has_room(c, &c->in, &c->in_bytes, n) || !has_room(c, &c->out, &c->out_bytes, n_out))
    return false;
  if (n) mr_device_copy(c->device, c->in, in, n, MR_COPY_OUT);
  return true;
}

static void give_result(mr_collect_t *c, void *out, size_t n) {
  if (n) mr_device_copy(c->device, out, c->out, n, MR_COPY_IN);
}

static void by_host_all_reduce(mr_collect_t *c, mr_reduce_t how, mr_dtype_t t, int64_t n,
                               const void *in, void *out) {
  size_t bytes = (size_t)n * mr_dtype_size(t);
  if (!fetch_operand(c, in, bytes, bytes)) return;
  c->by->all_reduce(c->rank, how, t, n, c->in, c->out);
  give_result(c, out, bytes);
}

static void by_host_all_gather(mr_collect_t *c, size_t bytes, const void *in, void *out) {
  if (!fetch_operand(c, in, bytes, bytes * (size_t)c->size)) return;
  c->by->all_gather(c->rank, bytes, c->in, c->out);
  give_result(c, out, bytes * (size_t)c->size);
}

static void by_host_reduce_scatter(mr_collect_t *c, mr_dtype_t t, int64_t n, const void *in,
                                   void *out) {
  size_t bytes = (size_t)n * mr_dtype_size(t);
  if (!fetch_operand(c, in, bytes * (size_t)c->size, bytes)) return;
  c->by->reduce_scatter(c->rank, t, n, c->in, c->out);
  give_result(c, out, bytes);
}

static void by_host_all_to_all(mr_collect_t *c, size_t bytes, const void *in, void *out) {
  size_t all = bytes * (size_t)c->size;
  if (!fetch_operand(c, in, all, all)) return;
  c->by->all_to_all(c->rank, bytes, c->in, c->out);
  give_result(c, out, all);
}

static void by_host_send(mr_collect_t *c, int to, size_t bytes, const void *data) {
  if (fetch_operand(c, data, bytes, 0)) c->by->send(c->rank, to, bytes, c->in);
}

static void by_host_receive(mr_collect_t *c, int from, size_t bytes, void *data) {
  if (!fetch_operand(c, NULL, 0, bytes)) return;
  c->by->receive(c->rank, from, bytes, c->out);
  give_result(c, data, bytes);
}

static void by_host_send_receive(mr_collect_t *c, int to, int from, size_t bytes, const void *in,
                                 void *out) {
  size_t received = from < 0 ? 0 : bytes;
  if (!fetch_operand(c, in, to < 0 ? 0 : bytes, received)) return;
  c->by->send_receive(c->rank, to, from, bytes, c->in, c->out);
  give_result(c, out, received);
}

static void by_host_abort(mr_collect_t *c) { (*c->by->abort)(c->rank); }

static mr_err_t by_host_failed(mr_collect_t *c, int *rank, mr_diag_t *diag) {
  return c->by->failed(c->rank, rank, diag);
}

static void by_host_destroy(mr_collect_t *c) {
  if (!c) return;
  c->by->destroy(c->rank);
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
