/* Steps whose loss or gradients are not finite.

   The graph itself leaves such a step out (mr_optim_t.only_finite), so that parameters and slots
   are those of the last good step whenever the host looks.  What is decided here is whether the run
   continues.  A run that ends does so in order: the step is taken back and does not count, a
   checkpoint holds the state before it, sinks write what they have, and the verdict makes the run
   fail. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/notice.h"
#include "base/number.h"
#include "pipeline/stage_step.h"
#include "stages/train/train_step_private.h"

/* "the loss is nan", "the gradients' norm is inf" */
static void bad_step_name(const mr_train_out_t *r, char *text, size_t n) {
  bool loss = !isfinite(r->loss);
  float v = loss ? r->loss : r->grad_norm;
  snprintf(text, n, "%s is %s", loss ? "the loss" : "the gradients' norm",
           isnan(v) ? "nan"
           : v > 0  ? "inf"
                    : "-inf");
}

static void say_skipped(mr_stage_t *s, const mr_train_out_t *r, const char *what) {
  train_t *v = s->state;
  if (v->bad_said) return;
  v->bad_said = true;
  mr_notice("%s: step %" PRId64
            ": %s; its update is skipped (on-nan=skip), and so are those of "
            "later steps like it, up to max-skipped=%" PRId64
            " in a row; metric skipped_steps "
            "counts them",
            s->name, r->step, what, v->max_skipped);
}

/* The sentence that the run ends with. */
static void bad_step_tell(mr_stage_t *s, const mr__train_flight_t *f, const mr_train_out_t *r,
                          const char *what) {
  train_t *v = s->state;
  char row[96] = "";
  const char *help = "";
  if (r->bad > 1)
    snprintf(row, sizeof row, ", as the %d steps before it were not finite", r->bad - 1);
  if (v->on_nan == MR__ON_NAN_STOP)
    help =
        "; a lower lr, clip-norm= or warmup= may avoid it, on-nan=skip continues without such "
        "steps";
  if (v->on_nan == MR__ON_NAN_SKIP || (r->bad > 1 && !v->fixed_scale))
    help = "; max-skipped= allows more of them in a row";
  snprintf(v->bad_note, sizeof v->bad_note, "step %" PRId64 ": %s", r->step, what);
  mr_fail(&v->bad, MR_ERR_DATA,
          "%s: step %" PRId64
          ": %s%s (lr %.4g); the step is not applied, parameters are those "
          "after step %" PRId64 "%s",
          s->name, r->step, what, row, (double)f->lr, r->step - 1, help);
}

/* A dynamic scale looks for the largest that does not overflow: gradients that do are its news. */
static bool is_of_scale(const train_t *v, const mr_train_out_t *r) {
  return !v->fixed_scale && isfinite(r->loss);
}

mr_err_t mr__train_look_at(mr_stage_t *s, const mr__train_flight_t *f, const mr_train_out_t *r) {
  train_t *v = s->state;
  char what[64];
  if (isfinite(r->loss) && isfinite(r->grad_norm)) return MR_OK;
  bool skips = v->on_nan == MR__ON_NAN_SKIP || is_of_scale(v, r);
  bad_step_name(r, what, sizeof what);
  if (skips && r->bad <= v->max_skipped) {
    if (!is_of_scale(v, r)) say_skipped(s, r, what);
    return MR_OK;
  }
  bad_step_tell(s, f, r, what);
  mr_train_step_retake(v->step);
  return MR_END;
}

mr_err_t mr__train_verdict(mr_stage_t *s) {
  const train_t *v = s->state;
  return v->bad.code < 0 ? mr_fail(s->diag, v->bad.code, "%s", v->bad.text) : MR_OK;
}
