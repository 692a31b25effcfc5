/* Reverse mode of scan.  One step is differentiated in a graph of its own.  Its backward part
   reads values of the forward part: rows of x are read again, values of constants alone are
   recomputed, and all others become further stacked results of the scan.  The backward pass is a
   scan in the other direction, which carries the cotangents of the carries, and the sums of the
   cotangents of the constants. */
#include <stdlib.h>

#include "model/control/flow.h"
#include "model/ops/call.h"
#include "model/ops/rules.h"
#include "model/transforms/build.h"
#include "model/transforms/transforms.h"

typedef struct reverse {
  const mr_eqn_t *e;
  mr_scan_parts_t p;
  mr_fn_t *j;    /* the step, forward and backward */
  int n_forward; /* the number of forward equations in j */
  int n_in, n_out;
  mr_var_t **ct;   /* [n_out] cotangents of the step's results, NULL without one */
  mr_var_t **grad; /* [n_in] cotangents of its operands, NULL if zero */
  bool *in, *out;  /* the operands and results of the step that have cotangents */
  bool *forward;   /* by var of j: it belongs to the forward part */
  bool *varies;    /* by var of j, in the forward part: it depends on a carry or a row */
  bool *live;      /* by var of j: the backward part needs it */
  mr_var_t **kept; /* [n_kept] values to be stacked */
  int n_kept;
} reverse_t;

/* Finds the operands and results that have cotangents.  A carry with a cotangent in some step has
   one in all steps. */
static void find_active(reverse_t *r, const mr_fn_t *f) {
  for (int i = 0; i < r->n_in; i++)
    r->in[i] = mr_is_float(r->p.body->in[i]->aval.dtype) && mr__wants(f, r->e->in[i]);
  mr__loop_moves(r->p.body, r->p.s.n_consts, r->p.s.n_carry, r->in, r->out);
}

/* Builds j: the step, then its backward equations. */
static mr_err_t scan_vjp_differentiate(reverse_t *r, mr_var_t *const *dout) {
  mr_fn_t *j = r->j;
  const mr_fn_t *body = r->p.body;
  mr_var_t **y = mr_mem_take(&j->mem, (size_t)(r->n_out + 1) * sizeof(mr_var_t *));
  mr_var_t **x = mr_mem_take(&j->mem, (size_t)(r->n_in + 1) * sizeof(mr_var_t *));
  mr_var_t **dx = mr_mem_take(&j->mem, (size_t)(r->n_in + 1) * sizeof(mr_var_t *));
  int n = 0;
  for (int i = 0; i < r->n_in; i++) mr_fn_input(j, body->in[i]->aval);
  MR_TRY(mr_inline(j, body, j->in, y));
  r->n_forward = j->n_eqn;
  for (int k = 0; k < r->n_out; k++)
    if (r->out[k] && (k < r->p.s.n_carry || dout[k])) r->ct[k] = mr_fn_input(j, y[k]->aval);
  for (int i = 0; i < r->n_in; i++)
    if (r->in[i]) x[n++] = j->in[i];
  MR_TRY(mr_backward_range(j, 0, r->n_out, y, r->ct, n, x, dx));
  for (int i = 0, at = 0; i < r->n_in; i++)
    if (r->in[i]) r->grad[i] = dx[at++];
  for (int i = r->p.s.n_consts; i < r->p.s.n_consts + r->p.s.n_carry; i++)
    if (r->in[i] && !r->grad[i]) r->grad[i] = mr_lax_full(j, &j->in[i]->aval, 0);
  return mr_fn_return(j, r->n_out, y);
}

/* ---- what is kept ---- */

static void scan_vjp_keep(reverse_t *r, mr_var_t *v) {
  if (v->literal || r->live[v->id]) return;
  r->live[v->id] = true;
  if (!r->forward[v->id]) return;
  bool row = !v->def && v->id >= r->p.s.n_consts + r->p.s.n_carry; /* inputs come first */
  if (r->varies[v->id]) {
    if (!row) r->kept[r->n_kept++] = v;
    return;
  }
  for (int k = 0; v->def && k < v->def->n_in; k++) scan_vjp_keep(r, v->def->in[k]);
}

