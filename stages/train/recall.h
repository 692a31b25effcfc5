/* Restores a model from its description in a checkpoint (mr_model_text). */
#ifndef MR_STAGES_TRAIN_RECALL_H
#define MR_STAGES_TRAIN_RECALL_H

#include "model/zoo/zoo.h"

typedef struct mr_recalled {
  const mr_model_def_t *def;
  void *state; /* heap; settings from the text, else their defaults */
  char *words; /* heap; the state's strings point here */
} mr_recalled_t;

/* Fills r from text; path is for sentences.  MR_OK; MR_ERR_DATA: the model or a setting's value is
   unknown; MR_ERR_NOMEM.  mr_recalled_fini frees r, also after a failure. */
mr_err_t mr_recall(mr_recalled_t *r, const char *path, const char *text, mr_diag_t *diag);
void mr_recalled_fini(mr_recalled_t *r);

#endif
