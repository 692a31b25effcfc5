/* Names of stages and processes.  They are unique in a graph, so a hash table holds those taken,
   each with the number from which the search for a free "NAMEk" continues: naming all stages takes
   time proportional to their number.  The table is made anew after names have become free. */
#include <stdlib.h>
#include <string.h>

#include "base/ledger.h"
#include "pipeline/graph/graph_private.h"

const char mr__name_characters[] =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";

typedef struct mr__taken {
  const char *name; /* the graph's; NULL: a free slot */
  int next;         /* NAME2 to NAME(next-1) are taken */
} taken_t;

void mr__names_forget(mr_graph_t *g) {
  free(g->taken);
  g->taken = NULL, g->n_taken = g->cap_taken = 0;
}

static taken_t *taken_slot(const mr_graph_t *g, const char *name) {
  uint64_t at = 0;
  for (const char *c = name; *c; c++) at = mr_hash_mix(at, (uint64_t)(unsigned char)*c);
  while (g->taken[at & (g->cap_taken - 1)].name &&
         strcmp(g->taken[at & (g->cap_taken - 1)].name, name) != 0)
    at++;
  return &g->taken[at & (g->cap_taken - 1)];
}

static bool taken_grow(mr_graph_t *g) {
  taken_t *old = g->taken;
  size_t cap = g->cap_taken;
  if (2 * (g->n_taken + 1) <= cap) return true;
  g->taken = calloc(cap ? 2 * cap : 64, sizeof *g->taken);
  if (!g->taken) return g->taken = old, false;
  g->cap_taken = cap ? 2 * cap : 64;
  for (size_t i = 0; i < cap; i++)
    if (old[i].name) *taken_slot(g, old[i].name) = old[i];
  free(old);
  return true;
}

/* Takes a name, which lives as long as the graph; false without memory. */
static bool add_taken(mr_graph_t *g, const char *name) {
  if (!*name) return true; /* not named yet */
  if (!taken_grow(g)) return false;
  taken_t *slot = taken_slot(g, name);
  if (!slot->name) *slot = (taken_t){name, 2}, g->n_taken++;
  return true;
}

static bool know_names(mr_graph_t *g) {
  if (g->taken) return true;
  if (!taken_grow(g)) return false;
  bool known = true;
  for (int i = 0; i < g->n_nodes && known; i++) known = add_taken(g, g->node[i]->name);
  for (int i = 0; i < g->n_processes && known; i++) known = add_taken(g, g->process[i]->name);
  if (!known) mr__names_forget(g);
  return known;
}

mr_err_t mr__graph_rename(mr_graph_t *g, mr__node_t *node, const char *name, mr_diag_t *diag) {
  char at[32];
  mr__pos_text(node->pos, at, sizeof at);
  if (!*name || name[strspn(name, mr__name_characters)])
    return mr_fail(diag, MR_ERR_USAGE, "%s%s: name = \"%.60s\": want letters, digits, - and _", at,
                   node->def->name, name);
  if (!know_names(g)) return mr_no_memory(diag, "a graph");
  if (taken_slot(g, name)->name)
    return mr_fail(diag, MR_ERR_USAGE, "%s%s: the name \"%.60s\" is taken", at, node->def->name,
                   name);
  if (*node->name) mr__names_forget(g); /* its former name becomes free */
  node->name = mr__graph_text(g, name, strlen(name));
  if (!node->name || (g->taken && !add_taken(g, node->name))) {
    node->name = "";
    return mr_no_memory(diag, "a graph");
  }
  node->worker->name = node->name;
  return MR_OK;
}

mr_err_t mr__graph_name(mr_graph_t *g, mr__node_t *node, mr_diag_t *diag) {
  const char *base = node->alias ? node->alias : node->def->name;
  char name[128];
  snprintf(name, sizeof name, "%s", base);
  if (!know_names(g)) return mr_no_memory(diag, "a graph");
  taken_t *first = taken_slot(g, name);
  if (first->name) do {
      snprintf(name, sizeof name, "%s%d", base, first->next++);
    } while (taken_slot(g, name)->name);
  return mr__graph_rename(g, node, name, diag);
}

mr_err_t mr__graph_name_all(mr_graph_t *g, mr_diag_t *diag) {
  for (int i = 0; i < g->n_nodes; i++)
    if (!*g->node[i]->name) MR_TRY(mr__graph_name(g, g->node[i], diag));
  return MR_OK;
}
