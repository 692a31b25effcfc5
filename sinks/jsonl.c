/* Metrics as JSON lines: one object per record, written in one piece, so that a killed run leaves
   whole lines and other programs can follow the file. */
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "metrics/report.h"
#include "pipeline/stage_step.h"
#include "sinks/appender.h"
#include "sinks/resume.h"

typedef struct jsonl {
  const char *path;
  mr_resume_t resume;
  mr_appender_t out;
} jsonl_t;

static const mr_opt_t jsonl_opts[] = {
    {.name = "path",
     .hint = "file filename filepath logfile location",
     .type = MR_OPT_STR,
     .offset = offsetof(jsonl_t, path),
     .unit = "",
     .def = "metrics.jsonl",
     .help = "File to write; its folder is created if it is missing.",
     .positional = 1},
    MR_RESUME_OPTS(offsetof(jsonl_t, resume)),
    {0}};

/* Lines in this stage's own format are read without allocating: out of memory, a good line would
   count as a bad one. */
static bool read_line(const void *unused, const char *line, size_t n, mr_resume_line_t *out) {
  char start[128];                      /* sscanf calls strlen on its text: pass the start alone */
  if (memchr(line, 0, n)) return false; /* a power loss can leave zeros */
  snprintf(start, sizeof start, "%.*s", (int)(n < sizeof start ? n : sizeof start), line);
  if (sscanf(start, "{\"kind\":\"%63[^\"]\",\"step\":%" SCNd64 ",", out->kind, &out->step) == 2)
    return n > 2 && line[n - 2] == '}';
  cJSON *j = cJSON_ParseWithLength(line, n);
  const cJSON *at = cJSON_GetObjectItemCaseSensitive(j, "step");
  const char *kind = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(j, "kind"));
  bool whole = cJSON_IsNumber(at) && fabs(at->valuedouble) < 1e18 && kind;
  if (whole) snprintf(out->kind, sizeof out->kind, "%s", kind);
  if (whole) out->step = (int64_t)at->valuedouble;
  cJSON_Delete(j);
  return whole;
}

static mr_err_t jsonl_plan(mr_stage_t *s) {
  const jsonl_t *j = s->state;
  return j->path && j->path[0] ? MR_OK
                               : mr_stage_fail(s, MR_ERR_CONFIG, "path = \"\": want a file name");
}

static mr_err_t jsonl_open(mr_stage_t *s) {
  jsonl_t *j = s->state;
  mr_diag_t diag = {0};
  bool again = j->resume.step >= 0;
  mr_err_t e = again ? mr_resume_cut(s, j->path, &j->resume, read_line, NULL, &diag) : MR_OK;
  if (e >= 0) e = mr_appender_open(&j->out, s, j->path, again, &diag);
  return mr_stage_relay(s, e, &diag);
}

/* The newline replaces the terminating NUL of the text. */
static mr_err_t jsonl_write(mr_stage_t *s, const mr_report_t *r) {
  jsonl_t *j = s->state;
  if (r->kind == MR_REPORT_MARK) mr_appender_mark(&j->out, s, r);
  if (!mr_report_is_numbers(r)) return MR_OK;
  char *line = mr_report_json(r, MR_REPORT_DENSE);
  size_t n = line ? strlen(line) : 0;
  if (line) line[n] = '\n';
  mr_appender_add(&j->out, s, line, n + 1);
  free(line);
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

static void jsonl_close(mr_stage_t *s) { mr_appender_close(&((jsonl_t *)s->state)->out, s); }

static mr_err_t jsonl_verdict(mr_stage_t *s) {
  return mr_appender_verdict(&((const jsonl_t *)s->state)->out, s);
}

static void jsonl_report(mr_stage_t *s, char *text, size_t n) {
  const jsonl_t *j = s->state;
  char lost[48];
  mr_appender_lost_text(&j->out, lost, sizeof lost);
  snprintf(text, n, "%" PRId64 " lines in %s%s", j->out.written, j->path, lost);
}

static const mr_hint_t jsonl_words[] = {
    {"wandb mlflow", "jsonl metrics.jsonl",
     "the stages jsonl, csv, tensorboard, prometheus, web and publish take metrics"},
    {0}};

const mr_stage_def_t mr_stage_jsonl = {
    .name = "jsonl",
    .role = MR_ROLE_LINES,
    .hint = jsonl_words,
    .help = "Writes every metrics record as one line of JSON.",
    .in = {{.name = "metrics", .flow = MR_FLOW_METRICS, .lossy = true}},
    .opts = jsonl_opts,
    .state_sz = sizeof(jsonl_t),
    .plan = jsonl_plan,
    .open = jsonl_open,
    .close = jsonl_close,
    .step = &(const mr_step_def_t){.run = jsonl_step},
    .verdict = jsonl_verdict,
    .report = jsonl_report,
};
