/* delay, delay-record: pass buffers or records on after a delay, to simulate a slow stage or
   transform. */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/halt.h"
#include "pipeline/stage_map.h"
#include "pipeline/stage_step.h"

enum { OWES = 16 }; /* delay stages of a thread with their debts kept */

/* By how much this thread has overslept in the stage with this state, ns.  Points to thread-local
   memory, valid while at most OWES stages use it. */
static int64_t *sleep_owes(const void *state) {
  static _Thread_local struct {
    const void *state;
    int64_t ns;
  } owes[OWES];
  static _Thread_local unsigned oldest;
  for (int i = 0; i < OWES; i++)
    if (owes[i].state == state) return &owes[i].ns;
  unsigned i = oldest++ % OWES;
  owes[i].state = state, owes[i].ns = 0;
  return &owes[i].ns;
}

/* Occupies the processor for us microseconds of this thread's time, as a slow stage would, which no
   stop interrupts either. */
static void compute_us(double us) {
  int64_t end = mr_thread_cpu_ns() + (int64_t)(us * 1e3);
  while (mr_thread_cpu_ns() < end) continue;
}

/* Sleeps for us microseconds, or until the run is to end.  A thread that wakes too late sleeps less
   the next times, so that many calls take the requested time whatever else runs. */
static void sleep_us(const void *state, double us) {
  int64_t *owes = sleep_owes(state);
  int64_t begin = mr_now_ns(), end = begin + (int64_t)(us * 1e3) - *owes;
  const int64_t last = MR_HALT_SLICE_MS * INT64_C(1000000);
  if (end - begin > last && !mr_halt_pause(end - begin - last)) return;
  struct timespec t = {(time_t)(end / 1000000000), (long)(end % 1000000000)};
  if (end > begin)
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) continue;
  *owes = mr_now_ns() - end;
}

/* Sleeps or computes. */
static void pass_us(const void *state, double us, bool asleep) {
  if (asleep)
    sleep_us(state, us);
  else
    compute_us(us);
}

/* ---- delay ---- */

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
  pass_us(d, d->us, d->asleep);
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

/* ---- delay-record ---- */

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
  pass_us(d, d->us, d->asleep);
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
