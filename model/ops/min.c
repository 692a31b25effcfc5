#include <math.h>

#include "model/ops/lax.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_min(mr_fn_t *f, mr_var_t *a, mr_var_t *b) {
  return mr_emit1(f, &mr_op_min, 2, (mr_var_t *[]){a, b}, 0, NULL);
}

static float min_at(float a, float b) { return a < b || isnan(a) ? a : b; }

static mr_err_t min_cpu(mr_cpu_call_t *c, mr_diag_t *diag) {
  return mr_cpu_binary(c, min_at, diag);
}

static mr_err_t min_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  /* A tie shares the cotangent, as in jax. */
  mr_dtype_t t = e->out[0]->aval.dtype;
  mr_var_t *ma = mr_lax_convert(f, mr_lax_eq(f, e->in[0], e->out[0]), t);
  mr_var_t *mb = mr_lax_convert(f, mr_lax_eq(f, e->in[1], e->out[0]), t);
  mr_var_t *share = mr_lax_div(f, dout[0], mr_lax_add(f, ma, mb));
  din[0] = mr_unbroadcast(f, mr_lax_mul(f, share, ma), e->in[0]);
  din[1] = mr_unbroadcast(f, mr_lax_mul(f, share, mb), e->in[1]);
  return mr_rule_done(f);
}

const mr_op_def_t mr_op_min = {
    MR_RULES_NONE_YET,
    .name = "min",
    .n_in = 2,
    .n_out = 1,
    .shape = mr_shape_pointwise,
    .vjp = min_vjp,
    .amp = MR_AMP_FOLLOW,
    .cpu = min_cpu,
    .inplace = {3},
};
