/* A settled graph as Graphviz text: a node for each stage with its settings, an edge with its spec.
   Record stages have no thread of their own, so those that run as one loop with their batch stage
   share a cluster, and edges between processes are drawn as the links they become. */
#include <stdlib.h>
#include <string.h>

#include "base/shown.h"
#include "pipeline/graph/graph_private.h"
#include "pipeline/graph/process.h"

enum { NODES_MAX = 1024 /* further ones are drawn outside of clusters */ };

/* Writes text inside a DOT string, with quotes and backslashes escaped. */
static void put_escaped(const char *s, FILE *out) {
  for (; *s; s++) {
    if (*s == '"' || *s == '\\') fputc('\\', out);
    fputc(*s == '\n' ? ' ' : *s, out);
  }
}

/* MR_ERR_NOMEM: a setting's text is missing in the line. */
static mr_err_t dot_put_node(const mr_graph_t *g, int i, FILE *out) {
  const mr__node_t *node = g->node[i];
  mr_err_t e = MR_OK;
  fprintf(out, "  n%d [label=\"", i);
  put_escaped(node->name, out);
  if (strcmp(node->name, node->def->name)) fprintf(out, " (%s)", node->def->name);
  if (node->n_workers > 1) fprintf(out, " x%d", node->n_workers);
  for (int k = 0; k < node->n_set; k++) {
    const char *name = node->set[k].name;
    char *text = mr_shown(mr_stage_def_opt(node->def, name), mr__setting_text(&node->set[k]));
    fputs("\\n", out);
    put_escaped(name, out);
    fputs(" = ", out);
    put_escaped(text ? text : "", out);
    if (!text && mr__setting_text(&node->set[k])) e = MR_ERR_NOMEM;
    free(text);
  }
  fprintf(out, "\"%s];\n", node->n_workers ? "" : ", style=\"rounded,filled\", fillcolor=white");
  return e;
}

/* Writes the record stages before a stage, each once. */
static mr_err_t put_chain(const mr_graph_t *g, int node, bool *done, FILE *out) {
  for (int p = 0; p < g->node[node]->worker->n_in; p++) {
    const mr__edge_t *e = mr__edge_into(g, node, p);
    if (!e || e->from >= NODES_MAX || g->node[e->from]->n_workers || done[e->from]) continue;
    done[e->from] = true;
    MR_TRY(dot_put_node(g, e->from, out));
    MR_TRY(put_chain(g, e->from, done, out));
  }
  return MR_OK;
}

static void put_edge(const mr_graph_t *g, const mr__edge_t *e, FILE *out) {
  char spec[160];
  const mr__node_t *from = g->node[e->from];
  mr_spec_text(&from->worker->out_spec[e->out], spec, sizeof spec);
  fprintf(out, "  n%d -> n%d [label=\"", e->from, e->to);
  put_escaped(spec, out);
  const char *style = from->n_workers ? "" : ", style=dashed";
  if (from->process != g->node[e->to]->process)
    style = ", style=bold, color=steelblue"; /* a link */
  fprintf(out, "\"%s];\n", style);
}

static bool reads_records(const mr_graph_t *g, int node) {
  for (int p = 0; p < g->node[node]->worker->n_in; p++) {
    const mr__edge_t *e = mr__edge_into(g, node, p);
    if (e && !g->node[e->from]->n_workers) return true;
  }
  return false;
}

/* Writes the stages of a block, those that run as one loop in clusters. */
static mr_err_t dot_put_stages(const mr_graph_t *g, int process, bool *done, FILE *out) {
  for (int i = 0; i < g->n_nodes && i < NODES_MAX; i++) {
    if (!g->node[i]->n_workers || !reads_records(g, i) || g->node[i]->process != process) continue;
    fprintf(out, "  subgraph cluster_%d {\n  label=\"fused\"; style=filled; color=lightgrey;\n", i);
    MR_TRY(put_chain(g, i, done, out));
    MR_TRY(dot_put_node(g, i, out));
    done[i] = true;
    fputs("  }\n", out);
  }
  for (int i = 0; i < g->n_nodes; i++)
    if (g->node[i]->process == process && (i >= NODES_MAX || !done[i]))
      MR_TRY(dot_put_node(g, i, out));
  return MR_OK;
}

mr_err_t mr_graph_dot(const mr_graph_t *g, FILE *out) {
  bool done[NODES_MAX] = {false};
  fputs(
      "digraph millrace {\n  rankdir=LR;\n  node [shape=box, fontname=\"sans-serif\"];\n"
      "  edge [fontname=\"sans-serif\", fontsize=10];\n",
      out);
  for (int i = 0; i < g->n_plugins; i++) fprintf(out, "  // plugin %s\n", g->plugin[i]);
  MR_TRY(dot_put_stages(g, 0, done, out));
  for (int i = 0; i < g->n_processes; i++) {
    fprintf(out, "  subgraph cluster_process_%d {\n  fontname=\"sans-serif\"; style=rounded; ", i);
    mr_process_t p;
    bool several = mr_graph_process(g, i, &p, NULL) >= 0 && p.copies > 1;
    fprintf(out, "label=\"process %s", g->process[i]->name);
    if (several) fprintf(out, ", %d copies", (int)p.copies);
    fprintf(out, "\";\n");
    MR_TRY(dot_put_stages(g, i + 1, done, out));
    fputs("  }\n", out);
  }
  for (int i = 0; i < g->n_edges; i++) put_edge(g, &g->edge[i], out);
  fputs("}\n", out);
  return MR_OK;
}
