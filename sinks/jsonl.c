/* Metrics as JSON lines: one object a record, flushed at once, so that a killed run leaves whole
   lines and other programs can follow the file. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xio.h"
#include "pipeline/metrics.h"
#include "pipeline/stage.h"

typedef struct jsonl {
  const char *path;
  int64_t resume_step;
  bool resume_valid;
  FILE *out;
  int64_t lines;
} jsonl_t;

static const mr_opt_t jsonl_opts[] = {
    {.name = "path",
     .type = MR_OPT_STR,
     .offset = offsetof(jsonl_t, path),
     .unit = "",
     .def = "metrics.jsonl",
     .help = "File to write; its folder is made if need be.",
     .positional = 1},
    {.name = "resume-step",
     .type = MR_OPT_INT,
     .offset = offsetof(jsonl_t, resume_step),
     .unit = "steps",
     .def = "-1",
     .lo = -1,
     .hi = 1e15,
     .help = "Keeps the lines up to this step of an earlier run and goes on after them; -1 starts "
             "a new file."},
    {.name = "resume-valid",
     .type = MR_OPT_BOOL,
     .offset = offsetof(jsonl_t, resume_valid),
     .unit = "",
     .def = "true",
     .help = "Whether the validation of that step had been done before its checkpoint; else its "
             "line comes again."},
    {0}};

static const char *kind_text(mr_metrics_kind_t kind) {
  switch (kind) {
    case MR_METRICS_STEP: return "step";
    case MR_METRICS_VALID: return "valid";
    case MR_METRICS_TEST: return "test";
    case MR_METRICS_FINAL: return "final";
  }
  return "unknown";
}

/* ---- going on after a resume ---- */

/* Whether a line of an earlier run still holds: whole, not beyond the step, not one that speaks of
   that run's end, and not of a validation that is still to come. */
static bool line_holds(const jsonl_t *s, const char *line, size_t n) {
  cJSON *j = cJSON_ParseWithLength(line, n);
  const cJSON *at = cJSON_GetObjectItemCaseSensitive(j, "step");
  const char *kind = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(j, "kind"));
  double step = (double)s->resume_step;
  bool holds = cJSON_IsNumber(at) && at->valuedouble <= step && kind && strcmp(kind, "final") &&
               strcmp(kind, "test");
  if (holds && !s->resume_valid && at->valuedouble == step) holds = strcmp(kind, "valid") != 0;
  cJSON_Delete(j);
  return holds;
}

static mr_err_t cut_back(const jsonl_t *s, mr_diag_t *diag) {
  void *bytes;
  size_t n, kept = 0;
  MR_TRY(mr_read_file(s->path, (size_t)1 << 32, &bytes, &n, diag));
  char *text = bytes;
  for (size_t at = 0; at < n;) {
    char *end = memchr(text + at, '\n', n - at);
    if (!end) break; /* cut short when that run was killed */
    size_t len = (size_t)(end - text) + 1 - at;
    if (line_holds(s, text + at, len)) {
      memmove(text + kept, text + at, len);
      kept += len;
    }
    at += len;
  }
  mr_err_t e = kept < n ? mr_write_file(s->path, text, kept, diag) : MR_OK;
  free(bytes);
  return e;
}

static mr_err_t make_parent(const char *path, mr_diag_t *diag) {
  char folder[MR_PATH_MAX];
  const char *slash = strrchr(path, '/');
  if (!slash || slash == path) return MR_OK;
  snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
  return mr_make_folder(folder, diag);
}

static mr_err_t jsonl_prepare(jsonl_t *j, mr_diag_t *diag) {
  MR_TRY(make_parent(j->path, diag));
  FILE *old = j->resume_step >= 0 ? fopen(j->path, "r") : NULL;
  if (old) {
    fclose(old);
    MR_TRY(cut_back(j, diag));
  }
  j->out = fopen(j->path, old ? "ae" : "we");
  if (!j->out)
    return mr_fail(diag, MR_ERR_IO, "%s: cannot open for writing: %s", j->path, strerror(errno));
  return MR_OK;
}

static mr_err_t jsonl_open(mr_stage_t *s) {
  mr_diag_t diag = {0};
  mr_err_t e = jsonl_prepare(s->state, &diag);
  return e < 0 ? mr_stage_fail(s, e, "%s", diag.text) : MR_OK;
}

