/* The tree of record stages before a port, built for one worker: a branch for each stage, with
   memory for what the stage writes.  A field that no stage changes is not copied:
   it is followed down to the branch that made it. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/dataset.h"
#include "pipeline/records/chain_private.h"
#include "pipeline/stage_map.h"

enum { BRANCHES_MAX = 16384, DEPTH_MAX = 1024, FROM_NONE = 1 << 24 };

_Static_assert(MR_INPUTS_MAX <= FROM_NONE / MR_FIELDS_MAX - 1, "port and field fit a from");

void mr_field_from(mr_stage_t *s, int out, int port, int in) {
  s->from[out] = (uint32_t)(in < 0 ? FROM_NONE : 1 + port * MR_FIELDS_MAX + in);
}

static void free_branch(mr__branch_t *b) {
  if (b->s.scratch && b->s.def->map && b->s.def->map->leave) b->s.def->map->leave(&b->s);
  free(b->in), free(b->index), free(b->later), free(b->rec), free(b->value), free(b->room),
      free(b->s.scratch);
}

void mr__chain_destroy(mr_chain_t *c) {
  if (!c) return;
  for (int i = 0; i < c->n_branches; i++) free_branch(&c->branch[i]);
  free(c->branch), free(c->scratch), free(c->zeros), free(c->rec), free(c->level);
  free(c->prog[0].op), free(c->prog[1].op), free(c->draws), free(c->leaf);
  free(c->fetched), free(c->asked);
  free(c);
}

static mr__kind_t chain_kind_of(const mr_stage_t *s) {
  const mr_stage_def_t *def = s->def;
  if (def->source) return MR__SOURCE;
  if (def->walk && s->out_spec[0].sequential) return MR__NEXT;
  if (def->order) return MR__ORDER;
  return def->map ? MR__MAP : def->filter ? MR__KEEP : MR__JOIN;
}

/* ---- fields ---- */

static bool is_written(const mr__branch_t *b, int f) { return b->s.writes >> f & 1; }

/* Finds where each field is before the stage runs, and which fields the stage writes. */
static void chain_plan_fields(mr__branch_t *b) {
  const mr_stage_t *s = &b->s;
  bool runs = b->kind == MR__MAP || b->kind == MR__JOIN;
  b->n_fields = mr__branch_spec(b)->n_fields;
  b->passes = true;
  for (int f = 0; f < b->n_fields; f++) {
    int from = runs && s->from[f] ? (int)s->from[f] - 1 : f;
    bool none = from == FROM_NONE - 1 || (from == f && f >= s->in_spec[0].n_fields);
    b->field[f].port = (uint16_t)(from / MR_FIELDS_MAX);
    b->field[f].in = (uint8_t)(none ? MR__NO_FIELD : from % MR_FIELDS_MAX);
    b->field[f].end = MR__NO_FIELD;
    b->passes &= !none && from == f;
    if (is_written(b, f)) b->made[b->n_made++] = (uint8_t)f;
  }
}

/* Tells the branches below i which of their fields no later stage writes, given those of branch
   i. */
static void pass_ends(mr_chain_t *c, int i) {
  mr__branch_t *b = &c->branch[i];
  bool runs = b->kind == MR__MAP || b->kind == MR__JOIN;
  for (int p = 0; p < b->n_in; p++) {
    mr__branch_t *below = &c->branch[b->in[p]];
    for (int f = 0; f < b->n_fields; f++) {
      if (is_written(b, f) || (runs && b->field[f].port != p)) continue;
      int in = runs ? b->field[f].in : f;
      if (in < below->n_fields) below->field[in].end = b->field[f].end;
    }
    pass_ends(c, b->in[p]);
  }
}

/* ---- branches ---- */

static size_t chain_align64(size_t n) { return (n + 63) / 64 * 64; }

