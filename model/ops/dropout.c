#include <string.h>

#include "model/backends/cpu/rows.h"
#include "model/ops/lax.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_dropout(mr_fn_t *f, mr_var_t *x, float rate, uint32_t site, mr_var_t *seed,
                         mr_var_t *step) {
  return mr_emit1(f, &mr_op_dropout, 3, (mr_var_t *[]){x, seed, step}, 2,
                  (mr_attr_t[]){mr_attr_float("rate", rate), mr_attr_int("site", site)});
}

static mr_err_t dropout_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  const mr_aval_t *seed = &e->in[1]->aval, *step = &e->in[2]->aval;
  if (seed->dtype != MR_U64 || step->dtype != MR_U32 || !mr_aval_same_shape(seed, step))
    return mr_shape_fail(e, diag, "want seed u64[] and step u32[]");
  for (int i = 0; i < seed->ndim; i++) /* mapped: one draw for each leading index */
    if (i >= e->in[0]->aval.ndim || seed->dim[i] != e->in[0]->aval.dim[i])
      return mr_shape_fail(e, diag, "seed's sizes are not x's first ones");
  double rate = mr_attr_get(e, "rate")->f;
  if (!(rate >= 0 && rate < 1)) return mr_shape_fail(e, diag, "want a rate in [0,1)");
  return mr_shape_floats(e, out, diag);
}

/* f64 has no kernel of its own: the f32 mask of ones, times x. */
static void draw_f64(const mr_call_t *c, int64_t at, int64_t n, float rate, uint64_t seed,
                     uint32_t site, uint32_t step) {
  const double *x = (const double *)c->in[0] + at;
  double *y = (double *)c->out[0] + at;
  float *mask = c->scratch;
  for (int64_t i = 0; i < n; i++) mask[i] = 1;
  mr_dropout(MR_F32, mask, mask, n, rate, seed, site, step);
  for (int64_t i = 0; i < n; i++) y[i] = mask[i] != 0 ? x[i] / (1 - (double)rate) : 0;
}

static void dropout_run(const mr_call_t *c) {
  const mr_aval_t *x = &c->eqn->in[0]->aval;
  float rate = (float)mr_attr_get(c->eqn, "rate")->f;
  uint32_t site = (uint32_t)mr_attr_get(c->eqn, "site")->i[0];
  int64_t draws = mr_aval_elems(&c->eqn->in[1]->aval), n = draws ? mr_aval_elems(x) / draws : 0;
  for (int64_t d = 0; d < draws; d++) {
    uint64_t seed = ((const uint64_t *)c->in[1])[d];
    uint32_t step = ((const uint32_t *)c->in[2])[d];
    int64_t at = d * n * (int64_t)mr_dtype_size(x->dtype);
    if (x->dtype == MR_F64)
      draw_f64(c, d * n, n, rate, seed, site, step);
    else
      mr_dropout(x->dtype, (char *)c->in[0] + at, (char *)c->out[0] + at, n, rate, seed, site,
                 step);
  }
}

static void dropout_unit_run(const mr_unit_t *u, const void *const *in, void *out, int64_t from,
                             int64_t n) {
  mr_dtype_t t = u->eqn->in[0]->aval.dtype;
  size_t size = mr_dtype_size(t);
  for (int64_t i = 0; !u->step[0] && i < n; i++) /* one element for all */
    memcpy((char *)out + (size_t)i * size, in[0], size);
  mr__rows()->dropout(t, u->step[0] ? in[0] : out, out, from, n,
                      (float)mr_attr_get(u->eqn, "rate")->f, *(const uint64_t *)in[1],
                      (uint32_t)mr_attr_get(u->eqn, "site")->i[0], *(const uint32_t *)in[2]);
}

/* With one draw for all, and something to drop from. */
static bool dropout_unit(mr_unit_t *u) {
  const mr_eqn_t *e = u->eqn;
  u->kind = MR_UNIT_EACH;
  u->run_at = dropout_unit_run;
  return mr_is_narrow(e->in[0]->aval.dtype) && !e->in[1]->aval.ndim && !e->in[2]->aval.ndim;
}

