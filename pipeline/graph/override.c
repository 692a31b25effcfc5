/* Values: variables, overrides from the command line, and the canonical dump.  Texts are kept as
   given until settle, which replaces variables once all overrides are known; a bound on the bytes
   keeps variables that name each other twice from growing without end. */
#include <stdlib.h>
#include <string.h>

#include "base/shown.h"
#include "pipeline/graph/graph_private.h"

/* One replacement step: *s points at "$". Returns the text to insert and sets *len.  The parser has
   checked names, so an unknown one can only be a lone dollar. */
static const char *replace_dollar(const mr_graph_t *g, const char **s, int n_vars, size_t *len) {
  const char *at = *s + 1;
  if (*at == '$') return *s += 2, *len = 1, "$";
  bool brace = *at == '{';
  size_t n = mr__var_span(at + brace);
  int i = mr__graph_var(g, at + brace, n);
  if (!n || i < 0 || i >= n_vars) return *s += 1, *len = 1, "$";
  *s = at + brace + n + brace;
  return *len = strlen(g->var[i].value), g->var[i].value;
}

typedef struct resolving {
  mr_graph_t *g;
  size_t total;
  char value[MR__MOST_VALUE + 1];
} resolving_t;

/* Replaces the first n_vars variables, which have values, in text. */
static mr_err_t override_resolve(resolving_t *r, const char *text, bool expand, int n_vars,
                                 const char *name, mr__pos_t pos, const char **value,
                                 mr_diag_t *diag) {
  char where[32];
  size_t n = 0, len = 1;
  *value = text;
  if (!expand) return MR_OK;
  for (const char *s = text; *s;) {
    const char *put = *s == '$' ? replace_dollar(r->g, &s, n_vars, &len) : (len = 1, s++);
    if (n + len > MR__MOST_VALUE || r->total + n + len > MR__MOST_VALUES)
      return mr_fail(diag, MR_ERR_USAGE,
                     "%s%.60s: its value is longer than %d bytes once variables are replaced%s",
                     mr__pos_text(pos, where, sizeof where), name,
                     n + len > MR__MOST_VALUE ? MR__MOST_VALUE : MR__MOST_VALUES,
                     n + len > MR__MOST_VALUE ? "" : ", with the values before it");
    memcpy(r->value + n, put, len);
    n += len;
  }
  r->total += n;
  *value = mr__graph_text(r->g, r->value, n);
  return *value ? MR_OK : mr_no_memory(diag, "a graph");
}

static mr_err_t resolve_settings(resolving_t *r, mr__node_t *node, mr_diag_t *diag) {
  for (int k = 0; k < node->n_set; k++) {
    mr__setting_t *set = &node->set[k];
    MR_TRY(override_resolve(r, set->text, set->expand, r->g->n_vars, set->name, set->pos,
                            &set->value, diag));
  }
  return MR_OK;
}

static mr_err_t resolve_all(resolving_t *r, mr_diag_t *diag) {
  mr_graph_t *g = r->g;
  for (int i = 0; i < g->n_vars; i++) { /* a variable may use those before it */
    mr__var_t *v = &g->var[i];
    MR_TRY(override_resolve(r, v->text, v->expand, i, v->name, v->pos, &v->value, diag));
  }
  for (int i = 0; i < g->n_nodes; i++) MR_TRY(resolve_settings(r, g->node[i], diag));
  for (int i = 0; i < g->n_processes; i++) MR_TRY(resolve_settings(r, g->process[i], diag));
  for (int i = 0; i < g->n_nodes; i++) MR_TRY(mr__graph_choose(g, g->node[i], true, diag));
  return MR_OK;
}

mr_err_t mr__graph_resolve(mr_graph_t *g, mr_diag_t *diag) {
  resolving_t *r = malloc(sizeof *r);
  if (!r) return mr_no_memory(diag, "a graph");
  r->g = g, r->total = 0;
  mr_err_t e = resolve_all(r, diag);
  free(r);
  return e;
}

