/* Writes out a block with copies=N: N blocks with the same stages, each of which makes its slice of
   every batch (host=I/N), and a stage that joins slices in the downstream block for each edge that
   leaves them.  So order, number and state of the stream are those of the single block. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/graph/graph_private.h"
#include "pipeline/graph/process.h"

typedef struct copies {
  mr_graph_t *g;
  mr__node_t *block;
  int process; /* the block's number, from 1 */
  int n;
  int *twin; /* [n][nodes of the graph before]: each node's counterpart in a copy */
  int n_nodes;
} copies_t;

static int *twin_of(const copies_t *c, int copy, int node) {
  return &c->twin[copy * c->n_nodes + node];
}

static bool is_inside(const copies_t *c, int node) {
  return c->g->node[node]->process == c->process;
}

static bool cuts_batches(const mr_stage_def_t *def) { return mr_stage_def_opt(def, "host"); }

/* ---- checks ---- */

static bool leads_on(const copies_t *c, int node) {
  for (int i = 0; i < c->g->n_edges; i++)
    if (c->g->edge[i].from == node) return true;
  return false;
}

static const char *process_copies_why_not(const copies_t *c, int node) {
  const mr__node_t *n = c->g->node[node];
  if (!leads_on(c, node)) return "each copy would write what it writes; put it into another block";
  for (int i = 0; i < n->n_set; i++)
    if (!strcmp(n->set[i].name, "host")) return "host= is what copies set; leave it out";
  return NULL;
}

static mr_err_t process_copies_check(const copies_t *c, mr_diag_t *diag) {
  const char *name = c->block->name;
  char at[32];
  for (int i = 0; i < c->g->n_nodes; i++) {
    const char *why = is_inside(c, i) ? process_copies_why_not(c, i) : NULL;
    if (why)
      return mr_fail(diag, MR_ERR_USAGE, "%sprocess %s: copies = %d: it contains %s: %s",
                     mr__pos_text(c->g->node[i]->pos, at, sizeof at), name, c->n,
                     c->g->node[i]->name, why);
  }
  for (int i = 0; i < c->g->n_edges; i++) {
    const mr__edge_t *e = &c->g->edge[i];
    if (is_inside(c, e->to) && !is_inside(c, e->from))
      return mr_fail(diag, MR_ERR_USAGE,
                     "process %s: copies = %d: it takes buffers from %s; only a block that begins "
                     "with sources can be copied",
                     name, c->n, c->g->node[e->from]->name);
  }
  for (int i = 0; i < c->block->n_set; i++)
    if (!strcmp(c->block->set[i].name, "address"))
      return mr_fail(diag, MR_ERR_USAGE,
                     "process %s: copies = %d: several processes cannot wait at one address; give "
                     "address= to the block that takes their batches",
                     name, c->n);
  return MR_OK;
}

/* ---- copying ---- */

static mr_err_t copy_settings(copies_t *c, const mr__node_t *from, mr__node_t *to,
                              mr_diag_t *diag) {
  for (int i = 0; i < from->n_set; i++)
    if (strcmp(from->set[i].name, "copies")) MR_TRY(mr__graph_put(c->g, to, from->set[i], diag));
  return MR_OK;
}

static mr_err_t name_copy(copies_t *c, mr__node_t *node, const char *name, int copy,
                          mr_diag_t *diag) {
  char text[160];
  snprintf(text, sizeof text, "%s-%d", name, copy);
  return mr__graph_rename(c->g, node, text, diag);
}

/* Of consecutive stages that could slice batches, the last one does. */
static bool is_cut_later(const copies_t *c, int node, int depth) {
  for (int i = 0; i < c->g->n_edges && depth < c->g->n_nodes; i++) {
    const mr__edge_t *e = &c->g->edge[i];
    if (e->from != node || !is_inside(c, e->to)) continue;
    if (cuts_batches(c->g->node[e->to]->def) || is_cut_later(c, e->to, depth + 1)) return true;
  }
  return false;
}

/* Sets host=I/N on the stage that slices batches. */
static mr_err_t set_share(copies_t *c, int original, int copy, mr_diag_t *diag) {
  mr__node_t *node = c->g->node[*twin_of(c, copy, original)];
  char text[32];
  if (!cuts_batches(node->def) || is_cut_later(c, original, 0)) return MR_OK;
  snprintf(text, sizeof text, "%d/%d", copy, c->n);
  return mr__graph_put(c->g, node, (mr__setting_t){.name = "host", .text = text, .pos = node->pos},
                       diag);
}

static mr_err_t copy_node(copies_t *c, int node, int copy, int process, mr_diag_t *diag) {
  int i = mr__graph_new_node(c->g, c->g->node[node]->def, c->g->node[node]->pos);
  if (i < 0) return mr_no_memory(diag, "a graph");
  mr__node_t *to = c->g->node[i];
  const mr__node_t *from = c->g->node[node];
  to->process = process, to->named = true;
  *twin_of(c, copy, node) = i;
  MR_TRY(name_copy(c, to, from->name, copy, diag));
  return copy_settings(c, from, to, diag);
}