static void scan_vjp_find_kept(reverse_t *r) {
  const mr_fn_t *j = r->j;
  for (int i = 0; i < r->n_in; i++) {
    r->forward[j->in[i]->id] = true;
    r->varies[j->in[i]->id] = i >= r->p.s.n_consts;
  }
  for (int i = 0; i < r->n_forward; i++) {
    const mr_eqn_t *e = j->eqn[i];
    bool any = false;
    for (int k = 0; k < e->n_in; k++) any |= r->varies[e->in[k]->id];
    for (int k = 0; k < e->n_out; k++) {
      r->forward[e->out[k]->id] = true;
      r->varies[e->out[k]->id] = any;
    }
  }
  for (int i = 0; i < r->n_in; i++)
    if (r->grad[i]) scan_vjp_keep(r, r->grad[i]);
  for (int i = j->n_eqn - 1; i >= r->n_forward; i--) {
    const mr_eqn_t *e = j->eqn[i];
    bool wanted = false;
    for (int k = 0; k < e->n_out; k++) wanted |= r->live[e->out[k]->id];
    for (int k = 0; wanted && k < e->n_in; k++) scan_vjp_keep(r, e->in[k]);
  }
}

/* ---- the two steps ---- */

/* Widens the scan in the graph: the kept values become further results. */
static mr_err_t scan_vjp_widen(reverse_t *r, mr_fn_t *f, mr_var_t **map, mr_diag_t *diag) {
  mr_fn_t *b = mr_fn_create(), *step;
  const mr_fn_t *j = r->j;
  int n = r->n_out + r->n_kept;
  mr_var_t **all = mr_mem_take(&b->mem, (size_t)(n + 1) * sizeof(mr_var_t *));
  mr_aval_t *more = mr_mem_take(&b->mem, (size_t)(r->n_kept + 1) * sizeof *more);
  for (int i = 0; i < r->n_in; i++) map[j->in[i]->id] = mr_fn_input(b, j->in[i]->aval);
  for (int i = 0; i < r->n_forward && b->diag.code >= 0; i++) mr__copy_eqn(b, j->eqn[i], map);
  for (int k = 0; k < n && b->diag.code >= 0; k++)
    all[k] = mr__mapped(b, map, k < r->n_out ? j->out[k] : r->kept[k - r->n_out]);
  mr_err_t err = MR_OK;
  for (int k = 0; k < r->n_kept && err >= 0; k++)
    err = mr__scan_stacked(&r->kept[k]->aval, r->p.s.length, &more[k], diag);
  if (err < 0) return mr_fn_destroy(b), err;
  mr_aval_t *stacked = mr_mem_copy(&f->mem, more, (size_t)r->n_kept, sizeof *more);
  MR_TRY(mr__finish(b, n, all, &step, diag));
  mr_eqn_t *own = r->e->out[0]->def;
  err = mr_eqn_widen(f, own, mr_attr_fn("jaxpr", step), r->n_kept, stacked);
  mr_fn_destroy(step);
  return err;
}

/* The inputs of the backward step: (constants, sums, cotangents of carries, rows of x, kept, rows
   of dy).  It gives (sums, cotangents of carries, rows of dx). */
static void back_inputs(reverse_t *r, mr_fn_t *b, mr_var_t **map, mr_var_t **sum, mr_scan_t *s) {
  const mr_fn_t *j = r->j;
  int consts = r->p.s.n_consts, rows = consts + r->p.s.n_carry;
  for (int i = 0; i < consts; i++) map[j->in[i]->id] = mr_fn_input(b, j->in[i]->aval);
  for (int i = 0; i < consts; i++)
    if (r->grad[i]) sum[i] = mr_fn_input(b, j->in[i]->aval);
  for (int k = 0; k < r->p.s.n_carry; k++)
    if (r->ct[k]) map[r->ct[k]->id] = mr_fn_input(b, r->ct[k]->aval);
  *s = (mr_scan_t){r->p.s.length, consts, b->n_in - consts, !r->p.s.reverse};
  for (int i = rows; i < r->n_in; i++) map[j->in[i]->id] = mr_fn_input(b, j->in[i]->aval);
  for (int i = 0; i < r->n_kept; i++) map[r->kept[i]->id] = mr_fn_input(b, r->kept[i]->aval);
  for (int k = r->p.s.n_carry; k < r->n_out; k++)
    if (r->ct[k]) map[r->ct[k]->id] = mr_fn_input(b, r->ct[k]->aval);
}

/* Whether equation i of j belongs to the backward step. */
static bool scan_vjp_goes_back(const reverse_t *r, int i) {
  const mr_eqn_t *e = r->j->eqn[i];
  for (int k = 0; k < e->n_out; k++)
    if (r->live[e->out[k]->id] && (i >= r->n_forward || !r->varies[e->out[k]->id])) return true;
  return false;
}

