/* Rounding of f32 to bf16 or f16 up or down at random, so that the mean of many roundings is the
   number itself: what is too small to move a narrow number to its neighbour moves it now and then.
   Derivatives are those of a conversion. */
#include "model/ops/lax.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_stochastic_round(mr_fn_t *f, mr_var_t *x, mr_dtype_t to, uint32_t site,
                                  mr_var_t *seed, mr_var_t *step) {
  return mr_emit1(f, &mr_op_stochastic_round, 3, (mr_var_t *[]){x, seed, step}, 2,
                  (mr_attr_t[]){mr_attr_dtype("new_dtype", to), mr_attr_int("site", site)});
}

static mr_err_t stochastic_round_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  const mr_aval_t *x = &e->in[0]->aval, *seed = &e->in[1]->aval, *step = &e->in[2]->aval;
  mr_dtype_t to = (mr_dtype_t)mr_attr_get(e, "new_dtype")->i[0];
  if (x->dtype != MR_F32 && x->dtype != MR_F64) return mr_shape_fail(e, diag, "want f32 or f64");
  if (to != MR_BF16 && to != MR_F16)
    return mr_shape_fail(e, diag, "new_dtype: want bf16 or f16 to round to");
  if (seed->dtype != MR_U64 || step->dtype != MR_U32 || !mr_aval_same_shape(seed, step))
    return mr_shape_fail(e, diag, "want seed u64[] and step u32[]");
  for (int i = 0; i < seed->ndim; i++) /* if mapped: draws of their own for each leading index */
    if (i >= x->ndim || seed->dim[i] != x->dim[i])
      return mr_shape_fail(e, diag, "seed's sizes are not x's first ones");
  out[0] = *x;
  out[0].dtype = to;
  return MR_OK;
}

static mr_err_t stochastic_round_jvp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *din,
                                     mr_var_t **dout) {
  dout[0] = mr_lax_convert(f, din[0], e->out[0]->aval.dtype);
  return mr_rule_done(f);
}

static mr_err_t stochastic_round_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout,
                                     mr_var_t **din) {
  din[0] = mr_lax_convert(f, dout[0], e->in[0]->aval.dtype);
  return mr_rule_done(f);
}

/* Each example draws by the numbers of its own elements, as it would alone. */
static mr_err_t stochastic_round_batch(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in,
                                       mr_batched_t *out) {
  int64_t size = mr_batch_size(3, in);
  mr_var_t *v[3];
  for (int i = 0; i < 3; i++) v[i] = mr_batch_front(f, &in[i], size);
  mr_eqn_t *b = mr_emit_like(f, e, v);
  out[0] = (mr_batched_t){b ? b->out[0] : NULL, 0};
  return mr_rule_done(f);
}

/* On numbers that need no rounding: others have no derivative that differences could show. */
static bool stochastic_round_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  if (k > 1) return false;
  mr_var_t *x = mr_lax_sign(s->f, mr_sample_f32(s, 0.6, 1.9, 2, 3));
  mr_var_t *seed = mr_sample_scalar(s, MR_U64, 1, 99), *step = mr_sample_scalar(s, MR_U32, 1, 9);
  x = mr_lax_stochastic_round(s->f, x, k ? MR_F16 : MR_BF16, 3, seed, step);
  return mr_sample_done(s, mr_lax_convert(s->f, x, MR_F32));
}

const mr_op_def_t mr_op_stochastic_round = {
    MR_RULES_PRIMITIVE,
    .name = "stochastic_round",
    .n_in = 3,
    .n_out = 1,
    .shape = stochastic_round_shape,
    .batch = stochastic_round_batch,
    .sample = stochastic_round_sample,
    .ad = {.jvp = stochastic_round_jvp, .vjp = stochastic_round_vjp},
    .amp = {MR_AMP_WIDE},
    .cost = {.each = 2},
    .shard = {mr_shard_seeded},
};
