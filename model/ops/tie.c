#include "model/ops/tie.h"

#include "model/ops/lax.h"
#include "model/ops/rules.h"

/* The share of each operand in a cotangent or tangent: 1, 1/2 where they are equal, and 0 for both
   where one is NaN. */
static void shares(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *share[2]) {
  mr_dtype_t t = e->out[0]->aval.dtype;
  mr_var_t *ma = mr_lax_convert(f, mr_lax_eq(f, e->in[0], e->out[0]), t);
  mr_var_t *mb = mr_lax_convert(f, mr_lax_eq(f, e->in[1], e->out[0]), t);
  mr_var_t *one = mr_literal(f, t, 1);
  share[0] = mr_lax_div(f, ma, mr_lax_add(f, mb, one));
  share[1] = mr_lax_div(f, mb, mr_lax_add(f, ma, one));
}

mr_err_t mr__tie_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  mr_var_t *share[2];
  shares(f, e, share);
  for (int i = 0; i < 2; i++)
    din[i] = mr_unbroadcast(f, mr_lax_mul(f, dout[0], share[i]), e->in[i]);
  return mr_rule_done(f);
}

mr_err_t mr__tie_jvp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *din, mr_var_t **dout) {
  mr_var_t *share[2];
  shares(f, e, share);
  for (int i = 0; i < 2; i++)
    if (din[i]) dout[0] = mr_tangent_add(f, dout[0], mr_lax_mul(f, share[i], din[i]));
  return mr_rule_done(f);
}
