/* x, scale, mean, rstd, dy -> dx, dscale, dbias. */
#include "model/backends/cpu/kernels.h"
#include "model/ops/lax.h"
#include "model/ops/rows.h"
#include "model/ops/rules.h"

static mr_err_t shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  const mr_aval_t *x = &e->in[0]->aval;
  if (x->ndim < 1) return mr_shape_fail(e, diag, "want at least one dimension");
  mr_dtype_t t = mr_sum_dtype(x->dtype);
  mr_aval_t row = mr_aval_of(t, x->dim[x->ndim - 1]), per = mr_aval(t, x->ndim - 1, x->dim);
  if (!mr_aval_equal(&e->in[1]->aval, &row) || !mr_aval_equal(&e->in[2]->aval, &per) ||
      !mr_aval_equal(&e->in[3]->aval, &per))
    return mr_shape_fail(
        e, diag, "want scale of x's last size, mean and rstd of its rows, f32, or f64 as x is");
  if (!mr_aval_same_shape(&e->in[4]->aval, x))
    return mr_shape_fail(e, diag, "dy must have x's shape");
  out[0] = e->in[0]->aval;
  out[1] = out[2] = e->in[1]->aval;
  return MR_OK;
}

static void run(const mr_cpu_call_t *c) {
  const mr_aval_t *x = &c->eqn->in[0]->aval;
  mr_layer_norm_bwd(x->dtype, c->in[0], c->in[1], c->in[2], c->in[3], c->eqn->in[4]->aval.dtype,
                    c->in[4], c->out[0], c->out[1], c->out[2], c->scratch,
                    mr_aval_span(x, 0, x->ndim - 1), x->dim[x->ndim - 1]);
}

static mr_err_t cpu(mr_cpu_call_t *c, mr_diag_t *diag) {
  c->run = run;
  const mr_aval_t *x = &c->eqn->in[0]->aval;
  c->scratch_bytes = mr_layer_norm_scratch(mr_aval_span(x, 0, x->ndim - 1), x->dim[x->ndim - 1]);
  return MR_OK;
}

/* h = (x - mean) rstd, g = dy scale: dx = rstd (g - mean(g) - h mean(g h)). */
static mr_err_t layer_norm_vjp_open(mr_fn_t *f, const mr_eqn_t *e, mr_var_t **out) {
  mr_dtype_t t = e->in[1]->aval.dtype;
  const mr_aval_t *a = &e->in[0]->aval;
  int last = a->ndim - 1, rows[MR_MAX_NDIM];
  for (int i = 0; i < last; i++) rows[i] = i;
  double per = 1.0 / (double)a->dim[last];
  mr_var_t *x = mr_lax_convert(f, e->in[0], t), *dy = mr_lax_convert(f, e->in[4], t);
  mr_var_t *rstd = mr_rows_spread(f, e->in[3], a);
  mr_var_t *h = mr_lax_mul(f, mr_lax_sub(f, x, mr_rows_spread(f, e->in[2], a)), rstd);
  mr_var_t *g = mr_lax_mul(f, dy, mr_row_repeat(f, e->in[1], a));
  mr_var_t *mg = mr_lax_scale(f, per, mr_lax_reduce_sum(f, g, 1, &last));
  mr_var_t *mgh = mr_lax_scale(f, per, mr_lax_reduce_sum(f, mr_lax_mul(f, g, h), 1, &last));
  mr_var_t *dx = mr_lax_sub(f, g, mr_rows_spread(f, mg, a));
  dx = mr_lax_sub(f, dx, mr_lax_mul(f, h, mr_rows_spread(f, mgh, a)));
  out[0] = mr_lax_convert(f, mr_lax_mul(f, rstd, dx), a->dtype);
  out[1] = mr_lax_reduce_sum(f, mr_lax_mul(f, dy, h), last, rows);
  out[2] = mr_lax_reduce_sum(f, dy, last, rows);
  return mr_rule_done(f);
}

static bool layer_norm_vjp_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  if (k > 0) return false;
  mr_var_t *in[] = {mr_sample_f32(s, -1, 1, 2, 3, 5), mr_sample_f32(s, 0.5, 1.5, 5),
                    mr_sample_f32(s, -0.5, 0.5, 2, 3), mr_sample_f32(s, 0.5, 2, 2, 3),
                    mr_sample_f32(s, -1, 1, 2, 3, 5)};
  mr_eqn_t *e = mr_emit(s->f, op, 5, in, 0, NULL, 3);
  return mr_sample_done(s, e ? e->out[0] : NULL);
}

const mr_op_def_t mr_op_layer_norm_vjp = {
    MR_RULES_COMPOSITE,
    .open = layer_norm_vjp_open,
    .jvp = mr_jvp_open,
    .batch = mr_batch_open,
    .sample = layer_norm_vjp_sample,
    .name = "layer_norm_vjp",
    .n_in = 5,
    .n_out = 3,
    .shape = shape,
    .vjp = mr_vjp_open,
    .amp = MR_AMP_WIDE,
    .cpu = cpu,
    .flop_each = 14,
};
