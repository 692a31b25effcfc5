/* The sum of the squares of all elements of several tensors: a gradient's squared norm, for
   clipping.  One op reads all of them in one pass, in an order that follows from sizes; as
   primitives it would be two passes for each tensor and a chain of sums. */
#include "model/ops/lax.h"
#include "model/ops/rules.h"

/* 2^-MR_SQUARES_SHIFT. */
#define SQUARES_SMALL 0x1p-80
_Static_assert(MR_SQUARES_SHIFT == 80, "2^-MR_SQUARES_SHIFT");

static bool is_pair(const mr_eqn_t *e) {
  const mr_attr_t *a = mr_attr_find(e, "pair");
  return a && a->i[0];
}

static mr_var_t *plain_squares(mr_fn_t *f, int n, mr_var_t *const *x, double factor) {
  int axes[MR_MAX_NDIM];
  mr_var_t *sum = n ? NULL : mr_literal(f, MR_F32, 0);
  for (int i = 0; i < MR_MAX_NDIM; i++) axes[i] = i;
  for (int i = 0; i < n && x[i]; i++) {
    mr_var_t *v = factor == 1 ? x[i] : mr_lax_scale(f, factor, x[i]);
    mr_var_t *y = mr_lax_reduce_sum(f, mr_lax_integer_pow(f, v, 2), x[i]->aval.ndim, axes);
    sum = sum ? mr_lax_add(f, sum, y) : y;
  }
  return sum;
}

static mr_var_t *sum_squares_written_out(mr_fn_t *f, int n, mr_var_t *const *x, bool pair) {
  mr_var_t *sum = plain_squares(f, n, x, 1);
  if (!pair) return sum;
  mr_var_t *both[] = {mr_lax_reshape_to(f, sum, 1),
                      mr_lax_reshape_to(f, plain_squares(f, n, x, SQUARES_SMALL), 1)};
  return mr_lax_concatenate(f, 2, both, 0);
}

/* The kernel takes f32: bf16 and f16 are converted to it.  If one is f64, all are converted to f64
   and summed by primitives. */
static mr_var_t *emit_squares(mr_fn_t *f, int n, mr_var_t *const *x, bool pair) {
  bool wide = false, plain = true;
  mr_attr_t attr = mr_attr_bool("pair", true);
  for (int i = 0; i < n; i++) {
    wide |= x[i] && x[i]->aval.dtype == MR_F64;
    mr_dtype_t t = x[i] ? x[i]->aval.dtype : MR_F32;
    plain &= t != MR_F64 && t != MR_BF16 && t != MR_F16;
  }
  if (plain) return mr_emit1(f, &mr_op_sum_squares, n, x, pair, &attr);
  mr_var_t **y = mr_mem_take(&f->mem, (size_t)n * sizeof(mr_var_t *));
  for (int i = 0; y && i < n; i++) y[i] = mr_lax_convert(f, x[i], wide ? MR_F64 : MR_F32);
  if (!y) return NULL;
  return wide ? sum_squares_written_out(f, n, y, pair)
              : mr_emit1(f, &mr_op_sum_squares, n, y, pair, &attr);
}

mr_var_t *mr_lax_sum_squares(mr_fn_t *f, int n, mr_var_t *const *x) {
  return emit_squares(f, n, x, false);
}

mr_var_t *mr_lax_sum_squares_pair(mr_fn_t *f, int n, mr_var_t *const *x) {
  return emit_squares(f, n, x, true);
}

/* The attribute of a sum that stays f64. */
static bool sum_is_wide(const mr_eqn_t *e) { return mr_attr_find(e, "wide") != NULL; }

mr_var_t *mr_lax_sum_squares_wide(mr_fn_t *f, mr_var_t *x) {
  mr_attr_t wide = mr_attr_int("wide", 1);
  x = mr_lax_convert(f, x, MR_F32);
  return mr_emit1(f, &mr_op_sum_squares, 1, &x, 1, &wide);
}

static mr_err_t sum_squares_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  for (int i = 0; i < e->n_in; i++)
    if (e->in[i]->aval.dtype != MR_F32) return mr_shape_fail(e, diag, "want f32");
  out[0] = is_pair(e) ? mr_aval_of(MR_F32, 2) : mr_aval_scalar(sum_is_wide(e) ? MR_F64 : MR_F32);
  return MR_OK;
}

/* Element k of a pair. */
static mr_var_t *pair_at(mr_fn_t *f, mr_var_t *pair, int64_t k) {
  return mr_lax_reshape(f, mr_lax_slice(f, pair, &k, (int64_t[]){k + 1}), 0, NULL);
}

static mr_err_t sum_squares_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout,
                                mr_var_t **din) {
  bool pair = is_pair(e);
  mr_var_t *d = pair ? pair_at(f, dout[0], 0) : mr_lax_convert(f, dout[0], MR_F32);
  mr_var_t *small = pair ? pair_at(f, dout[0], 1) : NULL;
  for (int i = 0; i < e->n_in; i++) {
    din[i] = mr_lax_mul(f, d, mr_lax_scale(f, 2, e->in[i]));
    if (!pair) continue;
    mr_var_t *x = mr_lax_mul(f, small, mr_lax_scale(f, 2 * SQUARES_SMALL, e->in[i]));
    din[i] = mr_lax_add(f, din[i], mr_lax_scale(f, SQUARES_SMALL, x));
  }
  return mr_rule_done(f);
}

/* Of many tensors: several ops, so that a backend whose kernels have few operands computes those.
 */
static mr_err_t sum_squares_open(mr_fn_t *f, const mr_eqn_t *e, mr_var_t **out) {
  enum { FEW = 32 };
  bool pair = is_pair(e);
  if (sum_is_wide(e)) {
    mr_var_t *x = mr_lax_convert(f, e->in[0], MR_F64);
    out[0] = sum_squares_written_out(f, 1, &x, false);
    return mr_rule_done(f);
  }
  if (e->n_in <= FEW) {
    out[0] = sum_squares_written_out(f, e->n_in, e->in, pair);
    return mr_rule_done(f);
  }
  out[0] = NULL;
  for (int i = 0; i < e->n_in; i += FEW) {
    int n = e->n_in - i < FEW ? e->n_in - i : FEW;
    mr_var_t *sum = emit_squares(f, n, e->in + i, pair);
    out[0] = i ? mr_lax_add(f, out[0], sum) : sum;
  }
  return mr_rule_done(f);
}

static bool sum_squares_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  if (k > 1) return false;
  mr_var_t *x[] = {mr_sample_f32(s, -1, 1, 2, 3), mr_sample_f32(s, -1, 1, 4)};
  return mr_sample_done(s, emit_squares(s->f, 2, x, k == 1));
}

/* Of several tensors, one by one: parts of one tensor beside all of another would add the latter
   once on each device. */
static mr_err_t sum_squares_shard(const mr_eqn_t *e, mr_factors_t *s, mr_diag_t *diag) {
  if (e->n_in > 1) return MR_OPEN;
  for (int d = 0; e->n_in && d < e->in[0]->aval.ndim; d++) mr__factor_all(e, s, d, MR_CUT_SUM);
  return MR_OK;
}

const mr_op_def_t mr_op_sum_squares = {
    .open = sum_squares_open,
    .batch = mr_batch_open,
    .sample = sum_squares_sample,
    .name = "sum_squares",
    .n_in = -1,
    .n_out = 1,
    .shape = sum_squares_shape,
    .ad = {.jvp = mr_jvp_open, .vjp = sum_squares_vjp},
    .amp = {MR_AMP_WIDE},
    .cost = {.each = 2},
    .shard = {sum_squares_shard},
};
