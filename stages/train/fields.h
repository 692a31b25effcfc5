/* A stream's batches as the fields that a model takes. */
#ifndef MR_STAGES_TRAIN_FIELDS_H
#define MR_STAGES_TRAIN_FIELDS_H

#include "model/zoo/zoo.h"
#include "pipeline/stage.h"

/* The fields of a stream of batches, but ragged ones, into field[MR_FIELDS_MAX]; returns how many
   there are.  Names stand as long as spec. */
int mr_train_fields(const mr_spec_t *spec, mr_model_field_t *field);

/* Plans the model of def for input port of s, with settings in state; a failure names the input. */
mr_err_t mr_train_model_for(mr_stage_t *s, int port, const mr_model_def_t *def, void *state,
                            mr_model_t *out);

/* A batch as a loss takes it: what to hand to mr_train_step_run or mr_eval_step_run. */
typedef struct mr_train_batch {
  const void *field[MR_LOSS_FIELDS + 1];
  void *own[MR_LOSS_FIELDS + 1]; /* heap: padded copies, and the mask; NULL: none */
} mr_train_batch_t;

/* b, filled up to a whole batch where it is short: its last record repeated, without counting.  In
   memory of its own then, since a buffer belongs to others too and one that came over a link ends
   with its last record.  MR_ERR_NOMEM; fini gives back, also after a failure. */
mr_err_t mr_train_batch_init(mr_train_batch_t *t, mr_stage_t *s, const mr_spec_t *spec,
                             const mr_loss_t *l, const mr_buf_t *b);
void mr_train_batch_fini(mr_train_batch_t *t);

/* What people are shown of a record: fields of a stream of batches, by number. */
typedef struct mr_train_sight {
  int picture; /* the first one that the loss takes: f32 (H,W,C) */
  int truth;   /* the class that it is to guess */
} mr_train_sight_t;

/* False: the loss takes no picture, or guesses no class; then nothing is shown. */
bool mr_train_sight(const mr_spec_t *spec, const mr_loss_t *l, mr_train_sight_t *out);

#endif
