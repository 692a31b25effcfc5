/* Mixes streams by weights, with the same choice at every position of every run: grain's
   MapDataset.mix, and after to-iter-dataset its IterDataset.mix. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "loaders/orders/inputs.h"
#include "pipeline/stage_order.h"
#include "pipeline/stage_walk.h"

typedef struct mix {
  const char *weights;
  int n;               /* inputs, at least 2 */
  int64_t *share, sum; /* [n] the weights as integers, and their sum; from plan to forget */
  bool exact;
  mr_inputs_t inputs;
  const char *resume;
  int64_t from, *base; /* from this position on, input i continues at base[i]; as share */
} mix_t;

enum { INDEX, STOP }; /* words */
enum { DIGITS_MAX = 9, SHARE_MAX = 100000000 };

static mr_err_t bad_weights(mr_stage_t *s) {
  const mix_t *t = s->state;
  return mr_stage_fail(
      s, MR_ERR_CONFIG,
      "setting weights = \"%.200s\": want %d numbers A,B,.. above 0, one for each "
      "input, or NAME:A,NAME:B,.. with the names of the inputs or of the stages that "
      "lead to them; the largest less than a million times the smallest",
      t->weights, t->n);
}

static bool is_name(const char *text, const char *name, size_t n) {
  return strlen(text) == n && !memcmp(text, name, n);
}

/* The input called name[0,n), or that a stage of this name leads to; -1: none, or two.  A stage may
   have the letter of another's input for its name: then it means two. */
static int find_input(const mr_stage_t *s, const char *name, size_t n, int inputs) {
  int found = -1;
  for (int i = 0; i < inputs; i++) {
    if (!is_name(s->in_name[i], name, n) && !is_name(s->in_from[i], name, n)) continue;
    if (found >= 0) return -1;
    found = i;
  }
  return found;
}

/* Moves *at behind the name of a weight that has one, and finds its input. */
static mr_err_t weight_name(mr_stage_t *s, const char **at, int *input) {
  const mix_t *t = s->state;
  size_t n = strcspn(*at, ":,");
  if ((*at)[n] != ':') return MR_OK;
  *input = find_input(s, *at, n, t->n);
  if (*input < 0)
    return mr_stage_fail(
        s, MR_ERR_CONFIG,
        "setting weights: \"%.*s\" is no input, nor a stage that leads to one input "
        "alone, or it is both, of two inputs; inputs are called %s to %s",
        n < 80 ? (int)n : 80, *at, s->in_name[0], s->in_name[t->n - 1]);
  return *at += n + 1, MR_OK;
}

/* weight[0,n) is 0 before. */
static mr_err_t parse_weights(mr_stage_t *s, double *weight) {
  const mix_t *t = s->state;
  const char *at = t->weights;
  bool named = strchr(at, ':') != NULL;
  for (int i = 0; i < t->n; i++) {
    char *end;
    int input = named ? -1 : i;
    MR_TRY(weight_name(s, &at, &input));
    if (input < 0 || weight[input]) return bad_weights(s);
    weight[input] = mr_strtod(at, &end);
    bool last = i + 1 == t->n;
    if (end == at || *end != (last ? 0 : ',') || !(weight[input] > 0) || !isfinite(weight[input]))
      return bad_weights(s);
    at = end + 1;
  }
  return MR_OK;
}

/* grain scales the smallest weight to 100 and truncates the others to integers. */
static mr_err_t shares_of_grain(mr_stage_t *s, const double *weight) {
  mix_t *t = s->state;
  double least = INFINITY;
  for (int i = 0; i < t->n; i++) least = fmin(least, weight[i]);
  double scale = 100 / least;
  for (int i = 0; i < t->n; i++) {
    double share = weight[i] * scale;
    if (!(share < SHARE_MAX)) return bad_weights(s);
    t->share[i] = (int64_t)share;
  }
  return MR_OK;
}

static int64_t mix_common_divisor(int64_t a, int64_t b) {
  return b ? mix_common_divisor(b, a % b) : a;
}

