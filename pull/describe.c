/* What a stream is and how it runs, as JSON: for callers in languages that know no C structs, and
   so that a new number changes no struct. */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/zoo/zoo.h"
#include "pipeline/opt.h"
#include "pipeline/watch/diagnose.h"
#include "pull/reader.h"

static void describe_field(cJSON *fields, const mr_field_t *f) {
  static const char *const layout[] = {[MR_LAYOUT_CHW] = "CHW", [MR_LAYOUT_HWC] = "HWC"};
  cJSON *o = cJSON_CreateObject(), *dim = cJSON_CreateArray();
  cJSON_AddStringToObject(o, "name", f->name);
  cJSON_AddStringToObject(o, "dtype", mr_dtype_name(f->dtype));
  for (int i = 0; i < f->ndim; i++)
    cJSON_AddItemToArray(dim, cJSON_CreateNumber((double)f->dim[i]));
  cJSON_AddItemToObject(o, "dim", dim);
  cJSON_AddBoolToObject(o, "ragged", f->ragged);
  cJSON_AddBoolToObject(o, "label", f->label);
  if (layout[f->layout]) cJSON_AddStringToObject(o, "layout", layout[f->layout]);
  if (f->n_classes) cJSON_AddNumberToObject(o, "n_classes", f->n_classes);
  if (f->classes)
    cJSON_AddItemToObject(o, "classes", cJSON_CreateStringArray(f->classes->name, f->classes->n));
  cJSON_AddItemToArray(fields, o);
}

static cJSON *describe_spec(const mr__reader_t *r) {
  const mr_spec_t *spec = mr__reader_spec(r);
  cJSON *o = cJSON_CreateObject(), *fields = cJSON_CreateArray();
  cJSON_AddStringToObject(o, "stage", mr__reader_stage(r));
  cJSON_AddNumberToObject(o, "batch", (double)spec->batch);
  cJSON_AddNumberToObject(o, "steps", (double)mr__reader_steps(r));
  cJSON_AddNumberToObject(o, "epoch_steps", (double)spec->n_batches);
  cJSON_AddNumberToObject(o, "epoch_records", (double)spec->n_records);
  cJSON_AddNumberToObject(o, "epochs", (double)spec->n_epochs);
  for (int f = 0; f < spec->n_fields; f++) describe_field(fields, &spec->field[f]);
  cJSON_AddItemToObject(o, "fields", fields);
  return o;
}

static double describe_share(int64_t part, int64_t whole) {
  return whole > 0 ? (double)part / (double)whole : 0;
}

static cJSON *describe_stats(const mr__reader_t *r) {
  const mr_graph_t *g = mr__reader_graph(r);
  cJSON *o = cJSON_CreateObject(), *stages = cJSON_CreateArray();
  char text[512] = "";
  for (int i = 0; i < mr_graph_n_stages(g) - 1; i++) { /* the last one hands over */
    mr_stats_t st;
    mr_graph_stats(g, i, &st);
    cJSON *s = cJSON_CreateObject();
    cJSON_AddStringToObject(s, "name", mr_graph_stage_at(g, i)->name);
    cJSON_AddNumberToObject(s, "workers", st.workers);
    cJSON_AddNumberToObject(s, "items", (double)st.items);
    cJSON_AddNumberToObject(s, "busy", describe_share(st.busy_ns, st.alive_ns));
    cJSON_AddNumberToObject(s, "starved", describe_share(st.starved_ns, st.alive_ns));
    cJSON_AddNumberToObject(s, "blocked", describe_share(st.blocked_ns, st.alive_ns));
    cJSON_AddItemToArray(stages, s);
  }
  cJSON_AddItemToObject(o, "stages", stages);
  mr_snapshot_t *now = mr_snapshot_take(g);
  mr_diagnosis_t d;
  if (now && mr_diagnose(g, NULL, now, &d)) {
    mr_diagnosis_text(&d, text, sizeof text);
    cJSON_AddStringToObject(o, "limiting_stage", d.stage);
  }
  mr_snapshot_free(now);
  cJSON_AddStringToObject(o, "limiting", text);
  return o;
}

static cJSON *describe_graph(const mr__reader_t *r) {
  return cJSON_CreateString(mr__reader_text(r));
}

mr_err_t mr__reader_describe(const mr__reader_t *r, const char *what, char **text,
                             mr_diag_t *diag) {
  static const struct {
    const char *what;
    cJSON *(*of)(const mr__reader_t *r);
  } table[] = {{"spec", describe_spec}, {"stats", describe_stats}, {"graph", describe_graph}};
  *text = NULL;
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    if (strcmp(what, table[i].what) != 0) continue;
    cJSON *o = table[i].of(r);
    *text = o ? cJSON_PrintUnformatted(o) : NULL;
    cJSON_Delete(o);
    return *text ? MR_OK : mr_no_memory(diag, "a description of the stream");
  }
  return mr_fail(diag, MR_ERR_USAGE, "describe %.40s: want spec, stats or graph", what);
}