/* The variable that alone is the text of a node's setting, "$batch"; NULL without one. */
static const char *setting_variable(const mr_graph_t *g, const mr__node_t *node,
                                    const char *setting) {
  for (int k = 0; k < node->n_set; k++) {
    const mr__setting_t *set = &node->set[k];
    if (strcmp(set->name, setting) || !set->expand || set->text[0] != '$') continue;
    const char *name = set->text + 1 + (set->text[1] == '{');
    size_t n = mr__var_span(name);
    int i = mr__graph_var(g, name, n);
    bool whole = !name[n] || (name[n] == '}' && !name[n + 1]);
    return i >= 0 && whole ? g->var[i].name : NULL;
  }
  return NULL;
}

/* The first stage that has a setting which another framework calls word; *ours: the setting's name,
 *count: how many stages have a setting of that name.  NULL without one. */
static const mr__node_t *node_for(const mr_graph_t *g, const char *word, const char **ours,
                                  int *count) {
  const mr__node_t *node = NULL;
  *ours = NULL, *count = 0;
  for (int i = 0; i < g->n_nodes; i++) {
    const char *name = *ours ? *ours : mr_stage_def_setting_for(g->node[i]->def, word);
    if (!name || !mr_stage_def_knows(g->node[i]->def, name)) continue;
    if (!node) node = g->node[i], *ours = name;
    ++*count;
  }
  return node;
}

static bool graph_knows(const mr_graph_t *g, const char *name) {
  if (mr__graph_var(g, name, strlen(name)) >= 0) return true;
  for (int i = 0; i < g->n_nodes; i++)
    if (mr_stage_def_knows(g->node[i]->def, name)) return true;
  return false;
}

/* The first stage that has a setting of this very name; *count: how many have one that is not set
   in all of them together. */
static const mr__node_t *node_of(const mr_graph_t *g, const char *name, int *count) {
  const mr__node_t *node = NULL;
  *count = 0;
  for (int i = 0; i < g->n_nodes; i++) {
    const mr_opt_t *o = mr_stage_def_opt(g->node[i]->def, name);
    if (!mr_stage_def_knows(g->node[i]->def, name)) continue;
    if (!node) node = g->node[i];
    *count += !node || !o || !o->together || node == g->node[i];
  }
  return node;
}

bool mr_graph_name_for(const mr_graph_t *g, const char *word, char *name, size_t n) {
  const char *ours = word, *var = NULL;
  int count;
  name[0] = 0;
  if (mr__graph_var(g, word, strlen(word)) >= 0) return snprintf(name, n, "%s", word), true;
  const mr__node_t *node = node_of(g, word, &count);
  if (!node && (node = node_for(g, word, &ours, &count))) var = setting_variable(g, node, ours);
  if (!node) return false;
  if (var || count == 1)
    snprintf(name, n, "%s", var ? var : ours);
  else
    snprintf(name, n, "%s.%s", node->name, ours);
  return true;
}

/* What the hints of the graph's stages, or else those of all stages, say about a setting. */
static const char *rows_hint(const mr_graph_t *g, const char *word, char *text, size_t n) {
  text[0] = 0;
  for (int i = 0; i < g->n_nodes && !*text; i++)
    mr_registry_setting_hint(g->reg, g->node[i]->def, word, true, text, n);
  for (int i = 0; i < g->reg->n && !*text; i++) {
    const mr_hint_t *row = mr_hint_find(g->reg->def[i]->setting_hint, word);
    if (row) mr_hint_text(row, NULL, text, n);
  }
  return text;
}

/* The hint for a name that is called differently here, with a stage's name if several stages have
   it; "" without one. */
static const char *ours_hint(const mr_graph_t *g, const char *word, char *text, size_t n) {
  const char *ours;
  int count;
  const mr__node_t *node = node_for(g, word, &ours, &count);
  const char *var = node ? setting_variable(g, node, ours) : NULL;
  text[0] = 0;
  if (var || count == 1)
    snprintf(text, n, "; it is \"%s\" here", var ? var : ours);
  else if (node)
    snprintf(text, n, "; it is \"%s\" here, of several stages: say %s.%s=", ours, node->name, ours);
  return text;
}

