/* The runs of a compiled step: the addresses that each reads and writes, the scalars that it is
   given, and the ring of the numbers that it reports.  Runs begin and are read in order, at most
   MR_TRAIN_RING of them unread; run k uses the k-th place of every ring, modulo its length.  In the
   host's memory a run has ended when mr_exec_start returns.  On a device its scalars and numbers
   are copied (model/train/staged.h), and it may be under way until mr__runs_await says that it is
   not. Shared by step.c, train.c and eval.c; calls on one mr__runs_t must not overlap. */
#ifndef MR_MODEL_TRAIN_TRAIN_RUNS_H
#define MR_MODEL_TRAIN_TRAIN_RUNS_H

#include "model/train/staged.h"

/* The scalars of a run, at addresses that the graph reads. */
typedef struct mr__scalars {
  uint64_t seed;
  uint32_t step;
  float lr, t;
} mr__scalars_t;

typedef struct mr__runs {
  int n_fields, there; /* fields of a batch with its mask; the first of them that lie on the device
                          when a run begins */
  int64_t begun, read; /* the caller adds to them */
  mr__scalars_t scalars[MR_TRAIN_RING];
  mr_scale_state_t scale[MR_TRAIN_RING + 1]; /* run k reads element k and writes the next */
  float *reported;                           /* [MR_TRAIN_RING][stride], each 64-aligned */
  size_t stride;
  const void **in; /* of the graph, of the run that begins */
  void **out;
  mr__staged_t staged; /* on a device: the arrays of a run there */
  bool passes_on; /* the run that begins reads the loss scale's state of the last on a device */
} mr__runs_t;

/* Takes the rings of a step of graph f, whose first inputs are n_fields fields, the first `there`
   of them on the device already, and whose first output is n_reported numbers.  device NULL: the
   host. MR_OK or MR_ERR_NOMEM; mr__runs_fini in any case. */
mr_err_t mr__runs_init(mr__runs_t *r, const mr_fn_t *f, const mr_device_t *device, int n_fields,
                       int there, int n_reported, mr_diag_t *diag);
void mr__runs_fini(mr__runs_t *r); /* waits for the device; zeroed is fine */

/* Points the first inputs of a run, fields, seed and step, and its first output at their places.
   On a device the fields' copies begin, and the scalars are copied by mr__runs_send.  field[i] must
   stay until the run is read.  MR_OK; MR_ERR_CONFIG if MR_TRAIN_RING runs are unread;
   MR_ERR_UNAVAILABLE if the device has failed: nothing has changed after either. */
mr_err_t mr__runs_begin(mr__runs_t *r, const void *const *field, const mr__scalars_t *given,
                        mr_diag_t *diag);
/* Points inputs `in` and in + 1 at lr and t. */
void mr__runs_rate(mr__runs_t *r, int in);
/* Points MR_SCALE_VARS inputs from `in` on at the loss scale's state, and outputs from `out` on at
   the next state.  On a device with unread runs the newest state is there alone. */
void mr__runs_scale(mr__runs_t *r, int in, int out);
/* Before the run's commands, when all of its scalars are set: begins to copy them to a device. */
void mr__runs_send(mr__runs_t *r);
/* After the run's commands: begins to copy what it reports to the host.  Nothing in the host's
   memory. */
void mr__runs_end(mr__runs_t *r);

/* Waits for the oldest unread run: MR_OK; MR_END: all are read; MR_AGAIN, only without wait:
   nothing yet; MR_ERR_UNAVAILABLE: the device has failed. */
mr_err_t mr__runs_await(mr__runs_t *r, bool wait, mr_diag_t *diag);
/* Returns what the oldest unread run, which has ended, has reported; valid until MR_TRAIN_RING more
   runs have begun. */
const float *mr__runs_reported(const mr__runs_t *r);
/* Copies the state of the loss scale that it has left, from a device, to `scale`. */
void mr__runs_read_scale(mr__runs_t *r);
/* Returns the state of the loss scale that a run reads; that of run `begun` is the next one's.  It
   belongs to r; run + MR_TRAIN_RING + 1 has the same. */
mr_scale_state_t *mr__runs_scale_of(mr__runs_t *r, int64_t run);
/* Undoes the run that was read last and all begun since; waits until none of them uses its fields.
   At least one must have been read. */
void mr__runs_retake(mr__runs_t *r);

#endif
