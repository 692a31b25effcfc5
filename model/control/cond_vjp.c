/* Reverse mode of cond: a second cond, whose branches are the backward parts.  The values of the
   forward part that a backward part reads become further results of the first cond, except
   operands, which are read again, and values of constants alone, which are recomputed.  The
   branches share the places for such values: for each aval there are as many places as the branch
   with most of them needs, and a branch fills places it does not use with zeros.  After
   jax.lax.cond. */
#include <stdlib.h>
#include <string.h>

#include "model/control/flow.h"
#include "model/ops/call.h"
#include "model/ops/lax.h"
#include "model/ops/rules.h"
#include "model/transforms/build.h"
#include "model/transforms/transforms.h"

typedef struct branch {
  mr_fn_t *j;               /* the branch, forward and backward */
  int n_forward;            /* the number of forward equations in j */
  mr_var_t **y, **ct, **dx; /* results; cotangents of results and operands, NULL if zero */
  bool *forward, *varies;   /* by var: in the forward part; and depends on an operand */
  bool *live;               /* by var: the backward part needs it */
  mr_var_t **kept; /* [n_place] the value in each place; NULL: this branch does not use it */
} branch_t;

typedef struct reverse {
  const mr_eqn_t *e;
  int n, n_in, n_out; /* branches; operands and results of each */
  bool *in, *out;     /* the operands and results of a branch that have cotangents */
  branch_t *branch;
  mr_aval_t *place; /* [n_place] */
  int n_place, cap;
} reverse_t;

static mr_err_t cond_vjp_differentiate(const reverse_t *r, branch_t *b, const mr_fn_t *f,
                                       mr_var_t *const *dout) {
  mr_fn_t *j = b->j;
  mr_var_t **x = mr_mem_take(&j->mem, (size_t)(2 * r->n_in + 1) * sizeof(mr_var_t *));
  mr_var_t **dx = x + r->n_in;
  int n = 0;
  b->y = mr_mem_take(&j->mem, (size_t)(2 * r->n_out + r->n_in + 1) * sizeof(mr_var_t *));
  b->ct = b->y + r->n_out, b->dx = b->ct + r->n_out;
  for (int i = 0; i < r->n_in; i++) mr_fn_input(j, f->in[i]->aval);
  MR_TRY(mr_inline(j, f, j->in, b->y));
  b->n_forward = j->n_eqn;
  for (int k = 0; k < r->n_out; k++)
    if (dout[k] && r->out[k]) b->ct[k] = mr_fn_input(j, b->y[k]->aval);
  for (int i = 0; i < r->n_in; i++)
    if (r->in[i]) x[n++] = j->in[i];
  MR_TRY(mr_backward_range(j, 0, r->n_out, b->y, b->ct, n, x, dx));
  for (int i = 0, at = 0; i < r->n_in; i++)
    if (r->in[i]) b->dx[i] = dx[at++];
  return mr_rule_done(j);
}

/* ---- what is kept ---- */

/* Puts v into the first place of its aval that this branch has not used, or into a new one. */
static void take_place(reverse_t *r, branch_t *b, mr_var_t *v) {
  int i = 0;
  while (i < r->n_place && (b->kept[i] || !mr_aval_equal(&r->place[i], &v->aval))) i++;
  if (i == r->n_place) r->place[r->n_place++] = v->aval;
  b->kept[i] = v;
}

static void cond_vjp_keep(reverse_t *r, branch_t *b, mr_var_t *v) {
  if (v->literal || b->live[v->id]) return;
  b->live[v->id] = true;
  if (!b->forward[v->id] || !v->def) return;
  if (b->varies[v->id]) {
    take_place(r, b, v);
    return;
  }
  for (int k = 0; k < v->def->n_in; k++) cond_vjp_keep(r, b, v->def->in[k]);
}

static void cond_vjp_find_kept(reverse_t *r, branch_t *b) {
  const mr_fn_t *j = b->j;
  for (int i = 0; i < r->n_in; i++) b->forward[j->in[i]->id] = b->varies[j->in[i]->id] = true;
  for (int i = 0; i < b->n_forward; i++) {
    const mr_eqn_t *e = j->eqn[i];
    bool any = false;
    for (int k = 0; k < e->n_in; k++) any |= b->varies[e->in[k]->id];
    for (int k = 0; k < e->n_out; k++) {
      b->forward[e->out[k]->id] = true;
      b->varies[e->out[k]->id] = any;
    }
  }
  for (int i = 0; i < r->n_in; i++)
    if (b->dx[i]) cond_vjp_keep(r, b, b->dx[i]);
  for (int i = j->n_eqn - 1; i >= b->n_forward; i--) {
    const mr_eqn_t *e = j->eqn[i];
    bool wanted = false;
    for (int k = 0; k < e->n_out; k++) wanted |= b->live[e->out[k]->id];
    for (int k = 0; wanted && k < e->n_in; k++) cond_vjp_keep(r, b, e->in[k]);
  }
}

