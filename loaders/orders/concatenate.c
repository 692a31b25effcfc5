/* concatenate: one stream after another, grain's MapDataset.concatenate.  Over streams that are
   functions of a position it is one too, by subtraction of lengths; over walks it is a walk that
   remembers which part it is in. */
#include <inttypes.h>
#include <stdlib.h>

#include "loaders/orders/inputs.h"
#include "pipeline/stage_order.h"
#include "pipeline/stage_walk.h"

typedef struct concatenate {
  int n;
  int64_t *before; /* [n + 1] records of an epoch before each input; from plan to forget */
  mr_inputs_t inputs;
} concatenate_t;

static int64_t length_of(const concatenate_t *t, int i) { return t->before[i + 1] - t->before[i]; }

static mr_err_t concatenate_plan(mr_stage_t *s) {
  concatenate_t *t = s->state;
  MR_TRY(mr_inputs_plan(s, &t->n));
  MR_TRY(mr_inputs_alike(s, t->n));
  MR_TRY(mr_inputs_join_classes(s, t->n, &t->inputs));
  t->before = calloc((size_t)t->n + 1, sizeof *t->before);
  if (!t->before) return mr_stage_no_memory(s, "%d inputs", t->n);
  for (int i = 0; i < t->n; i++) {
    int64_t length = s->in_spec[i].n_records;
    if (length > INT64_C(1) << 59)
      return mr_stage_fail(s, MR_ERR_CONFIG, "input %s has %" PRId64 " records and never ends",
                           s->in_name[i], length);
    if (length > (INT64_C(1) << 62) - t->before[i])
      return mr_stage_fail(s, MR_ERR_CONFIG,
                           "input %s has %" PRId64
                           " records: with those before it they are more "
                           "than 2^62; take fewer",
                           s->in_name[i], length);
    t->before[i + 1] = t->before[i] + length;
  }
  s->out_spec[0].n_records = t->before[t->n];
  return MR_OK;
}

/* Epoch e of the whole is epoch e of each part. */
static mr_err_t concatenate_order(mr_stage_t *s, int64_t position, mr_at_t *at) {
  const concatenate_t *t = s->state;
  int64_t n = s->out_spec[0].n_records, epoch = position / n, i = position % n;
  int p = 0, end = t->n; /* the last p with before[p] <= i */
  while (p + 1 < end) {
    int middle = p + (end - p) / 2;
    *(t->before[middle] <= i ? &p : &end) = middle;
  }
  at->port = p;
  at->index = i - t->before[p] + epoch * length_of(t, p);
  return MR_OK;
}

static mr_err_t concatenate_taken(mr_stage_t *s, int port, int64_t index, int64_t from,
                                  int64_t *position) {
  const concatenate_t *t = s->state;
  int64_t each = length_of(t, port), epochs;
  if (!each || __builtin_mul_overflow(index / each, s->out_spec[0].n_records, &epochs) ||
      __builtin_add_overflow(epochs, t->before[port] + index % each, position))
    return MR_END;
  return *position >= from ? MR_OK : MR_END;
}

static void concatenate_spans(const mr_stage_t *s, int port, int64_t lo, int64_t hi, int64_t *first,
                              int64_t *end) {
  mr_span_epochs(s->out_spec[0].n_records, length_of(s->state, port), lo, hi, first, end);
}

static mr_err_t concatenate_next(mr_stage_t *s, mr_walk_t *w) {
  int64_t *part = &mr_walk_words(w)[0];
  for (; *part < mr_walk_n_below(w); ++*part) {
    mr_err_t e = mr_walk_pull(w, (int)*part);
    if (e != MR_END) return e;
  }
  return MR_END;
}

static mr_err_t concatenate_skip(mr_stage_t *s, mr_walk_t *w, int64_t n) {
  int64_t *part = &mr_walk_words(w)[0];
  for (; *part < mr_walk_n_below(w); ++*part) {
    int64_t done;
    mr_err_t e = mr_walk_skip_most(w, (int)*part, n, &done);
    if (e < 0) return e;
    if (!(n -= done)) return MR_OK;
  }
  return MR_END;
}

/* An epoch consists of one epoch of each part. */
static mr_period_t concatenate_period(const mr_stage_t *s, const mr_period_t *in) {
  const concatenate_t *t = s->state;
  mr_period_t out = {s->out_spec[0].n_records, true};
  for (int i = 0; i < t->n; i++) {
    if (!in[i].n || length_of(t, i) % in[i].n) return (mr_period_t){0};
    out.ordered &= in[i].ordered;
  }
  return out;
}

static const mr_walk_def_t concatenate_walk = {
    .next = concatenate_next,
    .skip = concatenate_skip,
    .n_words = 1,
};

static void concatenate_forget(mr_stage_t *s) {
  concatenate_t *t = s->state;
  free(t->before), t->before = NULL;
  mr_inputs_forget(&t->inputs);
}

static const mr_hint_t concatenate_words[] = {
    {"chain concat chaindataset concatdataset", "concatenate", NULL}, {0}};

const mr_stage_def_t mr_stage_concatenate = {
    .name = "concatenate",
    .hint = concatenate_words,
    .help = "Passes one stream after the other (grain's MapDataset.concatenate).",
    .in = MR_RECORD_INPUTS,
    .out = {{"out", MR_FLOW_RECORDS, false}},
    .state_sz = sizeof(concatenate_t),
    .plan = concatenate_plan,
    .forget = concatenate_forget,
    .order = &(const mr_order_def_t){.at = concatenate_order,
                                     .period = concatenate_period,
                                     .taken = concatenate_taken,
                                     .spans = concatenate_spans},
    .walk = &concatenate_walk,
};
