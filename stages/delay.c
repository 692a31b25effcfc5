/* delay: passes buffers on after a delay, to simulate a slow stage. */
#include "pipeline/stage_step.h"
#include "stages/busy.h"

typedef struct delay {
  double us;
  bool asleep;
} delay_t;

static const mr_opt_t delay_opts[] = {
    {.name = "us",
     .type = MR_OPT_F64,
     .offset = offsetof(delay_t, us),
     .unit = "microseconds",
     .def = "1000",
     .hi = 1e9,
     .help = "Delay of each buffer.",
     .positional = 1},
    {.name = "asleep",
     .type = MR_OPT_BOOL,
     .offset = offsetof(delay_t, asleep),
     .def = "false",
     .help = "Sleeps during the delay, so that other threads can use the processor."},
    {0}};

static mr_err_t delay_plan(mr_stage_t *s) {
  s->out_spec[0] = s->in_spec[0];
  return MR_OK;
}

static mr_err_t delay_step(mr_stage_t *s) {
  const delay_t *d = s->state;
  mr_buf_t *b;
  mr_err_t e = mr_pull(s, 0, &b);
  if (e != MR_OK) return e;
  mr_pass_us(d, d->us, d->asleep);
  return mr_push(s, 0, b);
}

const mr_stage_def_t mr_stage_delay = {
    .name = "delay",
    .help = "Delays each buffer on a thread of its own, to simulate a slow stage.",
    .in = {{"in", MR_FLOW_NONE, false}},
    .out = {{"out", MR_FLOW_NONE, false}},
    .opts = delay_opts,
    .state_sz = sizeof(delay_t),
    .step = &(const mr_step_def_t){.run = delay_step, .parallel = true},
    .plan = delay_plan,
};
