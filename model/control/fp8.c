/* Each product becomes a call with a vjp rule of its own: the forward function keeps the codes of
   both operands, one byte an element, and the backward function multiplies them with the codes of
   the cotangent by the product's own vjp rule, in bf16. */
#include "model/control/fp8.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "model/control/control.h"
#include "model/ops/operands.h"
#include "model/ops/rules.h"
#include "model/transforms/build.h"

enum { A, B, DOUT };

static mr_dtype_t fp8_dtype(mr_fp8_format_t format, int which) {
  return which == DOUT && format == MR_FP8_HYBRID ? MR_F8_E5M2 : MR_F8_E4M3FN;
}

/* The largest number of that dtype. */
static double fp8_most(mr_fp8_format_t format, int which) {
  return fp8_dtype(format, which) == MR_F8_E5M2 ? 57344 : 448;
}

mr_fp8_t mr_fp8_usual(void) { return (mr_fp8_t){.history = 1024}; }

mr_err_t mr_fp8_check(const mr_fp8_t *c, mr_diag_t *diag) {
  if (c->format != MR_FP8_HYBRID && c->format != MR_FP8_E4M3)
    return mr_fail(diag, MR_ERR_CONFIG, "fp8: format %d, want hybrid or e4m3", (int)c->format);
  if (c->history < 1 || c->history > 65536)
    return mr_fail(diag, MR_ERR_CONFIG, "fp8: history is %d, want [1,65536]", c->history);
  if (c->margin < -64 || c->margin > 64)
    return mr_fail(diag, MR_ERR_CONFIG, "fp8: margin is %d, want [-64,64]", c->margin);
  return MR_OK;
}

/* Marks what follows in g as written by fp8 for e, an equation of another graph, in e's scope. */
static void fp8_origin(mr_fn_t *g, const mr_eqn_t *e) {
  g->scope = mr_mem_text(&g->mem, e->scope);
  if (!g->scope) g->scope = ""; /* g has failed */
  g->row = e->row ? mr_mem_text(&g->mem, e->row) : NULL;
  g->by = "fp8", g->of = e->op;
}

/* ---- one product ---- */

/* Element i of row v as a scalar. */
static mr_var_t *fp8_element(mr_fn_t *g, mr_var_t *v, int i) {
  int64_t from[] = {i}, to[] = {i + 1};
  return mr_lax_reshape(g, mr_lax_slice(g, v, from, to), 0, NULL);
}

/* The codes of x times its scale. */
static mr_var_t *fp8_codes(mr_fn_t *g, mr_fp8_format_t format, mr_var_t *x, mr_var_t *scale,
                           int which) {
  double most = fp8_most(format, which);
  mr_var_t *v = mr_lax_mul(g, mr_lax_convert(g, x, MR_F32), scale);
  v = mr_lax_max(g, v, mr_literal(g, MR_F32, -most));
  v = mr_lax_min(g, v, mr_literal(g, MR_F32, most));
  return mr_lax_convert(g, v, fp8_dtype(format, which));
}

/* f32[1]: the largest magnitude in x. */
static mr_var_t *fp8_amax(mr_fn_t *g, mr_var_t *x) {
  int axes[MR_MAX_NDIM] = {0, 1, 2, 3, 4, 5, 6, 7};
  mr_var_t *v = x ? mr_lax_convert(g, mr_lax_abs(g, x), MR_F32) : NULL;
  if (v && v->aval.ndim) v = mr_lax_reduce_max(g, v, v->aval.ndim, axes);
  mr_var_t *none = mr_literal(g, MR_F32, 0); /* of no elements: not -inf */
  return mr_lax_reshape_to(g, mr_lax_max(g, v, none), 1);
}

/* e on a and b, without its bias, with its sums in f32. */
static mr_var_t *fp8_product(mr_fn_t *g, const mr_eqn_t *e, mr_var_t *a, mr_var_t *b) {
  mr_side_t left, right;
  e->op->fuse.sides(e, &left, &right);
  mr_dot_dims_t d = {.n_contract = left.n_contract, .n_batch = left.n_batch};
  for (int i = 0; i < left.n_contract; i++)
    d.lhs_contract[i] = left.contract[i], d.rhs_contract[i] = right.contract[i];
  for (int i = 0; i < left.n_batch; i++)
    d.lhs_batch[i] = left.batch[i], d.rhs_batch[i] = right.batch[i];
  return mr_lax_dot_general(g, a, b, &d, MR_F32);
}