/* Allocates what a source needs to give a burst of records. */
static bool make_rooms(mr__branch_t *b) {
  const mr_spec_t *spec = mr__branch_spec(b);
  size_t n = (size_t)spec->n_fields, room = 64;
  b->index = calloc(MR_BURST, sizeof *b->index), b->rec = calloc(MR_BURST, sizeof *b->rec);
  b->value = calloc(MR_BURST * n + 1, sizeof *b->value);
  b->later = calloc(MR_BURST, sizeof *b->later);
  for (int k = 0; k < b->n_made; k++)
    room += MR_BURST * chain_align64(mr_field_bytes(&spec->field[b->made[k]]));
  b->room = aligned_alloc(64, room);
  if (!b->index || !b->later || !b->rec || !b->value || !b->room) return false;
  char *at = b->room;
  for (int k = 0; k < b->n_made; k++)
    for (size_t i = 0; i < MR_BURST; i++) {
      b->value[i * n + b->made[k]].data = at;
      at += chain_align64(mr_field_bytes(&spec->field[b->made[k]]));
    }
  return true;
}

/* Adds what the stage writes to the size of the scratch; sources have memory of their own.  The
   stage's own longest value is the size of its blocks: with the longest of all, those before a zip
   of n inputs would each have room for what all of them are together. */
static void count_made(mr_chain_t *c, mr__branch_t *b) {
  const mr_spec_t *spec = mr__branch_spec(b);
  if (b->kind == MR__SOURCE) return;
  for (int k = 0; k < b->n_made; k++) {
    size_t bytes = chain_align64(mr_field_bytes(&spec->field[b->made[k]]) + 1);
    if (bytes > b->made_bytes) b->made_bytes = bytes;
  }
  c->scratch_bytes += (size_t)b->n_made * b->made_bytes;
}

/* Counts the branches that node and all before it make, up to BRANCHES_MAX + 1.  *room: how many
   stages may follow one another up to node; below 0, more do, and not all are counted. */
static int count_branches(const mr_graph_t *g, int node, int n, int *room) {
  if (--*room < 0) return n;
  n++;
  for (int p = 0; p < g->node[node]->worker->n_in && n <= BRANCHES_MAX && *room >= 0; p++) {
    const mr__edge_t *e = mr__edge_into(g, node, p);
    if (e) n = count_branches(g, e->from, n, room);
  }
  *room += *room >= 0;
  return n;
}

/* Makes what a branch with known inputs needs; false without memory. */
static bool fill_branch(mr_chain_t *c, mr__branch_t *b, mr__node_t *node) {
  size_t own = chain_align64(b->s.scratch_bytes);
  assert((b->kind == MR__SOURCE) == !b->n_in);
  chain_plan_fields(b);
  count_made(c, b);
  if (b->kind == MR__SOURCE) b->worker = node->n_chains++;
  if (b->kind == MR__SOURCE && !make_rooms(b)) return false;
  if (own && !(b->s.scratch = aligned_alloc(64, own))) return false;
  if (own) memset(b->s.scratch, 0, own);
  return true;
}

/* Adds the branches of node and all before it; returns node's branch, or -1.  *depth: records that
   it needs at once.  Chains are as long as their user likes, so a level takes a few hundred bytes
   of stack: the branch is filled in its place, behind those before it. */
static int chain_grow(mr_graph_t *g, mr_chain_t *c, const mr__edge_t *from, mr_diag_t *diag,
                      int *depth) {
  mr__node_t *node = g->node[from->from];
  mr__kind_t kind = chain_kind_of(node->worker);
  int *in = calloc((size_t)node->worker->n_in + 1, sizeof *in), n_in = 0;
  if (!in) return -1;
  *depth = 1;
  for (int p = 0; p < node->worker->n_in; p++) {
    const mr__edge_t *e = mr__edge_into(g, from->from, p);
    int below;
    if (!e) continue;
    if ((in[p] = chain_grow(g, c, e, diag, &below)) < 0) return free(in), -1;
    if (kind == MR__JOIN) below += p;
    if (below > *depth) *depth = below;
    n_in = p + 1;
  }
  mr__branch_t *b = &c->branch[c->n_branches++]; /* zeros so far */
  b->s = *node->worker;
  b->s.diag = diag, b->s.scratch = NULL, b->node = from->from;
  b->kind = kind, b->in = in, b->n_in = n_in;
  return fill_branch(c, b, node) ? c->n_branches - 1 : -1;
}

