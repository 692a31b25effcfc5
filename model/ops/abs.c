#include <math.h>

#include "model/ops/lax.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_abs(mr_fn_t *f, mr_var_t *x) { return mr_emit1(f, &mr_op_abs, 1, &x, 0, NULL); }

static mr_err_t abs_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  mr_dtype_t t = e->in[0]->aval.dtype;
  if (t == MR_U8 || t == MR_U32 || t == MR_U64)
    return mr_shape_fail(e, diag, "want numbers with a sign");
  return mr_shape_same(e, out, diag);
}

static int64_t abs_i1(int64_t x) { return x < 0 ? (int64_t)(0 - (uint64_t)x) : x; }

/* At 0 and -0 the slope is 1, as in jax. */
static mr_err_t abs_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  mr_var_t *up = mr_lax_ge(f, e->in[0], mr_literal(f, e->in[0]->aval.dtype, 0));
  din[0] = mr_lax_select_n(f, up, mr_lax_neg(f, dout[0]), dout[0]);
  return mr_rule_done(f);
}

const mr_op_def_t mr_op_abs = {
    MR_RULES_POINTWISE,
    .name = "abs",
    .n_in = 1,
    .n_out = 1,
    .shape = abs_shape,
    .jvp = mr_jvp_symmetric,
    .vjp = abs_vjp,
    .sample = mr_sample_unary_positive,
    .amp = MR_AMP_FOLLOW,
    .at = {.f1 = fabsf, .d1 = fabs, .i1 = abs_i1, .lane = MR_LANE_ABS},
    .inplace = {1},
};