/* A hint for a name that nothing has, into text[0,n): a similar variable or setting, or the name
   here of another framework's word. */
static const char *override_hint(const mr_graph_t *g, const char *name, char *text, size_t n) {
  mr_suggest_t near = {.word = name};
  for (int i = 0; i < g->n_vars; i++) mr_suggest_offer(&near, g->var[i].name);
  for (int i = 0; i < g->n_nodes; i++)
    for (const mr_opt_t *o = g->node[i]->def->opts; o && o->type != MR_OPT_END; o++)
      mr_suggest_offer(&near, o->name);
  text[0] = 0;
  int stage = mr__graph_find(g, name);
  if (stage >= 0)
    snprintf(text, n, "; it is a stage: say %s.SETTING=, `millrace inspect %s` lists them", name,
             g->node[stage]->def->name);
  else if (near.best && !near.distance)
    mr_suggest_text(&near, text, n);
  else if (!*ours_hint(g, name, text, n) && (near.best || !*rows_hint(g, name, text, n)))
    mr_suggest_text(&near, text, n);
  return text;
}

static mr_err_t refuse_override(const mr_graph_t *g, const char *name, mr_diag_t *diag) {
  char hint[MR_HINT_MAX];
  return mr_fail(diag, MR_ERR_CONFIG,
                 "%.60s=: neither a variable of the graph nor a setting of a stage%s", name,
                 override_hint(g, name, hint, sizeof hint));
}

/* Whether the stages that have this setting are set together. */
static bool override_together(const mr_graph_t *g, const char *name) {
  for (int i = 0; i < g->n_nodes; i++) {
    const mr_opt_t *o = mr_stage_def_opt(g->node[i]->def, name);
    if (mr_stage_def_knows(g->node[i]->def, name) && (!o || !o->together)) return false;
  }
  return true;
}

/* Sets a setting that only one stage has, or stages have together; fails with a list of others. */
static mr_err_t override_bare(mr_graph_t *g, const char *name, const char *value, const char *given,
                              mr_diag_t *diag) {
  int found = 0, which = -1;
  char list[512] = "";
  for (int i = 0; i < g->n_nodes; i++) {
    if (!mr_stage_def_knows(g->node[i]->def, name)) continue;
    size_t at = strlen(list);
    snprintf(list + at, sizeof list - at, "%s%s.%s", found ? ", " : "", g->node[i]->name, name);
    which = i, found++;
  }
  if (!found) return refuse_override(g, name, diag);
  if (found > 1 && override_together(g, name)) {
    for (int i = 0; i < g->n_nodes; i++)
      if (mr_stage_def_knows(g->node[i]->def, name))
        MR_TRY(mr__graph_set_given(g, g->node[i]->name, name, value, given, diag));
    return MR_OK;
  }
  if (found > 1)
    return mr_fail(diag, MR_ERR_CONFIG, "%.60s=: several stages have it; use one of %s", name,
                   list);
  return mr__graph_set_given(g, g->node[which]->name, name, value, given, diag);
}

mr_err_t mr__graph_override(mr_graph_t *g, const char *name_value, mr_diag_t *diag) {
  const char *eq = strchr(name_value, '=');
  if (g->settled) return mr_fail(diag, MR_ERR_USAGE, "the graph is settled: it cannot change");
  if (!eq || eq == name_value)
    return mr_fail(diag, MR_ERR_USAGE, "\"%.100s\": want NAME=VALUE", name_value);
  const char *name = mr__graph_text(g, name_value, (size_t)(eq - name_value));
  const char *given = mr__graph_text(g, name_value, strlen(name_value));
  if (!name || !given) return mr_no_memory(diag, "a graph");
  int v = mr__graph_var(g, name, strlen(name));
  if (v >= 0) {
    g->var[v] =
        (mr__var_t){.name = g->var[v].name, .text = given + (eq + 1 - name_value), .given = given};
    return MR_OK;
  }
  const char *dot = strchr(name, '.');
  const char *stage = dot ? mr__graph_text(g, name, (size_t)(dot - name)) : NULL;
  if (dot && !stage) return mr_no_memory(diag, "a graph");
  bool known = stage ? mr__graph_find(g, stage) >= 0 || mr__process_find(g, stage) >= 0
                     : graph_knows(g, name);
  if (!known && g->add_missing) MR_TRY(g->add_missing(g, name, diag));
  if (!stage) return override_bare(g, name, eq + 1, given, diag);
  return mr__graph_set_given(g, stage, dot + 1, eq + 1, given, diag);
}

