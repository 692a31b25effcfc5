/* Watches a run for trouble and reports each kind once: a loss that is not finite or no longer
   falls, a training stage that waits for data, a rate that has dropped, a disk that is nearly full.
   It runs a command, sends a POST request, or makes the run fail at its end. */
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/feature.h"
#include "base/halt.h"
#include "base/text.h"
#include "metrics/report.h"
#include "pipeline/stage_step.h"
#include "sinks/alert_post.h"
#include "sinks/resume.h"

enum { SETTLE = 20, COMMAND_MS = 10000 };
static const double lower = 1e-3; /* share by which the loss must fall to count as lower */
enum { NAN_LOSS, PLATEAU, STALL, SLOW, DISK, KINDS };
static const char *const kind_name[] = {"nan", "plateau", "stall", "slow", "disk"};

typedef struct alert {
  bool nan, fail;
  int64_t plateau;
  double stall, slow, disk;
  const char *command, *webhook;
  int64_t until; /* last step that was reported before a resume */

  int64_t steps, best_step;
  double mean, best;      /* loss, smoothed; its lowest */
  double rate, best_rate; /* images/s, likewise */
  bool reported[KINDS];
  int n_reported;
  char first[400];
} alert_t;

#define AT(field) offsetof(alert_t, field)
static const mr_opt_t alert_opts[] = {
    {.name = "nan",
     .type = MR_OPT_BOOL,
     .offset = AT(nan),
     .def = "true",
     .help = "Alerts if the loss is not finite, or a step that is not ends the run (on-nan)."},
    {.name = "plateau",
     .type = MR_OPT_INT,
     .offset = AT(plateau),
     .unit = "steps",
     .def = "0",
     .hi = 1e12,
     .help = "Alerts if the smoothed loss has had no new minimum for this many steps; 0: never."},
    {.name = "stall",
     .type = MR_OPT_F64,
     .offset = AT(stall),
     .def = "0",
     .hi = 1,
     .help = "Alerts if the training stage waits for data for this share of its time; 0: never."},
    {.name = "slow",
     .type = MR_OPT_F64,
     .offset = AT(slow),
     .def = "0",
     .hi = 1,
     .help = "Alerts if the smoothed images/s fall below this share of their best; 0: never."},
    {.name = "disk",
     .type = MR_OPT_F64,
     .offset = AT(disk),
     .unit = "bytes",
     .def = "1e9",
     .hi = 1e18,
     .help = "Alerts if the disk of the run has less free space than this (needs telemetry before "
             "it); 0: never."},
    {.name = "command",
     .type = MR_OPT_SECRET,
     .offset = AT(command),
     .def = "",
     .help = "Shell command to run; MILLRACE_ALERT, MILLRACE_STEP and MILLRACE_TEXT are set for "
             "it; a graph's text has $$ for a dollar."},
    {.name = "webhook",
     .type = MR_OPT_SECRET,
     .offset = AT(webhook),
     .def = "",
     .help =
         "URL that receives a POST request with the alert as JSON; needs a build with libcurl."},
    {.name = "fail",
     .type = MR_OPT_BOOL,
     .offset = AT(fail),
     .def = "false",
     .help = "Makes the run fail at its end."},
    MR_RESUME_REPORTED_OPT(AT(until)),
    {0}};

/* ---- reporting ---- */

/* Starts the shell with the default SIGPIPE and SIGXFSZ, which the run itself ignores so that its
   writes fail instead. */
static int spawn_shell(pid_t *pid, char **argv, char **env) {
  posix_spawnattr_t as;
  sigset_t usual;
  sigemptyset(&usual);
  sigaddset(&usual, SIGPIPE), sigaddset(&usual, SIGXFSZ);
  posix_spawnattr_init(&as);
  posix_spawnattr_setsigdefault(&as, &usual);
  posix_spawnattr_setflags(&as, POSIX_SPAWN_SETSIGDEF);
  int e = posix_spawn(pid, "/bin/sh", NULL, &as, argv, env);
  posix_spawnattr_destroy(&as);
  return e;
}

/* Runs the command and waits for it, but at most COMMAND_MS, and not once the run is to end: then
   it runs on unattended, so that it cannot block the stage. */
static void run_command(const alert_t *a, const char *kind, int64_t step, const char *text) {
  char set[3][400], *argv[] = {"sh", "-c", (char *)(uintptr_t)a->command, NULL};
  int n = 0, status;
  while (environ[n]) n++;
  char **env = calloc((size_t)n + 4, sizeof *env);
  if (!env) return;
  snprintf(set[0], sizeof set[0], "MILLRACE_ALERT=%s", kind);
  snprintf(set[1], sizeof set[1], "MILLRACE_STEP=%" PRId64, step);
  snprintf(set[2], sizeof set[2], "MILLRACE_TEXT=%s", text);
  for (int i = 0; i < 3; i++) env[i] = set[i];
  memcpy(env + 3, environ, (size_t)n * sizeof *env);
  pid_t pid;
  if (spawn_shell(&pid, argv, env) == 0)
    for (int ms = 0; ms < COMMAND_MS && waitpid(pid, &status, WNOHANG) == 0; ms += 10)
      if (!mr_halt_pause(10000000)) break;
  free(env);
}

