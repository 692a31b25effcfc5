/* Records in a new order within each window: grain's WindowShuffleMapDataset, and after
   to-iter-dataset its WindowShuffleIterDataset. */
#include <inttypes.h>

#include "loaders/permute.h"
#include "pipeline/stage.h"

typedef struct window_shuffle {
  int64_t size, seed;
} window_shuffle_t;

enum { WINDOW, TAKEN }; /* words */

static mr_err_t window_plan(mr_stage_t *s) {
  s->out_spec[0] = s->in_spec[0];
  return MR_OK;
}

/* grain does not let seed + window wrap around, and fails there. */
static mr_err_t permute(mr_stage_t *s, int64_t i, int64_t n, int64_t window, int64_t *to) {
  const window_shuffle_t *t = s->state;
  if (t->seed + window > UINT32_MAX)
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "seed + number of the window is %" PRId64 ", want at most 2^32-1",
                         t->seed + window);
  *to = (int64_t)mr_permute((uint64_t)i, (uint64_t)n - 1, (uint32_t)(t->seed + window));
  return MR_OK;
}

/* A last window that is short reaches into the next epoch, as grain's does. */
static mr_err_t window_order(mr_stage_t *s, int64_t position, mr_at_t *at) {
  const window_shuffle_t *t = s->state;
  int64_t window = position / t->size, to = 0;
  MR_TRY(permute(s, position % t->size, t->size, window, &to));
  at->index = to + window * t->size;
  return MR_OK;
}

/* The next window, or after a load the one that was under way. */
static mr_err_t next_window(mr_stage_t *s, mr_walk_t *w) {
  const window_shuffle_t *t = s->state;
  int64_t *word = mr_walk_words(w), got = mr_walk_held(w);
  if (got < 0 && word[TAKEN]) MR_TRY(mr_walk_hold(w, t->size, &got));
  if (got > word[TAKEN]) return MR_OK;
  mr_err_t e = mr_walk_hold(w, t->size, &got);
  if (e < 0) return e;
  word[TAKEN] = 0;
  return got ? MR_OK : MR_END;
}

/* The window is permuted, then taken from its end. */
static mr_err_t window_next(mr_stage_t *s, mr_walk_t *w) {
  int64_t *word = mr_walk_words(w), to = 0;
  mr_err_t e = next_window(s, w);
  if (e != MR_OK) return e;
  int64_t n = mr_walk_held(w);
  MR_TRY(permute(s, n - 1 - word[TAKEN], n, word[WINDOW], &to));
  if (++word[TAKEN] == n) word[WINDOW]++;
  return mr_walk_give(w, to);
}

static const mr_opt_t window_opts[] = {
    {"window-size", MR_OPT_INT, offsetof(window_shuffle_t, size), "records", NULL, 1, 1e9, NULL,
     "How many records a window holds.", 1},
    {"seed", MR_OPT_INT, offsetof(window_shuffle_t, seed), "", NULL, 0, 4294967295.0, NULL,
     "Decides the orders.", 0},
    {0}};

const mr_stage_def_t mr_stage_window_shuffle = {
    .name = "window-shuffle",
    .help = "Puts the records of each window into a new order (grain's WindowShuffle datasets).",
    .in = {{"in", MR_FLOW_RECORDS, false}},
    .out = {{"out", MR_FLOW_RECORDS, false}},
    .opts = window_opts,
    .state_sz = sizeof(window_shuffle_t),
    .plan = window_plan,
    .order = window_order,
    .next = window_next,
    .n_words = 2,
};
