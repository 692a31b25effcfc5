/* The registry of stages: adding tables, checking those of plug-ins, and finding stages and
   settings by name, alias or role. */
#include "pipeline/registry.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

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

/* Whether a name is in a list separated by blanks, which may be NULL. */
static bool is_listed(const char *list, const char *name) {
  size_t n = strlen(name);
  if (!n || strchr(name, ' ')) return false;
  for (const char *at = list; at && (at = strstr(at, name)); at += n)
    if ((at == list || at[-1] == ' ') && (at[n] == ' ' || !at[n])) return true;
  return false;
}

static int registry_index_of(const mr_registry_t *reg, const char *name) {
  for (int i = 0; i < reg->n; i++)
    if (!strcmp(reg->def[i]->name, name) || is_listed(reg->def[i]->alias, name)) return i;
  return -1;
}

const mr_stage_def_t *mr_registry_find(const mr_registry_t *reg, const char *name) {
  int i = registry_index_of(reg, name);
  return i < 0 ? NULL : reg->def[i];
}

/* ---- roles ---- */

const mr_stage_def_t *mr_registry_role(const mr_registry_t *reg, mr_role_t role) {
  const mr_stage_def_t *first = NULL;
  for (int i = reg->n - 1; i >= 0; i--) {
    if (reg->def[i]->role != role) continue;
    if (reg->origin[i]) return reg->def[i];
    first = reg->def[i];
  }
  return first;
}

const char *mr_registry_role_name(const mr_registry_t *reg, mr_role_t role, const char *otherwise,
                                  char *text, size_t n) {
  const mr_stage_def_t *d = reg ? mr_registry_role(reg, role) : NULL;
  if (d)
    snprintf(text, n, "\"%s\"", d->name);
  else
    snprintf(text, n, "%s", otherwise);
  return text;
}

const char *mr_registry_role_list(const mr_registry_t *reg, mr_role_t role, const char *setting,
                                  const char *value, const char *text_value, char *text, size_t n) {
  int left = 0;
  size_t at = 0;
  for (int i = 0; reg && i < reg->n; i++) left += reg->def[i]->role == role;
  text[0] = 0;
  for (int i = 0; reg && i < reg->n && at < n; i++) {
    if (reg->def[i]->role != role) continue;
    const mr_opt_t *o = mr_stage_def_opt(reg->def[i], setting);
    const char *gap = !at ? "" : left == 1 ? " or " : ", ";
    at += (size_t)snprintf(text + at, n - at, "%s\"%s %s=%s\"", gap, reg->def[i]->name, setting,
                           o && o->type == MR_OPT_STR ? text_value : value);
    left--;
  }
  return text;
}

/* ---- stages from outside the program ---- */