/* The weights times the smallest power of ten that makes all of them integers, in lowest terms. */
static mr_err_t reduce_shares(mr_stage_t *s, const double *weight) {
  mix_t *t = s->state;
  double scale = 1;
  int whole = 0;
  for (int digits = 0; whole < t->n; digits++, scale *= 10) {
    if (digits > DIGITS_MAX) return bad_weights(s);
    for (whole = 0; whole < t->n; whole++) {
      double share = weight[whole] * scale;
      if (!(share < SHARE_MAX) || fabs(share - rint(share)) > 1e-6) break;
      t->share[whole] = (int64_t)rint(share);
    }
  }
  int64_t common = 0;
  for (int i = 0; i < t->n; i++) common = mix_common_divisor(t->share[i], common);
  for (int i = 0; i < t->n; i++)
    if (t->share[i] == 0) return bad_weights(s);
  for (int i = 0; i < t->n; i++) t->share[i] /= common;
  return MR_OK;
}

static mr_err_t plan_shares(mr_stage_t *s) {
  mix_t *t = s->state;
  for (int i = 0; i < t->n; i++) t->share[i] = 1;
  if (t->weights) {
    double *weight = calloc((size_t)s->n_in, sizeof *weight);
    if (!weight) return mr_stage_no_memory(s, "%d weights", t->n);
    mr_err_t e = parse_weights(s, weight);
    if (e >= 0) e = t->exact ? reduce_shares(s, weight) : shares_of_grain(s, weight);
    free(weight);
    if (e < 0) return e;
  }
  t->sum = 0;
  for (int i = 0; i < t->n; i++) t->sum += t->share[i];
  return MR_OK;
}

/* Reads the setting resume: "POSITION:A,B,..", all in [0,2^62). */
static mr_err_t plan_base(mr_stage_t *s) {
  mix_t *t = s->state;
  const char *at = t->resume;
  t->from = 0;
  if (!at || !*at) return MR_OK;
  for (int i = -1; i < t->n; i++) {
    char *end;
    int64_t v = *at >= '0' && *at <= '9' ? strtoll(at, &end, 10) : -1;
    char want = i < 0 ? ':' : i + 1 < t->n ? ',' : 0;
    if (v < 0 || v >= INT64_C(1) << 62 || *end != want)
      return mr_stage_fail(s, MR_ERR_CONFIG,
                           "setting resume = \"%.200s\": want POSITION:A,B,.. with a position for "
                           "each of %d inputs, as a resume writes it, or none",
                           t->resume, t->n);
    *(i < 0 ? &t->from : &t->base[i]) = v;
    at = end + 1;
  }
  return MR_OK;
}

/* Records of the only epoch, after a resume with other weights: what has passed, and then until an
   input has too few left. */
static int64_t mixed_since_resume(const mr_stage_t *s) {
  const mix_t *t = s->state;
  __int128 most = (INT64_C(1) << 62) - t->from;
  for (int i = 0; i < t->n; i++) {
    int64_t left = s->in_spec[i].n_records - t->base[i];
    __int128 here = (__int128)(left > 0 ? left : 0) * t->sum / t->share[i];
    most = here < most ? here : most;
  }
  return t->from + (int64_t)most;
}

/* Records until an input has too few left for its share; in doubles as in grain, or exactly. */
static int64_t mixed_records(const mr_stage_t *s) {
  const mix_t *t = s->state;
  double least = 0x1p62;
  __int128 most = INT64_C(1) << 62;
  for (int i = 0; i < t->n; i++) {
    int64_t records = s->in_spec[i].n_records;
    __int128 here = (__int128)records * t->sum / t->share[i];
    most = here < most ? here : most;
    least = fmin(least, (double)records / ((double)t->share[i] / (double)t->sum));
  }
  return t->exact ? (int64_t)most : (int64_t)least;
}

static mr_err_t mix_plan(mr_stage_t *s) {
  mix_t *t = s->state;
  MR_TRY(mr_inputs_plan(s, &t->n));
  MR_TRY(mr_inputs_alike(s, t->n));
  MR_TRY(mr_inputs_join_classes(s, t->n, &t->inputs));
  t->share = calloc((size_t)s->n_in, sizeof *t->share);
  t->base = calloc((size_t)s->n_in, sizeof *t->base);
  if (!t->share || !t->base) return mr_stage_no_memory(s, "%d inputs", t->n);
  MR_TRY(plan_shares(s));
  MR_TRY(plan_base(s));
  bool changed = t->from && s->out_spec[0].n_epochs == 1;
  s->out_spec[0].n_records = changed ? mixed_since_resume(s) : mixed_records(s);
  if (s->out_spec[0].n_records < 1 && !s->in_spec[0].sequential)
    return mr_stage_fail(s, MR_ERR_CONFIG, "an input has no record for its weight");
  return MR_OK;
}

