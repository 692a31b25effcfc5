/* Graphs of several processes: blocks of the text, the settings of each, and the cut.

   A block only says where its stages run.  The whole graph can still be settled, inspected and run
   in one process, with the same stream; cutting it puts a link on every edge between blocks. */
#include "pipeline/graph/process.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/feature.h"
#include "pipeline/graph/graph_private.h"

#define AT(field) offsetof(mr_process_t, field)

static const mr_opt_t process_opts[] = {
    {.name = "restart",
     .type = MR_OPT_INT,
     .offset = AT(restart),
     .unit = "times",
     .def = "3",
     .lo = 0,
     .hi = 1000000,
     .help = "Number of restarts after it dies."},
    {.name = "copies",
     .type = MR_OPT_INT,
     .offset = AT(copies),
     .unit = "processes",
     .def = "1",
     .lo = 1,
     .hi = 1024,
     .help = "Number of processes that run it, each for its slice of every batch."},
    {.name = "address",
     .type = MR_OPT_STR,
     .offset = AT(address),
     .help = "Address at which its links listen, tcp://HOST:PORT or ipc://@NAME; the second link "
             "has the next port, and so on.  Default: links within this host."},
    {.name = "key",
     .type = MR_OPT_STR,
     .offset = AT(key),
     .help = "File of the process's secret key (`millrace keys`), for links between hosts."},
    {.name = "peers",
     .type = MR_OPT_STR,
     .offset = AT(peers),
     .help = "Public key files of the processes it talks to, separated by commas."},
    {.name = "window",
     .type = MR_OPT_INT,
     .offset = AT(window),
     .unit = "buffers",
     .def = "8",
     .lo = 1,
     .hi = 4096,
     .help = "Most buffers in flight or in use here, for each incoming link."},
    {0}};

const mr_stage_def_t mr_process_def = {
    .name = "process",
    .help = "Runs stages in a process of their own.",
    .opts = process_opts,
    .state_sz = sizeof(mr_process_t),
};

mr__node_t *mr__process_new(mr_graph_t *g, mr__pos_t pos) {
  mr__node_t **more = realloc(g->process, (size_t)(g->n_processes + 1) * sizeof *more);
  if (!more) return NULL;
  g->process = more;
  int i = mr__graph_new_node(g, &mr_process_def, pos);
  if (i < 0) return NULL;
  g->n_nodes--; /* it is not a stage */
  return g->process[g->n_processes++] = g->node[i];
}

/* ---- settings of blocks ---- */

int mr_graph_n_processes(const mr_graph_t *g) { return g->n_processes; }

static mr_err_t read_setting(const mr_graph_t *g, const mr__node_t *node, const mr_opt_t *o,
                             mr_process_t *out, mr_diag_t *diag) {
  const char *text = o->def;
  for (int k = 0; k < node->n_set; k++)
    if (!strcmp(node->set[k].name, o->name)) text = mr__setting_text(&node->set[k]);
  return text ? mr_opt_set(o, out, node->name, text, diag) : MR_OK;
}

mr_err_t mr_graph_process(const mr_graph_t *g, int i, mr_process_t *out, mr_diag_t *diag) {
  const mr__node_t *node = g->process[i];
  *out = (mr_process_t){.name = node->name};
  for (const mr_opt_t *o = process_opts; o->type != MR_OPT_END; o++)
    MR_TRY(read_setting(g, node, o, out, diag));
  return MR_OK;
}

const char *mr_graph_process_of(const mr_graph_t *g, const char *stage) {
  int i = mr__graph_find(g, stage);
  return i >= 0 && g->node[i]->process ? g->process[g->node[i]->process - 1]->name : NULL;
}

bool mr_graph_process_feeds(const mr_graph_t *g, int i, int k) {
  for (int n = 0; n < g->n_edges && i != k; n++)
    if (g->node[g->edge[n].from]->process == i + 1 && g->node[g->edge[n].to]->process == k + 1)
      return true;
  return false;
}

/* ---- the cut ---- */

static mr_err_t check_all_placed(const mr_graph_t *g, mr_diag_t *diag) {
  char at[32];
  for (int i = 0; i < g->n_nodes; i++)
    if (!g->node[i]->process)
      return mr_fail(diag, MR_ERR_USAGE, "%s%s is in no process; put it into one of the blocks",
                     mr__pos_text(g->node[i]->pos, at, sizeof at), g->node[i]->name);
  return MR_OK;
}

mr_err_t mr__process_count(const mr_graph_t *g, mr_diag_t *diag) {
  int64_t n = 0;
  for (int i = 0; i < g->n_processes; i++) {
    mr_process_t p;
    MR_TRY(mr_graph_process(g, i, &p, diag));
    n += p.copies;
  }
  if (n <= MR_PROCESSES_MAX) return MR_OK;
  return mr_fail(diag, MR_ERR_USAGE,
                 "the graph has %" PRId64 " processes, each of copies= counted; want at most %d", n,
                 MR_PROCESSES_MAX);
}

