/* A stream's batches as the fields that a model takes. */
#ifndef MR_STAGES_TRAIN_FIELDS_H
#define MR_STAGES_TRAIN_FIELDS_H

#include "model/exec/backend.h"
#include "model/zoo/zoo.h"
#include "pipeline/stage.h"
#include "stages/train/align.h"

/* Lists the fields of a stream of batches, except ragged ones, in field[MR_FIELDS_MAX]; returns how
   many, [0,MR_FIELDS_MAX].  Their names live as long as spec. */
int mr_train_fields(const mr_spec_t *spec, mr_model_field_t *field);

/* Plans the model of def for an input port of s, with the settings in state, which *out refers to.
   MR_OK, or the model's failure by mr_stage_fail; a sentence about shapes names the input. */
mr_err_t mr_train_model_for(mr_stage_t *s, int port, const mr_model_def_t *def, void *state,
                            mr_model_t *out);

/* A batch as a loss takes it: the argument of mr_train_step_run and mr_eval_step_run. */
typedef struct mr_train_batch {
  const void *field[MR_LOSS_FIELDS + 1];
  void *own[MR_LOSS_FIELDS + 1]; /* heap: padded copies, and the mask; else NULL */
} mr_train_batch_t;

/* Points t at b's fields or, if b is short, at copies padded to a whole batch with its last record,
   which does not count; labels that `aligned` renumbers (NULL: none) are copies too.  They are
   copies because other stages share the buffer, and because one from a link ends with its last
   record.  b must outlive t.  MR_OK, or MR_ERR_NOMEM with a
   sentence; fini frees the copies, also after a failure. */
mr_err_t mr_train_batch_init(mr_train_batch_t *t, mr_stage_t *s, const mr_spec_t *spec,
                             const mr_loss_t *l, const mr_train_aligned_t *aligned,
                             const mr_buf_t *b);
void mr_train_batch_fini(mr_train_batch_t *t);

/* MR_OK, or MR_ERR_DATA if a label of a batch that lies on a device is outside the loss's classes;
   steps check the labels of other batches themselves. */
mr_err_t mr_train_check_labels(mr_stage_t *s, const mr_spec_t *spec, const mr_loss_t *l,
                               const mr_buf_t *b);

/* Points `to` at the values of a batch's fields, as their avals say, in the host's memory: copied
   from the device b if they lie there, widened or normalised if the batch holds them otherwise.
   `from` must outlive it.  MR_OK, or MR_ERR_NOMEM with a sentence; mr_train_batch_fini in any
   case. */
mr_err_t mr_train_batch_fetch(mr_train_batch_t *to, const mr_train_batch_t *from,
                              const mr_spec_t *spec, const mr_loss_t *l, const mr_device_t *b,
                              mr_diag_t *diag);

/* Returns the value of field f of record i in the host's memory: in the batch, as long as the
   caller holds b, or, if that lies on the device d, copied to the caller's room of mr_field_bytes
   bytes. */
const void *mr_train_value(const mr_spec_t *spec, const mr_buf_t *b, int f, int i,
                           const mr_device_t *d, void *room);

/* The fields of a record that are displayed, by index. */
typedef struct mr_train_sight {
  int picture; /* the first picture that the loss takes: (H,W,C), f32 or held otherwise */
  int truth;   /* the class to predict */
} mr_train_sight_t;

/* Index of the field with the classes that the loss predicts; -1: none of a label's. */
int mr_train_truth(const mr_spec_t *spec, const mr_loss_t *l);

/* False if the loss takes no picture or predicts no class; nothing is then displayed. */
bool mr_train_sight(const mr_spec_t *spec, const mr_loss_t *l, mr_train_sight_t *out);

#endif
