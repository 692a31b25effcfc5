/* What a setting's value is, and where it comes from: a place in the text or an override, of the
   setting itself or of a variable in it. */
#include <stdio.h>
#include <string.h>

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

const char *mr__setting_where(const mr_graph_t *g, const mr__setting_t *set, char *text, size_t n) {
  const char *given = set->given;
  for (const char *s = set->expand ? strchr(set->text, '$') : NULL; s && !given;
       s = strchr(s + 1, '$')) {
    const char *name = s + 1 + (s[1] == '{');
    int i = mr__graph_var(g, name, mr__var_span(name));
    if (i >= 0) given = g->var[i].given;
  }
  if (!given) return mr__pos_text(set->pos, text, n);
  snprintf(text, n, "%.120s: ", given);
  return text;
}