/* True if a name is a variable, or the setting by which a stage of a family is chosen. */
static bool comes_first(const mr_graph_t *g, const char *name_value) {
  size_t n = strcspn(name_value, "=");
  const char *dot = memchr(name_value, '.', n), *name = dot ? dot + 1 : name_value;
  n -= (size_t)(name - name_value);
  if (!dot && mr__graph_var(g, name, n) >= 0) return true;
  for (int i = 0; i < g->n_nodes; i++) {
    const char *by = g->node[i]->def->chosen_by;
    if (by && strlen(by) == n && !strncmp(by, name, n)) return true;
  }
  return false;
}

/* What an override sets, of a graph to which it has been applied: a variable, or a setting of a
   stage or process. */
typedef struct target {
  const void *of; /* the mr__var_t or mr__node_t */
  const char *name;
  size_t n; /* of name; 0 for a variable */
} target_t;

static target_t target_of(const mr_graph_t *g, const char *name_value) {
  size_t n = strcspn(name_value, "=");
  int var = mr__graph_var(g, name_value, n);
  if (var >= 0) return (target_t){.of = &g->var[var]};
  const char *dot = memchr(name_value, '.', n);
  target_t t = {.name = dot ? dot + 1 : name_value};
  t.n = n - (size_t)(t.name - name_value);
  size_t len = dot ? (size_t)(dot - name_value) : 0;
  for (int i = 0; i < g->n_nodes + g->n_processes; i++) {
    const mr__node_t *node = i < g->n_nodes ? g->node[i] : g->process[i - g->n_nodes];
    bool named = dot && strlen(node->name) == len && !memcmp(node->name, name_value, len);
    for (int k = 0; !dot && i < g->n_nodes && k < node->n_set; k++)
      named |= strlen(node->set[k].name) == n && !memcmp(node->set[k].name, name_value, n);
    if (!named) continue;
    t.of = node;
    return t;
  }
  return t;
}

/* An override for a sentence, into to[0,n): a secret in it is hidden.  Returns to. */
static const char *show_override(const mr_graph_t *g, target_t t, const char *name_value, char *to,
                                 size_t n) {
  const mr_opt_t *o = NULL;
  const char *value = strchr(name_value, '=') + 1; /* it has been applied, so it has one */
  char name[64];
  snprintf(name, sizeof name, "%.*s", (int)t.n, t.n ? t.name : "");
  for (int i = 0; t.n && i < g->n_nodes; i++)
    if (t.of == g->node[i]) o = mr_stage_def_opt(g->node[i]->def, name);
  bool hides = !t.n && mr_graph_hides(g, ((const mr__var_t *)t.of)->name);
  char *shown = hides ? NULL : mr_shown(o, value);
  snprintf(to, n, "%.*s%.100s", (int)(value - name_value < 100 ? value - name_value : 100),
           name_value, shown ? shown : "(hidden)");
  free(shown);
  return to;
}

mr_err_t mr_graph_overrides_once(const mr_graph_t *g, const char *const *name_value, int n,
                                 mr_diag_t *diag) {
  for (int j = 1; j < n; j++) {
    target_t b = target_of(g, name_value[j]);
    for (int i = 0; i < j; i++) {
      target_t a = target_of(g, name_value[i]);
      if (a.of != b.of || a.n != b.n || memcmp(a.name ? a.name : "", b.name ? b.name : "", a.n))
        continue;
      char x[256], y[256];
      return mr_fail(diag, MR_ERR_USAGE,
                     "%.100s and %.100s set the same %s: it is given twice, want one of them",
                     show_override(g, a, name_value[i], x, sizeof x),
                     show_override(g, b, name_value[j], y, sizeof y), a.n ? "setting" : "variable");
    }
  }
  return MR_OK;
}

