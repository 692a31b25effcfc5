/* What a setting's value is, and where it comes from: a place in the text or an override, of the
   setting itself or of a variable in it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/shown.h"
#include "pipeline/graph/graph_private.h"

const char *mr__pos_text(mr__pos_t pos, char *text, size_t n) {
  text[0] = 0;
  if (pos.line) snprintf(text, n, "%d:%d: ", pos.line, pos.column);
  return text;
}

int mr__graph_var(const mr_graph_t *g, const char *name, size_t n) {
  for (int i = 0; i < g->n_vars; i++)
    if (strlen(g->var[i].name) == n && !memcmp(g->var[i].name, name, n)) return i;
  return -1;
}

size_t mr__var_span(const char *s) {
  return strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
}

const char *mr__setting_text(const mr__setting_t *set) {
  return set->value ? set->value : set->text;
}

const char *mr__setting_where(const mr_graph_t *g, const mr_stage_def_t *def,
                              const mr__setting_t *set, char *text, size_t n) {
  const char *given = set->given;
  for (const char *s = set->expand ? strchr(set->text, '$') : NULL; s && !given;
       s = strchr(s + 1, '$')) {
    const char *name = s + 1 + (s[1] == '{');
    int i = mr__graph_var(g, name, mr__var_span(name));
    if (i >= 0) given = g->var[i].given;
  }
  if (!given) return mr__pos_text(set->pos, text, n);
  const char *value = strchr(given, '=') + 1; /* an override is NAME=VALUE */
  char *shown = mr_shown(mr_stage_def_opt(def, set->name), value);
  snprintf(text, n, "%.*s%.120s: ", (int)(value - given < 120 ? value - given : 120), given,
           shown ? shown : "(hidden)");
  free(shown);
  return text;
}

/* Whether text names variable `want`, directly or through variables before number `most`; a
   variable uses only those before it. */
static bool text_uses(const mr_graph_t *g, const char *text, bool expand, int most, int want) {
  for (const char *s = expand ? strchr(text, '$') : NULL; s; s = strchr(s, '$')) {
    if (s[1] == '$') {
      s += 2;
      continue;
    }
    const char *name = s + 1 + (s[1] == '{');
    int i = mr__graph_var(g, name, mr__var_span(name));
    if (i == want) return true;
    if (i >= 0 && i < most && text_uses(g, g->var[i].text, g->var[i].expand, i, want)) return true;
    s++;
  }
  return false;
}

bool mr_graph_hides(const mr_graph_t *g, const char *variable) {
  int want = mr__graph_var(g, variable, strlen(variable));
  for (int i = 0; want >= 0 && i < g->n_nodes; i++)
    for (int k = 0; k < g->node[i]->n_set; k++) {
      const mr__setting_t *set = &g->node[i]->set[k];
      const mr_opt_t *o = mr_stage_def_opt(g->node[i]->def, set->name);
      if (o && o->type == MR_OPT_SECRET && text_uses(g, set->text, set->expand, g->n_vars, want))
        return true;
    }
  return false;
}
