/* Appends a private stage to a graph that passes its batches to a function, for the commands that
   look at batches (batch, who, leak-check).  It seeks the first batch wanted; only where batches do
   not follow from their number are the earlier ones produced and dropped. */
#include "apps/run/take_batches.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/run/resume.h"
#include "base/err.h"
#include "pipeline/stage_step.h"

typedef struct taker {
  mr_batches_t want;
  int64_t drop; /* batches still to drop before the first one */
  int64_t taken;
} taker_t;

static mr_err_t taker_step(mr_stage_t *s) {
  taker_t *t = s->state;
  mr_buf_t *b = NULL;
  mr_diag_t why = {0};
  if (t->want.n && t->taken == t->want.n) return MR_END;
  mr_err_t e = mr_pull(s, 0, &b);
  if (e != MR_OK) return e;
  if (t->drop)
    t->drop--;
  else
    e = t->want.take(t->want.ctx, &s->in_spec[0], t->want.first + t->taken++, b, &why);
  mr_buf_unref(b);
  return mr_diag_relay(s->diag, e, &why);
}

static const mr_stage_def_t taker = {.name = "take-batches",
                                     .help = "Hands batches to the program.",
                                     .in = {{"in", MR_FLOW_BATCHES, false}},
                                     .state_sz = sizeof(taker_t),
                                     .step = &(const mr_step_def_t){.run = taker_step}};

/* Starts the stage that makes batches at the first step.  After a stage whose batches do not follow
   from their number, all are produced from the first on, and *drop of them are dropped. */
static mr_err_t start_at(mr_graph_t *g, const char *batch, const char *name,
                         const mr_batches_t *want, int64_t *drop, mr_diag_t *diag) {
  int64_t step = want->first;
  const mr_spec_t *made = &mr_graph_stage(g, batch)->out_spec[0];
  const mr_spec_t *taken = &mr_graph_stage(g, name)->in_spec[0];
  int64_t last = taken->n_batches * taken->n_epochs; /* 0: endless or unknown */
  if (last) last += taken->ahead;
  if (step < 1 || (last && step > last))
    return mr_fail(diag, MR_ERR_CONFIG, "%s: step %" PRId64 ": the stream has steps 1 to %" PRId64,
                   batch, step, last);
  bool found = false, same = made->n_batches == taken->n_batches && made->batch == taken->batch;
  MR_TRY(mr_graph_seek(g, name, step - 1, &found, diag));
  *drop = found || same ? 0 : step - 1;
  return !found && same ? mr_graph_start_number(g, batch, step - 1, diag) : MR_OK;
}

/* Stages that keep what batches hold keep nothing of these: their files are the run's. */
static mr_err_t keep_no_ledger(mr_graph_t *g, mr_diag_t *diag) {
  static const char *const file[] = {"path", "state"};
  for (int i = 0; i < mr_graph_n_stages(g); i++) {
    const mr_stage_t *s = mr_graph_stage_at(g, i);
    for (int k = 0; k < 2 && s->def->role == MR_ROLE_LEDGER; k++)
      if (mr_stage_def_opt(s->def, file[k])) MR_TRY(mr_graph_set(g, s->name, file[k], "", diag));
  }
  return MR_OK;
}

static mr_err_t take_batches_build(mr_graph_t *g, const mr_batches_t *want, const char **name,
                                   const char **batch, mr_diag_t *diag) {
  const char *last, *stage = want->stage ? mr_graph_on_host(g, want->stage) : NULL;
  char workers[12];
  if (want->stage && !stage) stage = want->stage; /* mr_graph_only says what it is not */
  if (!mr_graph_batches(g, &last))
    return mr_fail(diag, MR_ERR_USAGE, "the graph makes no batches: it has no batch stage");
  MR_TRY(mr_graph_only(g, stage ? stage : last, diag));
  MR_TRY(keep_no_ledger(g, diag));
  *batch = mr_graph_batches(g, &last);
  if (!*batch)
    return mr_fail(diag, MR_ERR_USAGE, "%s: there is no batch stage at or before it", stage);
  snprintf(workers, sizeof workers, "%d", want->workers ? want->workers : 1);
  MR_TRY(mr_graph_set(g, *batch, "workers", workers, diag));
  MR_TRY(mr_graph_set_depth(g, 2, diag));
  MR_TRY(mr_graph_add_def(g, &taker, NULL, name, diag));
  return mr_graph_link(g, stage ? stage : last, NULL, *name, NULL, diag);
}

static mr_err_t say_other_data(const mr_graph_t *g, const mr_batches_t *want, mr_diag_t *diag) {
  char was[512], now[512], *facts = mr_data_facts(g);
  if (!facts) return mr_no_memory(diag, "facts of the data");
  for (int i = 0; i < mr_graph_n_stages(g); i++) {
    const char *name = mr_graph_stage_at(g, i)->name;
    if (mr_data_facts_of(want->data, name, was, sizeof was) &&
        mr_data_facts_of(facts, name, now, sizeof now) && strcmp(was, now) != 0)
      mr_notice("the data of stage %s are not those of step %" PRId64
                ", whose records may have been others: %s then, %s now",
                name, want->first, was, now);
  }
  free(facts);
  return MR_OK;
}

/* *found false: it cannot tell, and walks has been called. */
static mr_err_t find_places_in(mr_graph_t *g, const char *stage, const mr_batches_t *want,
                               bool *found, mr_diag_t *diag) {
  mr_find_t find = want->find;
  char why[256] = "";
  find.first = want->first - 1, find.end = want->n ? find.first + want->n : INT64_MAX;
  MR_TRY(mr_graph_find(g, stage, &find, why, sizeof why, diag));
  *found = !*why;
  if (!*found) want->walks(want->ctx, why);
  return MR_OK;
}

mr_err_t mr_take_batches(mr_graph_t *g, const mr_batches_t *want, mr_diag_t *diag) {
  const char *name = NULL, *batch = NULL;
  int64_t drop = 0;
  MR_TRY(take_batches_build(g, want, &name, &batch, diag));
  MR_TRY(mr_graph_settle(g, diag));
  if (want->data) MR_TRY(say_other_data(g, want, diag));
  if (want->ready && !want->ready(want->ctx, g)) return MR_OK;
  MR_TRY(start_at(g, batch, name, want, &drop, diag));
  bool found = false;
  if (want->find.found) MR_TRY(find_places_in(g, name, want, &found, diag));
  if (found) return MR_OK;
  taker_t *t = mr_graph_stage(g, name)->state;
  *t = (taker_t){.want = *want, .drop = drop};
  MR_TRY(mr_graph_run(g, diag));
  if (t->taken) return MR_OK;
  return mr_fail(diag, MR_ERR_CONFIG, "%s: the stream ends before step %" PRId64, batch,
                 want->first);
}
