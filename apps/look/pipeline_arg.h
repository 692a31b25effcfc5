/* The flags by which summary, explain and mem show a model as a pipeline, and the table of its
   stages. */
#ifndef MR_APPS_LOOK_PIPELINE_ARG_H
#define MR_APPS_LOOK_PIPELINE_ARG_H

#include "apps/cli/model_arg.h"
#include "model/train/pipeline_plan.h"

#define MR_PIPELINE_FLAGS                                                           \
  {"--pipeline", "N",                                                               \
   "Cuts the model into N stages: prints what each costs, and how long ranks "      \
   "wait; as pipeline= of train-step."},                                            \
      {"--microbatches", "N", "With --pipeline, the parts of a batch; default 8."}, \
      {"--stages", "TEXT",                                                          \
       "With --pipeline, the layers of each stage, as stages= of "                  \
       "train-step; default evenly by cost."},                                      \
  {                                                                                 \
    "--pipeline-schedule", "1f1b|gpipe",                                            \
        "With --pipeline, the order of forward and backward "                       \
        "passes; default 1f1b."                                                     \
  }

/* Makes job->train, a step of ranks, one of pipelines with want's stages and `parts` microbatches;
 *plan is how the model is cut.  MR_OK; else as mr_train_parts_check and mr_pipeline_plan. */
mr_err_t mr_pipeline_set(const mr_pipeline_want_t *want, int64_t parts, mr_model_job_t *job,
                         mr_pipeline_plan_t *plan, mr_diag_t *diag);
/* Cuts the model of job by those flags; print: prints the stages.  job->train becomes the step of
   the first rank, of as many as its mesh has (mr_mesh_arg_ranks), or without --mesh of one
   pipeline.  MR_OK, also without --pipeline, when nothing is printed or set; MR_ERR_USAGE names the
   flag. */
mr_err_t mr_pipeline_arg(const mr_args_t *a, bool print, mr_model_job_t *job, mr_diag_t *diag);

#endif
