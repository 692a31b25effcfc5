#ifndef MR_MODEL_ARRAY_PRIVATE_H
#define MR_MODEL_ARRAY_PRIVATE_H

#include <stdatomic.h>

#include "model/array.h"
#include "model/exec/backend.h"
#include "model/queue.h"

/* Bytes that one array at a time owns; runs under way hold them too. */
typedef struct mr__bytes {
  atomic_int refs;
  const mr_backend_t *device;
  void *data;
  size_t size;
  void (*release)(void *arg); /* NULL: device gives data back */
  void *arg;
} mr__bytes_t;

/* Of device's memory; NULL without memory. */
mr__bytes_t *mr__bytes_create(const mr_backend_t *device, size_t n);
mr__bytes_t *mr__bytes_keep(mr__bytes_t *b);
void mr__bytes_drop(mr__bytes_t *b);

typedef enum mr__state { MR__PENDING, MR__READY, MR__FAILED } mr__state_t;

struct mr_array {
  atomic_int refs;
  atomic_int state; /* mr__state_t: release by the thread that makes it, acquire by all others */
  mr_aval_t aval;
  const mr_backend_t *device;
  mr__bytes_t *bytes; /* NULL once donated */
  mr_queue_t *queue;  /* whose run makes it; looked at while pending only */
  mr_diag_t *diag;    /* why it failed; set before state */
};

/* Takes over bytes.  NULL without memory, and bytes are dropped. */
mr_array_t *mr__array_create(mr_aval_t aval, mr__bytes_t *bytes, mr_queue_t *queue);
/* A pending array: its bytes hold its value; or it failed, which why says.  Once, by the thread
   that runs what makes it. */
void mr__array_done(mr_array_t *a);
void mr__array_fail(mr_array_t *a, const mr_diag_t *why);

#endif
