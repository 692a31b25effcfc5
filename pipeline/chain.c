/* The tree of record stages before a port, built for one worker. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/chain_private.h"

enum { BRANCHES_MAX = 1024 };

void mr__chain_destroy(mr_chain_t *c) {
  if (!c) return;
  for (int i = 0; i < c->n_branches; i++)
    free(c->branch[i].index), free(c->branch[i].rec), free(c->branch[i].s.scratch);
  free(c->branch), free(c->scratch), free(c->rec), free(c->rng), free(c->hole);
  free(c->prog[0].op), free(c->prog[1].op), free(c->draws);
  free(c);
}

static mr__kind_t kind_of(const mr_stage_t *s) {
  const mr_stage_def_t *def = s->def;
  if (def->source) return MR__SOURCE;
  if (def->walk && s->out_spec[0].sequential) return MR__NEXT;
  if (def->order) return MR__ORDER;
  return def->map ? MR__MAP : def->filter ? MR__KEEP : MR__JOIN;
}

/* Adds node and all before it; returns its branch, or -1.  *depth: records it needs at once. */
static int grow(mr_graph_t *g, mr_chain_t *c, const mr__edge_t *from, mr_diag_t *diag, int *depth) {
  mr__node_t *node = g->node[from->from];
  mr__branch_t b = {.s = *node->worker};
  b.s.diag = diag, b.node = from->from;
  b.kind = kind_of(&b.s);
  *depth = 1;
  for (int p = 0; p < mr_stage_def_n_in(node->def); p++) {
    const mr__edge_t *e = mr__edge_into(g, from->from, p);
    int below;
    if (!e) continue;
    if ((b.in[p] = grow(g, c, e, diag, &below)) < 0) return -1;
    if (b.kind == MR__JOIN) below += p;
    if (below > *depth) *depth = below;
    b.n_in = p + 1;
  }
  if (b.kind == MR__SOURCE) {
    b.lane = node->n_chains++;
    b.index = calloc(MR_BURST, sizeof *b.index), b.rec = calloc(MR_BURST, sizeof *b.rec);
  }
  size_t own = (b.s.scratch_bytes + 63) / 64 * 64;
  if (own && !(b.s.scratch = aligned_alloc(64, own))) return -1;
  size_t bytes = mr_field_bytes(node->worker->out_spec[from->out].field);
  if (bytes > c->scratch_bytes) c->scratch_bytes = bytes;
  if (c->n_branches == BRANCHES_MAX || (b.kind == MR__SOURCE && (!b.index || !b.rec)))
    return free(b.index), free(b.rec), free(b.s.scratch), -1;
  assert(*depth >= 1 && b.n_in <= MR_MAX_PORTS && (b.kind == MR__SOURCE) == !b.n_in);
  c->branch[c->n_branches] = b;
  return c->n_branches++;
}

static bool make_scratch(mr_chain_t *c) {
  size_t depth = (size_t)c->depth;
  c->scratch_bytes = (c->scratch_bytes + 127) / 64 * 64;
  c->scratch = aligned_alloc(64, 2 * depth * c->scratch_bytes);
  c->rec = calloc(depth, sizeof *c->rec);
  c->rng = calloc(depth, sizeof *c->rng);
  c->hole = calloc(depth, sizeof *c->hole);
  for (int i = 0; i < 2; i++) {
    c->prog[i].cap = (size_t)c->n_branches * 2 * MR_BURST;
    c->prog[i].op = malloc(c->prog[i].cap * sizeof *c->prog[i].op);
  }
  return c->scratch && c->rec && c->rng && c->hole && c->prog[0].op && c->prog[1].op;
}

mr_chain_t *mr__chain_create(mr_graph_t *g, int node, int port, mr_diag_t *diag) {
  mr_chain_t *c = calloc(1, sizeof *c);
  if (!c) return NULL;
  c->branch = calloc(BRANCHES_MAX, sizeof *c->branch);
  if (g->trace.fn) c->tracer = &g->trace, c->draws = calloc(1, sizeof *c->draws);
  c->bytes = mr_field_bytes(g->node[node]->worker->in_spec[port].field);
  if (!c->branch || (c->tracer && !c->draws) ||
      grow(g, c, mr__edge_into(g, node, port), diag, &c->depth) < 0 || !make_scratch(c))
    return mr__chain_destroy(c), NULL;
  return c;
}

/* ---- programs ---- */

static mr_err_t reserve(mr__prog_t *p, size_t more, mr_diag_t *diag) {
  if (p->n + more <= p->cap) return MR_OK;
  size_t cap = 2 * p->cap > p->n + more ? 2 * p->cap : p->n + more;
  mr__op_t *op = realloc(p->op, cap * sizeof *op);
  if (!op) return mr_fail(diag, MR_ERR_NOMEM, "no memory for the programs of %zu records", cap);
  p->op = op, p->cap = cap;
  return MR_OK;
}

mr_err_t mr__prog_push(mr__prog_t *p, mr__op_t op, mr_diag_t *diag) {
  if (p->n == p->cap) MR_TRY(reserve(p, 1, diag));
  assert(p->n < p->cap);
  p->op[p->n++] = op;
  return MR_OK;
}

mr_err_t mr__prog_copy(mr__prog_t *p, const mr__op_t *op, size_t n, mr_diag_t *diag) {
  assert(op + n <= p->op || op >= p->op + p->cap); /* of another program: p may move */
  MR_TRY(reserve(p, n, diag));
  memcpy(p->op + p->n, op, n * sizeof *op);
  p->n += n;
  return MR_OK;
}
