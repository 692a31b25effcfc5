#include "pipeline/registry.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "pipeline/foreign.h"
#include "pipeline/stage_step.h"

void mr_registry_add(mr_registry_t *reg, const mr_stage_def_t *const *table) {
  for (; *table; table++) {
    assert(mr_stage_def_check(*table, NULL) == MR_OK);
    assert(reg->n < MR_REGISTRY_MAX && !mr_registry_find(reg, (*table)->name));
    reg->def[reg->n++] = *table;
  }
}

const mr_stage_def_t *mr_registry_find(const mr_registry_t *reg, const char *name) {
  for (int i = 0; i < reg->n; i++)
    if (!strcmp(reg->def[i]->name, name)) return reg->def[i];
  return NULL;
}

const char *mr_registry_hint(const mr_registry_t *reg, const char *word, char *text, size_t n) {
  const char *foreign = mr_foreign_stage(word);
  mr_suggest_t near = {.word = word};
  for (int i = 0; i < reg->n; i++) mr_suggest_offer(&near, reg->def[i]->name);
  if (!foreign || (near.best && !near.distance)) return mr_suggest_text(&near, text, n);
  snprintf(text, n, "; %s", foreign);
  return text;
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
