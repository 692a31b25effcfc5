/* The text form of a graph: words, chains, references; the grammar is in graph.h.

   References are resolved when everything has been read, so a chain may lead into a stage that
   stands further down. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/graph_private.h"

enum { WORD_MAX = 4096 };

typedef struct word {
  char text[WORD_MAX]; /* quotes removed */
  size_t key;          /* length before the first unquoted '=', 0: no KEY=VALUE */
  bool quoted, bang, end, line_start;
  mr__pos_t pos;
} word_t;

/* One end of an edge: a node, or a name to be resolved. */
typedef struct end {
  int node;                /* -1: by name */
  const char *name, *port; /* port NULL: the first */
  mr__pos_t pos;
} end_t;

typedef struct link {
  end_t from, to;
} link_t;

typedef struct parser {
  mr_graph_t *g;
  mr_diag_t *diag;
  const char *at, *line_start;
  int line;
  bool fresh_line; /* only blanks since the line began */
  int process;     /* the block it is in, from 1; 0: none */
  word_t word;     /* the one looked at */
  link_t *link;
  int n_links, cap_links;
} parser_t;

static mr__pos_t here(const parser_t *p) {
  return (mr__pos_t){p->line, (int)(p->at - p->line_start) + 1};
}

__attribute__((format(printf, 4, 5))) static mr_err_t wrong(parser_t *p, mr_err_t code,
                                                            mr__pos_t pos, const char *fmt, ...) {
  char text[700], at[32];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  return mr_fail(p->diag, code, "%s%s", mr__pos_text(pos, at, sizeof at), text);
}

static void newline(parser_t *p) { p->line++, p->line_start = ++p->at, p->fresh_line = true; }

static void skip_blanks(parser_t *p) {
  for (;; p->at++) {
    while (*p->at == '\n') newline(p);
    if (*p->at == '#') p->at += strcspn(p->at, "\n");
    if (*p->at == '\n') {
      newline(p), p->at--;
      continue;
    }
    if (!*p->at || !strchr(" \t\r", *p->at)) return;
  }
}

static bool word_char(char c) { return c && !strchr(" \t\r\n!", c); }

/* The quoted piece that begins at p->at, into w at *n. */
static mr_err_t read_quoted(parser_t *p, word_t *w, size_t *n) {
  mr__pos_t open = here(p);
  char quote = *p->at++;
  w->quoted = true;
  for (; *p->at && *p->at != quote; p->at++) {
    if (*p->at == '\n') return wrong(p, MR_ERR_USAGE, open, "the quote %c is not closed", quote);
    if (*p->at == '\\' && quote == '"' && (p->at[1] == '"' || p->at[1] == '\\')) p->at++;
    if (*n + 1 >= WORD_MAX) return wrong(p, MR_ERR_USAGE, open, "a word longer than %d", WORD_MAX);
    w->text[(*n)++] = *p->at;
  }
  if (!*p->at) return wrong(p, MR_ERR_USAGE, open, "the quote %c is not closed", quote);
  p->at++;
  return MR_OK;
}

static mr_err_t read_word(parser_t *p, word_t *w) {
  size_t n = 0;
  w->pos = here(p), w->key = 0, w->quoted = false;
  while (word_char(*p->at)) {
    if (*p->at == '"' || *p->at == '\'') {
      MR_TRY(read_quoted(p, w, &n));
      continue;
    }
    if (*p->at == '=' && !w->key && n && !w->quoted) w->key = n;
    if (n + 1 >= WORD_MAX) return wrong(p, MR_ERR_USAGE, w->pos, "a word longer than %d", WORD_MAX);
    w->text[n++] = *p->at++;
  }
  w->text[n] = 0;
  return MR_OK;
}

/* The next word into p->word. */
static mr_err_t next(parser_t *p) {
  word_t *w = &p->word;
  skip_blanks(p);
  w->line_start = p->fresh_line, p->fresh_line = false;
  w->end = !*p->at, w->bang = *p->at == '!';
  w->pos = here(p), w->key = 0, w->quoted = false, w->text[0] = 0;
  if (w->end) return MR_OK;
  if (w->bang) return p->at++, MR_OK;
  return read_word(p, w);
}

static size_t name_span(const char *s) {
  return strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");
}

/* "x." or "x.port": length of x, else 0. */
static size_t reference(const word_t *w) {
  size_t n = name_span(w->text);
  if (w->quoted || w->key || !n || w->text[n] != '.') return 0;
  size_t m = name_span(w->text + n + 1);
  return w->text[n + 1 + m] ? 0 : n;
}

