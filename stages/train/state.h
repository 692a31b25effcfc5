/* What a checkpoint of train-step holds, packed into the payload of a STATE buffer, and read
   back.

   Tensors: "params/NAME" for every parameter, f32, "adam.m/NAME" and the like for each slot of the
   optimizer (mr_optim_def_t.slot), and "ema/NAME" if an average of the weights is kept
   (mr_optim_debiased_ema); "fp8/scale" and "fp8/amax" (computes.h); "stream/PORT", i64, for each
   linked input in mr_train_stream_name, and each further input of held-back records
   ("valid.dogs"): where its stream resumes
   (pipeline/graph/stream_at.h), which takes as long after a million steps as after one.  Text:
   millrace.model (mr_model_text: every setting that shapes the model), step, images, position,
   epoch, ledger, seed, unvalidated, the data's origin, the optimizer, a dynamic loss scale's state
   (loss_scale: its five numbers), what its parameters were judged by (judged, metrics/judged.h),
   the best of that so far (best: value, step, misses; best_by: of which number), the rule of
   weight decay (no_decay; none: without one), computes (mr__computes_text), fp8_rules
   (mr__computes_rules), inputs (mr_train_inputs_text) and the version of all this, each as
   "millrace.WORD".  Version 1 had no version and no streams but the training stream's position; up
   to version 2 every file had two slots, called adam.m and adam.v.  A file says the oldest version
   that has all it holds.

   The calls on a file return MR_OK, or fail with a sentence in diag: MR_ERR_IO, MR_ERR_DATA or
   MR_ERR_NOMEM. */
#ifndef MR_STAGES_TRAIN_STATE_H
#define MR_STAGES_TRAIN_STATE_H

#include "model/train/train.h"
#include "model/zoo/zoo.h"
#include "pipeline/graph/stream_at.h"
#include "pipeline/stage.h"
#include "pipeline/state.h"

/* Inputs whose streams resume.  The test stream is read once, at the end of the run, and again if
   the run is extended after its end: always from the start. */
enum { MR_TRAIN_STREAMS = 2, MR_TRAIN_MORE = MR_MAX_PORTS - 3, MR_TRAIN_COMPUTES = 96 };

#define MR_TRAIN_BEST_BY "millrace.best_by"
#define MR_TRAIN_NO_DECAY "millrace.no_decay"

extern const char *const mr_train_stream_name[MR_TRAIN_STREAMS]; /* "in", "valid" */

/* A further input of held-back records, by the name that the graph gives it. */
typedef struct mr_train_more {
  char name[MR_IN_NAME_MAX + 1]; /* "valid.dogs"; "": none */
  mr_stream_at_t at;
} mr_train_more_t;

/* The best evaluation so far by the metric that may end the run. */
typedef struct mr_train_best {
  bool known;
  double value;
  int64_t step, misses; /* misses: evaluations since, none of them better */
} mr_train_best_t;

/* The progress of a run between two steps. */
typedef struct mr_train_progress {
  int64_t step;   /* steps done */
  int64_t images; /* training images seen */
  int64_t epoch;  /* epochs done */
  uint64_t ledger;
  uint64_t seed;    /* of initialisation and dropout */
  bool unvalidated; /* a validation is due, after an epoch or within one */
  mr_train_best_t best;
  const char *best_by; /* the name of that metric, and the rule of weight decay, NULL: none; both */
  const char *no_decay; /* outlive the states made of this; not read from files */
  const char *judged;   /* the numbers of the validation of these parameters, which outlive the call
                           that packs them; NULL: none; not read from files */
  char origin[32];      /* of the data, "cifar10" */
  float ema;            /* decay of the average of weights, 0: none */
  int64_t ema_after;    /* applied steps before the average began */
  mr_scale_state_t scale;           /* of a dynamic loss scale; scale 0: none */
  char optimizer[16];               /* the optimizer that keeps the slots */
  char computes[MR_TRAIN_COMPUTES]; /* mr__computes_text; "": an older checkpoint */
  const char *slices; /* names of the other ranks' slices, a line each, copied by pack; NULL: none;
                         not read from files */
  int own[2];         /* with slices: the parameters whose slots and average are in this file */
  bool own_values;    /* then: their values too, else this file has all, and no slice any */
  const char *inputs; /* mr_train_inputs_text, which outlives the states made
                         of this; NULL: none; not read from files */
  mr_train_fp8_t fp8; /* belongs to the step; not read from files */
  uint64_t fp8_rules; /* mr__computes_rules; 0: an older checkpoint */
  mr_stream_at_t stream[MR_TRAIN_STREAMS]; /* between two steps, or validations */
  bool stream_known[MR_TRAIN_STREAMS];
  mr_train_more_t more[MR_TRAIN_MORE]; /* in any order */
} mr_train_progress_t;

