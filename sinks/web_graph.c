#include "sinks/web_graph.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

static void add_settings(cJSON *one, const mr_stage_t *s, int i) {
  cJSON *set = cJSON_AddObjectToObject(one, "settings");
  const mr_stage_def_t *def = mr_watch_def(s, i);
  for (const mr_opt_t *o = def->opts; o && o->type != MR_OPT_END; o++) {
    const char *text = mr_watch_setting(s, i, o->name);
    if (text) cJSON_AddStringToObject(set, o->name, text);
  }
}

static void add_edges(cJSON *o, const mr_stage_t *s, bool live) {
  cJSON *edges = cJSON_AddArrayToObject(o, "edges");
  for (int i = 0; i < mr_watch_n_edges(s); i++) {
    mr_watch_edge_t e;
    mr_watch_edge(s, i, &e);
    cJSON *one = cJSON_CreateObject();
    cJSON_AddItemToArray(edges, one);
    if (live) {
      cJSON_AddNumberToObject(one, "waiting", (double)e.waiting);
      cJSON_AddNumberToObject(one, "lost", (double)e.lost);
      continue;
    }
    cJSON_AddNumberToObject(one, "from", e.from);
    cJSON_AddNumberToObject(one, "to", e.to);
    cJSON_AddNumberToObject(one, "room", (double)e.room);
    cJSON_AddBoolToObject(one, "lossy", e.lossy);
  }
}

char *mr_web_run_json(const mr_stage_t *s, const char *run) {
  cJSON *o = cJSON_CreateObject();
  cJSON_AddStringToObject(o, "run", run);
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
  }
  add_edges(o, s, false);
  const mr_dataset_t *d = s->in_spec[0].dataset;
  cJSON *classes = cJSON_AddArrayToObject(o, "classes");
  for (int i = 0; d && i < d->n_classes; i++)
    cJSON_AddItemToArray(classes, cJSON_CreateString(d->class_name[i]));
  char *text = cJSON_PrintUnformatted(o);
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

static void add_share(cJSON *o, const char *name, int64_t part, int64_t whole) {
  cJSON_AddNumberToObject(o, name, whole > 0 ? (double)(part * 1000 / whole) / 1000 : 0);
}

char *mr_web_live_json(mr_web_live_t *l, const mr_stage_t *s) {
  cJSON *o = cJSON_CreateObject(), *stages = cJSON_AddArrayToObject(o, "stages");
  char limiting[64];
  read_stages(l, s);
  for (int i = 0; i < mr_watch_n_stages(s); i++) {
    const mr_stats_t *a = &l->before[i], *b = &l->now[i];
    int64_t alive = b->alive_ns - a->alive_ns;
    cJSON *one = cJSON_CreateObject();
    cJSON_AddItemToArray(stages, one);
    if (!b->workers) continue;
    add_share(one, "busy", b->busy_ns - a->busy_ns, alive);
    add_share(one, "starved", b->starved_ns - a->starved_ns, alive);
    add_share(one, "blocked", b->blocked_ns - a->blocked_ns, alive);
    cJSON_AddNumberToObject(one, "items", (double)b->items);
  }
  add_edges(o, s, true);
  mr_limiting_stage(s, limiting, sizeof limiting);
  cJSON_AddStringToObject(o, "limiting", limiting);
  char *text = cJSON_PrintUnformatted(o);
  cJSON_Delete(o);
  return text;
}
