/* The pipelines of a training step, from the settings pipeline, microbatches, stages and
   pipeline-schedule: ranks have a stage each, and microbatches are the ordered parts of a batch,
   which the pipelines share.  A mesh says how many ranks there are, along the axis of its batch,
   and along its other axes each stage is cut (parts.c); without one there is one pipeline. */
#include <inttypes.h>
#include <string.h>

#include "model/exec/process_ranks.h"
#include "stages/train/train_step_private.h"

int64_t mr__train_stages_in(const char *text) {
  int64_t n = 1;
  for (; *text; text++) n += *text == '|';
  return n;
}

/* What does not go with a pipeline. */
static mr_err_t check_beside(mr_stage_t *s) {
  const train_t *v = s->state;
  const struct {
    bool set;
    const char *name, *why;
  } row[] = {{v->amp.fp8, "fp8", "its scales are not of stages; want fp8=none"},
             {v->team.pin, "pin", "ranks would be bound to the same processors; want pin=false"},
             {v->accumulate > 1, "accumulate",
              "microbatches split the batch already; want accumulate=1, and microbatches="},
             {v->fit != NULL, "fit",
              "it chooses the parts of a batch, which microbatches sets; want remat= to need less "
              "memory"}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++)
    if (row[i].set)
      return mr_stage_fail(s, MR_ERR_CONFIG, "setting %s beside pipeline = %" PRId64 ": %s",
                           row[i].name, v->pipeline, row[i].why);
  return MR_OK;
}

/* The ranks of a mesh along the axis of the batch are those of as many pipelines. */
static mr_err_t check_ranks_of_mesh(mr_stage_t *s) {
  train_t *v = s->state;
  int ranks = s->in_spec[IN_TRAIN].ranks;
  MR_TRY(mr__train_read_mesh(s));
  if (mr_process_ranks() && !ranks)
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting pipeline = %" PRId64
                         ": nothing shares the batches among the %d processes of this job; want "
                         "shard-to-device before this stage, as train inserts it",
                         v->pipeline, mr_process_ranks()->size);
  if (!ranks || ranks % v->pipeline == 0) return MR_OK;
  const char *axis = v->mesh.name[mr_mesh_batch(&v->mesh)];
  return mr_stage_fail(s, MR_ERR_CONFIG,
                       "setting pipeline = %" PRId64
                       ": it does not divide the %d ranks of the mesh along %s; want %s=%" PRId64
                       " there or a multiple, or no mesh",
                       v->pipeline, ranks, axis, axis, v->pipeline);
}

static mr_err_t set_microbatches(mr_stage_t *s) {
  train_t *v = s->state;
  int64_t batch = s->in_spec[IN_TRAIN].batch, n = v->microbatches;
  if (n && v->ordered && n != v->ordered)
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting microbatches = %" PRId64 ": ordered = %" PRId64
                         ", and they are the same parts of a batch; want one of them",
                         n, v->ordered);
  if (!n) n = v->ordered ? v->ordered : MR__ORDERED_OF_RANKS;
  const char *name = v->ordered ? "ordered" : "microbatches";
  if (n & (n - 1))
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting %s = %" PRId64
                         ": want a power of two, as their gradients are added as a binary tree",
                         name, n);
  if (batch % n)
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting %s = %" PRId64 ": they do not divide the batch of %" PRId64
                         " records, %" PRId64 " are left over; want a batch of %" PRId64
                         ", or fewer of them",
                         name, n, batch, batch % n, (batch / n + 1) * n);
  int64_t pipelines = s->in_spec[IN_TRAIN].ranks / v->pipeline;
  if (pipelines > n)
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting %s = %" PRId64 ": %" PRId64 " pipelines of %" PRId64
                         " stages share them; want at least one for each, or at most %" PRId64
                         " ranks",
                         name, n, pipelines, v->pipeline, n * v->pipeline);
  v->ordered = n;
  return MR_OK;
}

mr_err_t mr__train_plan_pipeline(mr_stage_t *s) {
  train_t *v = s->state;
  mr_diag_t why = {0};
  v->cut = (mr_pipeline_plan_t){.records = 0};
  const char *names = v->stages && *v->stages ? v->stages : NULL;
  if (names && v->pipeline < 2) v->pipeline = mr__train_stages_in(names);
  if (v->pipeline < 2) return MR_OK;
  MR_TRY(check_beside(s));
  MR_TRY(check_ranks_of_mesh(s));
  MR_TRY(set_microbatches(s));
  const mr_pipeline_want_t want = {(int)v->pipeline, (mr_pipeline_kind_t)v->pipeline_schedule,
                                   names};
  int64_t batch = s->in_spec[IN_TRAIN].batch;
  mr_train_config_t t = mr__train_config(v, batch);
  mr_err_t e =
      mr_pipeline_plan(&v->model.plan.loss, &t.compute, batch / v->ordered, &want, &v->cut, &why);
  if (e == MR_ERR_CONFIG && names)
    return mr_diag_prefix(s->diag, e, &why, "%s: setting stages = %s", s->name, names);
  if (e == MR_ERR_CONFIG)
    return mr_diag_prefix(s->diag, e, &why, "%s: setting pipeline = %" PRId64, s->name,
                          v->pipeline);
  return mr_stage_relay(s, e, &why);
}
