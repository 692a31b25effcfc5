/* What a step's runs exchange with a device: the fields of a batch and a few scalars go there, the
   numbers that a run reports come back.  On the host each of the MR_TRAIN_RING runs that may be
   unread has arrays of its own, so that the host fills one run's while the device computes another.
   On the device all runs use the same ones: copies and runs are commands in one order, and what a
   run is given has the same addresses each time, so that a device can record it once.  For
   train_runs.c alone. */
#ifndef MR_MODEL_TRAIN_STAGED_H
#define MR_MODEL_TRAIN_STAGED_H

#include "model/exec/backend.h"
#include "model/train/train.h"

enum {
  MR__STAGED_FIELDS = MR_LOSS_FIELDS + 1,             /* with the mask */
  MR__STAGED_SCALARS = 4,                             /* seed, step, lr, t */
  MR__STAGED_IN = MR__STAGED_SCALARS + MR_SCALE_VARS, /* and the loss scale's state */
  MR__STAGED_OUT = 1 + MR_SCALE_VARS,                 /* the report and the next state */
};

/* Arrays of a run, in a block of the device, and of every run, one after the other, in one of the
   host. */
typedef struct mr__strip {
  int n;
  size_t at[MR__STAGED_IN], bytes; /* offsets in one run's part, and its size */
  char *here, *there;              /* MR_TRAIN_RING parts; one */
} mr__strip_t;

typedef struct mr__staged {
  const mr_device_t *device; /* NULL: none is a device's, and nothing else is called */
  mr__strip_t field, in, out;
  size_t field_bytes[MR__STAGED_FIELDS];
  void *mark[MR_TRAIN_RING];
} mr__staged_t;

/* Takes the arrays: n >= 0 fields of those sizes, and a report of that size.  MR_OK or
   MR_ERR_NOMEM; mr__staged_fini in any case. */
mr_err_t mr__staged_init(mr__staged_t *s, const mr_device_t *d, int n, const size_t *field_bytes,
                         size_t report, mr_diag_t *diag);
void mr__staged_fini(mr__staged_t *s); /* waits for the device; zeroed is fine */

/* Sets in[0,n) to the device's arrays for a run's fields, and queues the copies to them; field[i]
   must stay until the run is read. */
void mr__staged_fields(const mr__staged_t *s, const void *const *field, const void **in);
/* Returns the host's bytes of scalar i of a run, to be filled before mr__staged_scalars copies all.
   They belong to s until mr__staged_fini; run + MR_TRAIN_RING has the same. */
void *mr__staged_scalar(const mr__staged_t *s, int64_t run, int i);
void mr__staged_scalars(const mr__staged_t *s, int64_t run);
/* Queues the copy of the loss scale's state that the last run has left to the scalars of the next,
   behind mr__staged_scalars. */
void mr__staged_pass_on(const mr__staged_t *s);
/* Return the device's addresses of scalar i, and of output i, of each run, valid until
   mr__staged_fini. */
void *mr__staged_in(const mr__staged_t *s, int i);
void *mr__staged_out(const mr__staged_t *s, int i);
/* After the run's commands: queues the copy of its outputs to the host. */
void mr__staged_end(mr__staged_t *s, int64_t run);
/* Waits for them, as mr_queue_ops_t.reached: MR_OK; MR_AGAIN, only without wait: nothing yet; or
   the device's failure. */
mr_err_t mr__staged_read(mr__staged_t *s, int64_t run, bool wait, mr_diag_t *diag);
/* Returns the host's bytes of output i of a run that has been read; valid until MR_TRAIN_RING more
   runs. */
const void *mr__staged_result(const mr__staged_t *s, int64_t run, int i);

#endif
