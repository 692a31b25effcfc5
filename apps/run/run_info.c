/* Summarises a run by the newest lines of its metrics, which may have billions.  The judged numbers
   of a record are those whose names the table of metrics leaves to models. */
#include "apps/run/run_info.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/lines.h"
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

enum { MEAN_OF = 20, RUNNING_S = 30, NEWEST = 1 << 20, FURTHER = 8 << 20 /* bytes */ };

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

/* Notes a validation.  Of several inputs one is shown throughout: "valid" where it is. */
static void note_validation(mr_run_info_t *r, const char *kind, double judged) {
  if (!*r->valid_of || !strcmp(kind, "valid"))
    snprintf(r->valid_of, sizeof r->valid_of, "%s", kind);
  if (!strcmp(r->valid_of, kind)) r->valid = judged;
}

static void run_info_take_line(mr_run_info_t *r, const char *line, size_t n) {
  cJSON *j = cJSON_ParseWithLength(line, n);
  const char *kind = text_member(j, "kind");
  double step = run_info_number(j, "step"), total = run_info_number(j, "total_steps");
  if (step >= 0 && step <= 1e15) r->step = (int64_t)step;
  if (total >= 0 && total <= 1e15) r->total = (int64_t)total;
  if (run_info_number(j, "elapsed_s") >= 0) r->elapsed_s = run_info_number(j, "elapsed_s");
  if (*text_member(j, "ledger"))
    mr_printable_cell(text_member(j, "ledger"), sizeof r->ledger, r->ledger, sizeof r->ledger);
  if (*text_member(j, "data"))
    mr_printable_cell(text_member(j, "data"), sizeof r->data, r->data, sizeof r->data);
  if (!strcmp(kind, "step")) {
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
}

/* Whether a run is in progress: by its lock, or without one (a graph of `run`) by the age of its
   metrics. */
static bool is_running(const char *path, const struct stat *metrics) {
  mr_run_lock_state_t lock = mr_run_lock_look(path);
  if (lock != MR_RUN_LOCK_UNKNOWN) return lock == MR_RUN_LOCK_HELD;
  return time(NULL) - metrics->st_mtime < RUNNING_S;
}

static FILE *open_metrics(const char *run, char file[MR_RUN_PATH + 32]) {
  snprintf(file, MR_RUN_PATH + 32, "%s/metrics.jsonl", run);
  return mr_open_regular(file);
}

/* Takes the judged number of the last line of a kind that begins so, before byte `before`. */
static void look_further_back(FILE *f, int64_t before, const char *start, mr_run_info_t *r) {
  int64_t at = mr_lines_last(f, before, FURTHER, start);
  char *line = NULL;
  size_t room = 0;
  ssize_t n = at < 0 || fseeko(f, (off_t)at, SEEK_SET) < 0
                  ? 0
                  : mr_read_line(f, MR_LINE_MOST, &line, &room);
  cJSON *j = n > 0 ? cJSON_ParseWithLength(line, (size_t)n) : NULL;
  const char *kind = text_member(j, "kind");
  if (mr_report_kind_is_valid(kind)) note_validation(r, kind, find_judged(j));
  if (!strcmp(kind, "test")) r->test = find_judged(j);
  cJSON_Delete(j);
  free(line);
}

static mr_err_t read_metrics(mr_run_info_t *r, mr_diag_t *diag) {
  char file[MR_RUN_PATH + 32], *line = NULL;
  struct stat st;
  size_t cap = 0;
  FILE *f = open_metrics(r->path, file);
  if (!f || fstat(fileno(f), &st) < 0) {
    if (f) fclose(f);
    return mr_fail(diag, MR_ERR_IO, "%s: holds no metrics.jsonl, so it is not a run", r->path);
  }
  int64_t from = st.st_size > NEWEST ? mr_lines_seek(f, st.st_size - NEWEST) : 0;
  for (ssize_t n; from >= 0 && (n = mr_read_line(f, MR_LINE_MOST, &line, &cap)) >= 0;)
    if (n) run_info_take_line(r, line, (size_t)n);
  int reason = from < 0 || !feof(f) ? errno : 0;
  free(line);
  if (from > 0 && strcmp(r->valid_of, "valid") != 0)
    look_further_back(f, from, "{\"kind\":\"valid\"", r);
  if (from > 0 && !*r->valid_of) look_further_back(f, from, "{\"kind\":\"valid.", r);
  if (from > 0 && isnan(r->test)) look_further_back(f, from, "{\"kind\":\"test\"", r);
  fclose(f);
  if (!r->state[0])
    snprintf(r->state, sizeof r->state, "%s", is_running(r->path, &st) ? "running" : "broken off");
  if (reason) return mr_fail(diag, MR_ERR_IO, "%s: cannot read: %s", file, strerror(reason));
  return MR_OK;
}

mr_err_t mr_run_info_read(const char *path, mr_run_info_t *out, mr_diag_t *diag) {
  *out = (mr_run_info_t){.loss = NAN, .valid = NAN, .test = NAN, .rate = NAN};
  if (snprintf(out->path, sizeof out->path, "%s", path) >= (int)sizeof out->path)
    return mr_fail(diag, MR_ERR_USAGE, "%.60s...: the name is too long", path);
  MR_TRY(read_metrics(out, diag));
  return mr_run_info_loss(out, out->step, &out->loss, diag);
}

/* The step of a line of metrics, as metrics/json.c begins it or as JSON; below 0: none. */
static int64_t step_of_metrics(const void *unused, const char *line, size_t n) {
  char start[128];
  int64_t step = -1;
  snprintf(start, sizeof start, "%.*s", (int)(n < sizeof start ? n : sizeof start), line);
  if (sscanf(start, "{\"kind\":\"%*[^\"]\",\"step\":%" SCNd64 ",", &step) == 1) return step;
  cJSON *j = cJSON_ParseWithLength(line, n);
  double at = run_info_number(j, "step");
  cJSON_Delete(j);
  return at >= 0 && at <= 1e15 ? (int64_t)at : -1;
}

/* Of a step that several lines have, the last one counts. */
static void note_loss(const char *line, size_t n, int64_t first, double loss[MEAN_OF]) {
  cJSON *j = cJSON_ParseWithLength(line, n);
  double step = run_info_number(j, "step");
  if (!strcmp(text_member(j, "kind"), "step") && step >= (double)first &&
      step < (double)first + MEAN_OF)
    loss[(int64_t)step - first] = run_info_number(j, "loss");
  cJSON_Delete(j);
}

mr_err_t mr_run_info_loss(const mr_run_info_t *r, int64_t step, double *out, mr_diag_t *diag) {
  char file[MR_RUN_PATH + 32], *line = NULL;
  size_t cap = 0;
  double loss[MEAN_OF], sum = 0;
  int64_t first = step - MEAN_OF + 1;
  int n = 0;
  for (int i = 0; i < MEAN_OF; i++) loss[i] = NAN;
  errno = 0;
  FILE *f = open_metrics(r->path, file);
  int64_t at = f ? mr_lines_above(f, first - 1, step_of_metrics, NULL) : -1;
  int64_t end = f ? mr_lines_above(f, step, step_of_metrics, NULL) : -1;
  if (at >= 0 && end >= 0 && fseeko(f, (off_t)at, SEEK_SET) == 0)
    for (ssize_t k; ftello(f) < end && (k = mr_read_line(f, MR_LINE_MOST, &line, &cap)) >= 0;)
      if (k) note_loss(line, (size_t)k, first, loss);
  bool complete = errno != ENOMEM;
  free(line);
  if (f) fclose(f);
  for (int i = 0; i < MEAN_OF; i++)
    if (!isnan(loss[i])) sum += loss[i], n++;
  *out = n ? sum / n : NAN;
  return complete ? MR_OK : mr_no_memory(diag, "the losses of %s", r->path);
}
