/* The registry of stages: adding tables, checking those of plug-ins, and finding stages and
   settings by name. */
#include "pipeline/registry.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "pipeline/foreign.h"
#include "pipeline/stage_step.h"

void mr_registry_add_from(mr_registry_t *reg, const mr_stage_def_t *const *table,
                          const char *origin) {
  for (; *table; table++, reg->n++) {
    assert(mr_stage_def_check(*table, NULL) == MR_OK);
    assert(reg->n < MR_REGISTRY_MAX && !mr_registry_find(reg, (*table)->name));
    reg->def[reg->n] = *table, reg->origin[reg->n] = origin;
  }
}

void mr_registry_add(mr_registry_t *reg, const mr_stage_def_t *const *table) {
  mr_registry_add_from(reg, table, NULL);
}

static int registry_index_of(const mr_registry_t *reg, const char *name) {
  for (int i = 0; i < reg->n; i++)
    if (!strcmp(reg->def[i]->name, name)) return i;
  return -1;
}

const mr_stage_def_t *mr_registry_find(const mr_registry_t *reg, const char *name) {
  int i = registry_index_of(reg, name);
  return i < 0 ? NULL : reg->def[i];
}

/* ---- stages from outside the program ---- */

static mr_err_t registry_check_name(const mr_stage_def_t *def, mr_diag_t *diag) {
  static const char *const words[] = {"let", "process", "plugin"};
  static const char chars[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
  if (strspn(def->name, chars) != strlen(def->name))
    return mr_fail(diag, MR_ERR_CONFIG, "stage \"%.60s\": expected letters, digits, - and _",
                   def->name);
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (!strcmp(def->name, words[i]))
      return mr_fail(diag, MR_ERR_CONFIG,
                     "stage \"%s\": the name is a word of graph text; choose another", def->name);
  if (!def->help || !*def->help)
    return mr_fail(diag, MR_ERR_CONFIG, "stage \"%.60s\": has no help", def->name);
  for (const mr_opt_t *o = def->opts; o && o->type != MR_OPT_END; o++)
    if (!o->help || !*o->help)
      return mr_fail(diag, MR_ERR_CONFIG, "stage \"%.60s\": setting \"%.60s\" has no help",
                     def->name, o->name);
  return MR_OK;
}

/* Checks stage i of the table, after those before it have passed. */
static mr_err_t registry_check_one(const mr_registry_t *reg, const mr_stage_def_t *const *table,
                                   int i, mr_diag_t *diag) {
  MR_TRY(mr_stage_def_check(table[i], diag));
  MR_TRY(registry_check_name(table[i], diag));
  const char *name = table[i]->name;
  int at = registry_index_of(reg, name);
  if (at >= 0)
    return mr_fail(diag, MR_ERR_CONFIG,
                   "stage \"%s\": %s has a stage of that name; rename one of them", name,
                   reg->origin[at] ? reg->origin[at] : "the program");
  for (int k = 0; k < i; k++)
    if (!strcmp(table[k]->name, name))
      return mr_fail(diag, MR_ERR_CONFIG, "stage \"%s\": it is listed twice", name);
  if (reg->n + i == MR_REGISTRY_MAX)
    return mr_fail(diag, MR_ERR_CONFIG, "stage \"%s\": no room for more than %d stages", name,
                   MR_REGISTRY_MAX);
  return MR_OK;
}

mr_err_t mr_registry_check(const mr_registry_t *reg, const mr_stage_def_t *const *table,
                           const char *origin, mr_diag_t *diag) {
  for (int i = 0; table[i]; i++) {
    mr_diag_t why = {0};
    mr_err_t e = registry_check_one(reg, table, i, &why);
    if (e < 0) return mr_diag_prefix(diag, e, &why, "%s", origin);
  }
  return MR_OK;
}

const char *mr_registry_hint(const mr_registry_t *reg, const char *word, char *text, size_t n) {
  const char *foreign = mr_foreign_stage(word);
  mr_suggest_t near = {.word = word};
  for (int i = 0; i < reg->n; i++) mr_suggest_offer(&near, reg->def[i]->name);
  if (!foreign || (near.best && !near.distance)) return mr_suggest_text(&near, text, n);
  snprintf(text, n, "; %s", foreign);
  return text;
}

const mr_stage_def_t *mr_stage_def_usual(const mr_stage_def_t *def) {
  char hint[MR_HINT_MAX];
  const mr_stage_def_t *usual = def->choose ? def->choose(NULL, hint, sizeof hint) : def;
  return usual ? usual : def;
}

const mr_opt_t *mr_stage_def_opt(const mr_stage_def_t *def, const char *name) {
  for (const mr_opt_t *o = def->opts; o && o->type != MR_OPT_END; o++)
    if (!strcmp(o->name, name)) return o;
  return NULL;
}

const mr_opt_t *mr_stage_def_opt_taking(const mr_stage_def_t *def, const char *word) {
  for (const mr_opt_t *o = def->opts; o && o->type != MR_OPT_END; o++)
    if (o->type == MR_OPT_ENUM && mr_is_choice(o->choices, word)) return o;
  return NULL;
}

bool mr_stage_def_parallel(const mr_stage_def_t *def) { return def->step && def->step->parallel; }

static int count_ports(const mr_port_def_t *port) {
  int n = 0;
  while (n < MR_MAX_PORTS && port[n].name) n++;
  return n;
}

int mr_stage_def_n_in(const mr_stage_def_t *def) { return count_ports(def->in); }
int mr_stage_def_n_out(const mr_stage_def_t *def) { return count_ports(def->out); }
