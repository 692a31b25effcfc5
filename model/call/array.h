/* Arrays: tensors that are the arguments and results of jitted functions (jit.h).

   A result is a future: the call that makes it returns before its values are computed.  Once
   computed, they do not change.  Arrays are reference-counted; each create and each keep needs one
   drop.  Any thread may keep, drop or wait for an array.  Implemented in array.c. */
#ifndef MR_MODEL_CALL_ARRAY_H
#define MR_MODEL_CALL_ARRAY_H

#include "base/decls.h"
#include "base/err.h"
#include "model/ir/aval.h"

MR_BEGIN_DECLS

typedef struct mr_array mr_array_t;

struct mr_device; /* exec/backend.h: the device that holds the bytes */

/* Both return a new array that the caller drops, or NULL with MR_ERR_NOMEM in diag, which names
   the aval.  They copy data, dense and of aval's bytes in the host's memory, before they return.
   on: to a device, NULL for the default; of: to the default device. */
mr_array_t *mr_array_on(const struct mr_device *device, mr_aval_t aval, const void *data,
                        mr_diag_t *diag);
mr_array_t *mr_array_of(mr_aval_t aval, const void *data, mr_diag_t *diag);

/* Wraps data without a copy. data must lie in device's memory (NULL: the default device) and have
   the backend's alignment.  It must stay valid until release(arg), which is called once, by the
   thread that drops the last reference to the bytes: the array, or a run in flight that uses it.
   Until then only a run that the array is donated to writes there.  The caller drops the array.
   NULL on failure, without a call of release: MR_ERR_CONFIG names the alignment, or
   MR_ERR_NOMEM. */
mr_array_t *mr_array_over(const struct mr_device *device, mr_aval_t aval, void *data,
                          void (*release)(void *arg), void *arg, mr_diag_t *diag);
mr_array_t *mr_array_keep(mr_array_t *a); /* takes one more reference; returns a, cannot fail */
void mr_array_drop(mr_array_t *a);        /* NULL is fine */

/* Each returns what a was created with, never NULL.  The aval lives as long as a; the device is
   static. */
const mr_aval_t *mr_array_aval(const mr_array_t *a);
const struct mr_device *mr_array_device(const mr_array_t *a);

/* Whether a wait for a would return at once: its run has ended or failed. */
bool mr_array_is_ready(const mr_array_t *a);

/* Waits until the run that makes a has ended.  MR_OK, or the run's error.  The sentence names the
   function, op and scope; an argument that failed passes its error on to the results of the run. */
mr_err_t mr_block_until_ready(mr_array_t *a, mr_diag_t *diag);
/* Waits, then copies a's bytes to host, which has room for the bytes of its aval.  MR_OK; the error
   of mr_block_until_ready; MR_ERR_CONFIG if a was donated. */
mr_err_t mr_array_read(mr_array_t *a, void *host, mr_diag_t *diag);
/* Waits, then returns an array with a's values on device (NULL: the default device): a itself with
   one more reference if it lies there, else a copy.  The caller drops the result.  NULL on failure:
   the errors of mr_array_read, or MR_ERR_NOMEM. */
mr_array_t *mr_array_to(mr_array_t *a, const struct mr_device *device, mr_diag_t *diag);
/* Waits, then points *data at a's values: dense, with the backend's alignment (64 bytes at least),
   valid and unchanged until a is dropped or donated.  MR_OK; the errors of mr_array_read; or
   MR_ERR_CONFIG for a device whose memory the host reaches by copies alone. */
mr_err_t mr_array_data(mr_array_t *a, const void **data, mr_diag_t *diag);

MR_END_DECLS

#endif