/* ---- the two functions of a branch ---- */

/* *out: the forward part, (operands) -> (results, places). */
static mr_err_t way_forward(const reverse_t *r, const branch_t *b, mr_var_t **map, mr_fn_t **out,
                            mr_diag_t *diag) {
  mr_fn_t *g = mr_fn_create();
  if (!g) return mr_no_memory(diag, "the vjp of cond");
  int n = r->n_out + r->n_place;
  mr_var_t **all = mr_mem_take(&g->mem, (size_t)(n + 1) * sizeof(mr_var_t *));
  for (int i = 0; i < r->n_in; i++) map[b->j->in[i]->id] = mr_fn_input(g, b->j->in[i]->aval);
  for (int i = 0; i < b->n_forward && g->diag.code >= 0; i++) mr__copy_eqn(g, b->j->eqn[i], map);
  for (int k = 0; k < n && g->diag.code >= 0; k++) {
    mr_var_t *v = k < r->n_out ? b->y[k] : b->kept[k - r->n_out];
    all[k] = v ? mr__mapped(g, map, v) : mr_lax_full(g, &r->place[k - r->n_out], 0);
  }
  return mr__finish(g, n, all, out, diag);
}

/* Whether equation i of j belongs to the backward part. */
static bool cond_vjp_goes_back(const branch_t *b, int i) {
  const mr_eqn_t *e = b->j->eqn[i];
  for (int k = 0; k < e->n_out; k++)
    if (b->live[e->out[k]->id] && (i >= b->n_forward || !b->varies[e->out[k]->id])) return true;
  return false;
}

/* *out: the backward part, (operands, places, cotangents) -> (cotangents of the operands in
   r->in). */
static mr_err_t way_back(const reverse_t *r, const branch_t *b, mr_var_t **map, mr_fn_t **out,
                         mr_diag_t *diag) {
  mr_fn_t *g = mr_fn_create();
  const mr_fn_t *j = b->j;
  if (!g) return mr_no_memory(diag, "the vjp of cond");
  mr_var_t **all = mr_mem_take(&g->mem, (size_t)(r->n_in + 1) * sizeof(mr_var_t *));
  int n = 0;
  for (int i = 0; i < r->n_in; i++) map[j->in[i]->id] = mr_fn_input(g, j->in[i]->aval);
  for (int i = 0; i < r->n_place; i++) {
    mr_var_t *in = mr_fn_input(g, r->place[i]);
    if (b->kept[i]) map[b->kept[i]->id] = in;
  }
  for (int k = 0; k < r->n_out; k++)
    if (b->ct[k]) map[b->ct[k]->id] = mr_fn_input(g, b->ct[k]->aval);
  for (int i = 0; i < j->n_eqn && g->diag.code >= 0; i++)
    if (cond_vjp_goes_back(b, i)) mr__copy_eqn(g, j->eqn[i], map);
  for (int i = 0; i < r->n_in && g->diag.code >= 0; i++)
    if (r->in[i])
      all[n++] = b->dx[i] ? mr__mapped(g, map, b->dx[i]) : mr_lax_full(g, &j->in[i]->aval, 0);
  return mr__finish(g, n, all, out, diag);
}

/* ---- all branches ---- */

