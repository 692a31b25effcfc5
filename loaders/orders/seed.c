/* Sets a seed for all later random stages without their own: grain's Dataset.seed.  Each derives
   its seed from this one and its distance in stages. */
#include "pipeline/stage_order.h"
#include "pipeline/stage_walk.h"

typedef struct seed {
  int64_t seed;
} seed_t;

static mr_err_t seed_plan(mr_stage_t *s) {
  const seed_t *t = s->state;
  s->base_seed = t->seed;
  s->out_spec[0] = s->in_spec[0];
  return MR_OK;
}

static mr_err_t seed_order(mr_stage_t *s, int64_t position, mr_at_t *at) { return MR_OK; }
static mr_err_t seed_next(mr_stage_t *s, mr_walk_t *w) { return mr_walk_pull(w, 0); }

static mr_err_t seed_skip(mr_stage_t *s, mr_walk_t *w, int64_t n) { return mr_walk_skip(w, 0, n); }
static mr_period_t seed_period(const mr_stage_t *s, const mr_period_t *in) { return in[0]; }

static const mr_opt_t seed_opts[] = {{.name = "seed",
                                      .type = MR_OPT_INT,
                                      .offset = offsetof(seed_t, seed),
                                      .hi = 4294967295.0,
                                      .help = "Seed from which the later stages derive theirs.",
                                      .positional = 1},
                                     {0}};

const mr_stage_def_t mr_stage_seed = {
    .name = "seed",
    .help =
        "Sets the seed from which the random stages after it derive theirs (grain's Dataset.seed).",
    .in = {{"in", MR_FLOW_RECORDS, false}},
    .out = {{"out", MR_FLOW_RECORDS, false}},
    .opts = seed_opts,
    .state_sz = sizeof(seed_t),
    .plan = seed_plan,
    .order = &(const mr_order_def_t){.at = seed_order,
                                     .period = seed_period,
                                     .taken = mr_taken_in_place,
                                     .spans = mr_spans_in_place},
    .walk = &(const mr_walk_def_t){.next = seed_next, .skip = seed_skip, .one_each = true},
};
