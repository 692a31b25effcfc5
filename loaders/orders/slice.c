/* slice: keeps the positions of a Python slice, grain's MapDataset.slice.  START:STOP:STEP means
   what it means in Python, negative numbers and clipping included, and is arithmetic on positions;
   no record outside the slice is read. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/stage_order.h"

typedef struct slice {
  const char *text;
  int64_t start, step, parent;
} slice_t;

/* Parses one part of "A:B:C" and returns the text after it; *given is false for an empty part.
   NULL if it is no number. */
static const char *parse_part(const char *at, bool *given, int64_t *v) {
  char *end;
  *given = *at && *at != ':';
  if (!*given) return at;
  if (!strchr("+-0123456789", *at)) return NULL;
  *v = strtoll(at, &end, 10);
  return end == at || *v < -(INT64_C(1) << 62) || *v > INT64_C(1) << 62 ? NULL : end;
}

static bool slice_parse(const char *text, bool given[3], int64_t v[3]) {
  const char *at = text;
  given[0] = given[1] = given[2] = false;
  for (int i = 0; i < 3; i++) {
    if (!(at = parse_part(at, &given[i], &v[i]))) return false;
    if (!*at) return i > 0;
    at++;
  }
  return false;
}

/* Clips an end as Python's slice.indices does: counted from the back if negative, cut to
   [lo,hi]. */
static int64_t slice_clip(int64_t v, int64_t n, int64_t lo, int64_t hi) {
  if (v < 0) v += n;
  return v < lo ? lo : v > hi ? hi : v;
}

static mr_err_t slice_plan(mr_stage_t *s) {
  slice_t *t = s->state;
  int64_t n = s->in_spec[0].n_records, v[3] = {0};
  bool given[3];
  if (!t->text || !slice_parse(t->text, given, v) || (given[2] && !v[2]))
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting range = \"%.100s\": want START:STOP or START:STOP:STEP as in "
                         "Python, STEP not 0",
                         t->text ? t->text : "");
  t->step = given[2] ? v[2] : 1;
  int64_t lo = t->step > 0 ? 0 : -1, hi = t->step > 0 ? n : n - 1;
  t->start = given[0] ? slice_clip(v[0], n, lo, hi) : t->step > 0 ? lo : hi;
  int64_t stop = given[1] ? slice_clip(v[1], n, lo, hi) : t->step > 0 ? hi : lo;
  int64_t span = t->step > 0 ? stop - t->start : t->start - stop;
  int64_t step = t->step > 0 ? t->step : -t->step;
  t->parent = n;
  s->out_spec[0] = s->in_spec[0];
  s->out_spec[0].n_records = span > 0 ? (span - 1) / step + 1 : 0;
  if (span > 0) return MR_OK;
  return mr_stage_fail(s, MR_ERR_CONFIG,
                       "setting range = \"%.100s\": selects none of %" PRId64 " records", t->text,
                       n);
}

static mr_err_t slice_order(mr_stage_t *s, int64_t position, mr_at_t *at) {
  const slice_t *t = s->state;
  int64_t n = s->out_spec[0].n_records, epoch;
  at->index = t->start + position % n * t->step;
  if (__builtin_mul_overflow(position / n, t->parent, &epoch) ||
      __builtin_add_overflow(at->index, epoch, &at->index))
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "position %" PRId64 " of the slice lies beyond position 2^63 of its input",
                         position);
  return MR_OK;
}

static mr_err_t slice_taken(mr_stage_t *s, int port, int64_t index, int64_t from,
                            int64_t *position) {
  const slice_t *t = s->state;
  int64_t n = s->out_spec[0].n_records, ahead = index % t->parent - t->start, first;
  if (ahead % t->step || ahead / t->step < 0 || ahead / t->step >= n) return MR_END;
  if (__builtin_mul_overflow(index / t->parent, n, &first)) return MR_END;
  *position = first + ahead / t->step;
  return *position >= from ? MR_OK : MR_END;
}

static void slice_spans(const mr_stage_t *s, int port, int64_t lo, int64_t hi, int64_t *first,
                        int64_t *end) {
  const slice_t *t = s->state;
  mr_span_epochs(s->out_spec[0].n_records, t->parent, lo, hi, first, end);
}

/* Unless the slice keeps all positions, epochs have the same records only if the input is
   ordered. */
static mr_period_t slice_period(const mr_stage_t *s, const mr_period_t *in) {
  const slice_t *t = s->state;
  int64_t n = s->out_spec[0].n_records;
  bool alike = in[0].n && t->parent % in[0].n == 0 && (in[0].ordered || n == t->parent);
  return (mr_period_t){alike ? n : 0, in[0].ordered};
}

static const mr_opt_t slice_opts[] = {
    {.name = "range",
     .type = MR_OPT_STR,
     .offset = offsetof(slice_t, text),
     .unit = "START:STOP:STEP",
     .help = "Positions of each epoch to keep, as in Python: 2:9:3, ::2, -100: or ::-1.",
     .positional = 1},
    {0}};

static const mr_hint_t slice_words[] = {
    {"skip", "slice 1000:", "stage \"slice\" skips the first records of an epoch"},
    {"subset", "slice 0:1000", NULL},
    {0}};

const mr_stage_def_t mr_stage_slice = {
    .name = "slice",
    .hint = slice_words,
    .help = "Keeps some positions of each epoch (grain's MapDataset.slice).",
    .in = {{"in", MR_FLOW_RECORDS, false}},
    .out = {{"out", MR_FLOW_RECORDS, false}},
    .opts = slice_opts,
    .state_sz = sizeof(slice_t),
    .plan = slice_plan,
    .order =
        &(const mr_order_def_t){
            .at = slice_order, .period = slice_period, .taken = slice_taken, .spans = slice_spans},
};
