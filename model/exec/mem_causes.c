/* Divides the arena at its peak into causes.  A block may have held several values one after the
   other; the one that counts is the last that was written up to the peak.  What is left between the
   blocks of that moment counts as unused, so that the causes add up to the planned peak. */
#include "model/exec/mem_causes.h"

#include <stdlib.h>
#include <string.h>

#include "model/exec/exec_private.h"
#include "model/exec/mem_report.h"
#include "model/ops/lax.h"
#include "model/ops/operands.h"

const char *mr_mem_cause_name(mr_mem_cause_t c) {
  static const char *const names[] = {"constants",
                                      "workspace of kernels",
                                      "casts",
                                      "activations kept for the backward pass",
                                      "other values of the forward pass",
                                      "exchange between ranks",
                                      "values of the optimizer",
                                      "gradients of parameters",
                                      "other values of the backward pass",
                                      "unused between blocks"};
  return names[c];
}

typedef struct finder {
  const mr_exec_t *x;
  const mr_mem_parts_t *parts;
  bool *forward;             /* by var id: the loss depends on it */
  bool *to_back;             /* by var id: the backward pass or the update reads it */
  bool *to_end;              /* by var id: the update reads it, or it is an output */
  bool *to_send;             /* by var id: a collective reads it as it lies in memory */
  const mr_var_t **in_block; /* by block: its value at the peak; NULL: none yet */
} finder_t;

/* Whether e is in the outermost scope `scope`, which may be NULL. */
static bool in_scope(const mr_eqn_t *e, const char *scope) {
  size_t n = scope ? strlen(scope) : 0;
  return n && !strncmp(e->scope, scope, n) && (!e->scope[n] || e->scope[n] == '/');
}

static bool of_update(const finder_t *s, const mr_eqn_t *e) {
  return in_scope(e, s->parts->update);
}

static bool of_forward(const finder_t *s, const mr_eqn_t *e) {
  if (!s->parts->loss) return !of_update(s, e);
  if (in_scope(e, s->parts->posted)) return true;
  for (int k = 0; k < e->n_out; k++)
    if (s->forward[e->out[k]->id]) return true;
  return false;
}

static bool only_moves(const mr_eqn_t *e) {
  return e->n_out == 1 && (e->op->cost.moves || e->op->kind == MR_OP_ALIAS);
}

/* Whether operand k of e is a gradient where a result of e is: what is moved or sent, the term of a
   sum, a factor. */
static bool makes_gradient(const finder_t *s, const mr_eqn_t *e, int k) {
  bool whole = only_moves(e) || e->op->collective;
  bool each = e->op->kind == MR_OP_ELEMENTWISE || mr__loop_body(e);
  for (int o = 0; o < e->n_out && (whole || each); o++)
    if (s->to_end[e->out[o]->id] &&
        (whole || mr_aval_elems(&e->out[o]->aval) == mr_aval_elems(&e->in[k]->aval)))
      return true;
  return false;
}

/* From the last equation to the first, since a move is read as its result is. */
static void find_readers(const finder_t *s) {
  const mr_fn_t *f = s->x->fn;
  bool posted = false;
  for (int i = 0; i < f->n_eqn; i++) posted |= in_scope(f->eqn[i], s->parts->posted);
  if (s->parts->loss && !posted) s->forward[s->parts->loss->id] = true;
  for (int i = 0; i < f->n_out; i++) s->to_end[f->out[i]->id] = true;
  for (int i = f->n_eqn; i-- > 0;) {
    const mr_eqn_t *e = f->eqn[i];
    bool forward = of_forward(s, e), update = of_update(s, e), moves = only_moves(e);
    bool sends = e->op->collective || (e->op->kind == MR_OP_ALIAS && s->to_send[e->out[0]->id]);
    for (int k = 0; k < e->n_in; k++) {
      int id = e->in[k]->id;
      s->forward[id] |= forward;
      s->to_send[id] |= sends;
      s->to_back[id] |= !forward || (moves && s->to_back[e->out[0]->id]);
      s->to_end[id] |= update || makes_gradient(s, e, k);
    }
  }
}

