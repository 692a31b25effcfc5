/* What the caller of a compiled function of a model holds from one run to the next, by cause:
   inputs, parameters, and the sets that an optimizer keeps of them; of a rank of a step, its share.
   `mem` and plans of meshes ask here. */
#ifndef MR_MODEL_TRAIN_HELD_H
#define MR_MODEL_TRAIN_HELD_H

#include "model/train/train.h"

MR_BEGIN_DECLS

typedef struct mr_held {
  char name[80];
  size_t bytes;
} mr_held_t;

enum { MR_HELD_MOST = 4 + MR_PARAM_SETS };

/* The function that is asked about. */
typedef struct mr_held_of {
  const mr_exec_t *exec;
  const mr_train_config_t *train;
  const mr_params_t *params; /* as mr_train_step_plan_rank lists them */
  const mr_params_t *whole;  /* the whole ones, where stages of a pipeline are cut; else NULL */
  bool step;                 /* exec is a step; else a function of data and parameters */
  size_t slots;              /* bytes of a device's slots for batches; 0: none */
  int n_fields;              /* of a batch, which lie there then */
} mr_held_of_t;

/* Writes what is held into held[MR_HELD_MOST].  Returns the number of entries.  Cannot fail. */
int mr_train_held(const mr_held_of_t *of, mr_held_t *held);

MR_END_DECLS

#endif