static mr_err_t check_vars(parser_t *p, const char *text, mr__pos_t pos) {
  for (const char *s = strchr(text, '$'); s; s = strchr(s, '$')) {
    if (*++s == '$') {
      s++;
      continue;
    }
    bool brace = *s == '{';
    s += brace;
    size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    if (!n || (brace && s[n] != '}'))
      return wrong(p, MR_ERR_USAGE, pos, "\"%.60s\": want $NAME or ${NAME}, or $$ for a dollar",
                   text);
    if (mr__graph_var(p->g, s, n) >= 0) continue;
    char name[64], hint[96];
    snprintf(name, sizeof name, "%.*s", (int)n, s);
    mr_suggest_t near = {.word = name};
    for (int i = 0; i < p->g->n_vars; i++) mr_suggest_offer(&near, p->g->var[i].name);
    return wrong(p, MR_ERR_USAGE, pos, "unknown variable $%s%s", name,
                 mr_suggest_text(&near, hint, sizeof hint));
  }
  return MR_OK;
}

static mr_err_t add_var(parser_t *p, const char *name, size_t n, const char *value, mr__pos_t pos) {
  mr_graph_t *g = p->g;
  if (mr__graph_var(g, name, n) >= 0)
    return wrong(p, MR_ERR_USAGE, pos, "the variable \"%.*s\" is already there", (int)n, name);
  MR_TRY(check_vars(p, value, pos));
  mr__var_t *more = realloc(g->var, (size_t)(g->n_vars + 1) * sizeof *more);
  if (!more) return mr_fail(p->diag, MR_ERR_NOMEM, "out of memory for a graph");
  g->var = more;
  mr__var_t v = {mr__graph_text(g, name, n), mr__graph_text(g, value, strlen(value)), true};
  if (!v.name || !v.text) return mr_fail(p->diag, MR_ERR_NOMEM, "out of memory for a graph");
  g->var[g->n_vars++] = v;
  return MR_OK;
}

static void skip_spaces(parser_t *p) { p->at += strspn(p->at, " \t\r"); }

/* After the word "let": NAME = VALUE up to the end of the line. */
static mr_err_t parse_let(parser_t *p) {
  skip_spaces(p);
  mr__pos_t pos = here(p);
  const char *name = p->at;
  size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
  p->at += n;
  skip_spaces(p);
  if (!n || *p->at != '=') return wrong(p, MR_ERR_USAGE, pos, "want let NAME = VALUE");
  p->at++;
  skip_spaces(p);
  MR_TRY(read_word(p, &p->word));
  if (!*p->word.text && !p->word.quoted)
    return wrong(p, MR_ERR_USAGE, p->word.pos, "want a value after \"let %.*s =\"", (int)n, name);
  MR_TRY(add_var(p, name, n, p->word.text, pos));
  skip_spaces(p);
  if (*p->at && *p->at != '\n' && *p->at != '#')
    return wrong(p, MR_ERR_USAGE, here(p), "\"%.20s\" after the value of a variable: quote it",
                 p->at);
  return next(p);
}

static bool has_set(const mr__node_t *node, const char *name) {
  for (int i = 0; i < node->n_set; i++)
    if (!strcmp(node->set[i].name, name)) return true;
  return false;
}

/* The positional setting that still has no value, or NULL. */
static const mr_opt_t *open_positional(const mr__node_t *node) {
  for (const mr_opt_t *o = node->def->opts; o && o->type != MR_OPT_END; o++)
    if (o->positional && !has_set(node, o->name)) return o;
  return NULL;
}

static mr_err_t put(parser_t *p, mr__node_t *node, const char *name, const char *text,
                    bool expand) {
  if (expand) MR_TRY(check_vars(p, text, p->word.pos));
  mr__setting_t set = {name, text, expand, p->word.pos};
  return mr__graph_put(p->g, node, set, p->diag);
}

/* KEY=VALUE in p->word. */
static mr_err_t parse_setting(parser_t *p, mr__node_t *node) {
  word_t *w = &p->word;
  char key[64];
  snprintf(key, sizeof key, "%.*s", (int)w->key, w->text);
  const char *value = w->text + w->key + 1;
  if (has_set(node, key))
    return wrong(p, MR_ERR_USAGE, w->pos, "%s: setting \"%s\" is given twice", node->def->name,
                 key);
  if (strcmp(key, "name")) return put(p, node, key, value, true);
  if (*node->name) return wrong(p, MR_ERR_USAGE, w->pos, "%s: name is given twice", node->name);
  mr__pos_t kept = node->pos;
  node->pos = w->pos, node->named = true;
  mr_err_t e = mr__graph_rename(p->g, node, value, p->diag);
  node->pos = kept;
  return e;
}

