/* Validations: when one is due beside those after epochs, and whether training ends because they
   no longer become better.

   The best one and the misses since are in each checkpoint, so that a resumed run ends where the
   whole one does.  What follows from the clock does not change what a step computes. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "model/exec/process_ranks.h"
#include "stages/train/train_step_private.h"

/* The input whose records stop-by names must be there, else no validation would ever count. */
static mr_err_t check_stop_input(mr_stage_t *s) {
  const train_t *v = s->state;
  size_t n = (size_t)(strrchr(v->stop_on.name, '/') - v->stop_on.name);
  char there[512] = "";
  for (int port = 0; port < s->n_in; port++) {
    const char *name = s->in_name[port];
    if (port != IN_VALID && port < IN_MORE_VALID) continue;
    if (!s->in_linked[port] || !name) continue;
    if (strlen(name) == n && !strncmp(name, v->stop_on.name, n)) return MR_OK;
    size_t at = strlen(there);
    snprintf(there + at, sizeof there - at, "%s %s", at ? "," : "", name);
  }
  return mr_stage_fail(s, MR_ERR_CONFIG,
                       "setting stop-after = %" PRId64
                       ": stop-by = %s asks for input %.*s, and inputs of held-back records are%s; "
                       "want one of them in stop-by=INPUT/METRIC, or a link to that input",
                       v->stop_after, v->stop_by, (int)n, v->stop_on.name,
                       *there ? there : " none");
}

mr_err_t mr__train_judge_plan(mr_stage_t *s) {
  train_t *v = s->state;
  MR_TRY(mr_judged_by(s, "stop-by", v->stop_by, &v->metrics.list, &v->stop_on));
  const mr_process_ranks_t *ranks = mr_process_ranks();
  /* Of ranks that are processes the first one evaluates alone, and tells the others. */
  return v->stop_after && (!ranks || !ranks->rank) ? check_stop_input(s) : MR_OK;
}

/* Takes over what the checkpoint says of its validation, so that a state of the same step says it
   too, and forgets the best by another number than stop-by's. */
static mr_err_t judge_resume(train_t *v, mr_diag_t *diag) {
  char by[sizeof v->stop_on.name];
  MR_TRY(mr_train_state_text(v->resume, MR_TRAIN_BEST_BY, by, sizeof by, diag));
  if (strcmp(by, v->stop_on.name) != 0) v->at.best = (mr_train_best_t){0};
  if (v->at.unvalidated) return MR_OK;
  MR_TRY(mr_train_state_text(v->resume, MR_STATE_JUDGED, v->judged, sizeof v->judged, diag));
  if (v->judged[0]) v->judged_step = v->at.step;
  return MR_OK;
}

mr_err_t mr__train_judge_open(mr_stage_t *s) {
  train_t *v = s->state;
  mr_diag_t why = {0};
  v->judged[0] = 0, v->judged_step = -1;
  v->at.best_by = v->stop_on.name;
  v->valid_t0 = v->saved_t0 = mr_now_s();
  return v->resume ? mr_stage_relay(s, judge_resume(v, &why), &why) : MR_OK;
}

bool mr__train_valid_due(const mr_stage_t *s, int64_t step) {
  const train_t *v = s->state;
  return v->validate_every && step % v->validate_every == 0;
}

static bool minutes_are_over(double minutes, double since) {
  return minutes > 0 && mr_now_s() - since >= 60 * minutes;
}

bool mr__train_validates(const mr_stage_t *s) {
  bool any = s->in_linked[IN_VALID];
  for (int port = IN_MORE_VALID; port < s->n_in && !any; port++) any = s->in_linked[port];
  return any;
}

bool mr__train_valid_late(const mr_stage_t *s) {
  const train_t *v = s->state;
  return mr__train_validates(s) && minutes_are_over(v->validate_minutes, v->valid_t0);
}

bool mr__train_state_late(const mr_stage_t *s) {
  const train_t *v = s->state;
  return s->out_linked[OUT_STATE] && minutes_are_over(v->checkpoint_minutes, v->saved_t0);
}

void mr__train_judge(mr_stage_t *s) {
  train_t *v = s->state;
  mr_train_best_t *best = &v->at.best;
  double value;
  v->judged_step = v->at.step, v->valid_t0 = mr_now_s();
  if (!mr_judged_find(&v->stop_on, v->judged, &value)) {
    best->misses += best->known; /* not finite, or no records */
    return;
  }
  if (!best->known || mr_judged_better(&v->stop_on, value, best->value, v->stop_delta))
    *best = (mr_train_best_t){.known = true, .value = value, .step = v->at.step};
  else
    best->misses++;
}

bool mr__train_has_settled(const mr_stage_t *s, char *why, size_t n) {
  const train_t *v = s->state;
  const mr_train_best_t *best = &v->at.best;
  if (!v->stop_after || best->misses < v->stop_after) return false;
  if (why)
    mr_snprintf(why, n,
                "ended early: %.80s was best at step %" PRId64 ", %.6g, and no better in %" PRId64
                " validations since",
                v->stop_on.name, best->step, best->value, best->misses);
  return true;
}