static mr_err_t dropout_cpu(mr_call_t *c, mr_diag_t *diag) {
  const mr_aval_t *x = &c->eqn->in[0]->aval;
  if (x->dtype == MR_F64) c->scratch_bytes = (size_t)mr_aval_elems(x) * sizeof(float);
  c->run = dropout_run;
  return MR_OK;
}

/* The mask is a function of seed, site and step: the same op on the cotangent. */
static mr_err_t dropout_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  din[0] = mr_lax_dropout(f, dout[0], (float)mr_attr_get(e, "rate")->f,
                          (uint32_t)mr_attr_get(e, "site")->i[0], e->in[1], e->in[2]);
  return mr_rule_done(f);
}

/* Examples that share seed and step share the mask: it is drawn once, on ones. */
static mr_var_t *shared_mask(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in) {
  mr_var_t *ones = mr_lax_full(f, &e->in[0]->aval, 1);
  mr_eqn_t *m = mr_emit_like(f, e, (mr_var_t *[]){ones, in[1].var, in[2].var});
  mr_batched_t mask = {m ? m->out[0] : NULL, -1};
  return mr_lax_mul(f, mr_batch_front(f, &in[0], 1),
                    mr_batch_front(f, &mask, mr_batch_size(1, in)));
}

static mr_err_t dropout_batch(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in,
                              mr_batched_t *out) {
  int64_t size = mr_batch_size(3, in);
  out[0].axis = 0;
  if (in[1].axis < 0 && in[2].axis < 0) {
    out[0].var = shared_mask(f, e, in);
    return mr_rule_done(f);
  }
  mr_var_t *v[3];
  for (int i = 0; i < 3; i++) v[i] = mr_batch_front(f, &in[i], size);
  mr_eqn_t *b = mr_emit_like(f, e, v);
  out[0].var = b ? b->out[0] : NULL;
  return mr_rule_done(f);
}

static bool dropout_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  if (k > 0) return false;
  mr_var_t *x = mr_sample_f32(s, -1, 1, 3, 4), *seed = mr_sample_scalar(s, MR_U64, 1, 99);
  return mr_sample_done(s,
                        mr_lax_dropout(s->f, x, 0.4f, 3, seed, mr_sample_scalar(s, MR_U32, 1, 9)));
}

const mr_op_def_t mr_op_dropout = {
    MR_RULES_PRIMITIVE,
    .jvp = mr_jvp_symmetric,
    .batch = dropout_batch,
    .sample = dropout_sample,
    .name = "dropout",
    .n_in = 3,
    .n_out = 1,
    .shape = dropout_shape,
    .vjp = dropout_vjp,
    .cheap = true,
    .amp = MR_AMP_FOLLOW,
    .cpu = dropout_cpu,
    .unit = dropout_unit,
    .inplace = {1},
    .flop_each = 2,
};

/* As flax writes it, made of ops that every transform knows. */
mr_var_t *mr_lax_dropout_by_key(mr_fn_t *f, mr_var_t *x, float rate, mr_var_t *key) {
  if (!x || !key) return NULL;
  if (!(rate >= 0 && rate <= 1)) {
    mr_fail(&f->diag, MR_ERR_SHAPE, "dropout: the rate is %g, want one of [0,1]", (double)rate);
    return NULL;
  }
  if (rate == 0) return x;
  mr_var_t *zero = mr_lax_full(f, &x->aval, 0);
  if (rate == 1) return zero;
  float keep = 1 - rate;
  mr_var_t *coin = mr_lax_random_bernoulli(f, key, keep, x->aval.ndim, x->aval.dim);
  return mr_lax_select_n(f, coin, zero, mr_lax_div(f, x, mr_literal(f, x->aval.dtype, keep)));
}
