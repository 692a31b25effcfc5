#include "sinks/json.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>

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

/* Shares with four digits: a line a step should stay short. */
static void add_share(cJSON *o, const char *name, double v) {
  char text[32];
  snprintf(text, sizeof text, "%.4g", v);
  cJSON_AddRawToObject(o, name, text);
}

static void add_stages(cJSON *o, const mr_metrics_t *r) {
  cJSON *all = cJSON_AddObjectToObject(o, "stages");
  for (int i = 0; i < r->n_stages; i++) {
    const mr_metrics_stage_t *st = &r->stage[i];
    cJSON *one = cJSON_AddObjectToObject(all, st->name);
    add_share(one, "busy", st->busy);
    add_share(one, "starved", st->starved);
    add_share(one, "blocked", st->blocked);
    add_share(one, "queue", st->queue);
    cJSON_AddNumberToObject(one, "items", (double)st->items);
  }
}

char *mr_metrics_json(const mr_metrics_t *r) {
  cJSON *o = cJSON_CreateObject();
  char hex[17];
  snprintf(hex, sizeof hex, "%016" PRIx64, r->ledger);
  cJSON_AddStringToObject(o, "kind", mr_metrics_kind_text(r->kind));
  cJSON_AddNumberToObject(o, "step", (double)r->step);
  cJSON_AddNumberToObject(o, "total_steps", (double)r->total_steps);
  cJSON_AddNumberToObject(o, "epoch", (double)r->epoch);
  cJSON_AddNumberToObject(o, "images", (double)r->images);
  cJSON_AddNumberToObject(o, "elapsed_s", r->elapsed_s);
  for (int i = 0; i < r->n; i++) cJSON_AddNumberToObject(o, r->m[i].name, r->m[i].value);
  if (r->n_stages > 0) add_stages(o, r);
  if (r->n_classes > 0) add_confusion(o, r);
  cJSON_AddStringToObject(o, "ledger", hex);
  cJSON_AddStringToObject(o, "data", r->dataset ? r->dataset->origin : "none");
  if (r->note[0]) cJSON_AddStringToObject(o, "note", r->note);
  char *text = cJSON_PrintUnformatted(o);
  cJSON_Delete(o);
  return text;
}
