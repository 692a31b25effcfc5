/* Building a graph: nodes, settings, edges, variables.  Everything is checked as it is added,
   except values, which settle parses. */
#include "pipeline/graph/graph.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/feature.h"
#include "base/text.h"
#include "pipeline/graph/graph_private.h"

/* relaxed: what waits looks again soon, and is handed nothing. */
static bool graph_ends(const void *of) {
  const mr_graph_t *g = of;
  return atomic_load_explicit(&g->stop, memory_order_relaxed) ||
         atomic_load_explicit(&g->cancel, memory_order_relaxed) ||
         (g->outer && atomic_load_explicit(g->outer, memory_order_relaxed));
}

void mr_graph_ends_with(mr_graph_t *g, const mr_atomic_int_t *outer) { g->outer = outer; }

mr_halt_t mr__graph_halt(const mr_graph_t *g) { return (mr_halt_t){.asked = graph_ends, .of = g}; }

mr_graph_t *mr_graph_create(const mr_registry_t *reg) {
  mr_graph_t *g = calloc(1, sizeof *g);
  if (!g) return NULL;
  g->reg = reg;
  pthread_mutex_init(&g->lock, NULL);
  pthread_mutex_init(&g->commit_lock, NULL);
  mr_cond_init(&g->answered);
  mr_cond_init(&g->ended);
  return g;
}

const char *mr__graph_text(mr_graph_t *g, const char *s, size_t n) {
  mr__text_t *t = malloc(sizeof *t + n + 1);
  if (!t) return NULL;
  memcpy(t->s, s, n);
  t->s[n] = 0;
  t->next = g->texts, g->texts = t;
  return t->s;
}

mr_err_t mr_graph_set_origin(mr_graph_t *g, const char *origin, mr_diag_t *diag) {
  g->origin = mr__graph_text(g, origin, strlen(origin));
  return g->origin ? MR_OK : mr_no_memory(diag, "a graph");
}

void mr_graph_on_plugin(mr_graph_t *g, mr_plugin_fn *load, void *ctx) {
  g->load_plugin = load, g->plugin_ctx = ctx;
}

void mr_graph_on_missing(mr_graph_t *g, mr_missing_fn *add) { g->add_missing = add; }

mr_err_t mr__fail_at_origin(const mr_graph_t *g, mr_err_t code, const mr_diag_t *why,
                            mr_diag_t *diag) {
  size_t digits = strspn(why->text, "0123456789");
  bool has_place = g->origin && digits && why->text[digits] == ':';
  return mr_fail(diag, code, "%s%s%s", has_place ? g->origin : "", has_place ? ":" : "", why->text);
}

/* Makes room for one more row in a growing array; false without memory. */
static bool graph_grow(void *array, int n, size_t row) {
  void **a = array;
  if (n & (n - 1)) return true; /* grows when n is 0 or a power of two */
  void *more = realloc(*a, (n ? 2u * (size_t)n : 1u) * row);
  if (more) *a = more;
  return more != NULL;
}

mr_err_t mr__graph_plugin(mr_graph_t *g, const char *file, mr_diag_t *diag) {
  const char *copy = mr__graph_text(g, file, strlen(file));
  if (!copy || !graph_grow(&g->plugin, g->n_plugins, sizeof *g->plugin))
    return mr_no_memory(diag, "a graph");
  g->plugin[g->n_plugins++] = copy;
  if (!g->load_plugin)
    return mr_fail(diag, MR_ERR_UNAVAILABLE,
                   "plugin %s: this program loads no plug-ins that graph text names; name it on "
                   "the command line with --plugin",
                   file);
  return g->load_plugin(g->plugin_ctx, g->origin, file, diag);
}

int mr__graph_find(const mr_graph_t *g, const char *name) {
  for (int i = 0; i < g->n_nodes; i++)
    if (!strcmp(g->node[i]->name, name)) return i;
  return -1;
}

/* Pages of their own: most stages use the first worker alone, and a heap that takes back such
   blocks would clear them whole for the next stage. */
