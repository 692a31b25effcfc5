/* identity: passes buffers on in bursts; it measures the cost of a hop. */
#include "pipeline/stage_step.h"

static mr_err_t identity_plan(mr_stage_t *s) {
  s->out_spec[0] = s->in_spec[0];
  return MR_OK;
}

static mr_err_t identity_step(mr_stage_t *s) {
  mr_buf_t *b[MR_BURST];
  size_t k = mr_take(s, 0, b, mr_room(s, 0));
  mr_give(s, 0, b, k);
  return k ? MR_OK : mr_idle(s);
}

const mr_stage_def_t mr_stage_identity = {
    .name = "identity",
    .help = "Passes buffers unchanged.",
    .in = {{"in", MR_FLOW_NONE, false}},
    .out = {{"out", MR_FLOW_NONE, false}},
    .step = &(const mr_step_def_t){.run = identity_step, .parallel = true},
    .plan = identity_plan,
};
