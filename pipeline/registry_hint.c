/* Hints for words that no stage has: the tables of hints of all stages, searched from the stage
   that the user spoke of outwards. */
#include <stdio.h>
#include <string.h>

#include "pipeline/registry.h"

/* Other frameworks' words for the setting `workers` of stages that may run in several threads. */
static const char workers_hint[] =
    "numworkers nworkers workercount numparallelcalls dataloadernumworkers";

const char *mr_stage_def_setting_for(const mr_stage_def_t *def, const char *word) {
  for (const mr_opt_t *o = def->opts; o && o->type != MR_OPT_END; o++)
    if (mr_hint_has(o->hint, word)) return o->name;
  return mr_stage_def_parallel(def) && mr_hint_has(workers_hint, word) ? "workers" : NULL;
}

/* The k-th stage in the order in which hints are looked for: those of plug-ins, the last first, as
   they take the place of the program's, which follow in their order.  NULL behind the last. */
static const mr_stage_def_t *stage_of_search(const mr_registry_t *reg, int k) {
  for (int i = reg->n - 1; i >= 0; i--)
    if (reg->origin[i] && !k--) return reg->def[i];
  for (int i = 0; i < reg->n; i++)
    if (!reg->origin[i] && !k--) return reg->def[i];
  return NULL;
}

const char *mr_registry_stage_hint(const mr_registry_t *reg, const char *word, char *text,
                                   size_t n) {
  char usual[128];
  const mr_stage_def_t *d;
  text[0] = 0;
  for (int k = 0; (d = stage_of_search(reg, k)); k++) {
    const mr_hint_t *row = mr_hint_find(d->hint, word);
    if (!row) continue;
    snprintf(usual, sizeof usual, "stage \"%s\" does that", d->name);
    return mr_hint_text(row, usual, text, n);
  }
  return text;
}

const char *mr_registry_hint(const mr_registry_t *reg, const char *word, char *text, size_t n) {
  char other[MR_HINT_MAX];
  mr_suggest_t near = {.word = word};
  for (int i = 0; i < reg->n; i++) mr_suggest_offer(&near, reg->def[i]->name);
  mr_registry_stage_hint(reg, word, other, sizeof other);
  if (!*other || (near.best && !near.distance)) return mr_suggest_text(&near, text, n);
  snprintf(text, n, "%s", other);
  return text;
}

static const char *own_hint(const mr_stage_def_t *def, const char *word, char *text, size_t n) {
  const char *ours = mr_stage_def_setting_for(def, word);
  const mr_hint_t *row = mr_hint_find(def->setting_hint, word);
  text[0] = 0;
  if (ours)
    snprintf(text, n, "; it is \"%s\" here", ours);
  else if (row)
    mr_hint_text(row, NULL, text, n);
  return text;
}

/* Whether a stage's settings are those that people look for at other stages too: how a loader
   batches, and how a model trains. */
static bool is_central(const mr_stage_def_t *def) {
  return def->role == MR_ROLE_BATCH || def->role == MR_ROLE_STEP;
}

const char *mr_registry_setting_hint(const mr_registry_t *reg, const mr_stage_def_t *def,
                                     const char *word, bool own, char *text, size_t n) {
  if (*own_hint(def, word, text, n) || own) return text;
  const mr_stage_def_t *d;
  for (int k = 0; (d = stage_of_search(reg, k)); k++) {
    const mr_hint_t *row = mr_hint_find(d->setting_hint, word);
    if (row) return mr_hint_text(row, NULL, text, n);
  }
  for (int k = 0; (d = stage_of_search(reg, k)); k++) {
    d = mr_stage_def_usual(d);
    if (!is_central(d) || d->role == def->role) continue;
    const char *ours = mr_stage_def_knows(d, word) ? word : mr_stage_def_setting_for(d, word);
    if (ours) return snprintf(text, n, "; it is \"%s\" of %s", ours, d->name), text;
  }
  return text;
}