static mr_stage_t *make_workers(void) {
  void *at = mmap(NULL, MR_MAX_WORKERS * sizeof(mr_stage_t), PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return at == MAP_FAILED ? NULL : at;
}

void mr__workers_free(mr_stage_t *worker) {
  if (worker) munmap(worker, MR_MAX_WORKERS * sizeof *worker);
}

bool mr__node_ports(mr__node_t *node, int inputs) {
  mr_stage_t *s = node->worker;
  int described = mr_stage_def_n_in(node->def), n_out = mr_stage_def_n_out(node->def);
  int n_in = inputs > described ? inputs : described;
  size_t in = n_in ? (size_t)n_in : 1, out = n_out ? (size_t)n_out : 1;
  mr_spec_t *spec = calloc(1, (in + out) * (sizeof *spec + sizeof(bool)) + 2 * in * sizeof(char *));
  if (!spec) return false;
  free(node->ports), free(node->edge_in);
  node->ports = spec, node->edge_in = NULL;
  s->n_in = n_in, s->n_out = n_out;
  s->in_spec = spec, s->out_spec = spec + in;
  s->in_name = (const char **)(spec + in + out), s->in_from = s->in_name + in;
  s->in_linked = (bool *)(s->in_from + in), s->out_linked = s->in_linked + in;
  return true;
}

int mr__graph_new_node(mr_graph_t *g, const mr_stage_def_t *def, mr__pos_t pos) {
  mr__node_t *node = calloc(1, sizeof *node);
  if (!node || !graph_grow(&g->node, g->n_nodes, sizeof *g->node)) return free(node), -1;
  def = mr_stage_def_usual(def);
  *node = (mr__node_t){.def = def, .name = "", .pos = pos};
  node->worker = make_workers();
  node->state = aligned_alloc(64, (def->state_sz + 64) / 64 * 64);
  if (!node->worker || !node->state || !mr__node_ports(node, 0))
    return mr__workers_free(node->worker), free(node->state), free(node), -1;
  node->worker->def = def;
  node->worker->name = node->name;
  g->node[g->n_nodes] = node;
  return g->n_nodes++;
}

static bool graph_has_name(const mr_graph_t *g, const char *name) {
  return mr__graph_find(g, name) >= 0 || mr__process_find(g, name) >= 0;
}

int mr__process_find(const mr_graph_t *g, const char *name) {
  for (int i = 0; i < g->n_processes; i++)
    if (!strcmp(g->process[i]->name, name)) return i;
  return -1;
}

static mr_err_t fail_if_settled(const mr_graph_t *g, mr_diag_t *diag) {
  return g->settled ? mr_fail(diag, MR_ERR_USAGE, "the graph is settled: it cannot change") : MR_OK;
}

mr_err_t mr_graph_add(mr_graph_t *g, const char *def, const char *name, const char **given,
                      mr_diag_t *diag) {
  MR_TRY(fail_if_settled(g, diag));
  const mr_stage_def_t *d = mr_registry_find(g->reg, def);
  if (!d) {
    char hint[MR_HINT_MAX];
    return mr_fail(diag, MR_ERR_USAGE, "unknown stage \"%.60s\"%s", def,
                   mr_registry_hint(g->reg, def, hint, sizeof hint));
  }
  return mr_graph_add_def(g, d, name, given, diag);
}

mr_err_t mr_graph_add_def(mr_graph_t *g, const mr_stage_def_t *d, const char *name,
                          const char **given, mr_diag_t *diag) {
  MR_TRY(fail_if_settled(g, diag));
  if (!mr_built_in(d->needs)) return mr_without(diag, d->name, d->needs);
  if (name && graph_has_name(g, name))
    return mr_fail(diag, MR_ERR_USAGE, "%s: the name \"%.60s\" is taken", d->name, name);
  int i = mr__graph_new_node(g, d, (mr__pos_t){0});
  if (i < 0) return mr_no_memory(diag, "a graph");
  mr__node_t *node = g->node[i];
  node->named = name != NULL;
  MR_TRY(name ? mr__graph_rename(g, node, name, diag) : mr__graph_name(g, node, diag));
  if (given) *given = node->name;
  return MR_OK;
}

/* A hint what to write instead of a setting that def lacks, into text[0,n), or "". */
static const char *setting_hint(const mr_graph_t *g, const mr_stage_def_t *def, const char *name,
                                char *text, size_t n) {
  mr_suggest_t near = {.word = name};
  for (const mr_opt_t *o = def->opts; o && o->type != MR_OPT_END; o++)
    mr_suggest_offer(&near, o->name);
  if (mr_stage_def_parallel(def)) mr_suggest_offer(&near, "workers");
  if (near.best && !near.distance) return mr_suggest_text(&near, text, n);
  if (*mr_registry_setting_hint(g->reg, def, name, near.best != NULL, text, n)) return text;
  if (near.best) return mr_suggest_text(&near, text, n);
  snprintf(text, n, "; `millrace inspect %s` lists its settings", def->name);
  return text;
}

static mr_err_t unknown_setting(const mr_graph_t *g, const mr__node_t *node,
                                const mr__setting_t *set, mr_diag_t *diag) {
  char at[32], hint[MR_HINT_MAX];
  return mr_fail(diag, MR_ERR_CONFIG, "%s%s: unknown setting \"%.60s\"%s",
                 mr__pos_text(set->pos, at, sizeof at), *node->name ? node->name : node->def->name,
                 set->name, setting_hint(g, node->def, set->name, hint, sizeof hint));
}

void mr__node_forget(mr__node_t *node) {
  if (node->planned && node->def->forget) node->def->forget(node->worker);
  node->planned = false;
}

/* Gives a node another definition of its family. */
static mr_err_t redefine_node(mr__node_t *node, const mr_stage_def_t *d, mr_diag_t *diag) {
  if (node->def == d) return MR_OK;
  void *state = aligned_alloc(64, (d->state_sz + 64) / 64 * 64);
  if (!state) return mr_no_memory(diag, "a graph");
  mr__node_forget(node);
  free(node->state);
  node->state = state, node->def = node->worker->def = d;
  return mr__node_ports(node, 0) ? MR_OK : mr_no_memory(diag, "a graph");
}

static mr_err_t graph_choose(mr_graph_t *g, mr__node_t *node, const mr__setting_t *set,
                             mr_diag_t *diag) {
  char at[160], hint[MR_HINT_MAX];
  const mr_stage_def_t *d = node->def->choose(mr__setting_text(set), hint, sizeof hint);
  if (d) return redefine_node(node, d, diag);
  return mr_fail(diag, MR_ERR_CONFIG, "%s%s: setting %s = %.60s: not accepted%s",
                 mr__setting_where(g, node->def, set, at, sizeof at),
                 *node->name ? node->name : node->def->name, set->name, mr__setting_text(set),
                 hint);
}

mr_err_t mr__graph_choose(mr_graph_t *g, mr__node_t *node, bool resolved, mr_diag_t *diag) {
  if (!node->def->choose) return MR_OK;
  for (int i = 0; i < node->n_set; i++) {
    const mr__setting_t *set = &node->set[i];
    if (strcmp(set->name, node->def->chosen_by)) continue;
    if (!resolved && set->expand && strchr(set->text, '$')) return MR_OK; /* not yet known */
    MR_TRY(graph_choose(g, node, set, diag));
  }
  for (int i = 0; i < node->n_set; i++)
    if (!mr_stage_def_knows(node->def, node->set[i].name))
      return unknown_setting(g, node, &node->set[i], diag);
  return MR_OK;
}

mr_err_t mr__graph_put(mr_graph_t *g, mr__node_t *node, mr__setting_t set, mr_diag_t *diag) {
  bool later = node->def->choose && set.pos.line; /* mr__graph_choose checks it */
  if (!later && !mr_stage_def_knows(node->def, set.name))
    return unknown_setting(g, node, &set, diag);
  set.name = mr__graph_text(g, set.name, strlen(set.name));
  set.text = mr__graph_text(g, set.text, strlen(set.text));
  if (!set.name || !set.text) return mr_no_memory(diag, "a graph");
  for (int i = 0; i < node->n_set; i++)
    if (!strcmp(node->set[i].name, set.name)) return node->set[i] = set, MR_OK;
  if (!graph_grow(&node->set, node->n_set, sizeof *node->set)) return mr_no_memory(diag, "a graph");
  node->set[node->n_set++] = set;
  return MR_OK;
}

static mr_err_t find_stage(const mr_graph_t *g, const char *name, mr__node_t **out,
                           mr_diag_t *diag) {
  int i = mr__graph_find(g, name);
  if (i >= 0) return *out = g->node[i], MR_OK;
  if ((i = mr__process_find(g, name)) >= 0) return *out = g->process[i], MR_OK;
  char hint[96];
  mr_suggest_t near = {.word = name};
  for (int k = 0; k < g->n_nodes; k++) {
    if (!strcmp(g->node[k]->def->name, name))
      return mr_fail(diag, MR_ERR_USAGE,
                     "no stage of the graph is called \"%.60s\"; the %s is \"%s\"", name, name,
                     g->node[k]->name);
    mr_suggest_offer(&near, g->node[k]->name);
  }
  return mr_fail(diag, MR_ERR_USAGE, "no stage of the graph is called \"%.60s\"%s", name,
                 mr_suggest_text(&near, hint, sizeof hint));
}

mr_err_t mr__graph_set_given(mr_graph_t *g, const char *stage, const char *setting,
                             const char *value, const char *given, mr_diag_t *diag) {
  mr__node_t *node = NULL;
  MR_TRY(fail_if_settled(g, diag));
  MR_TRY(find_stage(g, stage, &node, diag));
  return mr__graph_put(g, node, (mr__setting_t){.name = setting, .text = value, .given = given},
                       diag);
}

mr_err_t mr_graph_set(mr_graph_t *g, const char *stage, const char *setting, const char *value,
                      mr_diag_t *diag) {
  MR_TRY(mr__graph_set_given(g, stage, setting, value, NULL, diag));
  mr__node_t *node = NULL;
  MR_TRY(find_stage(g, stage, &node, diag));
  return mr__graph_choose(g, node, true, diag);
}

int mr__graph_port(const mr_stage_def_t *def, bool out, const char *name, const char *stage,
                   mr__pos_t pos, mr_diag_t *diag) {
  const mr_port_def_t *port = out ? def->out : def->in;
  int n = out ? mr_stage_def_n_out(def) : mr_stage_def_n_in(def);
  const char *kind = out ? "output" : "input";
  char at[32], hint[96];
  mr__pos_text(pos, at, sizeof at);
  if (!n) return mr_fail(diag, MR_ERR_USAGE, "%s%s has no %s", at, stage, kind), -1;
  if (!name || !*name) return 0;
  mr_suggest_t near = {.word = name};
  for (int i = 0; i < n; i++) {
    if (!strcmp(port[i].name, name)) return i;
    mr_suggest_offer(&near, port[i].name);
  }
  mr_fail(diag, MR_ERR_USAGE, "%s%s has no %s \"%.60s\"%s", at, stage, kind, name,
          mr_suggest_text(&near, hint, sizeof hint));
  return -1;
}

/* Length of "valid." in the name "valid.*" of a family, else 0. */
static size_t family_prefix(const mr_port_def_t *p) { return p->family ? strlen(p->name) - 1 : 0; }

/* Such a name becomes a kind of record: in tables, in JSON, in the labels of scrapers. */
static mr_err_t check_family_name(const char *name, const char *stage, mr__pos_t pos,
                                  mr_diag_t *diag) {
  const char *own = name + strcspn(name, ".") + 1;
  size_t n = strlen(name);
  char at[32], shown[96];
  if (own[strspn(own, mr__name_characters)] == 0 && n <= MR_IN_NAME_MAX) return MR_OK;
  mr__pos_text(pos, at, sizeof at);
  mr_printable_cell(name, 64, shown, sizeof shown);
  if (n > MR_IN_NAME_MAX)
    return mr_fail(diag, MR_ERR_USAGE,
                   "%s%s.%s...: the name of this input has %zu characters; want at most %d", at,
                   stage, shown, n, MR_IN_NAME_MAX);
  return mr_fail(diag, MR_ERR_USAGE, "%s%s.%s: want %.*sNAME with a NAME of [A-Za-z0-9_-]", at,
                 stage, shown, (int)(own - name), name);
}

/* The first input that nothing leads into yet, of node i, whose inputs are alike. */
static mr_err_t take_free_input(mr_graph_t *g, int i, mr__pos_t pos, mr__edge_t *e,
                                mr_diag_t *diag) {
  const mr__node_t *node = g->node[i];
  int n = node->free_in, most = mr_stage_def_most_in(node->def);
  char at[32];
  while (n < most && mr_stage_def_input(node->def, n)->alike && mr__edge_into(g, i, n)) n++;
  g->node[i]->free_in = n;
  if (n == most || !mr_stage_def_input(node->def, n)->alike)
    return mr_fail(diag, MR_ERR_USAGE,
                   "%s%s has %d inputs, and each is connected already; want fewer, or some of them "
                   "joined by another %s before it",
                   mr__pos_text(pos, at, sizeof at), node->name, n, node->def->name);
  e->in = n;
  return MR_OK;
}

/* The input behind the described ones that a name of letters means; -1: it means none. */
static int lettered_input(const mr_stage_def_t *def, const char *name) {
  int i = 0, most = mr_stage_def_most_in(def);
  if (!name || !*name || strlen(name) >= MR_INPUT_LETTERS) return -1;
  for (const char *at = name; *at; at++) {
    if (*at < 'a' || *at > 'z') return -1;
    i = 26 * i + *at - 'a' + 1;
  }
  return i > mr_stage_def_n_in(def) && i <= most ? i - 1 : -1;
}

mr_err_t mr__graph_input(mr_graph_t *g, int i, const char *name, mr__pos_t pos, mr__edge_t *e,
                         mr_diag_t *diag) {
  const mr__node_t *node = g->node[i];
  const mr_port_def_t *port = node->def->in;
  int free_port = -1, n = 0;
  char at[32];
  for (int k = 0; name && k < MR_MAX_PORTS && port[k].name; k++) {
    size_t prefix = family_prefix(&port[k]);
    if (!prefix || strncmp(name, port[k].name, prefix) != 0 || !name[prefix]) continue;
    const mr__edge_t *taken = mr__edge_into(g, i, k);
    n++;
    if (!taken && free_port < 0) free_port = k;
    if (taken && !strcmp(taken->in_name, name)) free_port = k, taken = NULL, k = MR_MAX_PORTS;
  }
  if (n) MR_TRY(check_family_name(name, node->name, pos, diag));
  if (n && free_port < 0)
    return mr_fail(diag, MR_ERR_USAGE, "%s%s.%.60s: %s has at most %d inputs %.*sNAME",
                   mr__pos_text(pos, at, sizeof at), node->name, name, node->name, n,
                   (int)strcspn(name, ".") + 1, name);
  e->in_name = n ? mr__graph_text(g, name, strlen(name)) : NULL;
  if (n && !e->in_name) return mr_no_memory(diag, "a graph");
  if ((!name || !*name) && port[0].alike) return take_free_input(g, i, pos, e, diag);
  e->in = n ? -1 : lettered_input(node->def, name);
  if (e->in >= 0) return MR_OK;
  e->in = n ? free_port : mr__graph_port(node->def, false, name, node->name, pos, diag);
  return e->in < 0 ? MR_ERR_USAGE : MR_OK;
}

const char *mr__edge_in_name(const mr_graph_t *g, const mr__edge_t *e) {
  return e->in_name ? e->in_name : mr_stage_def_input(g->node[e->to]->def, e->in)->name;
}

static void forget_inputs(mr__node_t *node) {
  free(node->edge_in);
  node->edge_in = NULL, node->free_in = 0;
}

/* Puts an edge behind those that lead to the same node. */
static void list_edge(mr_graph_t *g, int edge) {
  mr__node_t *node = g->node[g->edge[edge].to];
  *(node->first_in ? &g->edge[node->last_in - 1].next_in : &node->first_in) = edge + 1;
  node->last_in = edge + 1;
  g->edge[edge].next_in = 0;
}

void mr__graph_list_edges(mr_graph_t *g) {
  for (int i = 0; i < g->n_nodes; i++) g->node[i]->first_in = 0, forget_inputs(g->node[i]);
  for (int i = 0; i < g->n_edges; i++) list_edge(g, i);
}

void mr__graph_redirect(mr_graph_t *g, int edge, int to) {
  mr__edge_t *e = &g->edge[edge];
  mr__node_t *node = g->node[e->to];
  int *at = &node->first_in, before = 0;
  for (; *at != edge + 1; at = &g->edge[before - 1].next_in) before = *at;
  *at = e->next_in;
  if (node->last_in == edge + 1) node->last_in = before;
  forget_inputs(node), forget_inputs(g->node[to]);
  e->to = to, e->in = 0, e->in_name = NULL;
  list_edge(g, edge);
}

mr_err_t mr__graph_new_edge(mr_graph_t *g, mr__edge_t e, mr_diag_t *diag) {
  char letters[MR_INPUT_LETTERS];
  bool named = e.in_name || e.in < mr_stage_def_n_in(g->node[e.to]->def);
  if (!named) e.in_name = mr__graph_text(g, letters, strlen(mr_input_letters(e.in, letters)));
  if (!named && !e.in_name) return mr_no_memory(diag, "a graph");
  if (!graph_grow(&g->edge, g->n_edges, sizeof *g->edge)) return mr_no_memory(diag, "a graph");
  g->edge[g->n_edges++] = e;
  free(g->node[e.to]->edge_in), g->node[e.to]->edge_in = NULL;
  list_edge(g, g->n_edges - 1);
  return MR_OK;
}

mr_err_t mr_graph_link(mr_graph_t *g, const char *from, const char *out_port, const char *to,
                       const char *in_port, mr_diag_t *diag) {
  mr__node_t *a = NULL, *b = NULL;
  MR_TRY(fail_if_settled(g, diag));
  MR_TRY(find_stage(g, from, &a, diag));
  MR_TRY(find_stage(g, to, &b, diag));
  int out = mr__graph_port(a->def, true, out_port, a->name, (mr__pos_t){0}, diag);
  if (out < 0) return MR_ERR_USAGE;
  mr__edge_t e = {.from = mr__graph_find(g, from), .out = out, .to = mr__graph_find(g, to)};
  MR_TRY(mr__graph_input(g, e.to, in_port, e.pos, &e, diag));
  return mr__graph_new_edge(g, e, diag);
}

mr_err_t mr_graph_insert(mr_graph_t *g, const char *def, const char *stage, int in_port,
                         const char **given, mr_diag_t *diag) {
  int to = mr__graph_find(g, stage), at = 0;
  while (at < g->n_edges && (g->edge[at].to != to || g->edge[at].in != in_port)) at++;
  if (to < 0 || at == g->n_edges)
    return mr_fail(diag, MR_ERR_USAGE, "%.60s: no stage leads into its input %d", stage, in_port);
  MR_TRY(mr_graph_add(g, def, NULL, given, diag));
  int i = mr__graph_find(g, *given);
  g->node[i]->process = g->node[to]->process;
  mr__edge_t e = {
      .from = i, .to = to, .in = in_port, .pos = g->edge[at].pos, .in_name = g->edge[at].in_name};
  mr__graph_redirect(g, at, i);
  return mr__graph_new_edge(g, e, diag);
}

mr_err_t mr_graph_set_depth(mr_graph_t *g, int depth, mr_diag_t *diag) {
  MR_TRY(fail_if_settled(g, diag));
  if (depth < 2 || depth > 1024 || (depth & (depth - 1)))
    return mr_fail(diag, MR_ERR_CONFIG, "depth = %d: want a power of two in [2,1024]", depth);
  g->depth = depth;
  return MR_OK;
}

mr_err_t mr_graph_set_pool(mr_graph_t *g, int most, mr_diag_t *diag) {
  MR_TRY(fail_if_settled(g, diag));
  if (most < 1 || most > 65536)
    return mr_fail(diag, MR_ERR_CONFIG, "pool = %d: want a number of buffers in [1,65536]", most);
  g->pool_most = most;
  return MR_OK;
}

mr_err_t mr_graph_swap(mr_graph_t *g, const char *from, const char *to, mr_diag_t *diag) {
  MR_TRY(fail_if_settled(g, diag));
  const mr_stage_def_t *d = mr_registry_find(g->reg, to);
  if (!d) return mr_fail(diag, MR_ERR_USAGE, "unknown stage \"%.60s\"", to);
  d = mr_stage_def_usual(d);
  for (int i = 0; i < g->n_nodes; i++) {
    mr__node_t *node = g->node[i];
    if (strcmp(node->def->name, from)) continue;
    MR_TRY(redefine_node(node, d, diag));
    int kept = 0;
    for (int k = 0; k < node->n_set; k++)
      if (mr_stage_def_knows(d, node->set[k].name)) node->set[kept++] = node->set[k];
    node->n_set = kept;
    if (node->named) continue;
    node->name = "", node->alias = NULL;
    mr__names_forget(g); /* its former name is free */
    MR_TRY(mr__graph_name(g, node, diag));
  }
  return MR_OK;
}

int mr__count_inputs(const mr_graph_t *g, const mr__node_t *node) {
  int n = 0;
  for (int i = node->first_in; i; i = g->edge[i - 1].next_in)
    if (g->edge[i - 1].in >= n) n = g->edge[i - 1].in + 1;
  return n;
}

const mr__edge_t *mr__edge_into(const mr_graph_t *g, int node, int port) {
  const int *known = g->node[node]->edge_in;
  if (known)
    return port < g->node[node]->worker->n_in && known[port] ? &g->edge[known[port] - 1] : NULL;
  for (int i = g->node[node]->first_in; i; i = g->edge[i - 1].next_in)
    if (g->edge[i - 1].in == port) return &g->edge[i - 1];
  return NULL;
}

int mr_graph_n_stages(const mr_graph_t *g) { return g->n_nodes; }
mr_stage_t *mr_graph_stage_at(const mr_graph_t *g, int i) {
  return i >= 0 && i < g->n_nodes ? g->node[i]->worker : NULL;
}
mr_stage_t *mr_graph_stage(const mr_graph_t *g, const char *name) {
  return mr_graph_stage_at(g, mr__graph_find(g, name));
}
mr_stage_t *mr_graph_stage_of(const mr_graph_t *g, const char *def) {
  for (int i = 0; i < g->n_nodes; i++)
    if (!strcmp(g->node[i]->def->name, def)) return g->node[i]->worker;
  return NULL;
}
mr_stage_t *mr_graph_stage_with(const mr_graph_t *g, mr_role_t role, int k) {
  for (int i = 0; i < g->n_nodes; i++)
    if (g->node[i]->def->role == role && k-- == 0) return g->node[i]->worker;
  return NULL;
}

mr_err_t mr__edges_behind(const mr_graph_t *g, int node, mr__behind_t **list, int *n) {
  size_t nodes = (size_t)g->n_nodes, edges = (size_t)g->n_edges;
  int *next = malloc((edges + 1) * sizeof *next), *first = malloc((nodes + 1) * sizeof *first);
  bool *seen = calloc(nodes + 1, sizeof *seen);
  mr__behind_t *out = malloc((edges + 1) * sizeof *out);
  *n = 0, *list = NULL;
  bool there = next && first && seen && out;
  for (size_t i = 0; there && i < nodes; i++) first[i] = -1;
  for (int i = g->n_edges - 1; there && i >= 0; i--)
    next[i] = first[g->edge[i].from], first[g->edge[i].from] = i;
  /* The list is also what is left to do: each stage comes in with the first edge that leads to
     it. */
  for (int at = -1; there && at < *n; at++) {
    int from = at < 0 ? node : g->edge[out[at].edge].to;
    for (int i = at < 0 || out[at].first ? first[from] : -1; i >= 0; i = next[i]) {
      bool *known = &seen[g->edge[i].to];
      out[(*n)++] = (mr__behind_t){i, !*known};
      *known = true;
    }
  }
  free(next), free(first), free(seen);
  if (!there) return free(out), MR_ERR_NOMEM;
  *list = out;
  return MR_OK;
}
