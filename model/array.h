/* Values of tensors that a run returns before they are there: futures, immutable once there.

   Reference-counted: who creates or keeps an array drops it.  Any thread may keep, drop, wait. */
#ifndef MR_MODEL_ARRAY_H
#define MR_MODEL_ARRAY_H

#include "base/decls.h"
#include "base/err.h"
#include "model/ir/aval.h"

MR_BEGIN_DECLS

typedef struct mr_array mr_array_t;

/* A copy of data, dense, of aval's bytes.  NULL on failure: MR_ERR_NOMEM names the aval. */
mr_array_t *mr_array_of(mr_aval_t aval, const void *data, mr_diag_t *diag);
mr_array_t *mr_array_keep(mr_array_t *a); /* returns a */
void mr_array_drop(mr_array_t *a);        /* NULL is fine */

/* Of a; lives as long as a. */
const mr_aval_t *mr_array_aval(const mr_array_t *a);
bool mr_array_is_ready(const mr_array_t *a); /* or failed: a wait returns at once */

/* Waits until the run that makes a has ended, and returns its error: the sentence names the
   function, op and scope, or the run before it whose failure went on into this one. */
mr_err_t mr_block_until_ready(mr_array_t *a, mr_diag_t *diag);
/* Waits; *data: dense, 64-aligned, unchanged until a is dropped or donated.  MR_ERR_CONFIG for an
   array that was donated. */
mr_err_t mr_array_data(mr_array_t *a, const void **data, mr_diag_t *diag);

MR_END_DECLS

#endif
