/* Repeats a stream several times as one epoch: grain's repeat.  Before to-iter-dataset each pass is
   an epoch of the input (an earlier shuffle reshuffles); after it every pass equals the first. */
#include <inttypes.h>

#include "pipeline/stage_order.h"
#include "pipeline/stage_walk.h"

typedef struct repeat {
  int64_t n; /* 0: endless */
  bool reseed;
} repeat_t;

static const int64_t LENGTH_MAX = INT64_C(1) << 62;

static mr_err_t repeat_plan(mr_stage_t *s) {
  const repeat_t *t = s->state;
  mr_spec_t *out = &s->out_spec[0];
  *out = s->in_spec[0];
  if (out->sequential) { /* n_records 0: unknown */
    if (__builtin_mul_overflow(out->n_records, t->n, &out->n_records)) out->n_records = 0;
    return MR_OK;
  }
  int64_t most = LENGTH_MAX / out->n_records / (out->n_epochs ? out->n_epochs : 1);
  if (t->n > most)
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting n = %" PRId64 ": %" PRId64
                         " records repeated that often are more than 2^62",
                         t->n, out->n_records);
  out->n_records *= t->n ? t->n : most;
  if (!t->n) out->n_epochs = 1;
  return MR_OK;
}

static mr_err_t repeat_order(mr_stage_t *s, int64_t position, mr_at_t *at) {
  const repeat_t *t = s->state;
  if (!t->reseed) at->index = position % s->in_spec[0].n_records;
  return MR_OK;
}

/* Without reseed the input's first epoch comes again and again. */
static mr_err_t repeat_taken(mr_stage_t *s, int port, int64_t index, int64_t from,
                             int64_t *position) {
  const repeat_t *t = s->state;
  int64_t n = s->in_spec[0].n_records;
  if (t->reseed) return mr_taken_in_place(s, port, index, from, position);
  if (index >= n) return MR_END;
  *position = from / n * n + index;
  if (*position < from) *position += n;
  return MR_OK;
}

static void repeat_spans(const mr_stage_t *s, int port, int64_t lo, int64_t hi, int64_t *first,
                         int64_t *end) {
  const repeat_t *t = s->state;
  *first = t->reseed ? lo : 0, *end = t->reseed ? hi : s->in_spec[0].n_records;
}

static mr_period_t repeat_period(const mr_stage_t *s, const mr_period_t *in) {
  const repeat_t *t = s->state;
  int64_t n = s->in_spec[0].n_records;
  if (t->reseed) return in[0];
  return (mr_period_t){in[0].n ? n : 0, true};
}

static mr_err_t repeat_next(mr_stage_t *s, mr_walk_t *w) {
  const repeat_t *t = s->state;
  int64_t *epoch = &mr_walk_words(w)[0];
  if (t->n && *epoch >= t->n) return MR_END;
  mr_err_t e = mr_walk_pull(w, 0);
  if (e != MR_END) return e;
  if (++*epoch == t->n) return MR_END;
  mr_walk_rewind(w, 0);
  return mr_walk_pull(w, 0); /* if it ends again, the stream is empty */
}

/* The length of a pass is known after one whole pass has been skipped. */
static mr_err_t repeat_skip(mr_stage_t *s, mr_walk_t *w, int64_t n) {
  const repeat_t *t = s->state;
  int64_t *epoch = &mr_walk_words(w)[0], done;
  if (t->n && *epoch >= t->n) return MR_END;
  for (bool whole = false;; whole = true) {
    mr_err_t e = mr_walk_skip_most(w, 0, n, &done);
    if (e < 0) return e;
    if (!(n -= done)) return MR_OK;
    if (whole && !done) return MR_END;
    int64_t more = whole ? (n - 1) / done : 0; /* passes between this one and the last */
    if (t->n && *epoch + 1 + more >= t->n) return MR_END;
    *epoch += 1 + more;
    n -= more * done;
    mr_walk_rewind(w, 0);
  }
}

static const mr_opt_t repeat_opts[] = {
    {.name = "n",
     .hint = "count times",
     .length = true,
     .type = MR_OPT_INT,
     .offset = offsetof(repeat_t, n),
     .unit = "times",
     .def = "0",
     .hi = 1e15,
     .help = "Number of repetitions; 0: endless.",
     .positional = 1},
    {.name = "reseed-each-epoch",
     .type = MR_OPT_BOOL,
     .offset = offsetof(repeat_t, reseed),
     .def = "true",
     .help = "false: all passes equal the first one, including shuffles and draws."},
    {0}};

const mr_stage_def_t mr_stage_repeat = {
    .name = "repeat",
    .help = "Repeats a stream several times within one epoch (grain's repeat).",
    .in = {{"in", MR_FLOW_RECORDS, false}},
    .out = {{"out", MR_FLOW_RECORDS, false}},
    .opts = repeat_opts,
    .state_sz = sizeof(repeat_t),
    .plan = repeat_plan,
    .order = &(const mr_order_def_t){.at = repeat_order,
                                     .period = repeat_period,
                                     .taken = repeat_taken,
                                     .spans = repeat_spans},
    .walk = &(const mr_walk_def_t){.next = repeat_next, .skip = repeat_skip, .n_words = 1},
};
