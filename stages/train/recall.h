/* A model again from what a checkpoint says of it (mr_model_text). */
#ifndef MR_STAGES_TRAIN_RECALL_H
#define MR_STAGES_TRAIN_RECALL_H

#include "model/zoo/zoo.h"

typedef struct mr_recalled {
  const mr_model_def_t *def;
  void *state; /* heap; settings as the text says, else their defaults */
  char *words; /* heap; strings of the state point here */
} mr_recalled_t;

/* MR_ERR_DATA: no model of this name, or a setting that it does not have; path is named.  fini
   gives back, also after a failure. */
mr_err_t mr_recall(mr_recalled_t *r, const char *path, const char *text, mr_diag_t *diag);
void mr_recalled_fini(mr_recalled_t *r);

#endif
