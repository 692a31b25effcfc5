/* Shows a model as a pipeline: a row for each stage, with its layers, parameters, share of the
   operations and what it sends, and the time that ranks wait by the table of the schedule. */
#include "apps/look/pipeline_arg.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/look/rank_plans.h"

/* Of the pipelines that share all parts the table is that of the first one, which has the most. */
static mr_err_t print_pipeline(const mr_pipeline_plan_t *p, int pipelines, int all_parts,
                               mr_diag_t *diag) {
  int parts = mr_optim_rank_from(all_parts, pipelines, 1);
  int stages = p->cut.stages, n = 2 * stages * parts;
  mr_pipeline_slot_t *slot = calloc((size_t)n, sizeof *slot);
  double all = 0;
  if (!slot) return mr_no_memory(diag, "the table of a pipeline");
  int end = mr_pipeline_table(p->cut.kind, stages, parts, slot);
  for (int s = 0; s < stages; s++) all += p->stage[s].flop;
  if (pipelines > 1)
    printf("%d pipelines that share %d microbatches, %s%d each\n", pipelines, all_parts,
           all_parts % pipelines ? "at most " : "", parts);
  printf("pipeline of %d stages, %d microbatches of %" PRId64
         " records: ranks wait %.1f %% of the time in which they compute\n",
         stages, parts, p->records, 100 * mr_pipeline_bubble(stages, n, end));
  printf("%5s  %-36s %12s %12s %6s %12s %5s\n", "stage", "layers", "parameters", "MFLOP", "share",
         "bytes sent", "held");
  for (int s = 0; s < stages; s++) {
    char layers[2 * MR_PIPELINE_LAYER + 8];
    bool one = !strcmp(p->stage[s].from, p->stage[s].to);
    snprintf(layers, sizeof layers, "%s%s%s", p->stage[s].from, one ? "" : " to ",
             one ? "" : p->stage[s].to);
    printf("%5d  %-36s %12" PRId64 " %12.3f %5.1f%% %12zu %5d\n", s, layers, p->stage[s].count,
           p->stage[s].flop / 1e6, 100 * p->stage[s].flop / all, p->stage[s].sent,
           mr_pipeline_held(slot, n, s));
  }
  free(slot);
  return MR_OK;
}

static mr_err_t read_schedule(const mr_args_t *a, mr_pipeline_kind_t *out, mr_diag_t *diag) {
  const char *text = mr_args_text(a, "--pipeline-schedule");
  *out = text && !strcmp(text, "gpipe") ? MR_PIPELINE_GPIPE : MR_PIPELINE_1F1B;
  if (!text || *out || !strcmp(text, "1f1b")) return MR_OK;
  return mr_fail(diag, MR_ERR_USAGE, "--pipeline-schedule: \"%.40s\", expected 1f1b or gpipe",
                 text);
}

mr_err_t mr_pipeline_set(const mr_pipeline_want_t *want, int64_t parts, mr_model_job_t *job,
                         mr_pipeline_plan_t *plan, mr_diag_t *diag) {
  mr_train_config_t *t = &job->train;
  t->ordered = parts, t->pipeline.stages = want->stages;
  MR_TRY(mr_train_parts_check(t, diag));
  MR_TRY(mr_pipeline_plan(&job->model.plan.loss, &t->compute, t->batch / parts, want, plan, diag));
  t->pipeline = plan->cut;
  return MR_OK;
}

mr_err_t mr_pipeline_arg(const mr_args_t *a, bool print, mr_model_job_t *job, mr_diag_t *diag) {
  enum { PARTS_USUAL = 8 };
  mr_train_config_t *t = &job->train;
  mr_pipeline_want_t want = {.names = mr_args_text(a, "--stages")};
  mr_pipeline_plan_t plan;
  mr_diag_t why = {0};
  int64_t stages = 0, parts = t->ordered ? t->ordered : PARTS_USUAL;
  MR_TRY(mr_args_int(a, "--pipeline", 2, MR_PIPELINE_STAGES, &stages, diag));
  MR_TRY(mr_args_int(a, "--microbatches", 1, MR_PIPELINE_PARTS, &parts, diag));
  MR_TRY(read_schedule(a, &want.kind, diag));
  if (!stages) return MR_OK;
  want.stages = (int)stages;
  if (!mr_args_text(a, "--mesh")) t->ranks = (int)stages;
  if (mr_pipeline_set(&want, parts, job, &plan, &why) < 0)
    return mr_diag_prefix(diag, MR_ERR_USAGE, &why, "--pipeline");
  return print ? print_pipeline(&plan, mr_rank_plans_sharers(t) / (int)stages, (int)parts, diag)
               : MR_OK;
}