static mr_err_t step_back(reverse_t *r, mr_var_t **map, mr_scan_t *s, mr_fn_t **out,
                          mr_diag_t *diag) {
  mr_fn_t *b = mr_fn_create();
  int n = 0;
  mr_var_t **sum = mr_mem_take(&b->mem, (size_t)(r->n_in + 1) * sizeof(mr_var_t *));
  mr_var_t **all = mr_mem_take(&b->mem, (size_t)(r->n_in + 1) * sizeof(mr_var_t *));
  back_inputs(r, b, map, sum, s);
  for (int i = 0; i < r->j->n_eqn && b->diag.code >= 0; i++)
    if (scan_vjp_goes_back(r, i)) mr__copy_eqn(b, r->j->eqn[i], map);
  for (int i = 0; i < r->n_in && b->diag.code >= 0; i++) {
    if (!r->grad[i]) continue;
    mr_var_t *d = mr__mapped(b, map, r->grad[i]);
    all[n++] = i < r->p.s.n_consts ? mr_lax_add_any(b, sum[i], d) : d;
  }
  return mr__finish(b, n, all, out, diag);
}

/* Appends the backward scan over the operands of e, its kept values and the cotangents of its
   results. */
static mr_err_t scan_vjp_run_back(reverse_t *r, mr_fn_t *f, const mr_fn_t *step, const mr_scan_t *s,
                                  mr_var_t *const *dout, mr_var_t **din) {
  const mr_eqn_t *e = r->e;
  int n = 0, consts = r->p.s.n_consts, rows = consts + r->p.s.n_carry;
  mr_var_t **in = mr_mem_take(&f->mem, (size_t)(step->n_in + 1) * sizeof(mr_var_t *));
  for (int i = 0; i < consts; i++) in[n++] = e->in[i];
  for (int i = 0; i < consts; i++)
    if (r->grad[i]) in[n++] = mr_lax_full(f, &e->in[i]->aval, 0);
  for (int k = 0; k < r->p.s.n_carry; k++)
    if (r->ct[k]) in[n++] = dout[k] ? dout[k] : mr_lax_full(f, &e->out[k]->aval, 0);
  for (int i = rows; i < r->n_in; i++) in[n++] = e->in[i];
  for (int i = 0; i < r->n_kept; i++) in[n++] = e->out[r->n_out + i];
  for (int k = r->p.s.n_carry; k < r->n_out; k++)
    if (r->ct[k]) in[n++] = dout[k];
  mr_eqn_t *c;
  MR_TRY(mr__scan_emit(f, step, s, in, &c));
  for (int i = 0, at = 0; i < r->n_in; i++)
    if (r->grad[i]) din[i] = c->out[at++];
  return MR_OK;
}

static mr_err_t reverse_scan(reverse_t *r, mr_fn_t *f, mr_var_t *const *dout, mr_var_t **din,
                             mr_diag_t *why) {
  if (scan_vjp_differentiate(r, dout) < 0) return mr_diag_relay(why, r->j->diag.code, &r->j->diag);
  size_t n = (size_t)r->j->n_var + 1;
  r->forward = mr_mem_take(&f->mem, 3 * n);
  r->varies = r->forward + n;
  r->live = r->varies + n;
  mr_var_t **map = mr_mem_take(&f->mem, 3 * n * sizeof(mr_var_t *));
  r->kept = map + 2 * n;
  scan_vjp_find_kept(r);
  mr_fn_t *step;
  mr_scan_t s;
  MR_TRY(scan_vjp_widen(r, f, map, why));
  MR_TRY(step_back(r, map + n, &s, &step, why));
  mr_err_t err = scan_vjp_run_back(r, f, step, &s, dout, din);
  mr_fn_destroy(step);
  return err;
}

mr_err_t mr__scan_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  reverse_t r = {.e = e, .p = mr__scan_parts(e), .n_in = e->n_in, .n_out = e->n_out};
  r.j = mr_fn_create();
  if (!r.j) return mr_no_memory(&f->diag, "the vjp of scan");
  r.ct = mr_mem_take(&f->mem, (size_t)(e->n_in + e->n_out + 1) * sizeof(mr_var_t *));
  r.grad = r.ct + e->n_out;
  r.in = mr_mem_take(&f->mem, (size_t)(e->n_in + e->n_out) + 1);
  r.out = r.in + e->n_in;
  find_active(&r, f);
  mr_diag_t why = {0};
  mr_err_t err = reverse_scan(&r, f, dout, din, &why);
  if (why.code < 0) err = mr__call_failed(f, &why);
  mr_fn_destroy(r.j);
  return err < 0 ? err : mr_rule_done(f);
}
