/* Parses the text form of a graph: chains, references, processes, plug-ins; the grammar is in
   graph.h.

   References are resolved after the whole text has been read, so a chain may lead into a stage that
   the text defines later. */
#include <stdlib.h>
#include <string.h>

#include "base/feature.h"
#include "pipeline/text/text_private.h"

/* Fails for a word in place of a stage's name. */
static mr_err_t unknown_stage(mr__text_parser_t *p) {
  char hint[MR_HINT_MAX], name[64];
  const char *text = p->word.text;
  size_t n = strcspn(text, "(,:=");
  snprintf(name, sizeof name, "%.*s", (int)n, text);
  const mr_stage_def_t *meant = mr_registry_find(p->g->reg, name);
  if (meant && text[n] && !p->word.quoted)
    snprintf(hint, sizeof hint, "; settings follow %s after a blank, without \"%c\"", name,
             text[n]);
  else if (p->word.quoted && meant)
    snprintf(hint, sizeof hint, "; write %s without quotes", name);
  else
    mr_registry_hint(p->g->reg, n ? name : text, hint, sizeof hint);
  return mr__text_wrong(p, MR_ERR_USAGE, p->word.pos, "unknown stage \"%.60s\"%s", text, hint);
}

static mr_err_t parse_stage(mr__text_parser_t *p, mr__end_t *out) {
  mr__word_t *w = &p->word;
  const mr_stage_def_t *def = w->quoted ? NULL : mr_registry_find(p->g->reg, w->text);
  if (!def) return unknown_stage(p);
  if (!mr_built_in(def->needs)) {
    mr_diag_t why = {0};
    mr_err_t e = mr_without(&why, def->name, def->needs);
    return mr__text_wrong(p, e, w->pos, "%s", why.text);
  }
  int i = mr__graph_new_node(p->g, def, w->pos);
  if (i < 0) return mr_no_memory(p->diag, "a graph");
  *out = (mr__end_t){.node = i, .pos = w->pos};
  p->g->node[i]->process = p->process;
  if (strcmp(w->text, def->name) &&
      !(p->g->node[i]->alias = mr__graph_text(p->g, w->text, strlen(w->text))))
    return mr_no_memory(p->diag, "a graph");
  return mr__text_settings(p, p->g->node[i]);
}

static mr_err_t parse_reference(mr__text_parser_t *p, size_t n, mr__end_t *out) {
  const char *text = p->word.text, *port = text + n + 1;
  *out = (mr__end_t){-1, mr__graph_text(p->g, text, n), NULL, p->word.pos};
  if (*port) out->port = mr__graph_text(p->g, port, strlen(port));
  if (!out->name || (*port && !out->port)) return mr_no_memory(p->diag, "a graph");
  return mr__text_next(p);
}

static mr_err_t parse_end(mr__text_parser_t *p, bool joined, mr__end_t *out) {
  if (p->word.end || p->word.bang)
    return mr__text_wrong(
        p, MR_ERR_USAGE, p->word.pos, "want a stage %s",
        p->word.end ? "before the end of the text: \"!\" joins two stages" : "before \"!\"");
  size_t n = joined ? mr__word_destination(&p->word) : mr__word_reference(&p->word);
  return n ? parse_reference(p, n, out) : parse_stage(p, out);
}

static mr_err_t text_add_link(mr__text_parser_t *p, mr__end_t from, mr__end_t to) {
  if (p->n_links == p->cap_links) {
    int cap = p->cap_links ? 2 * p->cap_links : 16;
    mr__end_link_t *more = realloc(p->link, (size_t)cap * sizeof *more);
    if (!more) return mr_no_memory(p->diag, "a graph");
    p->link = more, p->cap_links = cap;
  }
  p->link[p->n_links++] = (mr__end_link_t){from, to};
  return MR_OK;
}

static mr_err_t parse_chain(mr__text_parser_t *p) {
  mr__end_t from, to;
  MR_TRY(parse_end(p, false, &from));
  if (from.node < 0 && !p->word.bang)
    return mr__text_wrong(p, MR_ERR_USAGE, from.pos, "\"%s.\" is alone: want \"!\" after it",
                          from.name);
  while (p->word.bang) {
    MR_TRY(mr__text_next(p));
    MR_TRY(parse_end(p, true, &to));
    MR_TRY(text_add_link(p, from, to));
    from = to;
  }
  return MR_OK;
}

static mr_err_t text_resolve(mr__text_parser_t *p, mr__end_t *e) {
  if (e->node >= 0 || (e->node = mr__graph_find(p->g, e->name)) >= 0) return MR_OK;
  char hint[96];
  mr_suggest_t near = {.word = e->name};
  for (int i = 0; i < p->g->n_nodes; i++) mr_suggest_offer(&near, p->g->node[i]->name);
  return mr__text_wrong(p, MR_ERR_USAGE, e->pos, "no stage is called \"%.60s\"%s", e->name,
                        mr_suggest_text(&near, hint, sizeof hint));
}

