/* delay-record: leaves records unchanged but takes time, to simulate a slow transform. */
#include "pipeline/stage_map.h"
#include "stages/busy.h"

typedef struct delay_record {
  double us;
  bool asleep;
} delay_record_t;

static const mr_opt_t delay_record_opts[] = {
    {.name = "us",
     .type = MR_OPT_F64,
     .offset = offsetof(delay_record_t, us),
     .unit = "microseconds",
     .def = "10",
     .hi = 1e9,
     .help = "Delay of each record.",
     .positional = 1},
    {.name = "asleep",
     .type = MR_OPT_BOOL,
     .offset = offsetof(delay_record_t, asleep),
     .def = "false",
     .help = "Sleeps meanwhile, and leaves the processor to others."},
    {0}};

static mr_err_t delay_record_plan(mr_stage_t *s) {
  s->out_spec[0] = s->in_spec[0];
  return MR_OK;
}

static mr_err_t delay_record_map(mr_stage_t *s, const mr_rec_t *in, mr_rec_t *out) {
  const delay_record_t *d = s->state;
  mr_pass_us(d, d->us, d->asleep);
  return MR_OK;
}

const mr_stage_def_t mr_stage_delay_record = {
    .name = "delay-record",
    .help = "Delays each record in its chain, to simulate a slow transform.",
    .in = {{"in", MR_FLOW_RECORDS, false}},
    .out = {{"out", MR_FLOW_RECORDS, false}},
    .opts = delay_record_opts,
    .state_sz = sizeof(delay_record_t),
    .plan = delay_record_plan,
    .map = &(const mr_map_def_t){.run = delay_record_map},
};