/* Of k records that inputs with shares of `left` in all give, how many come from those of the last
   `rest`: k * rest / left rounded down, and what that leaves. */
static int64_t share_behind(int64_t k, int64_t rest, int64_t left, int64_t *modulo) {
  int64_t whole;
  if (!__builtin_mul_overflow(k, rest, &whole)) return *modulo = whole % left, whole / left;
  __int128 wide = (__int128)k * rest; /* left < 2^40, and a division of 128 bits takes longer */
  *modulo = (int64_t)(wide % left);
  return (int64_t)(wide / left);
}

/* Chooses the input whose share of the first k + 1 records is one more than of the first k. */
static void mix_choose(const mix_t *t, int64_t k, mr_at_t *at) {
  int64_t left = t->sum, modulo;
  for (int i = 0; i < t->n; i++) {
    int64_t rest = left - t->share[i], behind = share_behind(k, rest, left, &modulo);
    if (modulo + rest < left) { /* of k + 1 records as many are behind it */
      at->port = i, at->index = k - behind;
      return;
    }
    left = rest, k = behind;
  }
}

static mr_err_t mix_order(mr_stage_t *s, int64_t position, mr_at_t *at) {
  const mix_t *t = s->state;
  bool on = position >= t->from;
  mix_choose(t, on ? position - t->from : position, at);
  if (on) at->index += t->base[at->port];
  return MR_OK;
}

/* `sum` positions take `share` records of each input.  After `cycles` times as many, each input has
   advanced by a whole number of its periods. */
static mr_period_t mix_period(const mr_stage_t *s, const mr_period_t *in) {
  const mix_t *t = s->state;
  mr_period_t out = {0, true};
  int64_t cycles = 1;
  if (t->from) return (mr_period_t){0};
  for (int i = 0; i < t->n; i++) {
    if (!in[i].n) return (mr_period_t){0};
    int64_t needed = in[i].n / mix_common_divisor(in[i].n, t->share[i]);
    if (__builtin_mul_overflow(cycles / mix_common_divisor(cycles, needed), needed, &cycles))
      return (mr_period_t){0};
    out.ordered &= in[i].ordered;
  }
  if (__builtin_mul_overflow(cycles, t->sum, &out.n)) return (mr_period_t){0};
  return out;
}

/* Ends when the first input ends. */
static mr_err_t mix_next(mr_stage_t *s, mr_walk_t *w) {
  int64_t *word = mr_walk_words(w);
  mr_at_t at = {0};
  if (word[STOP]) return MR_END;
  mix_choose(s->state, word[INDEX], &at);
  word[INDEX]++;
  mr_err_t e = mr_walk_pull(w, at.port);
  word[STOP] = e == MR_END;
  return e;
}

/* Counts how many of the first k records come from each input. */
static void count_shares(const mix_t *t, int64_t k, int64_t *n) {
  int64_t left = t->sum, modulo;
  for (int i = 0; i < t->n; i++) {
    int64_t rest = left - t->share[i], behind = share_behind(k, rest, left, &modulo);
    n[i] = k - behind;
    left = rest, k = behind;
  }
}

/* Where each input continues behind the first `position` records. */
static void mix_reached(const mr_stage_t *s, int64_t position, int64_t *input) {
  const mix_t *t = s->state;
  bool on = position >= t->from;
  count_shares(t, on ? position - t->from : position, input);
  for (int i = 0; i < t->n && on; i++) input[i] += t->base[i];
}

/* The inverse of mix_choose: of records since the start, the one that is record `index` of input
   `port`.  Of k records, floor(k * rest / left) come from the inputs behind one, so its own record
   q is the last k that leaves floor(q * left / share), and the b-th one behind it the last k before
   b + 1 of them have come. */
static __int128 mix_place(const mix_t *t, int port, int64_t index) {
  int64_t left = t->sum;
  for (int i = 0; i < port; i++) left -= t->share[i];
  __int128 k = (__int128)index * left / t->share[port];
  for (int i = port - 1; i >= 0 && k < (__int128)1 << 62; i--) {
    int64_t rest = left;
    left += t->share[i];
    k = ((k + 1) * left - 1) / rest;
  }
  return k;
}

