/* The op while: a loop that runs as long as a condition of its carries is true.  Forward mode
   only: reverse mode would have to keep values of every step, whose number is unknown.  If vmap
   maps the condition, the loop runs until it is false for all examples, and an example that has
   finished keeps its values.  After jax.lax.while_loop. */
#include "model/control/flow.h"

#include "model/ops/call.h"
#include "model/ops/rules.h"
#include "model/transforms/build.h"
#include "model/transforms/transforms.h"

static mr_err_t while_emit(mr_fn_t *f, const mr_fn_t *cond, int n_cond, const mr_fn_t *body,
                           int n_body, mr_var_t *const *in, mr_eqn_t **e) {
  mr_attr_t attr[] = {mr_attr_fn("body_jaxpr", body), mr_attr_int("body_nconsts", n_body),
                      mr_attr_fn("cond_jaxpr", cond), mr_attr_int("cond_nconsts", n_cond)};
  *e = mr_emit(f, &mr_op_while, n_cond + body->n_in, in, 4, attr, body->n_out);
  return mr_rule_done(f);
}

mr_err_t mr_lax_while(mr_fn_t *f, const mr_fn_t *cond, int n_cond_consts, const mr_fn_t *body,
                      int n_body_consts, mr_var_t *const *in, mr_var_t **out) {
  mr_eqn_t *e;
  MR_TRY(mr__call_whole(f, "while", "the condition", cond));
  MR_TRY(mr__call_whole(f, "while", "the body", body));
  if (n_cond_consts < 0 || n_body_consts < 0)
    return mr__call_refuse(f, "while", "%d and %d constants, want at least 0", n_cond_consts,
                           n_body_consts);
  if (cond->n_in - n_cond_consts != body->n_out || body->n_in - n_body_consts != body->n_out)
    return mr__call_refuse(f, "while",
                           "the body gives %d carries, but takes %d values of which %d are "
                           "constants; the condition takes %d of which %d are constants",
                           body->n_out, body->n_in, n_body_consts, cond->n_in, n_cond_consts);
  if (cond->n_out != 1)
    return mr__call_refuse(f, "while", "the condition gives %d values, want one bool[]",
                           cond->n_out);
  MR_TRY(while_emit(f, cond, n_cond_consts, body, n_body_consts, in, &e));
  for (int k = 0; k < e->n_out; k++) out[k] = e->out[k];
  return MR_OK;
}

mr_while_parts_t mr__while_parts(const mr_eqn_t *e) {
  return (mr_while_parts_t){.cond = mr_attr_called(e, "cond_jaxpr"),
                            .body = mr_attr_called(e, "body_jaxpr"),
                            .n_cond = (int)mr_attr_get(e, "cond_nconsts")->i[0],
                            .n_body = (int)mr_attr_get(e, "body_nconsts")->i[0],
                            .n_carry = e->n_out};
}

/* Checks the counts, as attributes may come from a parsed text. */
static mr_err_t while_check_counts(const mr_eqn_t *e, mr_diag_t *diag) {
  const mr_fn_t *cond = mr_attr_called(e, "cond_jaxpr"), *body = mr_attr_called(e, "body_jaxpr");
  int64_t n_cond = mr_attr_get(e, "cond_nconsts")->i[0];
  int64_t n_body = mr_attr_get(e, "body_nconsts")->i[0];
  if (n_cond < 0 || n_body < 0 || n_cond > e->n_in || n_body > e->n_in - n_cond ||
      e->n_in - n_cond - n_body != e->n_out || body->n_in != n_body + e->n_out ||
      body->n_out != e->n_out || cond->n_in != n_cond + e->n_out || cond->n_out != 1)
    return mr_shape_fail(e, diag, "a function takes or gives another number of values");
  mr_aval_t want = mr_aval_scalar(MR_BOOL);
  return mr__call_fits(e, "what the condition gives as", 0, &cond->out[0]->aval, &want, diag);
}

