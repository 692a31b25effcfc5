/* A loop of a known number of steps, with values carried from step to step, rows read and rows
   written: a stack of equal layers is one function and one plan.  After jax.lax.scan. */
#include "model/control/scan.h"

#include <inttypes.h>

#include "model/control/control.h"
#include "model/ops/call.h"
#include "model/ops/rules.h"
#include "model/transforms/build.h"
#include "model/transforms/reach.h"

mr_err_t mr__scan_emit(mr_fn_t *f, const mr_fn_t *body, const mr_scan_t *s, mr_var_t *const *in,
                       mr_eqn_t **e) {
  mr_attr_t attr[] = {mr_attr_fn("jaxpr", body),
                      mr_attr_int("length", s->length),
                      mr_attr_int("num_carry", s->n_carry),
                      mr_attr_int("num_consts", s->n_consts),
                      mr_attr_bool("reverse", s->reverse),
                      mr_attr_int("unroll", 1)};
  *e = mr_emit(f, &mr_op_scan, body->n_in, in, 6, attr, body->n_out);
  return mr_rule_done(f);
}

mr_err_t mr_lax_scan(mr_fn_t *f, const mr_fn_t *body, const mr_scan_t *s, mr_var_t *const *in,
                     mr_var_t **out) {
  mr_eqn_t *e;
  MR_TRY(mr__call_whole(f, "scan", "the function", body));
  MR_TRY(mr__scan_emit(f, body, s, in, &e));
  for (int i = 0; i < e->n_out; i++) out[i] = e->out[i];
  return MR_OK;
}

mr_scan_parts_t mr__scan_parts(const mr_eqn_t *e) {
  mr_scan_parts_t p = {.body = mr_attr_called(e, "jaxpr")};
  p.s.length = mr_attr_get(e, "length")->i[0];
  p.s.n_consts = (int)mr_attr_get(e, "num_consts")->i[0];
  p.s.n_carry = (int)mr_attr_get(e, "num_carry")->i[0];
  p.s.reverse = mr_attr_get(e, "reverse")->i[0];
  p.n_x = e->n_in - p.s.n_consts - p.s.n_carry;
  p.n_y = e->n_out - p.s.n_carry;
  return p;
}

mr_err_t mr__scan_stacked(const mr_aval_t *a, int64_t n, mr_aval_t *out, mr_diag_t *diag) {
  char text[MR_AVAL_TEXT];
  if (a->ndim == MR_MAX_NDIM)
    return mr_fail(diag, MR_ERR_SHAPE, "scan: rows of %s have too many dimensions to be stacked",
                   mr_aval_text(a, text));
  mr_aval_t row = *a; /* out may be a */
  *out = mr_aval(row.dtype, row.ndim + 1, (int64_t[MR_MAX_NDIM]){n});
  for (int i = 0; i < row.ndim; i++) out->dim[i + 1] = row.dim[i];
  return MR_OK;
}

/* Attributes may come from a text: no count is believed. */
static mr_err_t check_counts(const mr_eqn_t *e, mr_diag_t *diag) {
  const mr_fn_t *body = mr_attr_called(e, "jaxpr");
  int64_t consts = mr_attr_get(e, "num_consts")->i[0], carry = mr_attr_get(e, "num_carry")->i[0];
  if (mr_attr_get(e, "length")->i[0] < 0) return mr_shape_fail(e, diag, "length is negative");
  if (consts < 0 || carry < 0 || consts > e->n_in || carry > e->n_in - consts ||
      body->n_in != e->n_in || body->n_out != e->n_out || carry > e->n_out)
    return mr_fail(diag, MR_ERR_SHAPE,
                   "%s%sscan: the function takes %d values and gives %d; there are %d operands, %d "
                   "results, %" PRId64 " of them constants and %" PRId64 " carries",
                   e->scope, *e->scope ? ": " : "", body->n_in, body->n_out, e->n_in, e->n_out,
                   consts, carry);
  return MR_OK;
}

static mr_err_t stacked(const mr_eqn_t *e, const mr_aval_t *a, int64_t n, mr_aval_t *out,
                        mr_diag_t *diag) {
  mr_diag_t why = {0};
  if (mr__scan_stacked(a, n, out, &why) >= 0) return MR_OK;
  return mr_fail(diag, why.code, "%s%s%s", e->scope, *e->scope ? ": " : "", why.text);
}