static mr_err_t study_branches(reverse_t *r, mr_fn_t *f, const mr_fn_t *const *fns,
                               mr_var_t *const *dout, mr_diag_t *why) {
  for (int i = 0; i < r->n; i++) {
    branch_t *b = &r->branch[i];
    b->j = mr_fn_create();
    if (!b->j) return mr_no_memory(why, "the vjp of cond");
    if (cond_vjp_differentiate(r, b, fns[i], dout) < 0)
      return mr_diag_relay(why, b->j->diag.code, &b->j->diag);
    r->cap += b->j->n_var;
  }
  /* An operand to which no branch gives a cotangent gets none: a cotangent of zeros would become
     NaN if the operand's own slope is infinite. */
  for (int i = 0; i < r->n_in; i++) {
    bool any = false;
    for (int j = 0; j < r->n; j++) any |= r->branch[j].dx[i] != NULL;
    r->in[i] = any;
  }
  r->place = mr_mem_take(&f->mem, (size_t)(r->cap + 1) * sizeof *r->place);
  for (int i = 0; i < r->n; i++) {
    branch_t *b = &r->branch[i];
    size_t n = (size_t)b->j->n_var + 1;
    b->forward = mr_mem_take(&f->mem, 3 * n);
    b->varies = b->forward + n, b->live = b->varies + n;
    b->kept = mr_mem_take(&f->mem, (size_t)(r->cap + 1) * sizeof(mr_var_t *));
    cond_vjp_find_kept(r, b);
  }
  return MR_OK;
}

static mr_err_t write_ways(const reverse_t *r, mr_fn_t **forward, mr_fn_t **back, mr_diag_t *why) {
  mr_err_t err = MR_OK;
  for (int i = 0; i < r->n && err >= 0; i++) {
    const branch_t *b = &r->branch[i];
    size_t n = (size_t)b->j->n_var + 1;
    mr_var_t **map = calloc(2 * n, sizeof *map);
    if (!map) return mr_no_memory(why, "the vjp of cond");
    err = way_forward(r, b, map, &forward[i], why);
    if (err >= 0) err = way_back(r, b, map + n, &back[i], why);
    free(map);
  }
  return err;
}

/* Widens the first cond by the kept values, and appends the second one, which takes them. */
static mr_err_t cond_vjp_run_back(const reverse_t *r, mr_fn_t *f, mr_fn_t **forward, mr_fn_t **back,
                                  mr_var_t *const *dout, mr_var_t **din) {
  mr_eqn_t *own = r->e->out[0]->def, *c;
  const mr_fn_t *const *fns = (const mr_fn_t *const *)(uintptr_t)forward;
  MR_TRY(mr_eqn_widen(f, own, mr_attr_fns("branches", r->n, fns), r->n_place, r->place));
  mr_var_t **in =
      mr_mem_take(&f->mem, (size_t)(r->n_in + r->n_place + r->n_out + 1) * sizeof(mr_var_t *));
  int n = 0, at = 0;
  for (int i = 0; i < r->n_in; i++) in[n++] = r->e->in[i + 1];
  for (int i = 0; i < r->n_place; i++) in[n++] = own->out[r->n_out + i];
  for (int k = 0; k < r->n_out; k++)
    if (r->branch[0].ct[k]) in[n++] = dout[k];
  MR_TRY(mr__cond_emit(f, r->e->in[0], r->n, (const mr_fn_t *const *)(uintptr_t)back, in, &c));
  for (int i = 0; i < r->n_in; i++)
    if (r->in[i]) din[i + 1] = c->out[at++];
  return MR_OK;
}

mr_err_t mr__cond_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  const mr_fn_t *const *fns;
  mr_diag_t why = {0};
  reverse_t r = {.e = e, .n = mr__cond_branches(e, &fns), .n_in = e->n_in - 1, .n_out = e->n_out};
  size_t n = (size_t)r.n;
  r.in = mr_mem_take(&f->mem, (size_t)(e->n_in + e->n_out) + 1);
  r.out = r.in + e->n_in;
  for (int i = 0; i < r.n_in; i++)
    r.in[i] = mr_is_float(e->in[i + 1]->aval.dtype) && mr__wants(f, e->in[i + 1]);
  for (int k = 0; k < e->n_out; k++) r.out[k] = mr_is_float(e->out[k]->aval.dtype);
  r.branch = mr_mem_take(&f->mem, n * sizeof *r.branch);
  mr_fn_t **forward = mr_mem_take(&f->mem, 2 * n * sizeof(mr_fn_t *)), **back = forward + n;
  mr_err_t err = study_branches(&r, f, fns, dout, &why);
  if (err >= 0) err = write_ways(&r, forward, back, &why);
  if (err >= 0) err = cond_vjp_run_back(&r, f, forward, back, dout, din);
  if (why.code < 0) err = mr__call_failed(f, &why);
  for (int i = 0; i < r.n; i++) {
    mr_fn_destroy(forward[i]), mr_fn_destroy(back[i]);
    mr_fn_destroy(r.branch[i].j);
  }
  return err < 0 ? err : mr_rule_done(f);
}
