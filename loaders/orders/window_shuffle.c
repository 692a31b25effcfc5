/* Shuffles the records within each window: grain's WindowShuffleMapDataset, and after
   to-iter-dataset its WindowShuffleIterDataset. */
#include <inttypes.h>

#include "loaders/orders/sampler.h"
#include "pipeline/stage_order.h"
#include "pipeline/stage_walk.h"

typedef struct window_shuffle {
  int64_t size, seed;
  bool within_epoch, wrap_seed, bijective;
} window_shuffle_t;

enum { WINDOW, TAKEN };    /* words */
enum { HELD_RECORD = 38 }; /* bytes of a record that is held, at least: what makes it, and where */

static mr_err_t window_plan(mr_stage_t *s) {
  s->out_spec[0] = s->in_spec[0];
  return MR_OK;
}

/* Behind to-iter-dataset a window is held, of as many records as there are at most.  Nothing is
   counted where the records are not, since they may be few. */
static mr_err_t window_memory(mr_stage_t *s, bool models, mr_takes_t *out) {
  const window_shuffle_t *t = s->state;
  const mr_spec_t *in = &s->in_spec[0];
  int64_t all, n = t->size;
  if (!in->sequential || !in->n_records || in->holes) return MR_OK;
  if (in->n_epochs && !__builtin_mul_overflow(in->n_records, in->n_epochs, &all) && all < n)
    n = all;
  out->bytes = (size_t)n * HELD_RECORD;
  out->advice =
      "a window of records that come one after the other is held; want a smaller "
      "window-size, or this stage before to-iter-dataset, where it takes no memory";
  return MR_OK;
}

/* Maps i in [0,n) under the window's seed.  grain fails where seed + window exceeds 32 bits. */
static mr_err_t permute_in_window(mr_stage_t *s, int64_t i, int64_t n, int64_t window,
                                  int64_t *to) {
  const window_shuffle_t *t = s->state;
  uint64_t seed = (uint64_t)t->seed + (uint64_t)window;
  if (seed > UINT32_MAX && !t->wrap_seed)
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "seed + number of the window is %" PRIu64
                         ", want at most 2^32-1; wrap-seed continues from 0",
                         seed);
  *to = (int64_t)mr_permute((uint64_t)i, (uint64_t)n - 1, (uint32_t)seed, t->bijective);
  return MR_OK;
}

/* The last window of an epoch reaches into the next epoch, as in grain. */
static mr_err_t order_across(mr_stage_t *s, int64_t position, mr_at_t *at) {
  const window_shuffle_t *t = s->state;
  int64_t window = position / t->size, to = 0;
  MR_TRY(permute_in_window(s, position % t->size, t->size, window, &to));
  at->index = to + window * t->size;
  return MR_OK;
}

/* The last window ends with its epoch; window numbers continue from one epoch to the next. */
static mr_err_t order_within(mr_stage_t *s, int64_t position, mr_at_t *at) {
  const window_shuffle_t *t = s->state;
  int64_t records = s->in_spec[0].n_records, epoch = position / records, i = position % records;
  int64_t first = i / t->size * t->size, n = records - first < t->size ? records - first : t->size;
  int64_t windows = (records - 1) / t->size + 1, to = 0;
  MR_TRY(permute_in_window(s, i - first, n, epoch * windows + first / t->size, &to));
  at->index = epoch * records + first + to;
  return MR_OK;
}

static mr_err_t window_order(mr_stage_t *s, int64_t position, mr_at_t *at) {
  const window_shuffle_t *t = s->state;
  return t->within_epoch ? order_within(s, position, at) : order_across(s, position, at);
}

/* The window's seed, as permute_in_window takes it. */
static int find_window_places(const window_shuffle_t *t, int64_t i, int64_t n, int64_t window,
                              uint64_t from[2]) {
  uint64_t seed = (uint64_t)t->seed + (uint64_t)window;
  return mr_permute_from((uint64_t)i, (uint64_t)n - 1, (uint32_t)seed, t->bijective, from);
}

static mr_err_t window_taken(mr_stage_t *s, int port, int64_t index, int64_t from,
                             int64_t *position) {
  const window_shuffle_t *t = s->state;
  int64_t records = s->in_spec[0].n_records, epoch = index / records, i = index % records;
  int64_t first = t->within_epoch ? i / t->size * t->size : index / t->size * t->size;
  int64_t n = t->size, window = first / t->size, reached;
  uint64_t place[2];
  if (t->within_epoch) {
    n = records - first < t->size ? records - first : t->size;
    window += epoch * ((records - 1) / t->size + 1), i -= first, first += epoch * records;
  } else {
    i = index - first;
  }
  MR_TRY(permute_in_window(s, 0, n, window, &reached)); /* whose seed may be too large */
  int found = find_window_places(t, i, n, window, place);
  for (int k = 0; k < found; k++)
    if (first + (int64_t)place[k] >= from) return *position = first + (int64_t)place[k], MR_OK;
  return MR_END;
}

