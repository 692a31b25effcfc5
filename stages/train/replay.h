/* A replay file: one training step with all that it depends on, so that it can be run again alone,
   on any machine and without the data set.

   A safetensors file (base/safetensors.h: digest, lengths and dtypes are checked).  Tensors:
   "field/NAME" (B, ...) of the batch as the loss takes it, "counts" f32 (B) if the loss is masked,
   "records" u64 (n), the record ids, "params/NAME", "slot.0/NAME", "slot.1/NAME",
   "average/NAME", and with fp8 "fp8/scale" and "fp8/amax" (computes.h). Text, each as
   "millrace.WORD": replay (the version of this form), settings (NAME=VALUE lines of the stage and
   its model), fields (a line of name, classes and layout each), stage, step, seed, lr, loss and
   grad_norm (bits, in hex), scale, isa, threads, keys, precision, skip, made_with, device if the
   run did not compute on the CPU, and ema_after if the average began behind the run's start. */
#ifndef MR_STAGES_TRAIN_REPLAY_H
#define MR_STAGES_TRAIN_REPLAY_H

#include <stdio.h>

#include "base/decls.h"
#include "model/exec/device.h"
#include "model/train/train.h"

MR_BEGIN_DECLS

typedef struct mr_replay mr_replay_t;

enum { MR_REPLAY_WORD = 64, MR_REPLAY_TEXT = 256 };

/* What a file says of its step. */
typedef struct mr_replay_report {
  char stage[MR_REPLAY_WORD]; /* its name in the run's graph */
  char model[MR_REPLAY_WORD];
  int64_t step, batch;
  uint64_t seed;
  float lr, loss, grad_norm; /* as the run had them, to the bit */
  float ema;                 /* decay of the average of the weights, 0: the step has none */
  int64_t ema_after;         /* applied steps before the average began */
  char isa[MR_REPLAY_WORD];  /* as MILLRACE_ISA names it */
  int64_t threads;           /* of the run; no result depends on them */
  char made_with[MR_REPLAY_TEXT];
  char device[MR_REPLAY_WORD]; /* its name without a number, "cpu" or "opencl" */
  int n_records;
  const uint64_t *record; /* [n_records] ids, as `millrace who` names them */
} mr_replay_report_t;

/* Names the versions that files written by this process were made with; text lives as long as the
   process.  Call it before a graph runs. */
void mr_replay_made_with(const char *text);

/* Reads and checks a file, and takes the memory for parameters and batch, but compiles nothing.
   MR_ERR_IO; MR_ERR_DATA with the path and what does not fit; MR_ERR_NOMEM.  The caller closes
   *out. */
mr_err_t mr_replay_open(const char *path, mr_replay_t **out, mr_diag_t *diag);
void mr_replay_close(mr_replay_t *r);                             /* NULL is fine */
const mr_replay_report_t *mr_replay_report(const mr_replay_t *r); /* lives as long as r */

/* Computes on that device (mr_device_open) in later calls; NULL, as at first: on the CPU.  Cannot
   fail. */
void mr_replay_set_device(mr_replay_t *r, const mr_device_t *device);

/* Runs the step on that many threads, 0: as the run did.  Parameters stay as they are, so that it
   can be called again.  The step is compiled with the run's precision of products and layout of
   random keys, which are the process's defaults (model/ir/defaults.h) meanwhile.  Fails as
   mr_train_step_create and mr_train_step_run. */
mr_err_t mr_replay_run(mr_replay_t *r, int threads, mr_train_out_t *out, mr_diag_t *diag);

enum { MR_TRACED_TEXT = 640 };

/* What inspecting every value of a step has found. */
typedef struct mr_traced {
  mr_train_out_t out;        /* of the inspected step */
  bool found;                /* loss or gradients are not finite, or a parameter would not be */
  char text[MR_TRACED_TEXT]; /* where that begins: part, scope, equation, element, value */
} mr_traced_t;

/* Runs the step unfused and looks at each value.  list: NULL, or where every equation up to the
   first one that is not finite is printed.  Fails as mr_replay_run. */
mr_err_t mr_replay_trace(mr_replay_t *r, int threads, FILE *list, mr_traced_t *out,
                         mr_diag_t *diag);

MR_END_DECLS

#endif