/* ---- writing ---- */

static void add_confusion(cJSON *o, const mr_metrics_t *r) {
  cJSON *rows = cJSON_AddArrayToObject(o, "confusion");
  for (int t = 0; t < r->n_classes && t < MR_METRICS_CLASSES; t++) {
    cJSON *row = cJSON_CreateArray();
    for (int g = 0; g < r->n_classes; g++)
      cJSON_AddItemToArray(row, cJSON_CreateNumber(r->confusion[t * r->n_classes + g]));
    cJSON_AddItemToArray(rows, row);
  }
  if (!r->dataset) return;
  cJSON *names = cJSON_AddArrayToObject(o, "classes");
  for (int t = 0; t < r->n_classes && t < r->dataset->n_classes; t++)
    cJSON_AddItemToArray(names, cJSON_CreateString(r->dataset->class_name[t]));
}

static char *line_of(const mr_metrics_t *r) {
  cJSON *o = cJSON_CreateObject();
  char hex[17];
  snprintf(hex, sizeof hex, "%016" PRIx64, r->ledger);
  cJSON_AddStringToObject(o, "kind", kind_text(r->kind));
  cJSON_AddNumberToObject(o, "step", (double)r->step);
  cJSON_AddNumberToObject(o, "total_steps", (double)r->total_steps);
  cJSON_AddNumberToObject(o, "epoch", (double)r->epoch);
  cJSON_AddNumberToObject(o, "images", (double)r->images);
  cJSON_AddNumberToObject(o, "elapsed_s", r->elapsed_s);
  for (int i = 0; i < r->n; i++) cJSON_AddNumberToObject(o, r->m[i].name, r->m[i].value);
  if (r->n_classes > 0) add_confusion(o, r);
  cJSON_AddStringToObject(o, "ledger", hex);
  cJSON_AddStringToObject(o, "data", r->dataset ? r->dataset->origin : "none");
  if (r->note[0]) cJSON_AddStringToObject(o, "note", r->note);
  char *text = cJSON_PrintUnformatted(o);
  cJSON_Delete(o);
  return text;
}

static mr_err_t jsonl_write(mr_stage_t *s, const mr_metrics_t *r) {
  jsonl_t *j = s->state;
  char *line = line_of(r);
  if (!line) return mr_stage_fail(s, MR_ERR_NOMEM, "no memory for a line");
  bool failed = fprintf(j->out, "%s\n", line) < 0 || fflush(j->out) != 0;
  cJSON_free(line);
  if (failed) return mr_stage_fail(s, MR_ERR_IO, "%s: cannot write: %s", j->path, strerror(errno));
  j->lines++;
  return MR_OK;
}

static mr_err_t jsonl_step(mr_stage_t *s) {
  mr_buf_t *b[MR_BURST];
  size_t k = mr_take(s, 0, b, MR_BURST);
  mr_err_t e = MR_OK;
  for (size_t i = 0; i < k; i++) {
    if (e >= 0) e = jsonl_write(s, b[i]->data);
    mr_buf_unref(b[i]);
  }
  return e < 0 ? e : k ? MR_OK : mr_idle(s);
}

static void jsonl_close(mr_stage_t *s) {
  jsonl_t *j = s->state;
  if (j->out) fclose(j->out);
  j->out = NULL;
}

static void jsonl_report(mr_stage_t *s, char *text, size_t n) {
  const jsonl_t *j = s->state;
  snprintf(text, n, "%" PRId64 " lines in %s", j->lines, j->path);
}

static mr_err_t jsonl_plan(mr_stage_t *s) {
  const jsonl_t *j = s->state;
  return j->path && j->path[0]
             ? MR_OK
             : mr_stage_fail(s, MR_ERR_CONFIG, "path: \"\", expected a file name");
}

const mr_stage_def_t mr_stage_jsonl = {
    .name = "jsonl",
    .help = "Writes every metrics record as one line of JSON.",
    .in = {{.name = "metrics", .flow = MR_FLOW_METRICS}},
    .opts = jsonl_opts,
    .state_sz = sizeof(jsonl_t),
    .plan = jsonl_plan,
    .open = jsonl_open,
    .close = jsonl_close,
    .step = jsonl_step,
    .report = jsonl_report,
};