/* A hole requested as a record: zeros, no rows, and no class. */
static void make_holes(mr_chain_t *c) {
  static const int32_t none = MR_LABEL_NONE;
  for (int i = 0; i < c->n_branches; i++) {
    mr__branch_t *b = &c->branch[i];
    for (int f = 0; f < b->n_fields; f++)
      b->hole[f].data = mr__branch_spec(b)->field[f].label ? (void *)&none : c->zeros;
  }
}

/* Gives each value that a map or join writes a block of its own, so that no two values of a record
   collide. */
static void share_scratch(mr_chain_t *c) {
  char *at = c->scratch;
  for (int i = 0; i < c->n_branches && at; i++) {
    mr__branch_t *b = &c->branch[i];
    if (b->kind == MR__SOURCE) continue;
    b->block = at;
    at += (size_t)b->n_made * b->made_bytes;
  }
}

/* Allocates what one record needs while its program runs: values that stages write, the records of
   each depth, and the programs of a burst. */
static bool make_scratch(mr_chain_t *c) {
  size_t longest = 0;
  for (int i = 0; i < c->n_branches; i++)
    for (int f = 0; f < c->branch[i].n_fields; f++) {
      size_t bytes = mr_field_bytes(&mr__branch_spec(&c->branch[i])->field[f]);
      longest = bytes > longest ? bytes : longest;
    }
  c->scratch = aligned_alloc(64, c->scratch_bytes + 64);
  c->zeros = calloc(1, longest + 64);
  c->rec = calloc((size_t)c->depth, sizeof *c->rec);
  c->level = calloc((size_t)c->depth, sizeof *c->level);
  for (int i = 0; i < 2; i++) {
    c->prog[i].cap = (size_t)mr__usual_ops(c) * MR_BURST;
    c->prog[i].op = malloc(c->prog[i].cap * sizeof *c->prog[i].op);
  }
  make_holes(c);
  share_scratch(c);
  return c->scratch && c->zeros && c->rec && c->level && c->prog[0].op && c->prog[1].op;
}

mr_err_t mr__chain_check(const mr_graph_t *g, int node, int port, mr_diag_t *diag) {
  const mr__edge_t *e = mr__edge_into(g, node, port);
  char at[32];
  if (!e || g->node[e->from]->n_workers) return MR_OK;
  int room = DEPTH_MAX, n = count_branches(g, e->from, 0, &room);
  if (n <= BRANCHES_MAX && room >= 0) return MR_OK;
  mr__pos_text(g->node[node]->pos, at, sizeof at);
  if (room < 0)
    return mr_fail(diag, MR_ERR_CONFIG,
                   "%s%s: more than %d stages of records follow one another before it; want fewer",
                   at, g->node[node]->name, DEPTH_MAX);
  return mr_fail(diag, MR_ERR_CONFIG,
                 "%s%s: more than %d stages of records lead to it, a stage counted once for each "
                 "path through it; want fewer inputs",
                 at, g->node[node]->name, BRANCHES_MAX);
}

/* As make_rooms, count_made and fill_branch take it for one branch. */
static size_t count_branch_bytes(const mr__node_t *node) {
  const mr_stage_t *s = node->worker;
  const mr_spec_t *spec = &s->out_spec[0];
  size_t bytes = sizeof(mr__branch_t) + chain_align64(s->scratch_bytes), widest = 0, made = 0;
  for (int f = 0; f < spec->n_fields; f++) {
    size_t field = chain_align64(mr_field_bytes(&spec->field[f]) + 1);
    if (!(s->writes >> f & 1) || spec->field[f].ragged) continue; /* of which little is touched */
    made++, widest = field > widest ? field : widest;
    if (s->def->source) bytes += MR_BURST * field;
  }
  if (!s->def->source) return bytes + made * widest;
  return bytes + MR_BURST * (2 * sizeof(int64_t) + sizeof(mr_rec_t) +
                             (size_t)spec->n_fields * sizeof(mr_value_t));
}