static void window_spans(const mr_stage_t *s, int port, int64_t lo, int64_t hi, int64_t *first,
                         int64_t *end) {
  const window_shuffle_t *t = s->state;
  int64_t each = t->within_epoch ? s->in_spec[0].n_records : t->size;
  mr_span_epochs(each, each, lo, hi, first, end);
}

/* Holds the next window, or after a resume the window that was in progress. */
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
  MR_TRY(permute_in_window(s, n - 1 - word[TAKEN], n, word[WINDOW], &to));
  if (++word[TAKEN] == n) word[WINDOW]++;
  return mr_walk_give(w, to);
}

/* Skips to the window that contains the n-th record from here, and holds that window. */
static mr_err_t window_skip(mr_stage_t *s, mr_walk_t *w, int64_t n) {
  const window_shuffle_t *t = s->state;
  int64_t *word = mr_walk_words(w), taken = word[TAKEN] + n, got;
  int64_t windows = (taken - 1) / t->size; /* all of them full */
  mr_walk_let_go(w);
  if (word[TAKEN] >= t->size) word[WINDOW]--; /* counted when its last record went */
  mr_err_t e = mr_walk_skip(w, 0, windows * t->size);
  if (e == MR_OK) e = mr_walk_hold(w, t->size, &got);
  if (e != MR_OK) return e;
  word[WINDOW] += windows, word[TAKEN] = taken - windows * t->size;
  if (got < word[TAKEN]) return MR_END;
  word[WINDOW] += word[TAKEN] == got;
  return MR_OK;
}

/* An epoch has the same records in each pass if its windows do not reach beyond it and permute. */
static mr_period_t window_period(const mr_stage_t *s, const mr_period_t *in) {
  const window_shuffle_t *t = s->state;
  int64_t n = s->in_spec[0].n_records;
  bool keeps = in[0].n && n % in[0].n == 0 && (t->within_epoch || n % t->size == 0) &&
               mr_permutes(t->size, t->bijective) &&
               (n % t->size == 0 || mr_permutes(n % t->size, t->bijective));
  return (mr_period_t){keeps ? n : 0, false};
}

static const mr_opt_t window_opts[] = {
    {.name = "window-size",
     .hint = "windowsize buffersize window shufflebuffersize",
     .type = MR_OPT_INT,
     .offset = offsetof(window_shuffle_t, size),
     .unit = "records",
     .lo = 1,
     .hi = 1e9,
     .help = "Number of records in a window.",
     .positional = 1},
    {.name = "seed",
     .hint = "randomseed rngseed",
     .type = MR_OPT_INT,
     .offset = offsetof(window_shuffle_t, seed),
     .hi = 4294967295.0,
     .help = "Seed of the orders."},
    {.name = "within-epoch",
     .type = MR_OPT_BOOL,
     .offset = offsetof(window_shuffle_t, within_epoch),
     .def = "false",
     .help = "Shortens the last window of an epoch; in grain's MapDataset it reaches into the next "
             "epoch, so that some records come twice and others never."},
    {.name = "wrap-seed",
     .type = MR_OPT_BOOL,
     .offset = offsetof(window_shuffle_t, wrap_seed),
     .def = "false",
     .help = "Wraps a window's seed around at 2^32, where grain fails."},
    {.name = "bijective",
     .type = MR_OPT_BOOL,
     .offset = offsetof(window_shuffle_t, bijective),
     .def = "false",
     .help = "Gives each record once in a window of exactly 4^k + 1 records (k >= 8) too, where "
             "grain omits one."},
    {0}};

const mr_stage_def_t mr_stage_window_shuffle = {
    .name = "window-shuffle",
    .help = "Shuffles the records within each window (grain's WindowShuffle datasets).",
    .in = {{"in", MR_FLOW_RECORDS, false}},
    .out = {{"out", MR_FLOW_RECORDS, false}},
    .opts = window_opts,
    .state_sz = sizeof(window_shuffle_t),
    .plan = window_plan,
    .memory = window_memory,
    .order = &(const mr_order_def_t){.at = window_order,
                                     .period = window_period,
                                     .taken = window_taken,
                                     .spans = window_spans},
    .walk = &(const mr_walk_def_t){.next = window_next, .skip = window_skip, .n_words = 2},
};