static mr_err_t bad_bare_word(parser_t *p, const mr__node_t *node) {
  char hint[96];
  mr_suggest_t near = {.word = p->word.text};
  for (const mr_opt_t *o = node->def->opts; o && o->type != MR_OPT_END; o++)
    if (o->type == MR_OPT_BOOL) mr_suggest_offer(&near, o->name);
  for (int i = 0; i < p->g->reg->n; i++) mr_suggest_offer(&near, p->g->reg->def[i]->name);
  return wrong(p, MR_ERR_USAGE, p->word.pos,
               "unexpected \"%.60s\" after %s: neither a stage nor a yes-or-no setting of it%s",
               p->word.text, node->def->name, mr_suggest_text(&near, hint, sizeof hint));
}

static bool is_word(const word_t *w, const char *text) {
  return !w->quoted && !strcmp(w->text, text);
}

/* What ends a chain beside a stage or a reference. */
static bool begins_other(const word_t *w) {
  return is_word(w, "}") || (w->line_start && (is_word(w, "let") || is_word(w, "process")));
}

/* A bare word after a stage: *done if it starts the next chain instead. */
static mr_err_t parse_bare(parser_t *p, mr__node_t *node, bool *done) {
  word_t *w = &p->word;
  const mr_opt_t *o = w->quoted ? NULL : mr_stage_def_opt(node->def, w->text);
  bool stage = w->line_start && mr_registry_find(p->g->reg, w->text); /* shuffle has shuffle= */
  if (o && o->type == MR_OPT_BOOL && !stage) return put(p, node, o->name, "true", false);
  const mr_opt_t *place = open_positional(node);
  if (!w->quoted) {
    size_t ref = reference(w);
    *done = mr_registry_find(p->g->reg, w->text) || begins_other(w) ||
            (ref && (!w->text[ref + 1] || w->line_start || !place));
    if (*done) return MR_OK;
  }
  return place ? put(p, node, place->name, w->text, true) : bad_bare_word(p, node);
}

static mr_err_t parse_settings(parser_t *p, mr__node_t *node) {
  bool done = false;
  MR_TRY(next(p));
  while (!p->word.end && !p->word.bang) {
    if (p->word.key) {
      MR_TRY(parse_setting(p, node));
    } else {
      MR_TRY(parse_bare(p, node, &done));
      if (done) break;
    }
    MR_TRY(next(p));
  }
  return MR_OK;
}

static mr_err_t parse_stage(parser_t *p, end_t *out) {
  word_t *w = &p->word;
  const mr_stage_def_t *def = w->quoted ? NULL : mr_registry_find(p->g->reg, w->text);
  if (!def) {
    char hint[96];
    mr_suggest_t near = {.word = w->text};
    for (int i = 0; i < p->g->reg->n; i++) mr_suggest_offer(&near, p->g->reg->def[i]->name);
    return wrong(p, MR_ERR_USAGE, w->pos, "unknown stage \"%.60s\"%s", w->text,
                 mr_suggest_text(&near, hint, sizeof hint));
  }
  int i = mr__graph_new_node(p->g, def, w->pos);
  if (i < 0) return mr_fail(p->diag, MR_ERR_NOMEM, "out of memory for a graph");
  *out = (end_t){.node = i, .pos = w->pos};
  p->g->node[i]->process = p->process;
  return parse_settings(p, p->g->node[i]);
}

static mr_err_t parse_reference(parser_t *p, size_t n, end_t *out) {
  const char *text = p->word.text, *port = text + n + 1;
  *out = (end_t){-1, mr__graph_text(p->g, text, n), NULL, p->word.pos};
  if (*port) out->port = mr__graph_text(p->g, port, strlen(port));
  if (!out->name || (*port && !out->port))
    return mr_fail(p->diag, MR_ERR_NOMEM, "out of memory for a graph");
  return next(p);
}

static mr_err_t parse_end(parser_t *p, end_t *out) {
  if (p->word.end || p->word.bang)
    return wrong(p, MR_ERR_USAGE, p->word.pos, "want a stage %s",
                 p->word.end ? "before the end of the text" : "before \"!\"");
  size_t n = reference(&p->word);
  return n ? parse_reference(p, n, out) : parse_stage(p, out);
}

static mr_err_t add_link(parser_t *p, end_t from, end_t to) {
  if (p->n_links == p->cap_links) {
    int cap = p->cap_links ? 2 * p->cap_links : 16;
    link_t *more = realloc(p->link, (size_t)cap * sizeof *more);
    if (!more) return mr_fail(p->diag, MR_ERR_NOMEM, "out of memory for a graph");
    p->link = more, p->cap_links = cap;
  }
  p->link[p->n_links++] = (link_t){from, to};
  return MR_OK;
}

