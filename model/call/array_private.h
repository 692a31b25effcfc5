/* The form of an array, shared by array.c, the queue and jit. */
#ifndef MR_MODEL_CALL_ARRAY_PRIVATE_H
#define MR_MODEL_CALL_ARRAY_PRIVATE_H

#include <stdatomic.h>

#include "model/call/array.h"
#include "model/call/array_note.h"
#include "model/call/queue.h"
#include "model/exec/backend.h"

/* The bytes of an array.  One array at a time owns them; a donation passes them to an output.  Runs
   in flight hold references of their own. */
typedef struct mr__bytes {
  atomic_int refs;
  const mr_device_t *device; /* kept open, as the array's */
  void *data;
  size_t size;
  void (*release)(void *arg); /* NULL: device gives data back */
  void *arg;
  mr__note_t *note; /* NULL: not noted */
} mr__bytes_t;

/* Takes n bytes of device's memory, contents undefined.  NULL without memory. */
mr__bytes_t *mr__bytes_create(const mr_device_t *device, size_t n);
mr__bytes_t *mr__bytes_keep(mr__bytes_t *b);
void mr__bytes_drop(mr__bytes_t *b);

typedef enum mr__state { MR__PENDING, MR__READY, MR__FAILED } mr__state_t;

struct mr_array {
  atomic_int refs;
  atomic_int state; /* mr__state_t: release by the thread that makes it, acquire by all others */
  mr_aval_t aval;
  const mr_device_t *device;
  mr__bytes_t *bytes; /* NULL once donated */
  mr_queue_t *queue;  /* runs the task that makes it; read only while pending */
  mr_diag_t *diag;    /* why it failed; set before state */
};

/* An array of refcount 1 that takes over bytes.  With a queue it is pending, else ready.  NULL
   without memory; bytes are dropped then. */
mr_array_t *mr__array_create(mr_aval_t aval, mr__bytes_t *bytes, mr_queue_t *queue);
/* Mark a pending array as computed, or as failed for the reason in *why, which is copied.  The
   thread that runs the task calls one of them, once. */
void mr__array_done(mr_array_t *a);
void mr__array_fail(mr_array_t *a, const mr_diag_t *why);

#endif
