/* Values in graph text: the variables of `let`, and the settings after the name of a stage or a
   process.  A word NAME=VALUE is a setting of that name; a word alone is the next positional one or
   a choice or switch that it names.  Text stays text here: opt.c parses it when the graph settles.
   */
#include <stdlib.h>
#include <string.h>

#include "pipeline/text/text_private.h"

static mr_err_t check_vars(mr__text_parser_t *p, const char *text, mr__pos_t pos) {
  for (const char *s = strchr(text, '$'); s; s = strchr(s, '$')) {
    if (*++s == '$') {
      s++;
      continue;
    }
    bool brace = *s == '{';
    s += brace;
    size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    if (!n || (brace && s[n] != '}'))
      return mr__text_wrong(p, MR_ERR_USAGE, pos,
                            "\"%.60s\": want $NAME or ${NAME}, or $$ for a dollar", text);
    if (mr__graph_var(p->g, s, n) >= 0) continue;
    char name[64], hint[96];
    snprintf(name, sizeof name, "%.*s", (int)n, s);
    mr_suggest_t near = {.word = name};
    for (int i = 0; i < p->g->n_vars; i++) mr_suggest_offer(&near, p->g->var[i].name);
    return mr__text_wrong(p, MR_ERR_USAGE, pos, "unknown variable $%s%s", name,
                          mr_suggest_text(&near, hint, sizeof hint));
  }
  return MR_OK;
}

static mr_err_t add_var(mr__text_parser_t *p, const char *name, size_t n, const char *value,
                        mr__pos_t pos) {
  mr_graph_t *g = p->g;
  if (mr__graph_var(g, name, n) >= 0)
    return mr__text_wrong(p, MR_ERR_USAGE, pos, "the variable \"%.*s\" is defined twice", (int)n,
                          name);
  MR_TRY(check_vars(p, value, pos));
  mr__var_t *more = realloc(g->var, (size_t)(g->n_vars + 1) * sizeof *more);
  if (!more) return mr_no_memory(p->diag, "a graph");
  g->var = more;
  mr__var_t v = {mr__graph_text(g, name, n), mr__graph_text(g, value, strlen(value)), true,
                 .pos = pos};
  if (!v.name || !v.text) return mr_no_memory(p->diag, "a graph");
  g->var[g->n_vars++] = v;
  return MR_OK;
}

static void skip_spaces(mr__text_parser_t *p) { p->at += strspn(p->at, " \t\r"); }

mr_err_t mr__text_let(mr__text_parser_t *p) {
  skip_spaces(p);
  mr__pos_t pos = mr__text_here(p);
  const char *name = p->at;
  size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
  p->at += n;
  skip_spaces(p);
  if (!n || *p->at != '=') return mr__text_wrong(p, MR_ERR_USAGE, pos, "want let NAME = VALUE");
  p->at++;
  skip_spaces(p);
  MR_TRY(mr__text_word(p, &p->word));
  if (!*p->word.text && !p->word.quoted)
    return mr__text_wrong(p, MR_ERR_USAGE, p->word.pos, "want a value after \"let %.*s =\"", (int)n,
                          name);
  MR_TRY(add_var(p, name, n, p->word.text, pos));
  skip_spaces(p);
  if (*p->at && *p->at != '\n' && *p->at != '#')
    return mr__text_wrong(p, MR_ERR_USAGE, mr__text_here(p),
                          "\"%.*s\" after the value of a variable: quote it",
                          (int)(strcspn(p->at, "\n") < 20 ? strcspn(p->at, "\n") : 20), p->at);
  return mr__text_next(p);
}

static bool has_set(const mr__node_t *node, const char *name) {
  for (int i = 0; i < node->n_set; i++)
    if (!strcmp(node->set[i].name, name)) return true;
  return false;
}

/* The positional setting that has no value yet, or NULL. */
static const mr_opt_t *open_positional(const mr__node_t *node) {
  for (const mr_opt_t *o = node->def->opts; o && o->type != MR_OPT_END; o++)
    if (o->positional && !has_set(node, o->name)) return o;
  return NULL;
}

static mr_err_t text_setting_put(mr__text_parser_t *p, mr__node_t *node, const char *name,
                                 const char *text, bool expand) {
  if (expand) MR_TRY(check_vars(p, text, p->word.pos));
  mr__setting_t set = {.name = name, .text = text, .expand = expand, .pos = p->word.pos};
  MR_TRY(mr__graph_put(p->g, node, set, p->diag));
  bool chooses = node->def->choose && !strcmp(name, node->def->chosen_by) && !strchr(text, '$');
  return chooses ? mr__graph_choose(p->g, node, false, p->diag) : MR_OK;
}

/* Fails for "size = 4", "size= 4" and "size =4"; value is the text after the '='. */
static mr_err_t fail_separated(mr__text_parser_t *p, const char *name, const char *value) {
  value += strspn(value, " \t");
  return mr__text_wrong(p, MR_ERR_USAGE, p->word.pos,
                        "\"%.60s\" and its value are separated: write %.60s=%.*s without blanks",
                        name, name, (int)strcspn(value, " \t\r\n!"), value);
}

