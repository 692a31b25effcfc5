/* The stage that trains, train-step or vit-step, as a program sees it in a graph. */
#ifndef MR_STAGES_TRAIN_TRAIN_STAGE_H
#define MR_STAGES_TRAIN_TRAIN_STAGE_H

#include "model/exec/exec.h"
#include "pipeline/graph.h"

MR_BEGIN_DECLS

bool mr_is_train_stage(const mr_stage_t *s);
mr_stage_t *mr_train_stage(const mr_graph_t *g); /* the first one; NULL: the graph has none */

/* Whether a setting of the stage s that trains says what its model is: its name, or one that the
   model brings. */
bool mr_is_model_setting(const mr_stage_t *s, const char *setting);

/* Steps that it will have made at the end of its run; 0: that is not known.  s: of a settled graph.
 */
int64_t mr_train_stage_total(const mr_stage_t *s);

typedef struct mr_train_profile {
  /* Called after each step (number step, from 1) on the stage's thread; x is not running then. */
  void (*after)(void *arg, mr_exec_t *x, int64_t step);
  void *arg;
} mr_train_profile_t;

/* For `millrace profile`.  s: of a settled graph that has not started. */
void mr_train_stage_profile(mr_stage_t *s, mr_train_profile_t p);

MR_END_DECLS

#endif
