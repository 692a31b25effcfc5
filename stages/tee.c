/* tee and identity: pass buffers on unchanged, in bursts.  tee gives each buffer to several outputs
   by taking a reference for each, without a copy; identity has one output and measures the cost of
   a hop. */
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

/* tee passes the same buffers to up to four stages.  An output port linked twice does the same
   without a thread of its own. */
static mr_err_t tee_plan(mr_stage_t *s) {
  for (int i = 0; i < s->n_out; i++) s->out_spec[i] = s->in_spec[0];
  return MR_OK;
}

static mr_err_t tee_step(mr_stage_t *s) {
  mr_buf_t *b[MR_BURST];
  size_t room = MR_BURST;
  for (int p = 0; p < s->n_out; p++) {
    size_t r = s->out_linked[p] ? mr_room(s, p) : room;
    if (r < room) room = r;
  }
  size_t k = mr_take(s, 0, b, room);
  for (size_t i = 0; i < k; i++)
    for (int p = 1; p < s->n_out; p++)
      if (s->out_linked[p]) mr_buf_ref(b[i]);
  for (int p = s->n_out - 1; p >= 0; p--)
    if (p == 0 || s->out_linked[p]) mr_give(s, p, b, k);
  return k ? MR_OK : mr_idle(s);
}

const mr_stage_def_t mr_stage_tee = {
    .name = "tee",
    .help = "Passes each buffer to all of its outputs.",
    .in = {{"in", MR_FLOW_NONE, false}},
    .out = {{"a", MR_FLOW_NONE, false},
            {"b", MR_FLOW_NONE, true},
            {"c", MR_FLOW_NONE, true},
            {"d", MR_FLOW_NONE, true}},
    .plan = tee_plan,
    .step = &(const mr_step_def_t){.run = tee_step},
};
