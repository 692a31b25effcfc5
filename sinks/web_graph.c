/* The graph as the page's JSON.  Its structure never changes while it runs and is built once, as a
   cJSON tree; the live part, counters and queues of each stage, is needed ten times a second and
   printed directly.  Settings are shown by mr_watch_setting. */
#include "sinks/web_private.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "base/xio.h"

static void add_settings(cJSON *one, const mr_stage_t *s, int i) {
  cJSON *set = cJSON_AddObjectToObject(one, "settings");
  const mr_stage_def_t *def = mr_watch_def(s, i);
  for (const mr_opt_t *o = def->opts; o && o->type != MR_OPT_END; o++) {
    char *text = mr_watch_setting(s, i, o->name);
    if (text) cJSON_AddStringToObject(set, o->name, text);
    free(text);
  }
}

/* What the stage reports of itself, for the page's table of metrics. */
static void add_metrics(cJSON *one, const mr_stage_def_t *def) {
  cJSON *metrics = cJSON_AddArrayToObject(one, "metrics");
  for (const mr_metric_def_t *m = def->metrics; m && m->name; m++) {
    cJSON *o = cJSON_CreateObject();
    cJSON_AddItemToArray(metrics, o);
    cJSON_AddStringToObject(o, "name", m->name);
    cJSON_AddStringToObject(o, "unit", m->unit ? m->unit : "");
    cJSON_AddStringToObject(o, "help", m->help ? m->help : "");
  }
}

static void add_fields(cJSON *edge, const mr_spec_t *spec) {
  cJSON *fields = cJSON_AddArrayToObject(edge, "fields");
  for (int f = 0; f < spec->n_fields; f++) {
    char text[160];
    mr_field_text(&spec->field[f], spec->batch, text, sizeof text);
    cJSON_AddItemToArray(fields, cJSON_CreateString(text));
  }
}

static void add_edges(cJSON *o, const mr_stage_t *s) {
  cJSON *edges = cJSON_AddArrayToObject(o, "edges");
  for (int i = 0; i < mr_watch_n_edges(s); i++) {
    mr_watch_edge_t e;
    mr_watch_edge(s, i, &e);
    cJSON *one = cJSON_CreateObject();
    cJSON_AddItemToArray(edges, one);
    cJSON_AddNumberToObject(one, "from", e.from);
    cJSON_AddNumberToObject(one, "to", e.to);
    cJSON_AddNumberToObject(one, "room", (double)e.room);
    if (e.spec->flow == MR_FLOW_RECORDS || e.spec->flow == MR_FLOW_BATCHES) add_fields(one, e.spec);
    cJSON_AddBoolToObject(one, "lossy", e.lossy);
  }
}

/* Adds the folder as given, its last name, and the folder with its host, by which a page recognises
   whether its run has resumed or another run has taken the address. */
static void add_run(cJSON *o, const char *run) {
  char host[256] = "", folder[MR_PATH_MAX + sizeof host], *real = realpath(run, NULL);
  const char *path = real ? real : run, *slash = strrchr(path, '/');
  gethostname(host, sizeof host - 1);
  snprintf(folder, sizeof folder, "%s:%s", host, path);
  cJSON_AddStringToObject(o, "run", run);
  cJSON_AddStringToObject(o, "name", slash && slash[1] ? slash + 1 : path);
  cJSON_AddStringToObject(o, "folder", folder);
  free(real);
}

char *mr_web_run_json(const mr_stage_t *s, const char *run) {
  cJSON *o = cJSON_CreateObject();
  add_run(o, run);
  cJSON *stages = cJSON_AddArrayToObject(o, "stages");
  for (int i = 0; i < mr_watch_n_stages(s); i++) {
    mr_stats_t unused;
    cJSON *one = cJSON_CreateObject();
    cJSON_AddItemToArray(stages, one);
    cJSON_AddStringToObject(one, "name", mr_watch_stage(s, i, &unused));
    cJSON_AddStringToObject(one, "def", mr_watch_def(s, i)->name);
    cJSON_AddStringToObject(one, "help", mr_watch_def(s, i)->help);
    cJSON_AddBoolToObject(one, "thread", mr_watch_def(s, i)->step != NULL);
    add_settings(one, s, i);
    add_metrics(one, mr_watch_def(s, i));
  }
  add_edges(o, s);
  const mr_dataset_t *d = s->in_spec[0].dataset;
  cJSON *classes = cJSON_AddArrayToObject(o, "classes");
  for (int i = 0; d && i < d->n_classes; i++)
    cJSON_AddItemToArray(classes, cJSON_CreateString(d->class_name[i]));
  if (s->in_spec[0].lies) cJSON_AddItemToObject(o, "lies", cJSON_CreateRaw(s->in_spec[0].lies));
  char *metrics = mr_report_metrics_json(s->in_spec[0].metrics);
  if (metrics) cJSON_AddItemToObject(o, "metrics", cJSON_CreateRaw(metrics));
  char *text = metrics ? cJSON_PrintUnformatted(o) : NULL;
  free(metrics);
  cJSON_Delete(o);
  return text;
}