/* x divided by the scales of two tensors. */
static mr_var_t *fp8_unscale(mr_fn_t *g, mr_var_t *x, mr_var_t *scale, int p, int q) {
  x = mr_lax_div(g, x, fp8_element(g, scale, p)); /* one by one: their product may overflow */
  return mr_lax_div(g, x, fp8_element(g, scale, q));
}

static mr_var_t *fp8_bf16(mr_fn_t *g, mr_var_t *codes) { return mr_lax_convert(g, codes, MR_BF16); }

/* fwd: (a, b, scale f32[3]) -> (product f32, codes of a, of b, scale, amax f32[2]); without fwd the
   product alone. */
static mr_fn_t *fp8_forward(const mr_eqn_t *e, bool fwd) {
  mr_fn_t *g = mr_fn_create();
  if (!g) return NULL;
  fp8_origin(g, e);
  mr_var_t *a = mr_fn_input(g, e->in[0]->aval), *b = mr_fn_input(g, e->in[1]->aval);
  mr_var_t *scale = mr_fn_input(g, mr_aval_of(MR_F32, MR_FP8_TENSORS));
  mr_var_t *qa = fp8_codes(g, MR_FP8_HYBRID, a, fp8_element(g, scale, A), A);
  mr_var_t *qb = fp8_codes(g, MR_FP8_HYBRID, b, fp8_element(g, scale, B), B);
  mr_var_t *y = fp8_product(g, e, fp8_bf16(g, qa), fp8_bf16(g, qb));
  mr_var_t *both[] = {fp8_amax(g, a), fp8_amax(g, b)};
  mr_var_t *out[] = {fp8_unscale(g, y, scale, A, B), qa, qb, scale,
                     fwd ? mr_lax_concatenate(g, 2, both, 0) : NULL};
  if (g->diag.code >= 0) mr_fn_return(g, fwd ? 5 : 1, out);
  if (g->diag.code >= 0) mr_dce(g);
  return g;
}

/* bwd: (codes of a, of b, scale, amax f32[2], dout f32) -> (da, db, amax f32[3]). */
static mr_fn_t *fp8_backward(const mr_eqn_t *e, mr_fp8_format_t format, const mr_fn_t *fwd) {
  mr_fn_t *g = mr_fn_create();
  if (!g || fwd->diag.code < 0) return g;
  fp8_origin(g, e);
  for (int i = 1; i < fwd->n_out; i++) mr_fn_input(g, fwd->out[i]->aval);
  mr_var_t *scale = g->in[2], *amax = g->in[3], *dout = mr_fn_input(g, fwd->out[0]->aval);
  mr_var_t *in[] = {fp8_bf16(g, g->in[0]), fp8_bf16(g, g->in[1])}, *d[2] = {NULL, NULL};
  mr_var_t *q = fp8_codes(g, format, dout, fp8_element(g, scale, DOUT), DOUT);
  int from = g->n_eqn;
  /* The rule multiplies what it is given: codes, not values. */
  mr_var_t *y = fp8_product(g, e, in[0], in[1]);
  mr_var_t *code = mr_lax_convert(g, q, MR_F32);
  if (g->diag.code < 0 || mr_backward_range(g, from, 1, &y, &code, 2, in, d) < 0) return g;
  mr_var_t *all[] = {amax, fp8_amax(g, dout)}, *out[3];
  for (int i = 0; i < 2; i++) {
    mr_var_t *wide = mr_lax_convert(g, d[i], MR_F32);
    out[i] = mr_lax_convert(g, fp8_unscale(g, wide, scale, 1 - i, DOUT), MR_BF16);
  }
  out[2] = mr_lax_concatenate(g, 2, all, 0);
  if (g->diag.code >= 0) mr_fn_return(g, 3, out);
  if (g->diag.code >= 0) mr_dce(g);
  return g;
}

