/* A model and its parameters as a checkpoint describes them (mr_model_text): never the graph's. */
#ifndef MR_STAGES_TRAIN_RECALL_H
#define MR_STAGES_TRAIN_RECALL_H

#include "model/exec/exec.h"
#include "model/zoo/zoo.h"
#include "pipeline/stage.h"
#include "stages/train/state.h"

typedef struct mr_recalled {
  const mr_model_def_t *def;
  void *state; /* heap; settings from the text, else their defaults */
  char *words; /* heap; the state's strings point here */
} mr_recalled_t;

/* Fills r from text; path is for sentences.  MR_OK; MR_ERR_DATA: the model or a setting's value is
   unknown; MR_ERR_NOMEM.  The caller calls mr_recalled_fini, also after a failure. */
mr_err_t mr_recall_model(mr_recalled_t *r, const char *path, const char *text, mr_diag_t *diag);
void mr_recalled_fini(mr_recalled_t *r);

/* Lists the parameters of this model in params, zeroed before, with the sets that
   mr_recall_params fills, and checks that a checkpoint has each as the model does, its type and its
   shape too; no memory is taken for them.  Sets how c keeps and reads them.  Fails as
   mr_train_state_check.  mr_params_fini in any case. */
mr_err_t mr_recall_list(const char *path, const mr_model_t *model, bool average, mr_compute_t *c,
                        mr_params_t *params, mr_diag_t *diag);

/* Takes the arenas of params, zeroed before, and fills them from a checkpoint of this model: its
   average of the weights if it has one and `average` is set, else the weights.  Sets how c keeps
   and reads them; *at gets its progress.  Fails as mr_train_state_load.  mr_params_fini in any
   case. */
mr_err_t mr_recall_params(const char *path, const mr_model_t *model, bool average, mr_compute_t *c,
                          mr_params_t *params, mr_train_progress_t *at, mr_diag_t *diag);

/* Adds to out the arenas that mr_recall_params takes, the file, which is in memory while they are
   filled, and advice.  Sets how c keeps and reads them.
   Fails as mr_recall_list. */
mr_err_t mr_recall_takes(const char *path, const mr_model_t *model, bool average, mr_compute_t *c,
                         mr_takes_t *out, mr_diag_t *diag);

/* What compiling and running a function adds to that: the most that the process has grown by since
   it had `now` bytes and a peak of `was` (mr_process_memory), the function's arena, and what its
   products borrow. */
size_t mr_recall_runs(const mr_exec_t *x, size_t now, size_t was);

#endif
