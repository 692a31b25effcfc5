/* What a model was trained on, as a checkpoint keeps it: the fields that the model takes, with
   shape, dtype, normalisation and the names of classes.  Other records that the model is
   given are prepared so.

   The metadata "millrace.inputs" of a checkpoint is the text, JSON:

     {"fields":[{"name":"image","dtype":"u8","shape":[32,32,3],"layout":"HWC",
                 "mean":[0.49,0.48,0.45],"std":[0.25,0.24,0.26]},
                {"name":"label","dtype":"i32","shape":[],"label":true,"n_classes":3,
                 "classes":["ant","bee","cat"]}]}

   shape is that of one record; mean and std (mr_field_t) stand where they are known, classes where
   they have names, n_classes where it is known. */
#ifndef MR_STAGES_TRAIN_INPUTS_H
#define MR_STAGES_TRAIN_INPUTS_H

#include "model/nn/loss.h"
#include "pipeline/spec.h"

/* That text for the fields of spec that a loss takes; heap, the caller frees it.  NULL without
   memory. */
char *mr_train_inputs_text(const mr_spec_t *spec, const mr_loss_t *l);

typedef struct mr_train_inputs {
  mr_spec_t spec; /* batches with these fields; none: a checkpoint without them */
  mr_classes_t classes[MR_FIELDS_MAX]; /* of each field, as spec points at them */
  void *text;                          /* heap: what the names lie in */
} mr_train_inputs_t;

/* Reads them from a checkpoint file.  MR_OK, with no fields if the file is older than they are;
   MR_ERR_DATA names the file and what is wrong; MR_ERR_IO; MR_ERR_NOMEM.  *out must not move;
   mr_train_inputs_fini frees what it holds, after a failure too. */
mr_err_t mr_train_inputs_read(const char *path, mr_train_inputs_t *out, mr_diag_t *diag);
void mr_train_inputs_fini(mr_train_inputs_t *in);

#endif