static mr_err_t resolve_links(mr__text_parser_t *p) {
  for (int i = 0; i < p->n_links; i++) {
    mr__end_t *a = &p->link[i].from, *b = &p->link[i].to;
    MR_TRY(text_resolve(p, a));
    MR_TRY(text_resolve(p, b));
    const mr__node_t *from = p->g->node[a->node];
    int out = mr__graph_port(from->def, true, a->port, from->name, a->pos, p->diag);
    if (out < 0) return MR_ERR_USAGE;
    mr__edge_t e = {.from = a->node, .out = out, .to = b->node, .pos = b->pos};
    MR_TRY(mr__graph_input(p->g, b->node, b->port, b->pos, &e, p->diag));
    MR_TRY(mr__graph_new_edge(p->g, e, p->diag));
  }
  return MR_OK;
}

/* After the word "process": NAME NAME=VALUE ... { */
static mr_err_t open_process(mr__text_parser_t *p) {
  mr__pos_t pos = p->word.pos;
  if (p->process)
    return mr__text_wrong(p, MR_ERR_USAGE, pos,
                          "process %s is not closed yet: want \"}\" before the next one",
                          p->g->process[p->process - 1]->name);
  MR_TRY(mr__text_next(p));
  if (p->word.end || p->word.bang || p->word.name_n || mr__word_is(&p->word, "{"))
    return mr__text_wrong(p, MR_ERR_USAGE, pos, "want process NAME { ... }");
  mr__node_t *node = mr__process_new(p->g, pos);
  if (!node) return mr_no_memory(p->diag, "a graph");
  MR_TRY(mr__graph_rename(p->g, node, p->word.text, p->diag));
  for (;;) {
    MR_TRY(mr__text_next(p));
    if (mr__word_is(&p->word, "{")) break;
    if (!p->word.name_n)
      return mr__text_wrong(p, MR_ERR_USAGE, p->word.pos,
                            "want \"{\" or NAME=VALUE after process %s", node->name);
    MR_TRY(mr__text_setting(p, node));
  }
  p->process = p->g->n_processes;
  return mr__text_next(p);
}

static mr_err_t close_process(mr__text_parser_t *p) {
  if (!p->process)
    return mr__text_wrong(p, MR_ERR_USAGE, p->word.pos, "\"}\" without a process { before it");
  p->process = 0;
  return mr__text_next(p);
}

/* After the word "plugin": FILE */
static mr_err_t parse_plugin(mr__text_parser_t *p) {
  mr__word_t *w = &p->word;
  mr__pos_t pos = w->pos;
  mr_diag_t why = {0};
  MR_TRY(mr__text_next(p));
  if (w->end || w->bang || w->line_start || !*w->text)
    return mr__text_wrong(p, MR_ERR_USAGE, pos, "want plugin FILE");
  if (strchr(w->text, '$'))
    return mr__text_wrong(p, MR_ERR_USAGE, w->pos,
                          "\"%.60s\": a plug-in is loaded as the text is read, before variables "
                          "have their values; name its file without \"$\"",
                          w->text);
  mr_err_t e = mr__graph_plugin(p->g, w->text, &why);
  return e >= 0 ? mr__text_next(p) : mr__text_wrong(p, e, pos, "%s", why.text);
}

static mr_err_t parse_all(mr__text_parser_t *p) {
  MR_TRY(mr__text_next(p));
  while (!p->word.end) {
    if (mr__word_is(&p->word, "}"))
      MR_TRY(close_process(p));
    else if (mr__word_is(&p->word, "let"))
      MR_TRY(mr__text_let(p));
    else if (mr__word_is(&p->word, "plugin"))
      MR_TRY(parse_plugin(p));
    else
      MR_TRY(mr__word_is(&p->word, "process") ? open_process(p) : parse_chain(p));
  }
  if (p->process)
    return mr__text_wrong(p, MR_ERR_USAGE, p->word.pos, "process %s is not closed: want \"}\"",
                          p->g->process[p->process - 1]->name);
  MR_TRY(mr__graph_name_all(p->g, p->diag));
  return resolve_links(p);
}

mr_err_t mr_graph_parse(mr_graph_t *g, const char *text, const char *const *overrides, int n,
                        mr_diag_t *diag) {
  if (g->settled) return mr_fail(diag, MR_ERR_USAGE, "the graph is settled: it cannot change");
  mr__text_parser_t *p = calloc(1, sizeof *p);
  if (!p) return mr_no_memory(diag, "a graph");
  mr_diag_t why = {0};
  *p = (mr__text_parser_t){.g = g, .diag = &why, .at = text, .line_start = text, .line = 1};
  p->fresh_line = true;
  mr_err_t e = parse_all(p);
  if (e >= 0 && !g->n_nodes) e = mr_fail(&why, MR_ERR_USAGE, "the graph has no stages");
  free(p->link);
  free(p);
  if (e >= 0) e = mr__graph_overrides(g, overrides, n, &why);
  return e >= 0 ? MR_OK : mr__fail_at_origin(g, e, &why, diag);
}
