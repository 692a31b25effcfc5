/* limit: the first records of a stream, grain's LimitIterDataset.  It is a walk with one number of
   state, how many it has passed; to skip is to add to it and to let the input skip. */
#include "pipeline/stage_walk.h"

typedef struct limit {
  int64_t n;
} limit_t;

static mr_err_t limit_plan(mr_stage_t *s) {
  const limit_t *t = s->state;
  mr_spec_t *out = &s->out_spec[0];
  *out = s->in_spec[0];
  out->n_epochs = 1, out->n_records = t->n;
  return MR_OK;
}

static mr_err_t limit_next(mr_stage_t *s, mr_walk_t *w) {
  const limit_t *t = s->state;
  int64_t *given = &mr_walk_words(w)[0];
  if (*given >= t->n) return MR_END;
  mr_err_t e = mr_walk_pull(w, 0);
  *given += e == MR_OK;
  return e;
}

static mr_err_t limit_skip(mr_stage_t *s, mr_walk_t *w, int64_t n) {
  const limit_t *t = s->state;
  int64_t *given = &mr_walk_words(w)[0];
  if (n > t->n - *given) return MR_END;
  *given += n;
  return mr_walk_skip(w, 0, n);
}

static const mr_opt_t limit_opts[] = {{.name = "n",
                                       .hint = "count numrecords maxrecords numsamples numexamples",
                                       .type = MR_OPT_INT,
                                       .offset = offsetof(limit_t, n),
                                       .unit = "records",
                                       .lo = 1,
                                       .hi = 1e15,
                                       .help = "Most records to pass.",
                                       .positional = 1},
                                      {0}};

static const mr_walk_def_t limit_walk = {
    .next = limit_next,
    .skip = limit_skip,
    .one_each = true,
    .n_words = 1,
};

static const mr_hint_t limit_words[] = {
    {"take head", "limit 1000", "stage \"limit\" ends a stream after some records"}, {0}};

const mr_stage_def_t mr_stage_limit = {
    .name = "limit",
    .hint = limit_words,
    .help = "Ends a stream after n records (grain's LimitIterDataset).",
    .in = {{"in", MR_FLOW_RECORDS, false}},
    .out = {{"out", MR_FLOW_RECORDS, false}},
    .opts = limit_opts,
    .state_sz = sizeof(limit_t),
    .plan = limit_plan,
    .walk = &limit_walk,
};