bool mr_web_live_init(mr_web_live_t *l, const mr_stage_t *s) {
  size_t n = (size_t)mr_watch_n_stages(s) + 1;
  *l = (mr_web_live_t){.before = calloc(n, sizeof *l->before), .now = calloc(n, sizeof *l->now)};
  return l->before && l->now;
}

void mr_web_live_fini(mr_web_live_t *l) {
  free(l->before), free(l->now);
  *l = (mr_web_live_t){0};
}

enum { WINDOW_NS = 1000000000 };

static void read_stages(mr_web_live_t *l, const mr_stage_t *s) {
  int64_t now = mr_now_ns();
  int n = mr_watch_n_stages(s);
  if (now - l->at_ns > WINDOW_NS) {
    memcpy(l->before, l->now, (size_t)n * sizeof *l->now);
    l->at_ns = now;
  }
  for (int i = 0; i < n; i++) mr_watch_stage(s, i, &l->now[i]);
}

/* Prints the stages directly, without cJSON: this runs ten times a second.  Shares are in
   thousandths; [] is a stage without a thread; a link's end has two more numbers. */
static void write_stages(FILE *out, const mr_web_live_t *l, int n) {
  for (int i = 0; i < n; i++) {
    const mr_stats_t *a = &l->before[i], *b = &l->now[i];
    int64_t alive = b->alive_ns - a->alive_ns;
    fputs(i ? ",[" : "[", out);
    if (b->workers && alive > 0)
      fprintf(out, "%" PRId64 ",%" PRId64 ",%" PRId64, (b->busy_ns - a->busy_ns) * 1000 / alive,
              (b->starved_ns - a->starved_ns) * 1000 / alive,
              (b->blocked_ns - a->blocked_ns) * 1000 / alive);
    if (b->workers && alive > 0 && b->link)
      fprintf(out, ",%" PRId64 ",%" PRId64, b->released, b->committed);
    fputc(']', out);
  }
}

/* Prints the edges; an edge to a publisher also counts the messages that its subscribers missed. */
static void write_edges(FILE *out, const mr_web_live_t *l, const mr_stage_t *s) {
  for (int i = 0; i < mr_watch_n_edges(s); i++) {
    mr_watch_edge_t e;
    mr_watch_edge(s, i, &e);
    fprintf(out, "%s[%" PRId64 ",%" PRId64 "]", i ? "," : "", e.waiting,
            e.lost + l->now[e.to].dropped);
  }
}

/* The number of a stage by its name, or -1.  Numbers need no quoting. */
static int stage_number_of(const mr_stage_t *s, const char *name) {
  for (int i = 0; i < mr_watch_n_stages(s); i++) {
    mr_stats_t unused;
    if (!strcmp(mr_watch_stage(s, i, &unused), name)) return i;
  }
  return -1;
}

char *mr_web_live_json(mr_web_live_t *l, const mr_stage_t *s) {
  char limiting[64];
  mr_text_out_t text;
  FILE *out = mr_text_out_open(&text);
  if (!out) return NULL;
  read_stages(l, s);
  mr_limiting_stage(s, limiting, sizeof limiting);
  fputs("{\"stages\":[", out);
  write_stages(out, l, mr_watch_n_stages(s));
  fputs("],\"edges\":[", out);
  write_edges(out, l, s);
  fprintf(out, "],\"limiting\":%d}", stage_number_of(s, limiting));
  return mr_text_out_close(&text, out, NULL);
}
