/* A communicator of threads: an array of pointers and a barrier, passed once to publish them and
   once before they may change. */
#include "model/exec/comm.h"

#include <pthread.h>
#include <stdlib.h>

struct mr_comm {
  int size;
  pthread_barrier_t meeting;
  const void *shown[]; /* [size] */
};

mr_err_t mr_comm_create(int size, mr_comm_t **out, mr_diag_t *diag) {
  if (size < 1 || size > 1024)
    return mr_fail(diag, MR_ERR_CONFIG, "communicator: %d devices, want 1 to 1024", size);
  mr_comm_t *c = calloc(1, sizeof *c + (size_t)size * sizeof c->shown[0]);
  if (!c || pthread_barrier_init(&c->meeting, NULL, (unsigned)size)) {
    free(c);
    return mr_no_memory(diag, "a communicator of %d devices", size);
  }
  c->size = size;
  *out = c;
  return MR_OK;
}

void mr_comm_destroy(mr_comm_t *c) {
  if (!c) return;
  pthread_barrier_destroy(&c->meeting);
  free(c);
}

int mr_comm_size(const mr_comm_t *c) { return c->size; }

/* The barrier orders the writes of each device before it with the reads of the others after it. */
const void *const *mr__comm_meet(mr_comm_t *c, int rank, const void *value) {
  c->shown[rank] = value;
  pthread_barrier_wait(&c->meeting);
  return c->shown;
}

void mr__comm_leave(mr_comm_t *c) { pthread_barrier_wait(&c->meeting); }