static size_t count_bytes_behind(const mr_graph_t *g, int node) {
  size_t bytes = count_branch_bytes(g->node[node]);
  for (int p = 0; p < g->node[node]->worker->n_in; p++) {
    const mr__edge_t *e = mr__edge_into(g, node, p);
    if (e) bytes += count_bytes_behind(g, e->from);
  }
  return bytes;
}

size_t mr__chain_bytes(const mr_graph_t *g, int node, int port) {
  const mr__edge_t *e = mr__edge_into(g, node, port);
  if (!e || g->node[e->from]->n_workers) return 0;
  return sizeof(mr_chain_t) + sizeof(mr__level_t) + count_bytes_behind(g, e->from);
}

mr_chain_t *mr__chain_create(mr_graph_t *g, int node, int port, mr_diag_t *diag) {
  mr_chain_t *c = calloc(1, sizeof *c);
  if (!c) return NULL;
  int first = mr__edge_into(g, node, port)->from, room = DEPTH_MAX;
  int n = count_branches(g, first, 0, &room);
  assert(n <= BRANCHES_MAX && room >= 0); /* mr__chain_check */
  c->branch = calloc((size_t)n, sizeof *c->branch);
  c->fetched = calloc((size_t)n, sizeof *c->fetched),
  c->asked = calloc((size_t)n, sizeof *c->asked);
  if (g->lineage.fn) {
    c->lineage = &g->lineage, c->draws = calloc(1, sizeof *c->draws);
    c->leaf = calloc((size_t)n, sizeof *c->leaf);
  }
  c->spec = g->node[node]->worker->in_spec[port];
  for (int f = 0; f < c->spec.n_fields; f++)
    c->bytes[f] = c->spec.field[f].ragged ? mr_field_row(&c->spec.field[f])
                                          : mr_field_bytes(&c->spec.field[f]);
  if (!c->branch || !c->fetched || !c->asked || (c->lineage && (!c->draws || !c->leaf)) ||
      chain_grow(g, c, mr__edge_into(g, node, port), diag, &c->depth) < 0 || !make_scratch(c))
    return mr__chain_destroy(c), NULL;
  for (int f = 0; f < c->spec.n_fields; f++) c->branch[c->n_branches - 1].field[f].end = (uint8_t)f;
  pass_ends(c, c->n_branches - 1);
  return c;
}

/* ---- programs ---- */

static mr_err_t reserve_ops(mr__prog_t *p, size_t more, mr_diag_t *diag) {
  if (p->n + more <= p->cap) return MR_OK;
  size_t cap = 2 * p->cap > p->n + more ? 2 * p->cap : p->n + more;
  mr__op_t *op = realloc(p->op, cap * sizeof *op);
  if (!op) return mr_no_memory(diag, "the programs of %zu records", cap);
  p->op = op, p->cap = cap;
  return MR_OK;
}

mr_err_t mr__prog_push(mr__prog_t *p, mr__op_t op, mr_diag_t *diag) {
  if (p->n == p->cap) MR_TRY(reserve_ops(p, 1, diag));
  assert(p->n < p->cap);
  p->op[p->n++] = op;
  return MR_OK;
}

mr_err_t mr__prog_copy(mr__prog_t *p, const mr__op_t *op, size_t n, mr_diag_t *diag) {
  assert(op + n <= p->op || op >= p->op + p->cap); /* of another program, because p may move */
  MR_TRY(reserve_ops(p, n, diag));
  memcpy(p->op + p->n, op, n * sizeof *op);
  p->n += n;
  return MR_OK;
}

mr_err_t mr__prog_renumber(const mr__branch_t *b, int branch, int port, mr__prog_t *p) {
  const mr_renumber_t *r = b->s.renumber;
  bool some = false;
  for (int f = 0; r && f < b->n_fields; f++) some |= r->number[port][f] != NULL;
  mr__op_t op = {MR__OP_RENUMBER, branch, port, {0}};
  return some ? mr__prog_push(p, op, b->s.diag) : MR_OK;
}
