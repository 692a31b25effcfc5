/* A live page of a run.  Records are pushed to browsers as server-sent events, at most ten times a
   second; assets are compiled in, so the page needs no other server. */
#include <cjson/cJSON.h>
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/feature.h"
#include "base/lines.h"
#include "base/xio.h"
#include "metrics/report.h"
#include "pipeline/stage_step.h"
#include "sinks/http.h"
#include "sinks/resume.h"
#include "sinks/web_private.h"

typedef struct web {
  mr_http_settings_t set;
  const char *run;
  mr_resume_t resume;
  mr_http_t http;
  mr_stage_t *stage;
  mr_web_stream_t stream;
  mr_web_pictures_t pictures;
  mr_web_live_t live;
  char *run_json; /* heap, written before the server starts: the graph does not change */
} web_t;

static const mr_opt_t web_opts[] = {
    MR_HTTP_OPTS(offsetof(web_t, set), "8360"),
    {.name = "run",
     .type = MR_OPT_STR,
     .offset = offsetof(web_t, run),
     .unit = "",
     .def = ".",
     .help = "Run folder; the page can overlay the curves of the runs beside it."},
    MR_RESUME_OPTS(offsetof(web_t, resume)),
    {0}};

/* ---- other runs, to overlay their curves ---- */

enum { MOST = 16 << 20 /* bytes of a run's metrics, of longer ones a sample */ };

/* The names of the sibling folders of run that have a metrics.jsonl, as a JSON array (heap); NULL
   without memory. */
static char *web_runs_json(const char *run) {
  char folder[MR_PATH_MAX], file[MR_PATH_MAX];
  struct stat st;
  cJSON *all = cJSON_CreateArray();
  snprintf(folder, sizeof folder, "%s/..", run);
  DIR *d = opendir(folder);
  for (struct dirent *e; d && (e = readdir(d));) {
    int n = snprintf(file, sizeof file, "%s/%s/metrics.jsonl", folder, e->d_name);
    if (e->d_name[0] == '.' || n >= (int)sizeof file || stat(file, &st) < 0) continue;
    cJSON_AddItemToArray(all, cJSON_CreateString(e->d_name));
  }
  if (d) closedir(d);
  char *text = cJSON_PrintUnformatted(all);
  cJSON_Delete(all);
  return text;
}

/* The metrics.jsonl of one of them, or a sample of its lines, *n bytes (heap); NULL if it cannot be
   read or the name, which comes from a request, is no plain folder name. */
static void *web_run_metrics(const char *run, const char *name, size_t *n) {
  char file[MR_PATH_MAX];
  char *data;
  bool all;
  mr_diag_t unsaid = {0};
  if (!*name || name[0] == '.' || strchr(name, '/')) return NULL;
  if (snprintf(file, sizeof file, "%s/../%s/metrics.jsonl", run, name) >= (int)sizeof file)
    return NULL;
  return mr_lines_sample(file, MOST, &data, n, &all, &unsaid) < 0 ? NULL : data;
}

/* ---- responses ---- */

static struct MHD_Response *find_asset(const char *path) {
  for (const mr_web_asset_t *a = mr_web_assets; a->path; a++) {
    if (strcmp(a->path, path)) continue;
    struct MHD_Response *r =
        MHD_create_response_from_buffer(a->n, (void *)(uintptr_t)a->data, MHD_RESPMEM_PERSISTENT);
    if (r) MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, a->type);
    return r;
  }
  return NULL;
}

static struct MHD_Response *json_response(char *text) {
  return text ? mr_http_text(text, strlen(text), "application/json") : NULL;
}

/* A response whose text the stage keeps owning. */
static struct MHD_Response *text_of(char *text) {
  struct MHD_Response *r =
      MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_PERSISTENT);
  if (r) MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, "application/json");
  return r;
}

static struct MHD_Response *bytes_response(void *data, size_t n, const char *type) {
  return data ? mr_http_text(data, n, type) : NULL;
}

static struct MHD_Response *web_answer(void *arg, struct MHD_Connection *c, const char *path) {
  web_t *w = arg;
  size_t n = 0;
  if (!strcmp(path, "/events")) return mr_web_stream_events(&w->stream, c);
  if (!strcmp(path, "/run.json")) return text_of(w->run_json);
  if (!strcmp(path, "/runs.json")) return json_response(web_runs_json(w->run));
  if (!strncmp(path, "/runs/", 6)) {
    void *text = web_run_metrics(w->run, path + 6, &n);
    return bytes_response(text, n, "application/x-ndjson");
  }
  if (!strncmp(path, "/picture/", 9)) {
    void *png = mr_web_pictures_png(&w->pictures, path + 9, &n);
    return bytes_response(png, n, "image/png");
  }
  return find_asset(path);
}

/* ---- the stage ---- */

static mr_err_t web_plan(mr_stage_t *s) {
  const web_t *w = s->state;
  if (!w->run || !w->run[0]) return mr_stage_fail(s, MR_ERR_CONFIG, "run: want a folder");
  return mr_http_plan(s, &w->set);
}

