/* Summarises a run by reading its metrics line by line.  The judged numbers of a record are those
   whose names the table of metrics leaves to models. */
#include "apps/run/run_info.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/metric.h"
#include "base/text.h"
#include "base/xio.h"
#include "metrics/report.h"

const cJSON *mr_judged(const cJSON *record, const cJSON *after) {
  for (const cJSON *at = after ? after->next : record->child; at; at = at->next)
    if ((cJSON_IsNumber(at) || cJSON_IsNull(at)) && mr_metric_is_judged_key(at->string)) return at;
  return NULL;
}

void mr_judged_text(const cJSON *record, const char *before, char *text, size_t size) {
  size_t used = 0, left = 0;
  text[0] = 0;
  for (const cJSON *at = NULL; (at = mr_judged(record, at));) {
    char name[64], one[128];
    mr_printable_cell(at->string, sizeof name, name, sizeof name);
    for (char *c = name; *c; c++) *c = *c == '_' ? ' ' : *c;
    int n = mr_snprintf(one, sizeof one, "%s%s %.4f", before, name,
                        cJSON_IsNumber(at) ? at->valuedouble : NAN);
    bool fits = !left && n < (int)sizeof one && used + (size_t)n + 24 <= size;
    if (fits) memcpy(text + used, one, (size_t)n + 1), used += (size_t)n;
    left += !fits;
  }
  if (left) snprintf(text + used, size - used, ", and %zu more", left);
}

enum { MEAN_OF = 20, RUNNING_S = 30 };
static const int64_t most_steps = 100000000;

static double run_info_number(const cJSON *j, const char *name) {
  const cJSON *v = cJSON_GetObjectItemCaseSensitive(j, name);
  return cJSON_IsNumber(v) ? v->valuedouble : NAN;
}

static const char *text_member(const cJSON *j, const char *name) {
  const char *v = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(j, name));
  return v ? v : "";
}

/* The first number that the model is judged by; NAN without one. */
static double find_judged(const cJSON *j) {
  const cJSON *first = mr_judged(j, NULL);
  return cJSON_IsNumber(first) ? first->valuedouble : NAN;
}

static bool note_loss(mr_run_info_t *r, int64_t step, double loss) {
  if (step < 1 || step > most_steps) return true;
  if (step > r->n_loss) {
    int64_t n = step > 2 * r->n_loss ? step : 2 * r->n_loss;
    double *more = realloc(r->loss_at, (size_t)n * sizeof *more);
    if (!more) return false;
    for (int64_t i = r->n_loss; i < n; i++) more[i] = NAN;
    r->loss_at = more, r->n_loss = n;
  }
  r->loss_at[step - 1] = loss;
  return true;
}

/* Notes a validation.  Of several inputs one is shown throughout: "valid" where it is. */
static void note_validation(mr_run_info_t *r, const char *kind, double judged) {
  if (!*r->valid_of || !strcmp(kind, "valid"))
    snprintf(r->valid_of, sizeof r->valid_of, "%s", kind);
  if (!strcmp(r->valid_of, kind)) r->valid = judged;
}

static bool run_info_take_line(mr_run_info_t *r, const char *line, size_t n) {
  cJSON *j = cJSON_ParseWithLength(line, n);
  const char *kind = text_member(j, "kind");
  double step = run_info_number(j, "step"), total = run_info_number(j, "total_steps");
  bool fits = true;
  if (step >= 0 && step <= (double)most_steps) r->step = (int64_t)step;
  if (total >= 0 && total <= 1e15) r->total = (int64_t)total;
  if (run_info_number(j, "elapsed_s") >= 0) r->elapsed_s = run_info_number(j, "elapsed_s");
  if (*text_member(j, "ledger"))
    mr_printable_cell(text_member(j, "ledger"), sizeof r->ledger, r->ledger, sizeof r->ledger);
  if (*text_member(j, "data"))
    mr_printable_cell(text_member(j, "data"), sizeof r->data, r->data, sizeof r->data);
  if (!strcmp(kind, "step")) {
    fits = note_loss(r, r->step, run_info_number(j, "loss"));
    double rate = run_info_number(j, "images_per_s");
    r->rate = isnan(r->rate) ? rate : r->rate + (rate - r->rate) / MEAN_OF;
    r->state[0] = 0; /* a resumed run has steps after its "final" */
  }
  if (mr_report_kind_is_valid(kind)) note_validation(r, kind, find_judged(j));
  if (!strcmp(kind, "test")) r->test = find_judged(j);
  if (!strcmp(kind, "final"))
    snprintf(r->state, sizeof r->state, "%s",
             strstr(text_member(j, "note"), "stopped") ? "stopped" : "finished");
  cJSON_Delete(j);
  return fits;
}

/* Whether a run is in progress: by its lock, or without one (a graph of `run`) by the age of its
   metrics. */
static bool is_running(const char *path, const struct stat *metrics) {
  mr_run_lock_state_t lock = mr_run_lock_look(path);
  if (lock != MR_RUN_LOCK_UNKNOWN) return lock == MR_RUN_LOCK_HELD;
  return time(NULL) - metrics->st_mtime < RUNNING_S;
}

static mr_err_t read_metrics(mr_run_info_t *r, mr_diag_t *diag) {
  char file[MR_RUN_PATH + 32];
  struct stat st;
  FILE *f;
  char *line = NULL;
  size_t cap = 0;
  bool fits = true;
  snprintf(file, sizeof file, "%s/metrics.jsonl", r->path);
  if (stat(file, &st) < 0 || !(f = mr_open_regular(file)))
    return mr_fail(diag, MR_ERR_IO, "%s: holds no metrics.jsonl, so it is not a run", r->path);
  for (ssize_t n; fits && (n = mr_read_line(f, MR_LINE_MOST, &line, &cap)) >= 0;)
    if (n) fits = run_info_take_line(r, line, (size_t)n);
  int reason = fits && !feof(f) ? errno : 0;
  free(line);
  fclose(f);
  if (!r->state[0])
    snprintf(r->state, sizeof r->state, "%s", is_running(r->path, &st) ? "running" : "broken off");
  if (reason) return mr_fail(diag, MR_ERR_IO, "%s: cannot read: %s", file, strerror(reason));
  return fits ? MR_OK : mr_no_memory(diag, "the losses of %s", r->path);
}

mr_err_t mr_run_info_read(const char *path, mr_run_info_t *out, mr_diag_t *diag) {
  *out = (mr_run_info_t){.loss = NAN, .valid = NAN, .test = NAN, .rate = NAN};
  if (snprintf(out->path, sizeof out->path, "%s", path) >= (int)sizeof out->path)
    return mr_fail(diag, MR_ERR_USAGE, "%.60s...: the name is too long", path);
  MR_TRY(read_metrics(out, diag));
  out->loss = mr_run_info_loss(out, out->step);
  return MR_OK;
}

void mr_run_info_free(mr_run_info_t *r) {
  free(r->loss_at);
  *r = (mr_run_info_t){0};
}

double mr_run_info_loss(const mr_run_info_t *r, int64_t step) {
  double sum = 0;
  int n = 0;
  for (int64_t i = step - 1; i >= 0 && i >= step - MEAN_OF; i--)
    if (i < r->n_loss && !isnan(r->loss_at[i])) sum += r->loss_at[i], n++;
  return n ? sum / n : NAN;
}