static mr_err_t while_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  MR_TRY(while_check_counts(e, diag));
  mr_while_parts_t p = mr__while_parts(e);
  int first = p.n_cond + p.n_body;
  for (int i = 0; i < p.cond->n_in; i++) {
    const mr_aval_t *x = &e->in[i < p.n_cond ? i : first + i - p.n_cond]->aval;
    MR_TRY(mr__call_fits(e, "the condition's operand", i, x, &p.cond->in[i]->aval, diag));
  }
  for (int i = 0; i < p.body->n_in; i++)
    MR_TRY(mr__call_fits(e, "the body's operand", i, &e->in[p.n_cond + i]->aval,
                         &p.body->in[i]->aval, diag));
  for (int k = 0; k < e->n_out; k++) {
    out[k] = e->in[first + k]->aval;
    MR_TRY(
        mr__call_fits(e, "what the body gives for carry", k, &p.body->out[k]->aval, &out[k], diag));
  }
  return MR_OK;
}

/* ---- forward mode: a second loop that carries values and tangents ---- */

typedef struct forward {
  mr_while_parts_t p;
  bool *in, *out; /* whether operand i, result k of the body has a tangent */
  int *wrt, n_wrt, n_dconst, n_dcarry;
} forward_t;

static void while_find_moving(forward_t *s, const mr_eqn_t *e, mr_var_t *const *din) {
  for (int i = 0; i < s->p.body->n_in; i++)
    s->in[i] = din[s->p.n_cond + i] && mr_is_float(s->p.body->in[i]->aval.dtype);
  mr__loop_moves(s->p.body, s->p.n_body, s->p.n_carry, s->in, s->out);
  for (int i = 0; i < s->p.body->n_in; i++) {
    if (!s->in[i]) continue;
    s->wrt[s->n_wrt++] = i;
    *(i < s->p.n_body ? &s->n_dconst : &s->n_dcarry) += 1;
  }
}

/* *out: (constants, their tangents, carries, their tangents) -> (carries, their tangents). */
static mr_err_t while_tangent_body(const forward_t *s, mr_fn_t **out, mr_diag_t *diag) {
  mr_fn_t *j, *b = mr_fn_create();
  mr_err_t err = mr_jvp(s->p.body, s->n_wrt, s->wrt, &j, diag);
  if (err < 0) return mr_fn_destroy(b), err;
  mr_var_t **in = mr_mem_take(&j->mem, (size_t)(j->n_in + 1) * sizeof(mr_var_t *));
  mr_var_t **y = mr_mem_take(&j->mem, (size_t)(j->n_out + 1) * sizeof(mr_var_t *));
  int n_body = s->p.n_body, n_in = s->p.body->n_in, d = n_in, n = s->p.n_carry;
  for (int i = 0; i < n_body; i++) in[i] = mr_fn_input(b, j->in[i]->aval);
  for (int k = 0; k < s->n_dconst; k++, d++) in[d] = mr_fn_input(b, j->in[d]->aval);
  for (int i = n_body; i < n_in; i++) in[i] = mr_fn_input(b, j->in[i]->aval);
  for (int k = 0; k < s->n_dcarry; k++, d++) in[d] = mr_fn_input(b, j->in[d]->aval);
  mr_inline(b, j, in, y);
  for (int k = 0; k < s->p.n_carry; k++)
    if (s->in[n_body + k]) y[n++] = y[s->p.n_carry + k];
  err = b->diag.code < 0 ? mr_diag_relay(diag, b->diag.code, &b->diag) : mr_fn_return(b, n, y);
  mr_fn_destroy(j);
  if (err < 0) return mr_fn_destroy(b), err;
  mr_dce(b);
  *out = b;
  return MR_OK;
}

/* *out: the condition with the tangents of the carries as further inputs, which it does not
   read. */
static mr_err_t tangent_cond(const forward_t *s, mr_fn_t **out, mr_diag_t *diag) {
  mr_fn_t *c = mr_fn_copy(s->p.cond, diag);
  if (!c) return diag->code;
  for (int i = s->n_dconst; i < s->n_wrt; i++) mr_fn_input(c, s->p.body->in[s->wrt[i]]->aval);
  *out = c;
  return MR_OK;
}

