/* An input whose streams number classes otherwise than the model: its labels, by name, in the
   model's numbers. */
#ifndef MR_STAGES_TRAIN_ALIGN_H
#define MR_STAGES_TRAIN_ALIGN_H

#include "pipeline/stage.h"

/* By field of the input's spec: number[f][c], c in [0,n[f]), is the model's class that the input
   calls c; NULL: the input's own numbers. */
typedef struct mr_train_aligned {
  int32_t *number[MR_FIELDS_MAX]; /* heap */
  int n[MR_FIELDS_MAX];
} mr_train_aligned_t;

/* In plan or open: compares the classes of an input port with those of `want`, the fields that the
   model is trained on, of which want_of says whose they are.  Where both are named, s->in_spec then
   has the classes of want, and *a says how its labels become these.  An input without names beside
   want's, or the other way round, keeps its numbers, which is said.  MR_OK; MR_ERR_DATA with both
   lists: a class that want has not, a name that is there twice, one-hot rows of another order, or
   labels that lie on a device in other numbers; MR_ERR_NOMEM.  *a, zeroed before, is freed by
   mr_train_aligned_fini in any case. */
mr_err_t mr_train_align(mr_stage_t *s, int port, const mr_spec_t *want, const char *want_of,
                        mr_train_aligned_t *a);
void mr_train_aligned_fini(mr_train_aligned_t *a);

/* Renumbers label[0,n) of field f of the input; MR_LABEL_NONE stays, and a label outside of the
   input's classes becomes INT32_MAX, which a step refuses. */
void mr_train_aligned_apply(const mr_train_aligned_t *a, int f, int32_t *label, int64_t n);

/* Has an input's data set, which reports of its records name, call the classes of field f, which
   the model predicts, as that field does.  own: the stage's, which may become the data set. */
void mr_train_name_dataset(mr_spec_t *spec, int f, mr_dataset_t *own);

#endif