/* Checks the form of a name or of an alias (what), which has n characters. */
static mr_err_t check_form(const mr_stage_def_t *def, const char *what, const char *name, size_t n,
                           mr_diag_t *diag) {
  static const char *const words[] = {"let", "process", "plugin"};
  static const char chars[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
  int shown = n < MR_STAGE_NAME_MAX ? (int)n : MR_STAGE_NAME_MAX;
  if (n > MR_STAGE_NAME_MAX)
    return mr_fail(diag, MR_ERR_CONFIG,
                   "stage \"%.60s\": the %s \"%.*s...\" has %zu characters, want at most %d",
                   def->name, what, shown, name, n, MR_STAGE_NAME_MAX);
  if (strspn(name, chars) < n)
    return mr_fail(diag, MR_ERR_CONFIG,
                   "stage \"%.60s\": the %s \"%.*s\": expected letters, digits, - and _", def->name,
                   what, shown, name);
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (strlen(words[i]) == n && !strncmp(name, words[i], n))
      return mr_fail(diag, MR_ERR_CONFIG,
                     "stage \"%.60s\": the %s \"%s\" is a word of graph text; choose another",
                     def->name, what, words[i]);
  return MR_OK;
}

static mr_err_t check_helps(const mr_stage_def_t *def, mr_diag_t *diag) {
  if (!def->help || !*def->help)
    return mr_fail(diag, MR_ERR_CONFIG, "stage \"%.60s\": has no help", def->name);
  for (const mr_opt_t *o = def->opts; o && o->type != MR_OPT_END; o++)
    if (!o->help || !*o->help)
      return mr_fail(diag, MR_ERR_CONFIG, "stage \"%.60s\": setting \"%.60s\" has no help",
                     def->name, o->name);
  return MR_OK;
}

static bool answers_to(const mr_stage_def_t *def, const char *name) {
  return !strcmp(def->name, name) || is_listed(def->alias, name);
}

/* Checks that no stage of reg, nor one before number i of the table, answers to a name of it. */
static mr_err_t check_free(const mr_registry_t *reg, const mr_stage_def_t *const *table, int i,
                           const char *what, const char *name, mr_diag_t *diag) {
  int at = registry_index_of(reg, name);
  const char *owner = at >= 0 && reg->origin[at] ? reg->origin[at] : "the program";
  if (at >= 0 && name == table[i]->name)
    return mr_fail(diag, MR_ERR_CONFIG,
                   "stage \"%s\": %s has a stage of that name; rename one of them", name, owner);
  if (at >= 0)
    return mr_fail(diag, MR_ERR_CONFIG,
                   "stage \"%s\": its %s \"%s\" is a name of stage \"%s\" of %s; choose another",
                   table[i]->name, what, name, reg->def[at]->name, owner);
  for (int k = 0; k < i; k++)
    if (answers_to(table[k], name))
      return mr_fail(diag, MR_ERR_CONFIG,
                     "stage \"%s\": its %s \"%s\" is a name of stage \"%s\" of the same table; "
                     "choose another",
                     table[i]->name, what, name, table[k]->name);
  return MR_OK;
}

static mr_err_t check_aliases(const mr_registry_t *reg, const mr_stage_def_t *const *table, int i,
                              mr_diag_t *diag) {
  const mr_stage_def_t *def = table[i];
  char alias[MR_STAGE_NAME_MAX + 1];
  for (const char *at = def->alias; at && *(at += strspn(at, " "));) {
    size_t n = strcspn(at, " ");
    MR_TRY(check_form(def, "alias", at, n, diag));
    memcpy(alias, at, n), alias[n] = 0;
    at += n;
    if (!strcmp(alias, def->name) || is_listed(at, alias))
      return mr_fail(diag, MR_ERR_CONFIG, "stage \"%s\": it has the name \"%s\" twice; remove one",
                     def->name, alias);
    MR_TRY(check_free(reg, table, i, "alias", alias, diag));
  }
  return MR_OK;
}

/* Checks stage i of the table, after those before it have passed. */
static mr_err_t registry_check_one(const mr_registry_t *reg, const mr_stage_def_t *const *table,
                                   int i, mr_diag_t *diag) {
  const mr_stage_def_t *def = table[i];
  MR_TRY(mr_stage_def_check(def, diag));
  MR_TRY(check_form(def, "name", def->name, strlen(def->name), diag));
  MR_TRY(check_helps(def, diag));
  MR_TRY(check_free(reg, table, i, "name", def->name, diag));
  MR_TRY(check_aliases(reg, table, i, diag));
  if (reg->n + i == MR_REGISTRY_MAX)
    return mr_fail(diag, MR_ERR_CONFIG, "stage \"%s\": no room for more than %d stages", def->name,
                   MR_REGISTRY_MAX);
  return MR_OK;
}

/* A link has two ends: a graph that is cut with one of them and the other of another link would be
   two halves that do not understand each other. */
static mr_err_t check_both_ends(const mr_stage_def_t *const *table, mr_diag_t *diag) {
  const mr_stage_def_t *out = NULL, *in = NULL;
  for (int i = 0; table[i]; i++) {
    if (table[i]->role == MR_ROLE_LINK_OUT) out = table[i];
    if (table[i]->role == MR_ROLE_LINK_IN) in = table[i];
  }
  if (!out == !in) return MR_OK;
  return mr_fail(diag, MR_ERR_CONFIG,
                 "stage \"%s\": .role says that it is one end of a link, and the other end is "
                 "missing; add a stage with %s",
                 (out ? out : in)->name, out ? "MR_ROLE_LINK_IN" : "MR_ROLE_LINK_OUT");
}

mr_err_t mr_registry_check(const mr_registry_t *reg, const mr_stage_def_t *const *table,
                           const char *origin, mr_diag_t *diag) {
  mr_diag_t why = {0};
  mr_err_t e = MR_OK;
  for (int i = 0; table[i] && e >= 0; i++) e = registry_check_one(reg, table, i, &why);
  if (e >= 0) e = check_both_ends(table, &why);
  return e < 0 ? mr_diag_prefix(diag, e, &why, "%s", origin) : MR_OK;
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

bool mr_stage_def_knows(const mr_stage_def_t *def, const char *setting) {
  return mr_stage_def_opt(def, setting) ||
         (mr_stage_def_parallel(def) && !strcmp(setting, "workers"));
}

bool mr_stage_def_parallel(const mr_stage_def_t *def) { return def->step && def->step->parallel; }

static int count_ports(const mr_port_def_t *port) {
  int n = 0;
  while (n < MR_MAX_PORTS && port[n].name) n++;
  return n;
}

const mr_port_def_t *mr_stage_def_input(const mr_stage_def_t *def, int i) {
  int n = count_ports(def->in);
  assert(i >= 0 && n);
  return &def->in[i < n ? i : n - 1];
}
int mr_stage_def_most_in(const mr_stage_def_t *def) {
  int n = count_ports(def->in);
  return n && def->in[n - 1].more ? MR_INPUTS_MAX : n;
}
int mr_stage_def_n_in(const mr_stage_def_t *def) { return count_ports(def->in); }
int mr_stage_def_n_out(const mr_stage_def_t *def) { return count_ports(def->out); }
