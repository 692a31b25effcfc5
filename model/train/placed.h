/* The parameters of a step in the memory of its device.  A step on the host's own backend uses the
   arrays of mr_params_t in place, and everything here does nothing.  Shared by step.c, train.c and
   eval.c. */
#ifndef MR_MODEL_TRAIN_PLACED_H
#define MR_MODEL_TRAIN_PLACED_H

#include "model/exec/backend.h"
#include "model/nn/params.h"

typedef struct mr__placed {
  const mr_device_t *device; /* NULL: the host's arrays are used */
  int n_slots;               /* of the optimizer */
  bool average, moments;     /* what is placed beside the values */
  const mr_params_t *of;     /* what the sets hold; NULL: nothing yet */
  int n_sets;
  mr_param_set_t set[MR_PARAM_SETS]; /* data is the device's */
  size_t bytes[MR_PARAM_SETS];
  void *pinned[MR_PARAM_SETS]; /* the host's arrays of `of` that are; NULL: those are not */
  bool fetching;               /* copies to the host's sets are under way, until mark */
  void *mark;
  bool newer; /* a run has written the sets since they were last equal to the host's */
} mr__placed_t;

/* Copies params to the device, whose sets are taken at the first call, and pins the host's arrays
   until params of other arrays come, or mr__placed_fini.  MR_OK; MR_ERR_NOMEM names
   the bytes; MR_ERR_SHAPE for parameters of another size than before. */
mr_err_t mr__placed_put(mr__placed_t *p, const mr_params_t *params, mr_diag_t *diag);
/* Copies the sets to the host's params if they are newer.  MR_OK, or the device's failure. */
mr_err_t mr__placed_fetch(mr__placed_t *p, mr_params_t *params, mr_diag_t *diag);
/* Begins the same: copies beside the commands, behind those given so far; a run that writes the
   sets then waits for them (mr_exec_wait_beside).  MR_AGAIN: they are not done yet.  MR_OK: params
   hold the values already.  Or the device's failure. */
mr_err_t mr__placed_fetch_begin(mr__placed_t *p, mr_params_t *params, mr_diag_t *diag);
/* Waits for these copies: MR_OK, also if there are none, or the device's failure. */
mr_err_t mr__placed_fetch_end(mr__placed_t *p, mr_diag_t *diag);
/* The set that a run uses: the device's, or without a device that of params; NULL: params lack it.
   Valid until mr__placed_fini, or as long as params. */
const mr_param_set_t *mr__placed_set(const mr__placed_t *p, const mr_params_t *params,
                                     mr_set_kind_t kind, int number);
void mr__placed_fini(mr__placed_t *p); /* gives the sets back; twice is fine */

#endif