/* Bytes of a STATE buffer for a model of these parameters, averaged: with an average of them;
   ranks: that may have slices, 0: none.  Cannot fail. */
size_t mr_train_state_bytes(const mr_params_t *params, bool averaged, int ranks);

/* Writes names and progress into mem (64-aligned, mr_train_state_bytes) as the mr_state_t at its
   start.  Its tensors point at the arenas of params and at p->fp8, which must not change while a
   consumer reads it.  model: mr_model_text, copied; of: the name of the stage, not copied.  Returns
   the bytes used, which never exceed mr_train_state_bytes; cannot fail. */
size_t mr_train_state_pack(const mr_params_t *params, const char *model,
                           const mr_train_progress_t *p, const char *of, bool last, void *mem);

/* Reads the model's description from a checkpoint file into text[MR_MODEL_TEXT]; MR_ERR_DATA if it
   is not a checkpoint of train-step. */
mr_err_t mr_train_state_model(const char *path, char *text, mr_diag_t *diag);

/* Reads a text of a checkpoint file's metadata into text[0,n), n > 0; "" if it is missing or
   longer.  Fails as mr_safetensors_open. */
mr_err_t mr_train_state_text(const char *path, const char *name, char *text, size_t n,
                             mr_diag_t *diag);

/* Reads the progress of a checkpoint file into *p; MR_ERR_DATA if a number is missing or
   impossible, or the version is newer. */
mr_err_t mr_train_state_progress(const char *path, mr_train_progress_t *p, mr_diag_t *diag);

/* Sets c->values and c->slots to the dtypes that a checkpoint file keeps parameters and slots in;
   those of other dtypes than f32, bf16 and f16 are left for mr_train_state_check to refuse.  Fails
   as mr_safetensors_open. */
mr_err_t mr_train_state_kept(const char *path, mr_compute_t *c, mr_diag_t *diag);

/* Sets *out to whether a checkpoint file holds an average of the weights. */
mr_err_t mr_train_state_averaged(const char *path, bool *out, mr_diag_t *diag);

/* Checks that a checkpoint file is of this model and holds the tensors of this list of parameters,
   which may have no arenas yet: a file that merely claims a large model is refused before memory is
   taken for it.  Fails as mr_train_state_load. */
mr_err_t mr_train_state_check(const char *path, const char *model, const mr_params_t *params,
                              mr_diag_t *diag);

/* Fills the arenas of params and *p from a checkpoint file; if the file has no average but params
   has, it starts as the values.  MR_ERR_DATA names path and the fault: another model, a missing
   tensor, bad text. */
mr_err_t mr_train_state_load(const char *path, const char *model, mr_params_t *params,
                             mr_train_progress_t *p, mr_diag_t *diag);

/* Writes the slots and the average of parameters [p->own[0],p->own[1]), and with p->own_values
   their values, into the folder, as the slice of rank `rank` of `ranks` of the state *p, durable
   when it returns, and its name into name[MR_SAFETENSORS_SLICE_NAME].  The same state has the same
   name and bytes.  MR_OK; MR_ERR_IO, MR_ERR_NOMEM. */
mr_err_t mr_train_slice_write(const char *folder, const mr_params_t *params,
                              const mr_train_progress_t *p, int rank, int ranks, char *name,
                              mr_diag_t *diag);

/* Writes a checkpoint and its slices as the one file that a process which has all would have
   written.  path: of the checkpoint; fd: where to, as mr_safetensors_write_fd; to: its name for
   sentences.  *slices, unless NULL: files besides the first.  Fails as mr_safetensors_open, and as
   mr_train_state_model for a file that is none of train-step. */
mr_err_t mr_train_state_merge(const char *path, int fd, const char *to, int *slices,
                              mr_diag_t *diag);

#endif
