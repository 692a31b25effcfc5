/* a^b of two floating-point values, element by element. */
#include <math.h>

#include "model/ops/lax.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_pow(mr_fn_t *f, mr_var_t *a, mr_var_t *b) {
  return mr_emit1(f, &mr_op_pow, 2, (mr_var_t *[]){a, b}, 0, NULL);
}

/* The slope by operand i of d a^b = b a^(b-1) da + log(a) a^b db.  log(0) counts as 0, as in jax:
   0^b is constant for b > 0. */
static mr_var_t *slope(mr_fn_t *f, const mr_eqn_t *e, int i) {
  mr_var_t *a = e->in[0], *b = e->in[1];
  if (i) {
    mr_var_t *zero = mr_lax_eq(f, a, mr_literal(f, a->aval.dtype, 0));
    a = mr_lax_select_n(f, zero, a, mr_lax_full(f, &a->aval, 1));
    return mr_lax_mul(f, mr_lax_log(f, a), e->out[0]);
  }
  mr_var_t *less = mr_lax_sub(f, b, mr_literal(f, b->aval.dtype, 1));
  return mr_lax_mul(f, b, mr_lax_pow(f, a, less));
}

static mr_err_t pow_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  for (int i = 0; i < 2; i++)
    if (!e->in[i]->literal)
      din[i] = mr_unbroadcast(f, mr_lax_mul(f, dout[0], slope(f, e, i)), e->in[i]);
  return mr_rule_done(f);
}

static mr_err_t pow_jvp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *din, mr_var_t **dout) {
  for (int i = 0; i < 2; i++)
    if (din[i]) dout[0] = mr_tangent_add(f, dout[0], mr_lax_mul(f, slope(f, e, i), din[i]));
  return mr_rule_done(f);
}

const mr_op_def_t mr_op_pow = {
    MR_RULES_POINTWISE,
    .name = "pow",
    .n_in = 2,
    .n_out = 1,
    .shape = mr_shape_pointwise,
    .jvp = pow_jvp,
    .vjp = pow_vjp,
    .sample = mr_sample_binary_positive,
    .amp = MR_AMP_FOLLOW,
    .at = {.f2 = powf, .d2 = pow},
    .inplace = {3},
};