static bool process_crosses(const mr_graph_t *g, const mr__edge_t *e) {
  return g->node[e->from]->process != g->node[e->to]->process;
}

static mr_err_t check_crossing(const mr_graph_t *g, const mr__edge_t *e, mr_diag_t *diag) {
  const mr__node_t *from = g->node[e->from], *to = g->node[e->to];
  mr_flow_t flow = from->def->out[e->out].flow;
  const char *why = NULL, *more = "";
  char at[32], other[96];
  if (!mr__is_step(from->def)) {
    mr_registry_role_name(g->reg, MR_ROLE_BATCH, "stage that makes batches", other, sizeof other);
    why = "records do not leave a process; put beside it a ", more = other;
  } else if (flow == MR_FLOW_METRICS) {
    mr_registry_role_name(g->reg, MR_ROLE_PUBLISH, "that publishes them", other, sizeof other);
    why = "metrics do not leave a process this way; what sends them is a stage ", more = other;
  } else if (flow == MR_FLOW_STATE) {
    why = "a state is the trainer's own memory; put the checkpoint beside it";
  }
  if (!why) return MR_OK;
  return mr_fail(diag, MR_ERR_USAGE, "%s%s.%s to %s.%s: %s%s", mr__pos_text(e->pos, at, sizeof at),
                 from->name, from->def->out[e->out].name, to->name, mr__edge_in_name(g, e), why,
                 more);
}

typedef struct cut {
  const char *run;  /* the run's name for its links on one host */
  int n_links;      /* so far */
  int n_bound[256]; /* links that listen at each process's address */
} cut_t;

mr_err_t mr_address_after(const char *address, int k, char *text, size_t n, mr_diag_t *diag) {
  const char *colon = strrchr(address, ':');
  char *end;
  if (strncmp(address, "tcp://", 6)) {
    snprintf(text, n, k ? "%s-%d" : "%s", address, k);
    return MR_OK;
  }
  long port = strtol(colon + 1, &end, 10);
  if (end == colon + 1 || *end || port < 1 || port + k > 65535)
    return mr_fail(diag, MR_ERR_CONFIG,
                   "address = \"%.200s\": want tcp://HOST:PORT with %s in [1,65535]", address,
                   k ? "PORT and one for each further link" : "PORT");
  snprintf(text, n, "%.*s:%ld", (int)(colon - address), address, port + k);
  return MR_OK;
}

static mr_err_t process_set(mr_graph_t *g, mr__node_t *node, const char *name, const char *text,
                            mr_diag_t *diag) {
  if (!text) return MR_OK;
  return mr__graph_put(g, node, (mr__setting_t){.name = name, .text = text, .pos = node->pos},
                       diag);
}

/* "to-train", "to-train-valid", "to-train2" ... */
static mr_err_t name_end(mr_graph_t *g, mr__node_t *node, const char *way, const mr__node_t *other,
                         const char *port, mr_diag_t *diag) {
  char base[160], name[192];
  snprintf(base, sizeof base, "%s-%s%s%s", way, other->name, port ? "-" : "", port ? port : "");
  snprintf(name, sizeof name, "%s", base);
  for (int k = 2; mr__graph_find(g, name) >= 0 || mr__process_find(g, name) >= 0; k++)
    snprintf(name, sizeof name, "%s%d", base, k);
  return mr__graph_rename(g, node, name, diag);
}

/* Adds one end of a link; returns its node, or a failure (< 0). */
static int new_end(mr_graph_t *g, mr_role_t role, int beside, mr_diag_t *diag) {
  const mr_stage_def_t *d = mr_registry_role(g->reg, role);
  if (!d)
    return mr_fail(diag, MR_ERR_UNAVAILABLE, "this program has no stage that %s a link",
                   role == MR_ROLE_LINK_OUT ? "begins" : "ends");
  if (!mr_built_in(d->needs)) return mr_without(diag, d->name, d->needs);
  int i = mr__graph_new_node(g, d, g->node[beside]->pos);
  if (i < 0) return mr_no_memory(diag, "a graph");
  g->node[i]->process = g->node[beside]->process;
  g->node[i]->named = true;
  return i;
}

