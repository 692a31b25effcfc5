/* Seeds the generator that grain's random_map(seed=) passes to its transform; later stages draw
   from it.  Unlike a sampler's generator it depends on the position at this stage, not on the
   record; in a sequential stream, on the number of the record. */
#include "base/seedseq.h"
#include "pipeline/stage_order.h"
#include "pipeline/stage_walk.h"

typedef struct random_map {
  int64_t seed;
  uint64_t key[2];
} random_map_t;

static mr_err_t random_map_plan(mr_stage_t *s) {
  random_map_t *t = s->state;
  uint32_t seed = (uint32_t)t->seed, word[4];
  if (!mr_setting_given(s, offsetof(random_map_t, seed))) {
    if (!s->has_default_seed)
      return mr_stage_fail(s, MR_ERR_CONFIG,
                           "no seed: set seed=, or put a stage \"seed\" after the source");
    seed = s->default_seed;
  }
  mr_seed_sequence(&seed, 1, word, 4);
  for (int i = 0; i < 2; i++) t->key[i] = word[2 * i] | (uint64_t)word[2 * i + 1] << 32;
  s->out_spec[0] = s->in_spec[0];
  s->out_spec[0].seeded = true;
  return MR_OK;
}

static mr_err_t random_map_order(mr_stage_t *s, int64_t position, mr_at_t *at) {
  const random_map_t *t = s->state;
  at->seeded = true;
  at->key[0] = t->key[0], at->key[1] = t->key[1];
  at->counter = (uint64_t)position;
  return MR_OK;
}

static mr_err_t random_map_next(mr_stage_t *s, mr_walk_t *w) {
  const random_map_t *t = s->state;
  mr_err_t e = mr_walk_pull(w, 0);
  return e == MR_OK ? mr_walk_seed(w, t->key, mr_walk_words(w)[0]++) : e;
}

static mr_err_t random_map_skip(mr_stage_t *s, mr_walk_t *w, int64_t n) {
  mr_walk_words(w)[0] += n;
  return mr_walk_skip(w, 0, n);
}

static mr_period_t random_map_period(const mr_stage_t *s, const mr_period_t *in) { return in[0]; }

static const mr_opt_t random_map_opts[] = {
    {.name = "seed",
     .hint = "randomseed manualseed rngseed randomstate prngseed",
     .type = MR_OPT_INT,
     .offset = offsetof(random_map_t, seed),
     .def = "0",
     .hi = 4294967295.0,
     .help = "Seed of the generators; default: derived from a stage \"seed\" before this one."},
    {0}};

static const mr_order_def_t random_map_positions = {
    .at = random_map_order,
    .period = random_map_period,
    .taken = mr_taken_in_place,
    .spans = mr_spans_in_place,
    /* together with the transform after it, one step of grain's */
    .uncounted = true,
};

static const mr_walk_def_t random_map_walk = {
    .next = random_map_next,
    .skip = random_map_skip,
    .one_each = true,
    .n_words = 1,
};

const mr_stage_def_t mr_stage_random_map = {
    .name = "random-map",
    .role = MR_ROLE_SEEDS,
    .help = "Seeds the records' generators as grain's random_map does.",
    .in = {{"in", MR_FLOW_RECORDS, false}},
    .out = {{"out", MR_FLOW_RECORDS, false}},
    .opts = random_map_opts,
    .state_sz = sizeof(random_map_t),
    .plan = random_map_plan,
    .order = &random_map_positions,
    .walk = &random_map_walk,
};