static mr_err_t scan_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  char want[MR_AVAL_TEXT], got[MR_AVAL_TEXT];
  MR_TRY(check_counts(e, diag));
  mr_scan_parts_t p = mr__scan_parts(e);
  for (int i = 0; i < e->n_in; i++) {
    mr_aval_t a = p.body->in[i]->aval;
    if (i >= p.s.n_consts + p.s.n_carry) MR_TRY(stacked(e, &a, p.s.length, &a, diag));
    if (!mr_aval_equal(&a, &e->in[i]->aval))
      return mr_fail(diag, MR_ERR_SHAPE, "%s%sscan: operand %d is %s, the function wants %s",
                     e->scope, *e->scope ? ": " : "", i, mr_aval_text(&e->in[i]->aval, got),
                     mr_aval_text(&a, want));
  }
  for (int i = 0; i < e->n_out; i++) {
    const mr_aval_t *y = &p.body->out[i]->aval;
    if (i >= p.s.n_carry) {
      MR_TRY(stacked(e, y, p.s.length, &out[i], diag));
      continue;
    }
    out[i] = e->in[p.s.n_consts + i]->aval;
    if (!mr_aval_equal(y, &out[i]))
      return mr_fail(diag, MR_ERR_SHAPE,
                     "%s%sscan: carry %d enters a step as %s and leaves it as %s", e->scope,
                     *e->scope ? ": " : "", i, mr_aval_text(&out[i], want), mr_aval_text(y, got));
  }
  return MR_OK;
}

/* Sample 0: c' = tanh(w c + x), y = c c' with w a constant; 1: the same backwards beside a counter
   that is not of floats; 2: a carry that goes through as it is, and no x. */
static mr_fn_t *sample_body(int k) {
  mr_fn_t *b = mr_fn_create();
  mr_aval_t a = mr_aval_of(MR_F32, 2);
  mr_var_t *w = mr_fn_input(b, a), *i = NULL, *out[3];
  int n = 0;
  if (k == 1) {
    i = mr_fn_input(b, mr_aval_scalar(MR_I32));
    out[n++] = mr_lax_add(b, i, mr_literal(b, MR_I32, 1));
  }
  mr_var_t *c = mr_fn_input(b, a), *x = mr_fn_input(b, a);
  mr_var_t *next = mr_lax_tanh(b, mr_lax_add(b, mr_lax_mul(b, w, c), x));
  if (i) next = mr_lax_mul(b, next, mr_lax_scale(b, 0.25, mr_lax_convert(b, i, MR_F32)));
  out[n++] = next;
  out[n++] = k == 2 ? x : mr_lax_mul(b, c, next);
  mr_fn_return(b, n, out);
  return b;
}

static bool scan_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  if (k > 2) return false;
  mr_fn_t *b = sample_body(k);
  mr_scan_t scan = {.length = 3, .n_consts = 1, .n_carry = k ? 2 : 1, .reverse = k == 1};
  mr_var_t *in[4], *out[3];
  int n = 0;
  in[n++] = mr_sample_f32(s, -1, 1, 2);
  if (k == 1) in[n++] = mr_literal(s->f, MR_I32, 2);
  in[n++] = mr_sample_f32(s, -1, 1, 2);
  in[n++] = k == 2 ? mr_sample_f32(s, -1, 1, 2) : mr_sample_f32(s, -1, 1, 3, 2);
  mr_err_t err = mr_lax_scan(s->f, b, &scan, in, out);
  if (err >= 0) mr_fn_return(s->f, b->n_out, out);
  mr_fn_destroy(b);
  return true;
}

static void scan_reach(const mr_eqn_t *e, const bool *in, bool *out) {
  mr_scan_parts_t p = mr__scan_parts(e);
  mr_mem_t mem = {0};
  bool *body_in = mr_mem_copy(&mem, in, (size_t)e->n_in, sizeof(bool));
  if (body_in) mr__loop_moves(p.body, p.s.n_consts, p.s.n_carry, body_in, out);
  mr_mem_fini(&mem);
}

static mr_err_t scan_spend(mr_fn_t *f, mr_eqn_t *e) { return mr__spend_called(f, e, "jaxpr"); }

const mr_op_def_t mr_op_scan = {
    MR_RULES_PRIMITIVE,  .name = "scan",          .n_in = -1,
    .n_out = -1,         .shape = scan_shape,     .jvp = mr__scan_jvp,
    .vjp = mr__scan_vjp, .batch = mr__scan_batch, .reach = scan_reach,
    .spend = scan_spend, .sample = scan_sample,   .amp = MR_AMP_FOLLOW,
    .cpu = mr__scan_cpu,
};