static void alert_send(alert_t *a, int kind, int64_t step, const char *what) {
  char text[320];
  if (a->reported[kind]) return;
  a->reported[kind] = true;
  snprintf(text, sizeof text, "%s", what);
  if (mr_resume_was_reported(a->until, "step", step))
    snprintf(text, sizeof text, "%s (repeating until step %" PRId64 ")", what, a->until);
  mr_notice("alert: %s at step %" PRId64 ": %s", kind_name[kind], step, text);
  if (!a->n_reported++)
    snprintf(a->first, sizeof a->first, "%s at step %" PRId64 ": %s", kind_name[kind], step, text);
  if (a->command[0]) run_command(a, kind_name[kind], step, text);
  mr_diag_t why = {0};
  if (a->webhook[0] && mr_alert_post(a->webhook, kind_name[kind], step, text, &why) < 0)
    mr_notice("alert: %s", why.text);
}

/* ---- detecting ---- */

static double smooth_mean(double mean, double v, int64_t n) {
  double by = n < SETTLE ? 1.0 / (double)n : 1.0 / SETTLE;
  return mean + (v - mean) * by;
}

static void look_at_loss(alert_t *a, const mr_report_t *r) {
  char text[128];
  double loss = mr_report_get(r, MR_METRIC_OWN(LOSS), 0);
  if (!isfinite(loss)) {
    mr_snprintf(text, sizeof text, "the loss is %g", loss);
    if (a->nan) alert_send(a, NAN_LOSS, r->step, text);
    return;
  }
  a->mean = smooth_mean(a->mean, loss, a->steps);
  if (a->steps <= SETTLE || a->best - a->mean > lower * fabs(a->best))
    a->best = a->mean, a->best_step = r->step;
  mr_snprintf(text, sizeof text,
              "the loss, smoothed %.4g, has been no lower than %.4g since step %" PRId64, a->mean,
              a->best, a->best_step);
  if (a->plateau && r->step - a->best_step >= a->plateau) alert_send(a, PLATEAU, r->step, text);
}

static void look_at_rate(alert_t *a, const mr_report_t *r) {
  char text[128];
  a->rate = smooth_mean(a->rate, mr_report_get(r, MR_METRIC_OWN(IMAGES_PER_S), 0), a->steps);
  if (a->steps < SETTLE) return;
  if (a->rate > a->best_rate) a->best_rate = a->rate;
  mr_snprintf(text, sizeof text, "%.4g images/s, the best was %.4g", a->rate, a->best_rate);
  if (a->slow > 0 && a->rate < a->slow * a->best_rate) alert_send(a, SLOW, r->step, text);
}

static void look_at_measured(alert_t *a, const mr_report_t *r) {
  char text[128];
  double free_bytes = mr_report_get(r, MR_METRIC_OWN(DISK_FREE_BYTES), -1);
  for (size_t i = 0; i < r->n_stages && a->stall > 0; i++) {
    const mr_stage_use_t *st = &r->stage[i];
    if (!st->trains || st->starved < a->stall) continue;
    mr_snprintf(text, sizeof text, "%s waits for data for %.0f %% of its time", st->name,
                100 * st->starved);
    alert_send(a, STALL, r->step, text);
  }
  mr_snprintf(text, sizeof text, "%.3g bytes are free", free_bytes);
  if (a->disk > 0 && free_bytes >= 0 && free_bytes < a->disk) alert_send(a, DISK, r->step, text);
}

static mr_err_t alert_step(mr_stage_t *s) {
  alert_t *a = s->state;
  mr_buf_t *b;
  if (!mr_take(s, 0, &b, 1)) return mr_idle(s);
  const mr_report_t *r = b->data;
  if (r->kind == MR_REPORT_STEP && !r->skipped) { /* a skipped step has no numbers */
    a->steps++;
    look_at_loss(a, r);
    look_at_rate(a, r);
  }
  if (r->bad_step > 0 && a->nan) alert_send(a, NAN_LOSS, r->bad_step, r->note);
  if (mr_report_is_numbers(r) && r->n_stages) look_at_measured(a, r);
  mr_buf_unref(b);
  return MR_OK;
}

static mr_err_t alert_verdict(mr_stage_t *s) {
  const alert_t *a = s->state;
  return a->fail && a->n_reported ? mr_stage_fail(s, MR_ERR_DATA, "%s", a->first) : MR_OK;
}

static mr_err_t alert_plan(mr_stage_t *s) {
  const char *to = ((const alert_t *)s->state)->webhook;
  mr_diag_t why = {0};
  if (*to && !mr_built_in("CURL"))
    return mr_stage_relay(s, mr_without(&why, "webhook", "CURL"), &why);
  if (!*to || !strncasecmp(to, "http://", 7) || !strncasecmp(to, "https://", 8)) return MR_OK;
  return mr_stage_fail(s, MR_ERR_CONFIG,
                       "webhook: want an address that begins with http:// or https://");
}

static void alert_report(mr_stage_t *s, char *text, size_t n) {
  const alert_t *a = s->state;
  if (a->n_reported) snprintf(text, n, "%d, first: %s", a->n_reported, a->first);
}

static const mr_hint_t alert_words[] = {
    {"earlystopping", "alert plateau=2000 fail", "stage \"alert\" watches the loss"}, {0}};

const mr_stage_def_t mr_stage_alert = {
    .name = "alert",
    .hint = alert_words,
    .help = "Runs a command, sends a POST request, or fails the run when a run goes wrong.",
    .in = {{.name = "metrics", .flow = MR_FLOW_METRICS, .lossy = true}},
    .opts = alert_opts,
    .state_sz = sizeof(alert_t),
    .plan = alert_plan,
    .step = &(const mr_step_def_t){.run = alert_step},
    .verdict = alert_verdict,
    .report = alert_report,
};
