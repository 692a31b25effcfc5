/* Forward mode of scan: a second scan that carries values and tangents and gives the tangents.
   The first scan stays as it is, so that mr_linearize can separate the linear part. */
#include "model/control/flow.h"
#include "model/ops/call.h"
#include "model/ops/rules.h"
#include "model/transforms/build.h"
#include "model/transforms/transforms.h"

typedef struct forward {
  mr_scan_parts_t p;
  int n_in, n_out, n_wrt;
  bool *in, *out; /* whether operand i, result k has a tangent */
  int *wrt;       /* [n_wrt] the operands that have a tangent */
} forward_t;

static void scan_jvp_find_moving(forward_t *s, mr_var_t *const *din) {
  for (int i = 0; i < s->n_in; i++) s->in[i] = din[i] && mr_is_float(s->p.body->in[i]->aval.dtype);
  mr__loop_moves(s->p.body, s->p.s.n_consts, s->p.s.n_carry, s->in, s->out);
  for (int i = 0; i < s->n_in; i++)
    if (s->in[i]) s->wrt[s->n_wrt++] = i;
}

/* Lays out the operands of the second scan: constants, carries and rows, each part followed by
   its tangents.  at[i] is the place of operand i, at[n_in + i] that of its tangent.  Returns
   their number. */
static int lay_out_operands(const forward_t *s, int *at, mr_scan_t *scan) {
  int from[] = {0, s->p.s.n_consts, s->p.s.n_consts + s->p.s.n_carry, s->n_in}, n = 0;
  int size[3];
  for (int part = 0; part < 3; part++) {
    int before = n;
    for (int i = from[part]; i < from[part + 1]; i++) at[i] = n++;
    for (int i = from[part]; i < from[part + 1]; i++)
      if (s->in[i]) at[s->n_in + i] = n++;
    size[part] = n - before;
  }
  *scan = s->p.s;
  scan->n_consts = size[0];
  scan->n_carry = size[1];
  return n;
}

/* The step of the second scan; it gives (carries, their tangents, tangents of y). */
static mr_fn_t *tangent_step(const forward_t *s, const int *at, int n_in, mr_diag_t *diag) {
  mr_fn_t *j;
  if (mr_jvp(s->p.body, s->n_wrt, s->wrt, &j, diag) < 0) return NULL;
  mr_fn_t *b = mr_fn_create();
  mr_aval_t *aval = mr_mem_take(&j->mem, (size_t)(n_in + 1) * sizeof *aval);
  mr_var_t **in = mr_mem_take(&j->mem, (size_t)(j->n_in + 1) * sizeof(mr_var_t *));
  mr_var_t **y = mr_mem_take(&j->mem, (size_t)(2 * j->n_out + 1) * sizeof(mr_var_t *));
  mr_var_t **all = y + j->n_out;
  int n = 0;
  for (int i = 0; i < s->n_in; i++) {
    aval[at[i]] = s->p.body->in[i]->aval;
    if (s->in[i]) aval[at[s->n_in + i]] = aval[at[i]];
  }
  for (int i = 0; i < n_in; i++) mr_fn_input(b, aval[i]);
  for (int i = 0; i < j->n_in; i++)
    in[i] = b->in[at[i < s->n_in ? i : s->n_in + s->wrt[i - s->n_in]]];
  mr_inline(b, j, in, y);
  for (int k = 0; k < s->p.s.n_carry; k++) all[n++] = y[k];
  for (int k = 0; k < s->n_out; k++)
    if (s->out[k]) all[n++] = y[s->n_out + k];
  mr_err_t err = b->diag.code < 0 ? b->diag.code : mr_fn_return(b, n, all);
  mr_fn_destroy(j);
  if (err >= 0) {
    mr_dce(b);
    return b;
  }
  mr_diag_relay(diag, err, &b->diag);
  mr_fn_destroy(b);
  return NULL;
}

mr_err_t mr__scan_jvp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *din, mr_var_t **dout) {
  forward_t s = {.p = mr__scan_parts(e), .n_in = e->n_in, .n_out = e->n_out};
  s.in = mr_mem_take(&f->mem, (size_t)(e->n_in + e->n_out) + 1);
  s.out = s.in + e->n_in;
  s.wrt = mr_mem_take(&f->mem, (size_t)(3 * e->n_in + 1) * sizeof(int));
  int *at = s.wrt + e->n_in;
  scan_jvp_find_moving(&s, din);
  if (!s.n_wrt) return MR_OK;
  mr_diag_t why = {0};
  mr_scan_t scan;
  int n = lay_out_operands(&s, at, &scan);
  mr_fn_t *step = tangent_step(&s, at, n, &why);
  if (!step) return mr__call_failed(f, &why);
  mr_var_t **in = mr_mem_take(&f->mem, (size_t)(n + 1) * sizeof(mr_var_t *));
  for (int i = 0; i < e->n_in; i++) {
    in[at[i]] = e->in[i];
    if (s.in[i]) in[at[e->n_in + i]] = din[i] ? din[i] : mr_lax_full(f, &e->in[i]->aval, 0);
  }
  mr_eqn_t *c;
  mr_err_t err = mr__scan_emit(f, step, &scan, in, &c);
  mr_fn_destroy(step);
  int y = s.p.s.n_carry;
  for (int k = 0; k < e->n_out && err >= 0; k++)
    if (s.out[k]) dout[k] = c->out[y++];
  return err;
}
