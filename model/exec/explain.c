/* Walks the calls of an executable and of the graphs inside them, and writes a row for each move,
   product and composite. */
#include "model/exec/explain.h"
#include "model/ops/lax.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/exec/exec_private.h"
#include "model/ops/operands.h"
#include "model/ops/rules.h"

const char *mr_move_kind_name(mr_move_kind_t k) {
  static const char *const names[] = {"cast", "copy", "transpose", "operand"};
  return names[k];
}

typedef struct users {
  const mr_eqn_t **first; /* by var id */
  int *count;
} users_t;

static void find_users(const mr_fn_t *f, users_t *u) {
  for (int i = f->n_eqn - 1; i >= 0; i--)
    for (int k = 0; k < f->eqn[i]->n_in; k++) {
      u->first[f->eqn[i]->in[k]->id] = f->eqn[i];
      u->count[f->eqn[i]->in[k]->id]++;
    }
}

/* The kind of an equation that moves.  One that also changes the dtype is a cast. */
static mr_move_kind_t explain_kind_of(const mr_eqn_t *e) {
  if (e->n_in && e->in[0]->aval.dtype != e->out[0]->aval.dtype) return MR_MOVE_CAST;
  mr_view_t v = {0};
  bool is_view = e->op->fuse.is_view && e->op->fuse.is_view(e, &v);
  return is_view && v.transposes ? MR_MOVE_TRANSPOSE : MR_MOVE_COPY;
}

/* ns: of an equation that moves and does nothing else; -1 else. */
static void add_move(mr_explained_t *r, mr_move_row_t row, double ns) {
  row.bytes *= (size_t)row.times;
  row.ns = ns;
  r->move[r->n_move++] = row;
}

/* How often the graph at hand runs: `times` for each `when` (NULL: for each run). */
typedef struct pace {
  int64_t times;
  const char *when;
} pace_t;

/* The moves of equations side by side, and the conversions within a fused loop, which other ops
   that move are no part of. */
static void explain_add_fused(mr_explained_t *r, const mr_eqn_t *loop, pace_t p) {
  const mr_fn_t *f = mr__loop_body(loop);
  bool beside = mr_attr_find(loop, "beside");
  for (int i = 0; f && i < f->n_eqn; i++)
    if (beside || mr__is_conversion(f->eqn[i]))
      add_move(r,
               (mr_move_row_t){.kind = beside ? explain_kind_of(f->eqn[i]) : MR_MOVE_CAST,
                               .bytes = beside ? (size_t)mr_cost_of(f->eqn[i]).bytes : 0,
                               .eqn = f->eqn[i],
                               .user = loop,
                               .n_user = 1,
                               .fn = f,
                               .loop = loop,
                               .times = p.times,
                               .when = p.when,
                               .out = -1},
               -1);
}

/* What the kernel of c moves before it computes, and what a loop copies after its last step. */
static void explain_add_notes(mr_explained_t *r, const mr_fn_t *f, const mr_call_t *c, pace_t p) {
  for (int k = 0; k < MR_CALL_NOTES && c->note[k].what; k++) {
    add_move(r,
             (mr_move_row_t){.kind = c->n_inner ? MR_MOVE_COPY : MR_MOVE_OPERAND,
                             .eqn = c->eqn,
                             .user = c->eqn,
                             .n_user = 1,
                             .fn = f,
                             .note = c->note[k].what,
                             .bytes = c->note[k].bytes,
                             .times = p.times,
                             .when = p.when,
                             .out = -1},
             -1);
    r->bytes += (double)c->note[k].bytes * (double)p.times;
  }
}

static void explain_add_eqn(mr_explained_t *r, const mr_exec_t *x, const mr_call_t *c,
                            const users_t *u, pace_t p) {
  const mr_fn_t *f = x->fn;
  const mr_eqn_t *e = c->eqn;
  double ns = x->runs ? (double)x->ns[c - x->call] / (double)x->runs : -1;
  mr_cost_t cost = mr_cost_of(e);
  int id = e->n_out ? e->out[0]->id : 0;
  if (e->op->cost.moves && e->n_in && e->n_out)
    add_move(r,
             (mr_move_row_t){.kind = explain_kind_of(e),
                             .eqn = e,
                             .fn = f,
                             .user = u->first[id],
                             .n_user = u->count[id],
                             .bytes = (size_t)cost.bytes,
                             .times = p.times,
                             .when = p.when,
                             .out = -1},
             ns);
  explain_add_fused(r, e, p);
  if (c->how)
    r->product[r->n_product++] = (mr_product_row_t){
        e, mr_precision_of(e), c->how, cost.flop * (double)p.times, p.times, p.when};
  r->bytes += cost.bytes * (double)p.times;
  r->flop += cost.flop * (double)p.times;
}

