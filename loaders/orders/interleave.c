/* Takes one record from each of several open streams in turn and opens the next stream when one
   ends: grain's InterleaveIterDataset.  A later mp-prefetch deals whole streams out to its
   workers. */
#include <inttypes.h>

#include "loaders/orders/inputs.h"
#include "pipeline/stage_walk.h"

typedef struct interleave {
  int64_t cycle;
  int n;
  mr_inputs_t inputs;
} interleave_t;

/* Words; there are at least LEAST_SLOTS, so that a state written with fewer streams fits.  TURN
   also says how many slots follow, since the states of the inputs begin behind them: of two graphs
   whose states have as many numbers, one with a slot more has an input less.  That count is 0
   before the first record, and in states that an earlier version wrote. */
enum { TURN, OPENED, SLOT /* [cycle] its stream + 1; 0: none */, LEAST_SLOTS = 8, SLOTS_AT = 20 };

static mr_err_t interleave_plan(mr_stage_t *s) {
  interleave_t *t = s->state;
  mr_spec_t *out = &s->out_spec[0];
  MR_TRY(mr_inputs_plan(s, &t->n));
  MR_TRY(mr_inputs_alike(s, t->n));
  MR_TRY(mr_inputs_join_classes(s, t->n, &t->inputs));
  if (t->cycle > t->n) t->cycle = t->n;
  for (int i = 1; i < t->n; i++)
    if (__builtin_add_overflow(out->n_records, s->in_spec[i].n_records, &out->n_records))
      out->n_records = 0; /* unknown */
  out->n_epochs = 1;
  return MR_OK;
}

static bool any_open(const int64_t *word, int64_t cycle) {
  for (int i = 0; i < cycle; i++)
    if (word[SLOT + i]) return true;
  return false;
}

/* The streams of this walk, and how many are open at a time: grain deals the streams out to its
   worker processes (.deals). */
typedef struct dealt {
  int n;
  int64_t cycle;
} dealt_t;

static dealt_t dealt_inputs(const mr_stage_t *s, const mr_walk_t *w) {
  const interleave_t *t = s->state;
  int n = mr_walk_n_below(w);
  return (dealt_t){n, t->cycle < n ? t->cycle : n};
}

static int64_t slots_of(const mr_stage_t *s) {
  const interleave_t *t = s->state;
  return t->cycle > LEAST_SLOTS ? t->cycle : LEAST_SLOTS;
}

static int64_t interleave_turn(const int64_t *word) {
  return word[TURN] & ((INT64_C(1) << SLOTS_AT) - 1);
}

static void interleave_set_turn(const mr_stage_t *s, int64_t *word, int64_t turn) {
  word[TURN] = slots_of(s) << SLOTS_AT | turn;
}

/* Checks that a state, which may come from a file, is of this many streams and slots. */
static mr_err_t check_state(mr_stage_t *s, dealt_t d, const int64_t *word) {
  int64_t slots = word[TURN] >> SLOTS_AT, open = 0;
  if (slots && slots != slots_of(s))
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "cannot resume: the saved state is of cycle-length=%" PRId64
                         "%s, and this stage has %" PRId64
                         " of %d streams open at a time: want the "
                         "cycle-length and the inputs that it was left with",
                         slots, slots == LEAST_SLOTS ? " or less" : "", d.cycle, d.n);
  for (int64_t i = d.cycle; i < slots_of(s); i++) open += word[SLOT + i] != 0;
  if (open)
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "cannot resume: the saved state has %" PRId64
                         " open streams beyond the %" PRId64
                         " of cycle-length, whose records would be lost: want the cycle-length "
                         "that it was left with",
                         open, d.cycle);
  bool ok = interleave_turn(word) < d.cycle && word[OPENED] <= d.n;
  for (int i = 0; i < d.cycle; i++) ok = ok && word[SLOT + i] <= d.n;
  if (!ok)
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "cannot resume: a number of the saved state is out of range");
  return MR_OK;
}

static mr_err_t interleave_next(mr_stage_t *s, mr_walk_t *w) {
  dealt_t d = dealt_inputs(s, w);
  int64_t *word = mr_walk_words(w);
  if (!d.n) return MR_END; /* fewer streams than workers */
  MR_TRY(check_state(s, d, word));
  for (;;) {
    int64_t turn = interleave_turn(word), *slot = &word[SLOT + turn];
    if (!*slot && word[OPENED] < d.n) *slot = ++word[OPENED];
    if (!*slot && !any_open(word, d.cycle)) return MR_END;
    mr_err_t e = *slot ? mr_walk_pull(w, (int)*slot - 1) : MR_END;
    if (e < 0) return e;
    if (e == MR_END) *slot = 0;
    interleave_set_turn(s, word, (turn + 1) % d.cycle);
    if (e == MR_OK) return MR_OK;
  }
}

/* The number of rounds in which every slot gives one record; 0 if a stream may end in the next
   one. */
static mr_err_t whole_rounds(dealt_t d, mr_walk_t *w, int64_t n, int64_t *rounds) {
  const int64_t *word = mr_walk_words(w);
  *rounds = n / d.cycle;
  for (int i = 0; i < d.cycle && *rounds; i++) {
    int64_t at = word[SLOT + i], left = 0;
    if (!at && word[OPENED] == d.n) continue; /* no stream is left for it */
    if (at) MR_TRY(mr_walk_left(w, (int)at - 1, *rounds, &left));
    *rounds = left;
  }
  return MR_OK;
}

static mr_err_t interleave_skip(mr_stage_t *s, mr_walk_t *w, int64_t n) {
  dealt_t d = dealt_inputs(s, w);
  int64_t *word = mr_walk_words(w), rounds = 0;
  if (!d.n) return MR_END;
  MR_TRY(check_state(s, d, word));
  while (n) {
    if (word[OPENED] == d.n && !any_open(word, d.cycle)) return MR_END;
    MR_TRY(whole_rounds(d, w, n, &rounds));
    for (int i = 0; i < d.cycle && rounds; i++) {
      int64_t at = word[SLOT + i];
      if (at) MR_TRY(mr_walk_skip(w, (int)at - 1, rounds));
      if (at) n -= rounds;
    }
    if (rounds) continue;
    mr_err_t e = mr_walk_next_all(w, 1);
    if (e != MR_OK) return e;
    n--;
  }
  return MR_OK;
}

static const mr_opt_t interleave_opts[] = {{.name = "cycle-length",
                                            .type = MR_OPT_INT,
                                            .offset = offsetof(interleave_t, cycle),
                                            .unit = "streams",
                                            .lo = 1,
                                            .hi = 1e6,
                                            .help = "Number of streams that are open at a time.",
                                            .positional = 1},
                                           {0}};

static int interleave_words(const mr_stage_t *s) { return SLOT + (int)slots_of(s); }

static const mr_walk_def_t interleave_walk = {
    .next = interleave_next,
    .skip = interleave_skip,
    .deals = true,
    .words = interleave_words,
};

static void interleave_forget(mr_stage_t *s) {
  mr_inputs_forget(&((interleave_t *)s->state)->inputs);
}

const mr_stage_def_t mr_stage_interleave = {
    .name = "interleave",
    .help = "Takes records from several streams in turn (grain's InterleaveIterDataset).",
    .in = MR_RECORD_INPUTS,
    .out = {{"out", MR_FLOW_RECORDS, false}},
    .opts = interleave_opts,
    .state_sz = sizeof(interleave_t),
    .plan = interleave_plan,
    .forget = interleave_forget,
    .walk = &interleave_walk,
};