static mr_err_t mix_taken(mr_stage_t *s, int port, int64_t index, int64_t from, int64_t *position) {
  const mix_t *t = s->state;
  __int128 first = mix_place(t, port, index), most = INT64_MAX;
  if (first >= from && first < t->from) return *position = (int64_t)first, MR_OK;
  if (index < t->base[port]) return MR_END;
  __int128 on = mix_place(t, port, index - t->base[port]) + t->from;
  if (on < from || on > most) return MR_END;
  return *position = (int64_t)on, MR_OK;
}

/* About how many of the first k records come from an input.  Each input before it rounds what it
   leaves down, by less than one, so that the true number is less than port + 2 away. */
static int64_t about_share_of(const mix_t *t, int port, int64_t k) {
  return (int64_t)((__int128)k * t->share[port] / t->sum);
}

static void mix_spans(const mr_stage_t *s, int port, int64_t lo, int64_t hi, int64_t *first,
                      int64_t *end) {
  const mix_t *t = s->state;
  int64_t base = t->base[port], off = port + 2;
  *first = INT64_MAX, *end = 0;
  if (hi > t->from)
    *first = base + about_share_of(t, port, lo > t->from ? lo - t->from : 0) - off,
    *end = base + about_share_of(t, port, hi - t->from) + off;
  if (lo < t->from) {
    int64_t begins = about_share_of(t, port, lo) - off,
            ends = about_share_of(t, port, hi < t->from ? hi : t->from) + off;
    *first = begins < *first ? begins : *first, *end = ends > *end ? ends : *end;
  }
  if (*first < 0) *first = 0;
}

static mr_err_t mix_skip(mr_stage_t *s, mr_walk_t *w, int64_t n) {
  const mix_t *t = s->state;
  int64_t *word = mr_walk_words(w), before = word[INDEX], after, left = t->sum, modulo;
  if (word[STOP]) return MR_END;
  after = word[INDEX] += n;
  for (int i = 0; i < t->n; i++) {
    int64_t rest = left - t->share[i], before_behind = share_behind(before, rest, left, &modulo),
            after_behind = share_behind(after, rest, left, &modulo);
    mr_err_t e = mr_walk_skip(w, i, after - after_behind - (before - before_behind));
    if (e != MR_OK) return e;
    left = rest, before = before_behind, after = after_behind;
  }
  return MR_OK;
}

static const mr_opt_t mix_opts[] = {
    {.name = "weights",
     .hint = "probabilities probs",
     .type = MR_OPT_STR,
     .offset = offsetof(mix_t, weights),
     .unit = "A,B,..",
     .help = "Shares of the inputs a, b, .. in the output, or NAME:A,NAME:B,.. with names of "
             "inputs or of the stages that lead to them; default: equal.",
     .positional = 1},
    {.name = "exact",
     .type = MR_OPT_BOOL,
     .offset = offsetof(mix_t, exact),
     .def = "false",
     .help = "Uses the weights as given; grain scales the smallest to 100 and truncates the others "
             "to integers, 233:100 for 7:3."},
    {.name = "resume",
     .type = MR_OPT_STR,
     .offset = offsetof(mix_t, resume),
     .unit = "POSITION:A,B,..",
     .help =
         "Written by a resume that changed the mix: from this position on each input continues at "
         "a position of its own."},
    {0}};

static void mix_forget(mr_stage_t *s) {
  mix_t *t = s->state;
  free(t->share), free(t->base), t->share = t->base = NULL;
  mr_inputs_forget(&t->inputs);
}

static const mr_hint_t mix_words[] = {
    {"samplefromdatasets mixture interleavedatasets", "mix weights=7,3", NULL}, {0}};

const mr_stage_def_t mr_stage_mix = {
    .name = "mix",
    .hint = mix_words,
    .help = "Mixes streams by weights (grain's MapDataset.mix and IterDataset.mix).",
    .in = MR_RECORD_INPUTS,
    .out = {{"out", MR_FLOW_RECORDS, false}},
    .opts = mix_opts,
    .state_sz = sizeof(mix_t),
    .plan = mix_plan,
    .forget = mix_forget,
    .order = &(const mr_order_def_t){.at = mix_order,
                                     .period = mix_period,
                                     .reached = mix_reached,
                                     .taken = mix_taken,
                                     .spans = mix_spans},
    .walk = &(const mr_walk_def_t){.next = mix_next, .skip = mix_skip, .n_words = 2},
};