/* Adds the records of the run before a resume, or a sample of them, so that curves begin where the
   run began. */
static void read_earlier(web_t *w) {
  char path[MR_PATH_MAX], *save = NULL, *text;
  bool all;
  size_t n;
  mr_diag_t unsaid = {0};
  snprintf(path, sizeof path, "%s/metrics.jsonl", w->run);
  if (w->resume.step < 0 || mr_lines_sample(path, MOST, &text, &n, &all, &unsaid) < 0) return;
  if (!all) mr_notice("%s: %s: the page shows a sample of its lines", w->stage->name, path);
  for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
    cJSON *j = cJSON_Parse(line);
    const char *kind = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(j, "kind"));
    const cJSON *step = cJSON_GetObjectItemCaseSensitive(j, "step");
    if (kind && cJSON_IsNumber(step) && mr_resume_keeps(&w->resume, kind, step->valuedouble))
      mr_web_log_add(&w->stream.log, line, strcmp(kind, "step") != 0);
    cJSON_Delete(j);
  }
  free(text);
}

static char *live_text(void *arg) {
  web_t *w = arg;
  return mr_web_live_json(&w->live, w->stage);
}

static mr_err_t web_open(mr_stage_t *s) {
  web_t *w = s->state;
  char url[512];
  w->stage = s;
  w->stream.now = live_text, w->stream.arg = w;
  read_earlier(w);
  w->run_json = mr_web_run_json(s, w->run);
  if (!w->run_json || !mr_web_live_init(&w->live, s) || !mr_web_pictures_init(&w->pictures))
    return mr_stage_no_memory(s, "the page");
  if (!mr_web_stream_open(&w->stream))
    return mr_stage_fail(s, MR_ERR_IO, "cannot start the thread of the page");
  const char *folder = mr_setting_given(s, offsetof(web_t, run)) ? w->run : NULL;
  MR_TRY(mr_http_open(&w->http, s, &w->set, true, folder, web_answer, w));
  mr_http_url(&w->http, url, sizeof url);
  mr_announce("%s: %s", s->name, url);
  if (!mr_built_in("PNG")) mr_announce("%s: no pictures: this build is without libpng", s->name);
  return MR_OK;
}

/* The name of an input has letters, digits, '.', '_' and '-' alone. */
static char *picture_json(web_t *w, const mr_report_t *r, const mr_picture_t *p) {
  char *text = NULL;
  int n = asprintf(&text,
                   "{\"kind\":\"%s\",\"step\":%" PRId64 ",\"of\":\"%s\",\"picture\":%" PRIu64
                   ",\"truth\":%d,\"guess\":%d,\"key\":%" PRIu64 "}",
                   mr_report_kind_text(r), r->step, mr_report_split(r),
                   mr_web_pictures_add(&w->pictures, p), p->truth, p->guess, p->key);
  return n < 0 ? NULL : text;
}

/* Adds a text to the log and frees it; it was built outside the lock that pages wait for. */
static void log_text(web_t *w, char *text, bool stays) {
  if (!text) return;
  pthread_mutex_lock(&w->stream.lock);
  mr_web_log_add(&w->stream.log, text, stays);
  pthread_mutex_unlock(&w->stream.lock);
  free(text);
}

enum { ROWS = 64 /* classes of a confusion matrix that the page shows as a table */ };

static void keep_report(web_t *w, const mr_report_t *r) {
  for (size_t i = 0; i < r->n_pictures && mr_built_in("PNG"); i++)
    log_text(w, picture_json(w, r, &r->picture[i]), false);
  if (mr_report_is_numbers(r)) log_text(w, mr_report_json(r, ROWS), r->kind != MR_REPORT_STEP);
}

static mr_err_t web_step(mr_stage_t *s) {
  mr_buf_t *b[MR_BURST];
  size_t k = mr_take(s, 0, b, MR_BURST);
  for (size_t i = 0; i < k; i++) {
    keep_report(s->state, b[i]->data);
    mr_buf_unref(b[i]);
  }
  return k ? MR_OK : mr_idle(s);
}

static void web_close(mr_stage_t *s) {
  web_t *w = s->state;
  mr_web_stream_end(&w->stream);
  mr_http_close(&w->http);
  mr_web_stream_fini(&w->stream);
  mr_web_pictures_fini(&w->pictures);
  mr_web_live_fini(&w->live);
  free(w->run_json);
  w->run_json = NULL;
}

const mr_stage_def_t mr_stage_web = {
    .name = "web",
    .help = "Shows the run on a live page.",
    .in = {{.name = "metrics", .flow = MR_FLOW_METRICS, .lossy = true}},
    .opts = web_opts,
    .state_sz = sizeof(web_t),
    .plan = web_plan,
    .open = web_open,
    .close = web_close,
    .step = &(const mr_step_def_t){.run = web_step},
};
