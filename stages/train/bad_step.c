/* Steps whose loss or gradients are not finite, or whose parameters, kept in f16 alone, would not
   be.

   The graph itself skips such a step (mr_optim_t.only_finite), so that parameters and slots are
   those of the last good step whenever the host reads them.  This file decides whether the run
   continues.  A run that ends does so in order: the step is taken back and does not count, a
   checkpoint holds the state before it, sinks write what they have, and the verdict makes the run
   fail. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "base/xio.h"
#include "pipeline/stage_step.h"
#include "stages/train/trace_step.h"
#include "stages/train/train_step_private.h"

/* Whether the step was not finite because of what it makes of the parameters. */
static bool bad_step_overflows(const mr_train_out_t *r) {
  return isfinite(r->loss) && isfinite(r->grad_norm) && r->bad > 0;
}

/* "the loss is nan", "the gradients' norm is inf" */
static void bad_step_name(const mr_train_out_t *r, char *text, size_t n) {
  bool loss = !isfinite(r->loss);
  if (bad_step_overflows(r)) {
    snprintf(text, n, "an updated parameter exceeds %.0f, the largest f16",
             (double)MR_TRAIN_F16_MOST);
    return;
  }
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

/* ---- on-nan=trace ---- */

enum { NOTICE_TEXT = 900 }; /* a notice has room for that many bytes beside its stage and step */

/* "records 20, 21, 22": the first of the batch, as `millrace who` names them. */
static void records_text(const mr_buf_t *b, char *text, size_t n) {
  enum { SHOWN = 8 };
  size_t at = (size_t)snprintf(text, n, "records");
  for (int i = 0; i < b->n && i < SHOWN && at < n; i++)
    at += (size_t)snprintf(text + at, n - at, "%s %" PRIu64, i ? "," : "", b->key[i]);
  if (b->n > SHOWN && at < n) snprintf(text + at, n - at, " and %d more", b->n - SHOWN);
}

/* "millrace replay PATH", as a shell reads it. */
static void replay_command(const char *path, char *text, size_t n) {
  static const char plain[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./,:=@%+-";
  bool quoted = path[strspn(path, plain)] != 0;
  size_t at = (size_t)snprintf(text, n, "millrace replay %s", quoted ? "'" : "");
  for (const char *c = path; *c && at < n; c++)
    at += (size_t)snprintf(text + at, n - at, *c == '\'' ? "'\\''" : "%c", *c);
  if (quoted && at < n) snprintf(text + at, n - at, "'");
}

/* Runs the step of f again, inspecting each value, and saves it in a file.  The step has been taken
   back.  Both may fail, and must then not hide why the run ends: their failures are notices. */
static void bad_step_trace(mr_stage_t *s, const mr__train_flight_t *f, const mr_train_out_t *r,
                           char *text, size_t n) {
  train_t *v = s->state;
  char path[MR_PATH_MAX], command[4 * MR_PATH_MAX + 32], records[256];
  mr_diag_t why = {0}, unsaved = {0};
  mr_traced_t found = {0};
  mr__traced_step_t t = {.loss = &v->model.plan.loss,
                         .config = v->used,
                         .params = &v->params,
                         .field = f->fields.field,
                         .in = {.step = r->step, .seed = v->at.seed, .lr = f->lr},
                         .scale = *mr_train_step_scale(v->step),
                         .fp8 = mr_train_step_fp8(v->step),
                         .n_records = f->batch->n,
                         .record = f->batch->key};
  if (s->out_linked[OUT_STATE] && mr_all_back(s, OUT_STATE) < 0) return;
  if (mr_train_step_fetch(v->step, &v->params, &why) < 0) {
    mr_notice("%s: step %" PRId64 " could not be traced: %s", s->name, r->step, why.text);
    return;
  }
  mr_train_batch_t here;
  mr__traced_step_t saved = t;
  mr_err_t e =
      mr_train_batch_fetch(&here, &f->fields, &s->in_spec[IN_TRAIN], t.loss, v->on, &unsaved);
  saved.field = here.field;
  records_text(f->batch, records, sizeof records);
  if (e >= 0) e = mr__replay_save(s, v->replay_dir ? v->replay_dir : "", &saved, r, path, &unsaved);
  mr_train_batch_fini(&here);
  if (e < 0) mr_notice("%s: no replay file: %s", s->name, unsaved.text);
  if (mr__trace_step(&t, NULL, &found, &why) < 0)
    mr_notice("%s: step %" PRId64 " could not be traced: %s", s->name, r->step, why.text);
  else if (!found.found && !bad_step_overflows(r))
    mr_notice("%s: step %" PRId64 " was finite when it ran again unfused: %s", s->name, r->step,
              v->on && !v->on->backend->host
                  ? "the device adds rows in another order then, and the sums are near the limits "
                    "of their dtype"
                  : "that is a defect of millrace; the replay file shows it");
  size_t at = 0;
  if (found.found) at = (size_t)snprintf(text, n, "; %s; %s", found.text, records);
  if (unsaved.code < 0) return;
  replay_command(path, command, sizeof command);
  if (at + strlen(command) + 3 <= n)
    snprintf(text + at, n - at, "; %s", command);
  else if (strlen(command) > NOTICE_TEXT)
    mr_notice("%s: step %" PRId64 ": the replay file is %s in the folder of replay-dir=", s->name,
              r->step, strrchr(path, '/') + 1);
  else /* a command that is cut is of no use */
    mr_notice("%s: step %" PRId64 ": %s", s->name, r->step, command);
}

/* ---- how a run ends ---- */

static const char *bad_step_help(const train_t *v, const mr_train_out_t *r) {
  bool row = v->on_nan == MR__ON_NAN_SKIP || (r->bad > 1 && !v->fixed_scale);
  if (v->on_nan == MR__ON_NAN_TRACE) return "";
  if (row) return "; max-skipped= allows more of them in a row";
  if (bad_step_overflows(r))
    return "; on-nan=trace names the parameter, master=f32 or param-dtype=bf16 has room for it, "
           "on-nan=skip continues without such steps, a lower lr may avoid it";
  return "; on-nan=trace says which op it comes from, on-nan=skip continues without such steps, a "
         "lower lr, clip-norm= or warmup= may avoid it";
}

/* The sentence that the run ends with.  The step has been taken back. */
static void bad_step_report(mr_stage_t *s, const mr__train_flight_t *f, const mr_train_out_t *r,
                            const char *what) {
  train_t *v = s->state;
  char row[96] = "", origin[768] = "";
  if (r->bad > 1)
    snprintf(row, sizeof row, ", as the %d steps before it were not finite", r->bad - 1);
  if (v->on_nan == MR__ON_NAN_TRACE) bad_step_trace(s, f, r, origin, sizeof origin);
  v->bad_step = r->step;
  snprintf(v->bad_note, sizeof v->bad_note, "step %" PRId64 ": %s", r->step, what);
  mr_fail(&v->bad, MR_ERR_DATA,
          "%s: step %" PRId64 ": %s%s (lr %.4g); parameters are those after step %" PRId64 "%s%s",
          s->name, r->step, what, row, (double)f->lr, r->step - 1, origin, bad_step_help(v, r));
}

/* A dynamic scale looks for the largest that does not overflow: gradients that do are its news. */
static bool is_of_scale(const train_t *v, const mr_train_out_t *r) {
  return !v->fixed_scale && isfinite(r->loss) && !bad_step_overflows(r);
}

/* The scale's state counts computations in resets, and steps in bad and skipped: those of a step
   that is run again are taken back. */
mr_err_t mr__train_redo(mr_stage_t *s, const mr__train_flight_t *f, mr_train_out_t *r) {
  train_t *v = s->state;
  const mr_train_in_t in = {.step = r->step, .seed = v->at.seed, .lr = f->lr};
  for (int64_t k = 0; k < v->redo_on_nan && !isfinite(r->grad_norm) && is_of_scale(v, r); k++) {
    mr_scale_state_t *now = mr_train_step_scale(v->step);
    now->bad--, now->skipped--;
    MR_TRY(mr_train_step_run(v->step, &v->params, f->fields.field, &in, s->diag));
    MR_TRY(mr_train_step_read(v->step, true, r, s->diag));
  }
  return MR_OK;
}

mr_err_t mr__train_look_at(mr_stage_t *s, const mr__train_flight_t *f, const mr_train_out_t *r) {
  train_t *v = s->state;
  char what[64];
  if (isfinite(r->loss) && isfinite(r->grad_norm) && !bad_step_overflows(r)) return MR_OK;
  bool skips = v->on_nan == MR__ON_NAN_SKIP || is_of_scale(v, r);
  bad_step_name(r, what, sizeof what);
  if (skips && r->bad <= v->max_skipped) {
    if (!is_of_scale(v, r)) say_skipped(s, r, what);
    return MR_OK;
  }
  mr_train_step_retake(v->step);
  bad_step_report(s, f, r, what);
  return MR_END;
}

mr_err_t mr__train_verdict(mr_stage_t *s) {
  const train_t *v = s->state;
  return mr_diag_relay(s->diag, v->bad.code, &v->bad);
}
