/* A communicator of threads for graphs: one that no other of the process can be mistaken for, with
   all of its ranks joined from the start. */
#include "model/exec/comm.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "model/exec/device.h"

struct mr_comm {
  int size;
  mr_collect_t *rank[]; /* [size] */
};

mr_err_t mr_comm_create(int size, double limit_s, mr_comm_t **out, mr_diag_t *diag) {
  static _Atomic uint64_t count; /* relaxed: makes a unique name */
  char id[MR_COLLECT_ID];
  if (size < 1 || size > MR_COLLECT_RANKS)
    return mr_fail(diag, MR_ERR_CONFIG, "communicator: %d devices, want 1 to %d", size,
                   MR_COLLECT_RANKS);
  mr_comm_t *c = calloc(1, sizeof *c + (size_t)size * sizeof c->rank[0]);
  if (!c) return mr_no_memory(diag, "a communicator of %d devices", size);
  c->size = size;
  snprintf(id, sizeof id, "graph %llu",
           (unsigned long long)atomic_fetch_add_explicit(&count, 1, memory_order_relaxed));
  mr_err_t e = MR_OK;
  for (int r = 0; r < size && e >= 0; r++)
    e = mr_collect_threads.create(mr_device_default(), id, r, size, limit_s, &c->rank[r], diag);
  if (e < 0) return mr_comm_destroy(c), e;
  return *out = c, MR_OK;
}

void mr_comm_destroy(mr_comm_t *c) {
  for (int r = 0; c && r < c->size; r++) mr_collect_threads.destroy(c->rank[r]);
  free(c);
}

mr_comm_rank_t mr_comm_rank_of(const mr_comm_t *c, int rank, const char *axis) {
  return (mr_comm_rank_t){.ops = &mr_collect_threads,
                          .collect = c->rank[rank],
                          .rank = rank,
                          .size = c->size,
                          .axis = axis};
}

mr_err_t mr_comm_failed(const mr_comm_t *c, int *rank, mr_diag_t *diag) {
  return mr_collect_threads.failed(c->rank[0], rank, diag);
}