/* e on in[]: its product in f8, then bias and dtype as e gives.  g's origin is fp8's. */
static mr_err_t fp8_emit(mr_fn_t *g, const mr_eqn_t *e, mr_fp8_format_t format, mr_var_t *const *in,
                         mr_var_t *scale, mr_var_t **out) {
  mr_fn_t *body = fp8_forward(e, false), *fwd = fp8_forward(e, true),
          *bwd = fwd ? fp8_backward(e, format, fwd) : NULL;
  mr_err_t err = MR_ERR_NOMEM;
  mr_var_t *y = NULL;
  if (body && fwd && bwd) {
    err = mr_lax_custom_vjp(g, body, fwd, bwd, (mr_var_t *[]){in[0], in[1], scale}, &y);
  } else {
    mr_no_memory(&g->diag, "a product of fp8");
  }
  mr_fn_destroy(body), mr_fn_destroy(fwd), mr_fn_destroy(bwd);
  MR_TRY(err);
  if (e->n_in == 3) {
    const mr_aval_t *a = &y->aval;
    mr_var_t *bias = mr_lax_convert(g, in[2], MR_F32);
    y = mr_lax_add(g, y, mr_lax_broadcast_in_dim(g, bias, a->ndim, a->dim, (int[]){a->ndim - 1}));
  }
  *out = mr_lax_convert(g, y, e->out[0]->aval.dtype);
  return mr_rule_done(g);
}

/* ---- the transform ---- */

static bool fp8_takes(const mr_eqn_t *e) {
  return e->op->fuse.sides && e->in[0]->aval.dtype == MR_BF16 && e->in[1]->aval.dtype == MR_BF16;
}

/* Row i of scale, f32[3]. */
static mr_var_t *fp8_row(mr_fn_t *g, mr_var_t *scale, int i) {
  int64_t from[] = {i, 0}, to[] = {i + 1, MR_FP8_TENSORS};
  return mr_lax_reshape_to(g, mr_lax_slice(g, scale, from, to), MR_FP8_TENSORS);
}

static mr_err_t fp8_rewrite(mr_fn_t *g, const mr_fn_t *f, mr_fp8_format_t format, int n,
                            mr_var_t **map) {
  mr_var_t *in[3];
  for (int i = 0; i < f->n_in; i++) map[f->in[i]->id] = mr_fn_input(g, f->in[i]->aval);
  mr_var_t *scale = mr_fn_input(g, mr_aval_of(MR_F32, n, MR_FP8_TENSORS));
  mr_origin_t before = mr_origin(g);
  for (int i = 0, at = 0; i < f->n_eqn && g->diag.code >= 0; i++) {
    const mr_eqn_t *e = f->eqn[i];
    if (!fp8_takes(e)) {
      MR_TRY(mr__copy_eqn(g, e, map));
      continue;
    }
    for (int k = 0; k < e->n_in; k++) in[k] = mr__mapped(g, map, e->in[k]);
    fp8_origin(g, e);
    g->precision = mr_precision_of(e);
    MR_TRY(fp8_emit(g, e, format, in, fp8_row(g, scale, at++), &map[e->out[0]->id]));
    mr_origin_set(g, before);
  }
  return mr_rule_done(g);
}

mr_err_t mr_fp8_products(const mr_fn_t *f, mr_fp8_format_t format, mr_fn_t **out, int *n,
                         mr_diag_t *diag) {
  if (f->diag.code < 0) return mr_diag_relay(diag, f->diag.code, &f->diag);
  int count = 0;
  for (int i = 0; i < f->n_eqn; i++) count += fp8_takes(f->eqn[i]);
  if (!count)
    return mr_fail(diag, MR_ERR_CONFIG,
                   "fp8: no product of bf16 operands is to be computed in f8; dtype=bf16 with "
                   "amp=usual makes them, where no amp-rule keeps f32");
  mr_fn_t *g = mr_fn_create();
  mr_var_t **map = calloc((size_t)f->n_var + 1, sizeof(mr_var_t *));
  if (!g || !map) {
    mr_fn_destroy(g), free(map);
    return mr_no_memory(diag, "the graph of fp8");
  }
  mr_var_t **y = mr_mem_take(&g->mem, (size_t)(f->n_out + 1) * sizeof(mr_var_t *));
  if (fp8_rewrite(g, f, format, count, map) >= 0)
    for (int k = 0; k < f->n_out; k++) y[k] = mr__mapped(g, map, f->out[k]);
  free(map);
  MR_TRY(mr__finish(g, f->n_out, y, out, diag));
  *n = count;
  return MR_OK;
}

/* ---- the state ---- */

