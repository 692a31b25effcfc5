/* What a checkpoint of train-step holds in which order: shared by state.c and state_slices.c. */
#ifndef MR_STAGES_TRAIN_STATE_PRIVATE_H
#define MR_STAGES_TRAIN_STATE_PRIVATE_H

#include "stages/train/state.h"

enum { MR__STATE_NAME = 256 /* bytes for the name of a tensor */ };

/* The sets of parameters that a checkpoint holds, in the order of its tensors. */
typedef struct mr__state_set {
  const char *name; /* "params", "lion.m" */
  mr_set_kind_t kind;
  int number;
} mr__state_set_t;

typedef struct mr__state_sets {
  mr__state_set_t of[MR_PARAM_SETS];
  int n;
} mr__state_sets_t;

/* Those of an optimizer; a name that is unknown has no slots. */
mr__state_sets_t mr__state_groups(const char *optimizer, bool averaged);
/* Those of an optimizer for which these parameters have sets. */
mr__state_sets_t mr__state_groups_of(const mr_params_t *params, const char *optimizer);
/* The oldest version that has these groups in one file. */
int mr__state_version(const mr__state_sets_t *g);

/* The description of the model that a checkpoint holds, which lives as long as f.  MR_ERR_DATA for
   a file that is none, with what such a file is good for. */
mr_err_t mr__state_find_model(const mr_safetensors_t *f, const char *path, const char **text,
                              mr_diag_t *diag);

/* Whether the slices of ranks have a share of this set each. */
bool mr__state_is_sliced(const mr_train_progress_t *p, const mr_param_set_t *set);

#endif
