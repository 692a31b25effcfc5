/* The op scan: a loop of a known number of steps that carries values from step to step, reads a
   row of each x and writes a row of each y.  A stack of equal layers becomes one function and one
   memory plan.  After jax.lax.scan. */
#include "model/control/flow.h"

#include <inttypes.h>

#include "model/ops/call.h"
#include "model/ops/lax.h"
#include "model/ops/rules.h"
#include "model/transforms/build.h"
#include "model/transforms/transforms.h"

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

/* Checks the counts, as attributes may come from a parsed text. */
static mr_err_t scan_check_counts(const mr_eqn_t *e, mr_diag_t *diag) {
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

static mr_err_t check_stacked(const mr_eqn_t *e, const mr_aval_t *a, int64_t n, mr_aval_t *out,
                              mr_diag_t *diag) {
  mr_diag_t why = {0};
  if (mr__scan_stacked(a, n, out, &why) >= 0) return MR_OK;
  return mr_fail(diag, why.code, "%s%s%s", e->scope, *e->scope ? ": " : "", why.text);
}

static mr_err_t scan_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  char want[MR_AVAL_TEXT], got[MR_AVAL_TEXT];
  MR_TRY(scan_check_counts(e, diag));
  mr_scan_parts_t p = mr__scan_parts(e);
  for (int i = 0; i < e->n_in; i++) {
    mr_aval_t a = p.body->in[i]->aval;
    if (i >= p.s.n_consts + p.s.n_carry) MR_TRY(check_stacked(e, &a, p.s.length, &a, diag));
    if (!mr_aval_equal(&a, &e->in[i]->aval))
      return mr_fail(diag, MR_ERR_SHAPE, "%s%sscan: operand %d is %s, the function wants %s",
                     e->scope, *e->scope ? ": " : "", i, mr_aval_text(&e->in[i]->aval, got),
                     mr_aval_text(&a, want));
  }
  for (int i = 0; i < e->n_out; i++) {
    const mr_aval_t *y = &p.body->out[i]->aval;
    if (i >= p.s.n_carry) {
      MR_TRY(check_stacked(e, y, p.s.length, &out[i], diag));
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

/* Sample 0: c' = tanh(w c + x), y = c c' with w a constant.  1: the same in reverse, with a
   counter that is not of floats.  2: a carry that does not change, and no x. */
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

/* Maps the step for vmap, repeatedly until no further carry becomes mapped: a carry that becomes
   mapped in some step must be mapped from the start. */
static mr_fn_t *mapped_step(mr_fn_t *f, const mr_scan_parts_t *p, int64_t size, bool *in,
                            bool *out) {
  for (;;) {
    mr_fn_t *step;
    bool more = false;
    for (int k = 0; k < p->s.n_carry; k++) out[k] = in[p->s.n_consts + k];
    if (mr__call_mapped(f, p->body, size, in, out, &step) < 0) return NULL;
    for (int k = 0; k < p->s.n_carry; k++) {
      more |= out[k] && !in[p->s.n_consts + k];
      in[p->s.n_consts + k] = out[k];
    }
    if (!more) return step;
    mr_fn_destroy(step);
  }
}

static mr_err_t scan_batch(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in,
                           mr_batched_t *out) {
  mr_scan_parts_t p = mr__scan_parts(e);
  int64_t size = mr__call_size(f, e, in);
  int rows = p.s.n_consts + p.s.n_carry;
  bool *mapped = mr_mem_take(&f->mem, (size_t)(e->n_in + e->n_out) + 1);
  bool *gives = mapped + e->n_in;
  mr_var_t **v = mr_mem_take(&f->mem, (size_t)(e->n_in + 1) * sizeof(mr_var_t *));
  for (int i = 0; i < e->n_in; i++) mapped[i] = in[i].axis >= 0;
  mr_fn_t *step = mapped_step(f, &p, size, mapped, gives);
  if (!step) return f->diag.code;
  for (int i = 0; i < e->n_in; i++) {
    v[i] = in[i].var; /* rows of x keep dimension 0; the mapped one follows */
    if (mapped[i]) v[i] = i < rows ? mr_batch_front(f, &in[i], size) : mr_batch_move(f, &in[i], 1);
  }
  mr_eqn_t *c;
  mr_err_t err = mr__scan_emit(f, step, &p.s, v, &c);
  mr_fn_destroy(step);
  for (int k = 0; k < e->n_out && err >= 0; k++)
    out[k] = (mr_batched_t){c->out[k], !gives[k] ? -1 : k < p.s.n_carry ? 0 : 1};
  return err;
}

const mr_op_def_t mr_op_scan = {
    MR_RULES_PRIMITIVE,
    .name = "scan",
    .n_in = -1,
    .n_out = -1,
    .shape = scan_shape,
    .batch = scan_batch,
    .sample = scan_sample,
    .ad = {.jvp = mr__scan_jvp, .vjp = mr__scan_vjp, .reach = scan_reach, .spend = scan_spend},
    .amp = {MR_AMP_FOLLOW},
    .shard = {mr_shard_whole},
};

/* ---- fori_loop with known bounds: a scan that carries the counter, as in jax ---- */

/* Returns body as (constants..., i, carries...) -> (i + 1, carries...). */
static mr_fn_t *scan_add_counter(const mr_fn_t *body, int n_consts) {
  mr_fn_t *b = mr_fn_create();
  if (!b) return NULL;
  mr_var_t **out = mr_mem_take(&b->mem, (size_t)(body->n_out + 1) * sizeof(mr_var_t *));
  for (int i = 0; i < body->n_in; i++) mr_fn_input(b, body->in[i]->aval);
  out[0] = mr_lax_add(b, b->in[n_consts], mr_literal(b, MR_I32, 1));
  mr_inline(b, body, b->in, out + 1);
  if (b->diag.code >= 0) mr_fn_return(b, body->n_out + 1, out);
  return b;
}

mr_err_t mr_lax_fori_loop(mr_fn_t *f, int32_t lo, int32_t hi, const mr_fn_t *body, int n_consts,
                          mr_var_t *const *in, mr_var_t **out) {
  mr_aval_t counter = mr_aval_scalar(MR_I32);
  char text[MR_AVAL_TEXT];
  MR_TRY(mr__call_whole(f, "fori_loop", "the function", body));
  if (n_consts < 0 || body->n_in - 1 - body->n_out != n_consts)
    return mr__call_refuse(f, "fori_loop",
                           "the function must take %d constants, a counter i32[] and its %d "
                           "carries; it takes %d values",
                           n_consts, body->n_out, body->n_in);
  if (!mr_aval_equal(&body->in[n_consts]->aval, &counter))
    return mr__call_refuse(f, "fori_loop", "the counter, which is input %d, is %s, want i32[]",
                           n_consts, mr_aval_text(&body->in[n_consts]->aval, text));
  mr_fn_t *b = scan_add_counter(body, n_consts);
  if (!b) return mr_no_memory(&f->diag, "fori_loop");
  mr_scan_t s = {
      .length = hi > lo ? (int64_t)hi - lo : 0, .n_consts = n_consts, .n_carry = body->n_out + 1};
  mr_var_t **x = mr_mem_take(&f->mem, (size_t)(b->n_in + 1) * sizeof(mr_var_t *));
  mr_var_t **y = mr_mem_take(&f->mem, (size_t)(b->n_out + 1) * sizeof(mr_var_t *));
  for (int i = 0, k = 0; i < b->n_in; i++)
    x[i] = i == n_consts ? mr_literal(f, MR_I32, lo) : in[k++];
  mr_err_t err = b->diag.code < 0 ? mr_diag_relay(&f->diag, b->diag.code, &b->diag)
                                  : mr_lax_scan(f, b, &s, x, y);
  mr_fn_destroy(b);
  for (int k = 0; k < s.n_carry - 1 && err >= 0; k++) out[k] = y[k + 1];
  return err;
}
