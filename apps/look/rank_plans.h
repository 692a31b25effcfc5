/* The ranks of a step on a mesh as they are planned, those that differ in what they compute: the
   first, or one of each stage of a pipeline.  For what explain and mem say of their times. */
#ifndef MR_APPS_LOOK_RANK_PLANS_H
#define MR_APPS_LOOK_RANK_PLANS_H

#include "apps/cli/model_arg.h"
#include "model/mesh/mesh.h"
#include "model/mesh/rates.h"
#include "model/train/times.h"

typedef struct mr_rank_plans {
  int n;
  mr_exec_t *exec[MR_PIPELINE_STAGES];
  mr_params_t list[MR_PIPELINE_STAGES]; /* what each has */
  mr_times_rank_t rank[MR_PIPELINE_STAGES];
} mr_rank_plans_t;

/* Returns how many ranks of t share batches or have stages of pipelines: all, or where a mesh cuts
   arrays those along the axis of its batch. */
int mr_rank_plans_sharers(const mr_train_config_t *t);
/* Plans the ranks of job->train on mesh m and predicts their times.  MR_OK, or the failure of
   mr_train_step_plan_rank or mr_times.  The caller ends *p in any case. */
mr_err_t mr_rank_plans(mr_model_job_t *job, const mr_mesh_t *m, const mr_rates_t *rates,
                       mr_rank_plans_t *p, mr_diag_t *diag);
void mr_rank_plans_fini(mr_rank_plans_t *p);
/* The seconds of a step: when the last rank has done everything. */
double mr_rank_plans_step(const mr_rank_plans_t *p);
/* The share of these seconds that rank i of p waits. */
double mr_rank_plans_waits(const mr_rank_plans_t *p, int i);

#endif