/* bool of x's shape: neither NaN nor infinite; x >= 0. */
static mr_var_t *fp8_finite(mr_fn_t *g, mr_var_t *x) {
  return mr_lax_le(g, x, mr_lax_full(g, &x->aval, FLT_MAX));
}

/* f32[n,3], the largest code of each tensor. */
static mr_var_t *fp8_largest(mr_fn_t *g, mr_fp8_format_t format, const mr_aval_t *like) {
  mr_var_t *each[MR_FP8_TENSORS];
  mr_aval_t one = mr_aval_of(MR_F32, 1);
  for (int i = 0; i < MR_FP8_TENSORS; i++) each[i] = mr_lax_full(g, &one, fp8_most(format, i));
  mr_var_t *row = mr_lax_concatenate(g, MR_FP8_TENSORS, each, 0);
  return mr_lax_broadcast_in_dim(g, row, 2, like->dim, (int[]){1});
}

/* Rows [1,n) and a row of 0: TransformerEngine's order, in which row 0 is filled by the next call.
 */
static mr_var_t *fp8_shift(mr_fn_t *g, mr_var_t *now, mr_var_t *history) {
  const mr_aval_t *a = &history->aval;
  int64_t from[] = {1, 0, 0}, to[] = {a->dim[0], a->dim[1], a->dim[2]};
  mr_aval_t one = *a;
  one.dim[0] = 1;
  mr_var_t *none = mr_lax_full(g, &one, 0);
  if (a->dim[0] == 1) return none;
  from[0] = 2;
  mr_var_t *part[] = {none, a->dim[0] > 2 ? mr_lax_slice(g, history, from, to) : now, now};
  return mr_lax_concatenate(g, a->dim[0] > 2 ? 3 : 2, part, 0);
}

static mr_err_t fp8_next(mr_fn_t *g, const mr_fp8_t *c, mr_var_t *amax, mr_var_t *scale,
                         mr_var_t *history, mr_var_t **next_scale, mr_var_t **next_history) {
  MR_TRY(mr_fp8_check(c, &g->diag));
  if (!amax || !scale || !history) return g->diag.code;
  const mr_aval_t *s = &scale->aval, *h = &history->aval;
  bool fits = s->dtype == MR_F32 && s->ndim == 2 && s->dim[1] == MR_FP8_TENSORS &&
              mr_aval_equal(s, &amax->aval) && h->dtype == MR_F32 && h->ndim == 3 &&
              h->dim[0] == c->history && h->dim[1] == s->dim[0] && h->dim[2] == s->dim[1];
  if (!fits)
    return mr_fail(&g->diag, MR_ERR_SHAPE,
                   "fp8: amax and scale: want f32[n,%d], and a history f32[%d,n,%d]",
                   MR_FP8_TENSORS, c->history, MR_FP8_TENSORS);
  mr_var_t *now = mr_lax_reshape_to(g, amax, 1, s->dim[0], s->dim[1]);
  mr_var_t *most =
      c->most_recent ? amax : mr_lax_max(g, amax, mr_lax_reduce_max(g, history, 1, (int[]){0}));
  mr_var_t *next = mr_lax_div(g, fp8_largest(g, c->format, s), most);
  next = mr_lax_div(g, next, mr_literal(g, MR_F32, ldexp(1, c->margin)));
  next = mr_lax_min(g, next, mr_lax_full(g, s, FLT_MAX));
  next = mr_lax_max(g, next, mr_lax_full(g, s, FLT_MIN)); /* 0 would make each later product NaN */
  mr_var_t *some = mr_lax_gt(g, most, mr_lax_full(g, s, 0));
  next = mr_lax_select_n(g, some, scale, next);
  *next_scale = mr_lax_select_n(g, fp8_finite(g, most), scale, next);
  *next_history = fp8_shift(g, now, history);
  return mr_rule_done(g);
}

mr_err_t mr_fp8_next(mr_fn_t *g, const mr_fp8_t *c, mr_var_t *amax, mr_var_t *scale,
                     mr_var_t *history, mr_var_t **next_scale, mr_var_t **next_history) {
  mr_origin_t before = mr_origin(g);
  g->by = "fp8", g->of = NULL, g->row = NULL;
  mr_err_t err = fp8_next(g, c, amax, scale, history, next_scale, next_history);
  mr_origin_set(g, before);
  return err;
}