static mr_err_t while_jvp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *din, mr_var_t **dout) {
  forward_t s = {.p = mr__while_parts(e)};
  int n_in = s.p.body->n_in, first = s.p.n_cond, n = 0, at = s.p.n_carry;
  s.in = mr_mem_take(&f->mem, (size_t)(n_in + e->n_out) + 1);
  s.out = s.in + n_in;
  s.wrt = mr_mem_take(&f->mem, (size_t)(n_in + 1) * sizeof(int));
  while_find_moving(&s, e, din);
  if (!s.n_wrt) return MR_OK;
  mr_diag_t why = {0};
  mr_fn_t *body = NULL, *cond = NULL;
  mr_eqn_t *c;
  mr_var_t **in = mr_mem_take(&f->mem, (size_t)(first + 2 * n_in + 1) * sizeof(mr_var_t *));
  for (int i = 0; i < first + s.p.n_body; i++) in[n++] = e->in[i];
  for (int i = 0; i < s.p.n_body; i++)
    if (s.in[i]) in[n++] = din[first + i];
  for (int i = s.p.n_body; i < n_in; i++) in[n++] = e->in[first + i];
  for (int i = s.p.n_body; i < n_in; i++)
    if (s.in[i])
      in[n++] = din[first + i] ? din[first + i] : mr_lax_full(f, &e->in[first + i]->aval, 0);
  if (while_tangent_body(&s, &body, &why) >= 0) tangent_cond(&s, &cond, &why);
  mr_err_t err = why.code < 0
                     ? mr__call_failed(f, &why)
                     : while_emit(f, cond, s.p.n_cond, body, s.p.n_body + s.n_dconst, in, &c);
  for (int k = 0; k < e->n_out && err >= 0; k++)
    if (s.in[s.p.n_body + k]) dout[k] = c->out[at++];
  mr_fn_destroy(body);
  mr_fn_destroy(cond);
  return err;
}

/* Derivatives do not pass through the condition. */
static void while_reach(const mr_eqn_t *e, const bool *in, bool *out) {
  mr_while_parts_t p = mr__while_parts(e);
  mr_mem_t mem = {0};
  bool *body_in = mr_mem_copy(&mem, in + p.n_cond, (size_t)p.body->n_in, sizeof(bool));
  if (body_in) mr__loop_moves(p.body, p.n_body, p.n_carry, body_in, out);
  mr_mem_fini(&mem);
}

/* Sample 0: x -> cos(x w) + x, as many times as the counter, an input, says.  1: until the sum of
   x reaches a bound. */
static bool while_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  if (k > 1) return false;
  mr_fn_t *b = mr_fn_create(), *c = mr_fn_create();
  mr_aval_t a = mr_aval_of(MR_F32, 2), count = mr_aval_scalar(k ? MR_F32 : MR_I32);
  mr_var_t *w = mr_fn_input(b, a), *i = mr_fn_input(b, count), *x = mr_fn_input(b, a), *y[2];
  y[1] = mr_lax_add(b, mr_lax_cos(b, mr_lax_mul(b, w, x)), x);
  y[0] = k ? mr_lax_add(b, i, mr_lax_reduce_sum(b, x, 1, (int[]){0}))
           : mr_lax_sub(b, i, mr_literal(b, MR_I32, 1));
  mr_fn_return(b, 2, y);
  i = mr_fn_input(c, count);
  mr_fn_input(c, a);
  y[0] = k ? mr_lax_lt(c, i, mr_literal(c, MR_F32, 8)) : mr_lax_gt(c, i, mr_literal(c, MR_I32, 0));
  mr_fn_return(c, 1, y);
  mr_var_t *in[3] = {mr_sample_f32(s, -1, 1, 2)};
  in[1] = k ? mr_sample_scalar(s, MR_F32, 0, 1) : mr_sample_scalar(s, MR_I32, 0, 4);
  in[2] = mr_sample_f32(s, 0.5, 1, 2);
  if (mr_lax_while(s->f, c, 0, b, 1, in, y) >= 0) mr_fn_return(s->f, 2, y);
  mr_fn_destroy(b);
  mr_fn_destroy(c);
  return true;
}

const mr_op_def_t mr_op_while = {
    MR_RULES_PRIMITIVE,
    .name = "while",
    .n_in = -1,
    .n_out = -1,
    .shape = while_shape,
    .batch = mr__while_batch,
    .sample = while_sample,
    .ad = {.jvp = while_jvp, .vjp = mr_no_vjp, .reach = while_reach},
    .amp = {MR_AMP_FOLLOW},
    .shard = {mr_shard_whole},
    .cost = {.unbounded = true},
};
