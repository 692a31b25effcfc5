/* Looking into the training step of a graph that runs: for `millrace profile`. */
#ifndef MR_STAGES_VIT_PROFILE_H
#define MR_STAGES_VIT_PROFILE_H

#include "model/exec/exec.h"
#include "pipeline/stage.h"

typedef struct mr_vit_profile {
  /* Called after each step (number step, from 1) on the stage's thread; x is not running then. */
  void (*after)(void *arg, mr_exec_t *x, int64_t step);
  void *arg;
} mr_vit_profile_t;

/* s: a vit-step of a settled graph that has not started. */
void mr_vit_step_profile(mr_stage_t *s, mr_vit_profile_t p);

#endif
