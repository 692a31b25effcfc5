/* null: discards any input, counts its buffers and keeps the ledger of batches.  It ends graphs
   whose batches no stage uses: what remains is the time that making them takes, and proof that they
   were the same. */
#include <stdio.h>

#include "base/ledger.h"
#include "pipeline/stage_step.h"

typedef struct null {
  int64_t buffers, records, limit;
  uint64_t ledger;
} null_t;

static const mr_opt_t null_opts[] = {
    {.name = "limit",
     .type = MR_OPT_INT,
     .offset = offsetof(null_t, limit),
     .unit = "buffers",
     .def = "0",
     .lo = 0,
     .hi = 1e15,
     .help = "Ends after this many buffers; 0: never."},
    {0},
};

static void null_take_one(null_t *t, mr_flow_t flow, mr_buf_t *b) {
  if (flow == MR_FLOW_BATCHES) {
    t->ledger = mr_ledger_step(t->ledger, t->buffers + 1, b->key, b->draw, b->n, 0);
    t->records += b->n;
  }
  t->buffers++;
  mr_buf_unref(b);
}

static mr_err_t null_step(mr_stage_t *s) {
  null_t *t = s->state;
  mr_buf_t *b[MR_BURST];
  size_t want = MR_BURST;
  if (t->limit && t->limit - t->buffers < MR_BURST) want = (size_t)(t->limit - t->buffers);
  if (!want) return MR_END;
  size_t k = mr_take(s, 0, b, want);
  for (size_t i = 0; i < k; i++) null_take_one(t, s->in_spec[0].flow, b[i]);
  return k ? MR_OK : mr_idle(s);
}

static void null_report(mr_stage_t *s, char *text, size_t n) {
  const null_t *t = s->state;
  if (s->in_spec[0].flow == MR_FLOW_BATCHES)
    snprintf(text, n, "%lld batches, %lld records, ledger %016llx", (long long)t->buffers,
             (long long)t->records, (unsigned long long)t->ledger);
  else
    snprintf(text, n, "%lld buffers", (long long)t->buffers);
}

static const mr_hint_t null_words[] = {
    {"fakesink sink devnull", "null", "stage \"null\" takes everything"}, {0}};

const mr_stage_def_t mr_stage_null = {
    .name = "null",
    .role = MR_ROLE_DISCARD,
    .hint = null_words,
    .help = "Discards its input; keeps only a count and a ledger.",
    .in = {{"in", MR_FLOW_NONE, false}},
    .opts = null_opts,
    .state_sz = sizeof(null_t),
    .step = &(const mr_step_def_t){.run = null_step},
    .report = null_report,
};