mr_err_t mr__text_setting(mr__text_parser_t *p, mr__node_t *node) {
  mr__word_t *w = &p->word;
  char name[64];
  snprintf(name, sizeof name, "%.*s", (int)w->name_n, w->text);
  const char *value = w->text + w->name_n + 1;
  const mr_opt_t *o = mr_stage_def_opt(node->def, name);
  if (!*value && !w->quoted && o && o->type != MR_OPT_STR) return fail_separated(p, name, p->at);
  if (has_set(node, name))
    return mr__text_wrong(p, MR_ERR_USAGE, w->pos, "%s: setting \"%s\" is given twice",
                          node->def->name, name);
  if (strcmp(name, "name")) return text_setting_put(p, node, name, value, true);
  if (*node->name)
    return mr__text_wrong(p, MR_ERR_USAGE, w->pos, "%s: name is given twice", node->name);
  mr__pos_t kept = node->pos;
  node->pos = w->pos, node->named = true;
  mr_err_t e = mr__graph_rename(p->g, node, value, p->diag);
  node->pos = kept;
  return e;
}

/* A hint for a bare word that the stage cannot take, into text[0,n), or "". */
static const char *bare_word_hint(const mr__text_parser_t *p, const mr__node_t *node, char *text,
                                  size_t n) {
  static const char *const joins[] = {"|", "->", "=>", ">", ">>",  "|>",
                                      "&", "&&", ",",  ";", "then"};
  const char *word = p->word.text;
  const mr_opt_t *o = mr_stage_def_opt_taking(node->def, word);
  char name[64];
  size_t len = strcspn(word, ":");
  snprintf(name, sizeof name, "%.*s", (int)len, word);
  mr_suggest_t near = {.word = word};
  for (const mr_opt_t *b = node->def->opts; b && b->type != MR_OPT_END; b++)
    if (b->type == MR_OPT_BOOL) mr_suggest_offer(&near, b->name);
  for (int i = 0; i < p->g->reg->n; i++) mr_suggest_offer(&near, p->g->reg->def[i]->name);
  for (size_t i = 0; i < sizeof joins / sizeof *joins; i++)
    if (!strcmp(word, joins[i])) return snprintf(text, n, "; stages are joined by \"!\""), text;
  if (!strcmp(word, "process") || !strcmp(word, "let") || !strcmp(word, "plugin"))
    snprintf(text, n, "; \"%.20s\" begins on a new line", word);
  else if (strpbrk(word, ")]"))
    snprintf(text, n, "; a value has neither blanks nor brackets");
  else if (!strcmp(word, "\\"))
    snprintf(text, n, "; inside quotes a line needs no \"\\\" at its end");
  else if (o)
    snprintf(text, n, "; write %.64s=%.100s", o->name, word);
  else if (word[len] && mr_stage_def_opt(node->def, name))
    snprintf(text, n, "; write %s=%.100s", name, word + len + 1);
  else if (mr_stage_def_opt(node->def, word))
    snprintf(text, n, "; it wants a value, %.64s=VALUE", word);
  else if (near.best)
    mr_suggest_text(&near, text, n);
  else if (!*mr_registry_stage_hint(p->g->reg, word, text, n))
    snprintf(text, n, "; its settings are NAME=VALUE, `millrace inspect %s` lists them",
             node->def->name);
  return text;
}

static mr_err_t bad_bare_word(mr__text_parser_t *p, const mr__node_t *node) {
  char hint[MR_HINT_MAX];
  return mr__text_wrong(
      p, MR_ERR_USAGE, p->word.pos,
      "unexpected \"%.60s\" after %s: neither a stage nor a yes-or-no setting of it%s",
      p->word.text, node->def->name, bare_word_hint(p, node, hint, sizeof hint));
}

/* True for "0.3" and the like, which would also parse as port 3 of a stage called 0. */
static bool text_setting_is_number(const char *text) {
  return *text && strspn(text, "0123456789.+-eE") == strlen(text) && strpbrk(text, "0123456789");
}

/* Reads a bare word after a stage; *done: it starts the next chain instead. */
static mr_err_t parse_bare(mr__text_parser_t *p, mr__node_t *node, bool *done) {
  mr__word_t *w = &p->word;
  const mr_opt_t *o = w->quoted ? NULL : mr_stage_def_opt(node->def, w->text);
  bool stage = w->line_start && mr_registry_find(p->g->reg, w->text); /* shuffle has shuffle= */
  if (!w->quoted && p->at[strspn(p->at, " \t")] == '=')
    return fail_separated(p, w->text, p->at + strspn(p->at, " \t") + 1);
  if (!w->quoted && !strncmp(w->text, "--", 2))
    return mr__text_wrong(
        p, MR_ERR_USAGE, w->pos,
        "\"%.60s\" after %s: a graph has no flags; `millrace inspect %s` lists its "
        "settings",
        w->text, node->def->name, node->def->name);
  if (o && o->type == MR_OPT_BOOL && !stage)
    return text_setting_put(p, node, o->name, "true", false);
  const mr_opt_t *place = open_positional(node);
  if (!w->quoted) {
    size_t ref = w->line_start || !text_setting_is_number(w->text) ? mr__word_reference(w) : 0;
    *done = mr_registry_find(p->g->reg, w->text) || mr__word_begins_other(w) ||
            (ref && (!w->text[ref + 1] || w->line_start || !place));
    if (*done && !w->line_start && mr_registry_find(p->g->reg, w->text))
      node->next = mr_registry_find(p->g->reg, w->text)->name;
    if (*done) return MR_OK;
  }
  return place ? text_setting_put(p, node, place->name, w->text, true) : bad_bare_word(p, node);
}

mr_err_t mr__text_settings(mr__text_parser_t *p, mr__node_t *node) {
  bool done = false;
  MR_TRY(mr__text_next(p));
  while (!p->word.end && !p->word.bang) {
    if (p->word.name_n) {
      MR_TRY(mr__text_setting(p, node));
    } else {
      MR_TRY(parse_bare(p, node, &done));
      if (done) break;
    }
    MR_TRY(mr__text_next(p));
  }
  return mr__graph_choose(p->g, node, false, p->diag);
}
