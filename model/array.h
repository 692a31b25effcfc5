/* Values of tensors that a run returns before they are there: futures, immutable once there.

   Reference-counted: who creates or keeps an array drops it.  Any thread may keep, drop, wait. */
#ifndef MR_MODEL_ARRAY_H
#define MR_MODEL_ARRAY_H

#include "base/decls.h"
#include "base/err.h"
#include "model/ir/aval.h"

MR_BEGIN_DECLS

typedef struct mr_array mr_array_t;

struct mr_backend; /* exec/backend.h: what computes, and whose memory holds bytes */

/* A copy of the host's data, dense, of aval's bytes, on device (NULL: the default).  NULL on
   failure: MR_ERR_NOMEM names the aval. */
mr_array_t *mr_array_on(const struct mr_backend *device, mr_aval_t aval, const void *data,
                        mr_diag_t *diag);
mr_array_t *mr_array_of(mr_aval_t aval, const void *data, mr_diag_t *diag); /* on the default */
/* data itself, which lies in device's memory (NULL: the default), aligned as it wants.  release is
   called once with arg, by the thread that drops the last hold on the bytes; until then they stand
   and only runs that the array is donated to write there.  NULL on failure: MR_ERR_CONFIG names the
   alignment, MR_ERR_NOMEM; data is then still the caller's. */
mr_array_t *mr_array_over(const struct mr_backend *device, mr_aval_t aval, void *data,
                          void (*release)(void *arg), void *arg, mr_diag_t *diag);
mr_array_t *mr_array_keep(mr_array_t *a); /* returns a */
void mr_array_drop(mr_array_t *a);        /* NULL is fine */

/* Of a; lives as long as a. */
const mr_aval_t *mr_array_aval(const mr_array_t *a);
const struct mr_backend *mr_array_device(const mr_array_t *a);
bool mr_array_is_ready(const mr_array_t *a); /* or failed: a wait returns at once */

/* Waits until the run that makes a has ended, and returns its error: the sentence names the
   function, op and scope, or the run before it whose failure went on into this one. */
mr_err_t mr_block_until_ready(mr_array_t *a, mr_diag_t *diag);
/* Waits; host: room for aval's bytes, which a's are copied to.  Fails as mr_array_data does, but
   for the device. */
mr_err_t mr_array_read(mr_array_t *a, void *host, mr_diag_t *diag);
/* a's values on device: a itself, kept, if they are there, else a copy, after a wait.  The caller
   drops it.  NULL on failure: as mr_array_read, or MR_ERR_NOMEM. */
mr_array_t *mr_array_to(mr_array_t *a, const struct mr_backend *device, mr_diag_t *diag);
/* Waits; *data: dense, 64-aligned, unchanged until a is dropped or donated.  MR_ERR_CONFIG for an
   array that was donated, or that lies on a device whose memory the host reaches by copies alone.
 */
mr_err_t mr_array_data(mr_array_t *a, const void **data, mr_diag_t *diag);

MR_END_DECLS

#endif