mr_err_t mr__graph_overrides(mr_graph_t *g, const char *const *name_value, int n, mr_diag_t *diag) {
  bool chooses = false;
  for (int i = 0; i < g->n_nodes; i++) chooses |= g->node[i]->def->choose != NULL;
  for (int i = 0; i < n && chooses; i++)
    if (comes_first(g, name_value[i])) MR_TRY(mr__graph_override(g, name_value[i], diag));
  if (n && chooses) MR_TRY(mr__graph_resolve(g, diag));
  for (int i = 0; i < n; i++)
    if (!chooses || !comes_first(g, name_value[i]))
      MR_TRY(mr__graph_override(g, name_value[i], diag));
  return mr__graph_resolve(g, diag);
}

mr_err_t mr_graph_override(mr_graph_t *g, const char *name_value, mr_diag_t *diag) {
  MR_TRY(mr__graph_override(g, name_value, diag));
  return mr__graph_resolve(g, diag);
}

const char *mr_graph_setting(const mr_graph_t *g, const char *stage, const char *setting) {
  int i = mr__graph_find(g, stage);
  if (i < 0) return NULL;
  for (int k = 0; k < g->node[i]->n_set; k++)
    if (!strcmp(g->node[i]->set[k].name, setting)) return mr__setting_text(&g->node[i]->set[k]);
  const mr_opt_t *o = mr_stage_def_opt(g->node[i]->def, setting);
  return o ? o->def : NULL;
}

static int override_by_name(const void *a, const void *b) {
  return strcmp(((const mr__setting_t *)a)->name, ((const mr__setting_t *)b)->name);
}

/* Writes a value in quotes, so that the text form reads it back. */
static void put_quoted(const char *s, FILE *out) {
  fputc('"', out);
  for (; *s; s++) {
    if (*s == '"' || *s == '\\') fputc('\\', out);
    if (*s == '$') fputc('$', out);
    fputc(*s, out);
  }
  fputc('"', out);
}

static void override_put_node(const mr_graph_t *g, mr__node_t *node, const char *head, FILE *out) {
  fputs(head, out);
  if (node->n_set) qsort(node->set, (size_t)node->n_set, sizeof *node->set, override_by_name);
  for (int k = 0; k < node->n_set; k++) {
    fprintf(out, " %s=", node->set[k].name);
    put_quoted(mr__setting_text(&node->set[k]), out);
  }
}

static void override_put_stages(const mr_graph_t *g, int process, FILE *out) {
  for (int i = 0; i < g->n_nodes; i++) {
    mr__node_t *node = g->node[i];
    if (node->process != process) continue;
    fprintf(out, "%s name=", node->def->name);
    override_put_node(g, node, node->name, out);
    fputc('\n', out);
  }
}

void mr_graph_dump(const mr_graph_t *g, FILE *out) {
  for (int i = 0; i < g->n_plugins; i++) {
    fputs("plugin ", out);
    put_quoted(g->plugin[i], out);
    fputc('\n', out);
  }
  override_put_stages(g, 0, out);
  for (int i = 0; i < g->n_processes; i++) {
    fputs("process ", out);
    override_put_node(g, g->process[i], g->process[i]->name, out);
    fputs(" {\n", out);
    override_put_stages(g, i + 1, out);
    fputs("}\n", out);
  }
  for (int i = 0; i < g->n_edges; i++) {
    const mr__edge_t *e = &g->edge[i];
    const mr__node_t *a = g->node[e->from], *b = g->node[e->to];
    fprintf(out, "%s.%s ! %s.%s\n", a->name, a->def->out[e->out].name, b->name,
            mr__edge_in_name(g, e));
  }
}