static mr_err_t copy_block(copies_t *c, int copy, const char *name, mr_diag_t *diag) {
  mr__node_t *block = mr__process_new(c->g, c->block->pos);
  if (!block) return mr_no_memory(diag, "a graph");
  MR_TRY(name_copy(c, block, name, copy, diag));
  MR_TRY(copy_settings(c, c->block, block, diag));
  int process = c->g->n_processes;
  for (int i = 0; i < c->n_nodes; i++)
    if (is_inside(c, i)) MR_TRY(copy_node(c, i, copy, process, diag));
  for (int i = 0, n = c->g->n_edges; i < n; i++) {
    mr__edge_t e = c->g->edge[i];
    if (e.from >= c->n_nodes || !is_inside(c, e.from) || !is_inside(c, e.to)) continue;
    e.from = *twin_of(c, copy, e.from), e.to = *twin_of(c, copy, e.to);
    MR_TRY(mr__graph_new_edge(c->g, e, diag));
  }
  return MR_OK;
}

/* ---- gathering slices ---- */

/* The text of setting `size` of the batch stage that a stream comes from; NULL without one. */
static const char *whole_size(const mr_graph_t *g, int node) {
  for (int steps = 0; steps < g->n_nodes && !cuts_batches(g->node[node]->def); steps++) {
    const mr__edge_t *before = mr__edge_into(g, node, 0);
    if (!before) return NULL;
    node = before->from;
  }
  const mr__node_t *n = g->node[node];
  for (int i = 0; i < n->n_set; i++)
    if (!strcmp(n->set[i].name, "size")) return mr__setting_text(&n->set[i]);
  return NULL;
}

static mr_err_t gather_edge(copies_t *c, int edge, mr_diag_t *diag) {
  mr__edge_t e = c->g->edge[edge];
  const mr_stage_def_t *def = mr_registry_role(c->g->reg, MR_ROLE_GATHER);
  const char *size = whole_size(c->g, e.from);
  char name[160];
  if (!size || !def)
    return mr_fail(diag, MR_ERR_USAGE, "process %s: copies = %d: %s gives no batches",
                   c->block->name, c->n, c->g->node[e.from]->name);
  int i = mr__graph_new_node(c->g, def, e.pos);
  if (i < 0) return mr_no_memory(diag, "a graph");
  mr__node_t *node = c->g->node[i];
  node->process = c->g->node[e.to]->process, node->named = true;
  snprintf(name, sizeof name, "%s-%s%s%s", def->name, c->g->node[e.from]->name, e.out ? "-" : "",
           e.out ? c->g->node[e.from]->def->out[e.out].name : "");
  for (int k = 2; mr__graph_find(c->g, name) >= 0; k++)
    snprintf(name, sizeof name, "%s-%s%d", def->name, c->g->node[e.from]->name, k);
  MR_TRY(mr__graph_rename(c->g, node, name, diag));
  MR_TRY(
      mr__graph_put(c->g, node, (mr__setting_t){.name = "size", .text = size, .pos = e.pos}, diag));
  mr__graph_redirect(c->g, edge, i);
  for (int k = 1; k < c->n; k++)
    MR_TRY(mr__graph_new_edge(
        c->g,
        (mr__edge_t){.from = *twin_of(c, k, e.from), .out = e.out, .to = i, .in = k, .pos = e.pos},
        diag));
  return mr__graph_new_edge(
      c->g, (mr__edge_t){.from = i, .to = e.to, .in = e.in, .pos = e.pos, .in_name = e.in_name},
      diag);
}

static mr_err_t write_out(copies_t *c, mr_diag_t *diag) {
  const char *name = c->block->name;
  int edges = c->g->n_edges;
  MR_TRY(process_copies_check(c, diag));
  for (int k = 1; k < c->n; k++) MR_TRY(copy_block(c, k, name, diag));
  MR_TRY(name_copy(c, c->block, name, 0, diag));
  for (int i = 0; i < edges; i++) {
    const mr__edge_t *e = &c->g->edge[i];
    if (is_inside(c, e->from) && !is_inside(c, e->to)) MR_TRY(gather_edge(c, i, diag));
  }
  for (int k = 0; k < c->n; k++)
    for (int i = 0; i < c->n_nodes; i++)
      if (is_inside(c, i)) MR_TRY(set_share(c, i, k, diag));
  return MR_OK;
}

mr_err_t mr__process_copies(mr_graph_t *g, mr_diag_t *diag) {
  for (int i = 0, n = g->n_processes; i < n; i++) {
    mr_process_t p;
    MR_TRY(mr_graph_process(g, i, &p, diag));
    if (p.copies < 2) continue;
    copies_t c = {.g = g,
                  .block = g->process[i],
                  .process = i + 1,
                  .n = (int)p.copies,
                  .n_nodes = g->n_nodes};
    c.twin = calloc((size_t)c.n * (size_t)g->n_nodes + 1, sizeof *c.twin);
    if (!c.twin) return mr_no_memory(diag, "a graph");
    for (int k = 0; k < g->n_nodes; k++) *twin_of(&c, 0, k) = k;
    mr_err_t e = write_out(&c, diag);
    free(c.twin);
    MR_TRY(e);
  }
  return MR_OK;
}