/* Adds the copies of outputs that a run does not compute in the caller's arrays. */
static void explain_add_outputs(mr_explained_t *r, const mr_exec_t *x) {
  const mr_fn_t *f = x->fn;
  for (int i = 0; i < f->n_out; i++) {
    const mr_block_t *b = &x->plan.block[x->plan.of_var[f->out[i]->id]];
    if (b->place == MR_BLOCK_IN && !b->pinned) continue; /* a donated input: in place */
    if (b->place == MR_BLOCK_OUT && b->index == i) continue;
    size_t bytes = 2 * mr_aval_bytes(&f->out[i]->aval);
    add_move(r, (mr_move_row_t){.kind = MR_MOVE_COPY, .bytes = bytes, .times = 1, .out = i}, -1);
    r->bytes += (double)bytes;
  }
}

/* The pace of graph i of call c, which itself runs at p: "each step of while, if branch 1 ...". */
static pace_t pace_of(mr_explained_t *r, const mr_call_t *c, int i, pace_t p) {
  const mr_call_inner_t *n = &c->inner[i];
  char own[160], all[320];
  if (!n->when && n->branch < 0) return (pace_t){p.times * n->runs, p.when};
  if (n->branch < 0)
    snprintf(own, sizeof own, "%s", n->when);
  else
    snprintf(own, sizeof own, "if branch %d of %s is taken", n->branch, c->eqn->op->name);
  snprintf(all, sizeof all, "%.150s%s%s", p.when ? p.when : "", p.when ? ", " : "", own);
  return (pace_t){p.times * n->runs, mr_mem_text(&r->mem, all)};
}

static void add_composite(mr_explained_t *r, const mr_eqn_t *e, pace_t p) {
  bool opened = !strcmp(e->by, "open") && e->of;
  if (opened || e->op->open != mr_no_open)
    r->composite[r->n_composite++] =
        (mr_composite_row_t){e, opened ? e->of : NULL, p.times, p.when};
}

/* Adds x's equations, and those of the graphs inside them. */
static mr_err_t explain_collect(mr_explained_t *r, const mr_exec_t *x, pace_t p, mr_diag_t *diag) {
  const mr_fn_t *f = x->fn;
  users_t u = {calloc((size_t)f->n_var + 1, sizeof *u.first),
               calloc((size_t)f->n_var + 1, sizeof *u.count)};
  mr_err_t e = u.first && u.count ? MR_OK : mr_no_memory(diag, "the explanation of a graph");
  if (e >= 0) find_users(f, &u);
  r->n_eqn += f->n_eqn;
  for (int i = 0; i < f->n_eqn && e >= 0; i++) {
    const mr_call_t *c = &x->call[i];
    r->n_alias += !c->run;
    r->kernels += c->kernels * (double)p.times;
    add_composite(r, c->eqn, p);
    for (int k = 0; k < c->n_inner && e >= 0; k++)
      e = explain_collect(r, c->inner[k].exec, pace_of(r, c, k, p), diag);
    if (c->run && !c->n_inner) explain_add_eqn(r, x, c, &u, p);
    explain_add_notes(r, f, c, p);
  }
  free(u.first);
  free(u.count);
  return e;
}

/* Those of loops and branches, and of fused loops, included. */
static size_t n_equations(const mr_exec_t *x) {
  size_t n = (size_t)x->fn->n_eqn;
  for (int i = 0; i < x->fn->n_eqn; i++) {
    const mr_eqn_t *e = x->fn->eqn[i];
    const mr_fn_t *body = mr__loop_body(e);
    if (body) n += (size_t)body->n_eqn;
    for (int k = 0; k < x->call[i].n_inner; k++) n += n_equations(x->call[i].inner[k].exec);
  }
  return n;
}

mr_err_t mr_explained_init(mr_explained_t *r, const mr_exec_t *x, mr_diag_t *diag) {
  size_t n = n_equations(x);
  *r = (mr_explained_t){
      .move = calloc(n * (1 + MR_CALL_NOTES) + (size_t)x->fn->n_out + 1, sizeof *r->move),
      .product = calloc(n + 1, sizeof *r->product),
      .composite = calloc(n + 1, sizeof *r->composite)};
  if (!r->move || !r->product || !r->composite)
    return mr_no_memory(diag, "the explanation of a graph");
  if (x->runs) r->ns = (double)x->wall_ns / (double)x->runs;
  MR_TRY(explain_collect(r, x, (pace_t){1, NULL}, diag));
  explain_add_outputs(r, x);
  return MR_OK;
}

void mr_explained_fini(mr_explained_t *r) {
  free(r->move);
  free(r->product);
  free(r->composite);
  mr_mem_fini(&r->mem);
  *r = (mr_explained_t){0};
}
