/* Where runs wait their turn: one thread that does them in the order of the calls, so that a run
   finds the outputs of those before it. */
#ifndef MR_MODEL_QUEUE_H
#define MR_MODEL_QUEUE_H

#include <stdbool.h>

#include "base/decls.h"
#include "base/err.h"

MR_BEGIN_DECLS

typedef struct mr_queue mr_queue_t;

/* Starts the thread; *out is the caller's.  MR_ERR_NOMEM, MR_ERR_UNAVAILABLE without threads. */
mr_err_t mr_queue_create(mr_queue_t **out, mr_diag_t *diag);
/* Does what is queued, then ends the thread.  NULL is fine. */
void mr_queue_destroy(mr_queue_t *q);
/* Waits until everything that was queued before has ended. */
void mr_queue_drain(mr_queue_t *q);

/* ---- for jit ---- */
typedef struct mr__task mr__task_t;
struct mr__task {
  mr__task_t *next;
  void (*run)(mr__task_t *t); /* settles the arrays it makes; the task is its own to free */
};
/* Runs t: at once on this thread if it is small and nothing is before it, else in its turn. */
void mr__queue_put(mr_queue_t *q, mr__task_t *t, bool small);
struct mr_array;
void mr__queue_wait(mr_queue_t *q, const struct mr_array *a);

MR_END_DECLS

#endif