/* ---- the table of stages ---- */

static void describe_setting(cJSON *settings, const mr_opt_t *o) {
  static const char *const type[] = {
      [MR_OPT_INT] = "int",     [MR_OPT_F64] = "float",   [MR_OPT_BOOL] = "bool",
      [MR_OPT_STR] = "str",     [MR_OPT_SECRET] = "str",  [MR_OPT_ENUM] = "enum",
      [MR_OPT_RANGE] = "range", [MR_OPT_VEC3] = "vector", [MR_OPT_VEC] = "vector"};
  cJSON *s = cJSON_CreateObject();
  cJSON_AddStringToObject(s, "name", o->name);
  cJSON_AddStringToObject(s, "type", type[o->type]);
  if (o->def) cJSON_AddStringToObject(s, "default", o->def);
  if (o->unit) cJSON_AddStringToObject(s, "unit", o->unit);
  if (o->choices) cJSON_AddStringToObject(s, "choices", o->choices);
  if (o->help) cJSON_AddStringToObject(s, "help", o->help);
  if (o->positional) cJSON_AddTrueToObject(s, "positional");
  if (o->type == MR_OPT_SECRET) cJSON_AddTrueToObject(s, "secret");
  cJSON_AddItemToArray(settings, s);
}

/* Adds to the choices of a setting those of another of its name. */
static void describe_choices(cJSON *setting, const mr_opt_t *o) {
  const char *all = cJSON_GetStringValue(cJSON_GetObjectItem(setting, "choices"));
  if (!all || !o->choices) return;
  size_t room = strlen(all) + strlen(o->choices) + 2;
  char *text = malloc(room), word[64];
  if (!text) return;
  strcpy(text, all);
  for (const char *at = o->choices; *at; at += strcspn(at, "|"), at += *at == '|') {
    snprintf(word, sizeof word, "%.*s", (int)strcspn(at, "|"), at);
    if (!mr_is_choice(text, word)) strcat(strcat(text, "|"), word);
  }
  cJSON_ReplaceItemInObject(setting, "choices", cJSON_CreateString(text));
  free(text);
}

static bool describe_is(const cJSON *setting, const char *name) {
  const char *own = cJSON_GetStringValue(cJSON_GetObjectItem(setting, "name"));
  return own && !strcmp(own, name);
}

/* The settings of every model that a stage trains, those of the usual one first. */
static void describe_models(cJSON *settings, const mr_stage_def_t *def) {
  char hint[MR_HINT_MAX];
  const mr_model_def_t *m;
  for (int i = 0; def->choose && (m = mr_model_at(i)); i++) {
    const mr_stage_def_t *d = def->choose(m->name, hint, sizeof hint);
    for (const mr_opt_t *o = d ? d->opts : NULL; o && o->name; o++) {
      cJSON *known = settings->child;
      while (known && !describe_is(known, o->name)) known = known->next;
      if (known)
        describe_choices(known, o);
      else
        describe_setting(settings, o);
    }
  }
}

static void describe_ports(cJSON *stage, const char *side, const mr_port_def_t *port) {
  cJSON *ports = cJSON_CreateArray();
  for (int i = 0; i < MR_MAX_PORTS && port[i].name; i++)
    cJSON_AddItemToArray(ports, cJSON_CreateString(port[i].name));
  cJSON_AddItemToObject(stage, side, ports);
}

static void describe_stage(cJSON *stages, const mr_stage_def_t *def) {
  cJSON *o = cJSON_CreateObject(), *settings = cJSON_CreateArray();
  const mr_stage_def_t *usual = mr_stage_def_usual(def);
  cJSON_AddStringToObject(o, "name", def->name);
  cJSON_AddStringToObject(o, "help", def->help ? def->help : "");
  describe_ports(o, "in", def->in);
  if (mr_stage_def_most_in(def) > mr_stage_def_n_in(def))
    cJSON_AddNumberToObject(o, "most_in", mr_stage_def_most_in(def));
  describe_ports(o, "out", def->out);
  for (const mr_opt_t *s = usual->opts; s && s->name; s++) describe_setting(settings, s);
  describe_models(settings, def);
  cJSON_AddItemToObject(o, "settings", settings);
  if (mr_stage_def_parallel(def)) cJSON_AddTrueToObject(o, "parallel");
  cJSON_AddItemToArray(stages, o);
}

mr_err_t mr_loader_stages(char **text, mr_diag_t *diag) {
  mr_registry_t *reg = calloc(1, sizeof *reg);
  cJSON *stages = cJSON_CreateArray();
  if (reg) mr__reader_all_stages(reg);
  for (int i = 0; reg && i < reg->n; i++) describe_stage(stages, reg->def[i]);
  *text = reg && stages ? cJSON_PrintUnformatted(stages) : NULL;
  cJSON_Delete(stages);
  free(reg);
  return *text ? MR_OK : mr_no_memory(diag, "the table of stages");
}