static mr_err_t parse_chain(parser_t *p) {
  end_t from, to;
  MR_TRY(parse_end(p, &from));
  if (from.node < 0 && !p->word.bang)
    return wrong(p, MR_ERR_USAGE, from.pos, "\"%s.\" stands alone: want \"!\" after it", from.name);
  while (p->word.bang) {
    MR_TRY(next(p));
    MR_TRY(parse_end(p, &to));
    MR_TRY(add_link(p, from, to));
    from = to;
  }
  return MR_OK;
}

static mr_err_t resolve(parser_t *p, end_t *e) {
  if (e->node >= 0 || (e->node = mr__graph_find(p->g, e->name)) >= 0) return MR_OK;
  char hint[96];
  mr_suggest_t near = {.word = e->name};
  for (int i = 0; i < p->g->n_nodes; i++) mr_suggest_offer(&near, p->g->node[i]->name);
  return wrong(p, MR_ERR_USAGE, e->pos, "no stage is called \"%.60s\"%s", e->name,
               mr_suggest_text(&near, hint, sizeof hint));
}

static mr_err_t resolve_links(parser_t *p) {
  for (int i = 0; i < p->n_links; i++) {
    end_t *a = &p->link[i].from, *b = &p->link[i].to;
    MR_TRY(resolve(p, a));
    MR_TRY(resolve(p, b));
    const mr__node_t *from = p->g->node[a->node], *to = p->g->node[b->node];
    int out = mr__graph_port(from->def, true, a->port, from->name, a->pos, p->diag);
    if (out < 0) return MR_ERR_USAGE;
    int in = mr__graph_port(to->def, false, b->port, to->name, b->pos, p->diag);
    if (in < 0) return MR_ERR_USAGE;
    mr__edge_t e = {a->node, out, b->node, in, b->pos, NULL};
    MR_TRY(mr__graph_new_edge(p->g, e, p->diag));
  }
  return MR_OK;
}

/* After the word "process": NAME KEY=VALUE ... { */
static mr_err_t open_process(parser_t *p) {
  mr__pos_t pos = p->word.pos;
  if (p->process)
    return wrong(p, MR_ERR_USAGE, pos,
                 "process %s is not closed yet: want \"}\" before the next one",
                 p->g->process[p->process - 1]->name);
  MR_TRY(next(p));
  if (p->word.end || p->word.bang || p->word.key || is_word(&p->word, "{"))
    return wrong(p, MR_ERR_USAGE, pos, "want process NAME { ... }");
  mr__node_t *node = mr__process_new(p->g, pos);
  if (!node) return mr_fail(p->diag, MR_ERR_NOMEM, "out of memory for a graph");
  MR_TRY(mr__graph_rename(p->g, node, p->word.text, p->diag));
  for (;;) {
    MR_TRY(next(p));
    if (is_word(&p->word, "{")) break;
    if (!p->word.key)
      return wrong(p, MR_ERR_USAGE, p->word.pos, "want \"{\" or KEY=VALUE after process %s",
                   node->name);
    MR_TRY(parse_setting(p, node));
  }
  p->process = p->g->n_processes;
  return next(p);
}

static mr_err_t close_process(parser_t *p) {
  if (!p->process)
    return wrong(p, MR_ERR_USAGE, p->word.pos, "\"}\" without a process { before it");
  p->process = 0;
  return next(p);
}

static mr_err_t parse_all(parser_t *p) {
  MR_TRY(next(p));
  while (!p->word.end) {
    if (!begins_other(&p->word))
      MR_TRY(parse_chain(p));
    else if (is_word(&p->word, "}"))
      MR_TRY(close_process(p));
    else
      MR_TRY(is_word(&p->word, "let") ? parse_let(p) : open_process(p));
  }
  if (p->process)
    return wrong(p, MR_ERR_USAGE, p->word.pos, "process %s is not closed: want \"}\"",
                 p->g->process[p->process - 1]->name);
  MR_TRY(mr__graph_name_all(p->g, p->diag));
  return resolve_links(p);
}

mr_err_t mr_graph_parse(mr_graph_t *g, const char *text, const char *const *overrides, int n,
                        mr_diag_t *diag) {
  if (g->settled) return mr_fail(diag, MR_ERR_USAGE, "the graph is settled: it cannot change");
  parser_t *p = calloc(1, sizeof *p);
  if (!p) return mr_fail(diag, MR_ERR_NOMEM, "out of memory for a graph");
  *p = (parser_t){.g = g, .diag = diag, .at = text, .line_start = text, .line = 1};
  p->fresh_line = true;
  mr_err_t e = parse_all(p);
  if (e >= 0 && !g->n_nodes) e = mr_fail(diag, MR_ERR_USAGE, "the graph has no stages");
  free(p->link);
  free(p);
  for (int i = 0; i < n && e >= 0; i++) e = mr_graph_override(g, overrides[i], diag);
  return e;
}