/* The receiving process listens at its address; if it has none, the sending process at its own. */
static mr_err_t set_ends(mr_graph_t *g, cut_t *c, mr__node_t *a, mr__node_t *b, mr_diag_t *diag) {
  mr_process_t from, to;
  char address[512], window[24];
  MR_TRY(mr_graph_process(g, a->process - 1, &from, diag));
  MR_TRY(mr_graph_process(g, b->process - 1, &to, diag));
  bool at_from = !to.address && from.address;
  const mr_process_t *there = at_from ? &from : &to;
  int *bound = &c->n_bound[(at_from ? a : b)->process - 1];
  mr_diag_t why = {0};
  if (!there->address)
    MR_TRY(mr_process_address(c->run, c->n_links, address, sizeof address, diag));
  else if (mr_address_after(there->address, (*bound)++, address, sizeof address, &why) < 0)
    return mr_diag_prefix(diag, why.code, &why, "%s", there->name);
  snprintf(window, sizeof window, "%lld", (long long)to.window);
  MR_TRY(process_set(g, a, "peer", to.name, diag));
  MR_TRY(process_set(g, b, "peer", from.name, diag));
  MR_TRY(process_set(g, a, "address", address, diag));
  MR_TRY(process_set(g, b, "address", address, diag));
  MR_TRY(process_set(g, at_from ? a : b, "bind", "true", diag));
  MR_TRY(process_set(g, a, "window", window, diag));
  MR_TRY(process_set(g, b, "window", window, diag));
  MR_TRY(process_set(g, a, "key", from.key, diag));
  MR_TRY(process_set(g, a, "peers", from.peers, diag));
  MR_TRY(process_set(g, b, "key", to.key, diag));
  return process_set(g, b, "peers", to.peers, diag);
}

static mr_err_t cut_edge(mr_graph_t *g, int edge, cut_t *c, mr_diag_t *diag) {
  mr__edge_t e = g->edge[edge];
  const mr__node_t *from = g->node[e.from], *to = g->node[e.to];
  char link[24];
  MR_TRY(check_crossing(g, &e, diag));
  int a = new_end(g, MR_ROLE_LINK_OUT, e.from, diag);
  if (a < 0) return a;
  int b = new_end(g, MR_ROLE_LINK_IN, e.to, diag);
  if (b < 0) return b;
  mr__node_t *out = g->node[a], *in = g->node[b];
  MR_TRY(name_end(g, out, "to", to, e.in ? mr__edge_in_name(g, &e) : NULL, diag));
  MR_TRY(name_end(g, in, "from", from, e.out ? from->def->out[e.out].name : NULL, diag));
  snprintf(link, sizeof link, "link-%d", c->n_links);
  MR_TRY(process_set(g, out, "link", link, diag));
  MR_TRY(process_set(g, in, "link", link, diag));
  MR_TRY(set_ends(g, c, out, in, diag));
  c->n_links++;
  mr__graph_redirect(g, edge, a);
  MR_TRY(mr__graph_new_edge(g, (mr__edge_t){.from = a, .to = b, .pos = e.pos}, diag));
  return mr__graph_new_edge(
      g, (mr__edge_t){.from = b, .to = e.to, .in = e.in, .pos = e.pos, .in_name = e.in_name}, diag);
}

mr_err_t mr_graph_cut(mr_graph_t *g, const char *run, mr_diag_t *diag) {
  cut_t c = {.run = run};
  if (g->settled) return mr_fail(diag, MR_ERR_USAGE, "the graph is settled: it cannot change");
  MR_TRY(check_all_placed(g, diag));
  MR_TRY(mr__process_count(g, diag));
  MR_TRY(mr__process_copies(g, diag));
  for (int i = 0, n = g->n_edges; i < n; i++)
    if (process_crosses(g, &g->edge[i])) MR_TRY(cut_edge(g, i, &c, diag));
  return MR_OK;
}

mr_err_t mr_graph_keep_process(mr_graph_t *g, const char *name, mr_diag_t *diag) {
  int process = mr__process_find(g, name);
  if (g->settled) return mr_fail(diag, MR_ERR_USAGE, "the graph is settled: it cannot change");
  if (process < 0) {
    char hint[96];
    mr_suggest_t near = {.word = name};
    for (int i = 0; i < g->n_processes; i++) mr_suggest_offer(&near, g->process[i]->name);
    return mr_fail(diag, MR_ERR_USAGE, "no process of the graph is called \"%.60s\"%s", name,
                   mr_suggest_text(&near, hint, sizeof hint));
  }
  g->here = process + 1;
  return MR_OK;
}

mr_err_t mr__process_drop_others(mr_graph_t *g, mr_diag_t *diag) {
  int *kept = calloc((size_t)g->n_nodes + 1, sizeof *kept), nodes = g->n_nodes, n = 0;
  if (!kept) return mr_no_memory(diag, "a graph");
  for (int i = 0; i < nodes; i++) kept[i] = g->node[i]->process == g->here;
  mr__graph_drop(g, kept);
  for (int i = 0; i < nodes; i++)
    if (kept[g->order[i]] >= 0) g->order[n++] = kept[g->order[i]];
  free(kept);
  return MR_OK;
}