/* The value of each block when equation `peak` has run. */
static void find_values(const finder_t *s, int peak) {
  const mr_fn_t *f = s->x->fn;
  for (int i = 0; i <= peak; i++)
    for (int k = 0; k < f->eqn[i]->n_out; k++) {
      int b = s->x->plan.of_var[f->eqn[i]->out[k]->id];
      if (b >= 0 && f->eqn[i]->op->kind != MR_OP_ALIAS) s->in_block[b] = f->eqn[i]->out[k];
    }
}

static bool is_result(const mr_fn_t *f, const mr_var_t *v) {
  for (int i = 0; i < f->n_out; i++)
    if (f->out[i] == v) return true;
  return false;
}

/* Whether v is a value in memory in another dtype: the result of a conversion, or of a fused loop
   that only converts (and reshapes) an operand or another result of its own. */
static bool is_cast(const mr_var_t *v) {
  const mr_eqn_t *e = v->def;
  const mr_fn_t *body = mr__loop_body(e);
  if (!body) return mr__is_conversion(e);
  int k = 0;
  while (e->out[k] != v) k++;
  for (const mr_var_t *from = body->out[k];; from = from->def->in[0]) {
    bool in_memory = !from->def || is_result(body, from);
    if (in_memory && from->aval.dtype != v->aval.dtype) return true;
    if (!from->def) return false;
    if (!mr__is_conversion(from->def) && from->def->op->kind != MR_OP_ALIAS) return false;
  }
}

/* Whether v, behind the forward pass, was received or is put together to be sent; or in any pass,
   if it is a value that others have. */
static bool is_exchanged(const finder_t *s, const mr_var_t *v) {
  if (in_scope(v->def, s->parts->gathered)) return true;
  if (of_forward(s, v->def)) return false;
  return v->def->op->collective || (only_moves(v->def) && s->to_send[v->id]);
}

static mr_mem_cause_t cause_in(const finder_t *s, int block) {
  const mr_var_t *v = s->in_block[block];
  if (s->x->plan.block[block].pinned) return MR_MEM_CONSTANTS;
  if (!v) return MR_MEM_WORKSPACE;
  if (is_cast(v)) return MR_MEM_CASTS;
  if (is_exchanged(s, v)) return MR_MEM_EXCHANGE;
  if (of_update(s, v->def)) return MR_MEM_UPDATE;
  if (of_forward(s, v->def)) return s->to_back[v->id] ? MR_MEM_ACTIVATIONS : MR_MEM_FORWARD;
  return s->to_end[v->id] ? MR_MEM_GRADIENTS : MR_MEM_BACKWARD;
}

static void add_up(const finder_t *s, mr_mem_causes_t *c) {
  const mr_memory_plan_t *p = &s->x->plan;
  size_t used = 0;
  for (int b = 0; b < p->n_block; b++) {
    const mr_block_t *k = &p->block[b];
    if (k->place != MR_BLOCK_ARENA || k->first > c->peak || k->last < c->peak) continue;
    c->bytes[cause_in(s, b)] += k->bytes;
    used += k->bytes;
  }
  c->bytes[MR_MEM_UNUSED] = p->bytes - used;
  c->constants = p->constants;
  for (int i = 0; i < s->x->fn->n_out; i++)
    if (mr_exec_output_in(s->x, i) < 0) c->outputs += mr_aval_bytes(&s->x->fn->out[i]->aval);
}

mr_err_t mr_mem_causes_find(mr_mem_causes_t *c, const mr_exec_t *x, const mr_mem_parts_t *parts,
                            mr_diag_t *diag) {
  static const mr_mem_parts_t none = {0};
  size_t n = (size_t)x->fn->n_var + 1;
  mr_mem_report_t r = {0};
  *c = (mr_mem_causes_t){.peak = -1};
  bool *marks = calloc(4 * n, sizeof *marks);
  finder_t s = {.x = x,
                .parts = parts ? parts : &none,
                .forward = marks,
                .to_back = marks + n,
                .to_end = marks + 2 * n,
                .to_send = marks + 3 * n,
                .in_block = calloc((size_t)x->plan.n_block + 1, sizeof(mr_var_t *))};
  mr_err_t e = marks && s.in_block ? mr_mem_report_init(&r, x, diag)
                                   : mr_no_memory(diag, "the causes of a peak");
  if (e >= 0) {
    c->peak = r.peak;
    find_readers(&s);
    find_values(&s, c->peak);
    add_up(&s, c);
  }
  mr_mem_report_fini(&r);
  free(marks);
  free(s.in_block);
  return e;
}
