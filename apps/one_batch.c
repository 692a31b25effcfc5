#include "apps/one_batch.h"

#include <inttypes.h>

typedef struct taker {
  mr_take_fn take;
  void *ctx;
  bool taken;
} taker_t;

static mr_err_t taker_step(mr_stage_t *s) {
  taker_t *t = s->state;
  mr_buf_t *b = NULL;
  mr_diag_t why = {0};
  if (t->taken) return MR_END;
  mr_err_t e = mr_pull(s, 0, &b);
  if (e != MR_OK) return e;
  t->taken = true;
  e = t->take(t->ctx, &s->in_spec[0], b, &why);
  mr_buf_unref(b);
  return e < 0 ? mr_stage_fail(s, e, "%s", why.text) : MR_END;
}

static const mr_stage_def_t taker = {
    .name = "one-batch",
    .help = "Takes a single batch and ends.",
    .in = {{"in", MR_FLOW_BATCHES, false}},
    .state_sz = sizeof(taker_t),
    .step = taker_step,
};

/* Where the batch of a step begins in the order of the stage that makes batches. */
static mr_err_t start_at(mr_graph_t *g, const char *batch, int64_t step, mr_diag_t *diag) {
  const mr_spec_t *spec = &mr_graph_stage(g, batch)->out_spec[0];
  int64_t n = spec->n_batches, last = n * spec->n_epochs;
  if (step < 1 || (last && step > last))
    return mr_fail(diag, MR_ERR_CONFIG, "%s: step %" PRId64 ": the stream has steps 1 to %" PRId64,
                   batch, step, last);
  int64_t epoch = (step - 1) / n, i = (step - 1) % n;
  return mr_graph_start_at(g, batch, epoch * spec->n_records + i * spec->dim[0], diag);
}

static mr_err_t build(mr_graph_t *g, const char *stage, const char **name, const char **batch,
                      mr_diag_t *diag) {
  const char *last;
  if (!mr_graph_batches(g, &last))
    return mr_fail(diag, MR_ERR_USAGE, "the graph makes no batches: it has no batch stage");
  MR_TRY(mr_graph_only(g, stage ? stage : last, diag));
  *batch = mr_graph_batches(g, &last);
  if (!*batch)
    return mr_fail(diag, MR_ERR_USAGE, "%s: no batch stage stands there or before it", stage);
  MR_TRY(mr_graph_set(g, *batch, "workers", "1", diag)); /* more would make batches in vain */
  MR_TRY(mr_graph_set_depth(g, 2, diag));
  MR_TRY(mr_graph_add_def(g, &taker, NULL, name, diag));
  return mr_graph_link(g, stage ? stage : last, NULL, *name, NULL, diag);
}

mr_err_t mr_one_batch(mr_graph_t *g, const char *stage, int64_t step, mr_take_fn take, void *ctx,
                      mr_diag_t *diag) {
  const char *name = NULL, *batch = NULL;
  MR_TRY(build(g, stage, &name, &batch, diag));
  MR_TRY(mr_graph_settle(g, diag));
  MR_TRY(start_at(g, batch, step, diag));
  taker_t *t = mr_graph_stage(g, name)->state;
  *t = (taker_t){.take = take, .ctx = ctx};
  MR_TRY(mr_graph_run(g, diag));
  if (t->taken) return MR_OK;
  return mr_fail(diag, MR_ERR_CONFIG, "%s: the stream ends before step %" PRId64, batch, step);
}
