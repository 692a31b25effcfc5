/* A queue of runs: one thread executes them in the order of the calls, so that a run finds the
   outputs of earlier runs.

   A fork waits until no run of any queue is in progress.  A child may use its copies of queues,
   functions and arrays: it has no thread of the queue, so its own threads execute the runs, those
   too that were queued before the fork.  Only the CPU's: what a device holds is the parent's. */
#ifndef MR_MODEL_CALL_QUEUE_H
#define MR_MODEL_CALL_QUEUE_H

#include <stdbool.h>

#include "base/decls.h"
#include "base/err.h"

MR_BEGIN_DECLS

typedef struct mr_queue mr_queue_t;

/* Starts the thread.  The caller destroys *out.  MR_OK, MR_ERR_NOMEM, or MR_ERR_UNAVAILABLE if the
   system gives no thread. */
mr_err_t mr_queue_create(mr_queue_t **out, mr_diag_t *diag);
/* Waits until the thread has executed all queued runs, then ends it and frees q.  NULL is fine. */
void mr_queue_destroy(mr_queue_t *q);
/* Waits until the queue is empty and no run is in progress. */
void mr_queue_drain(mr_queue_t *q);

/* ---- for jit ---- */
typedef struct mr__task mr__task_t;
struct mr__task {
  mr__task_t *next;
  void (*run)(mr__task_t *t); /* settles the arrays it makes; the task is its own to free */
};
/* Takes over t.  Runs it at once on this thread if it is small and the queue is idle, else appends
   it to the queue and returns. */
void mr__queue_put(mr_queue_t *q, mr__task_t *t, bool small);
struct mr_array;
/* Waits until a, which a task of q makes, is ready or has failed. */
void mr__queue_wait(mr_queue_t *q, const struct mr_array *a);

MR_END_DECLS

#endif
