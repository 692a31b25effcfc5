#include <math.h>

#include "model/ops/lax.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_neg(mr_fn_t *f, mr_var_t *x) { return mr_emit1(f, &mr_op_neg, 1, &x, 0, NULL); }

static float neg_at(float x) { return -x; }

static mr_err_t neg_cpu(mr_cpu_call_t *c, mr_diag_t *diag) { return mr_cpu_unary(c, neg_at, diag); }

static mr_err_t neg_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  din[0] = mr_lax_neg(f, dout[0]);
  return mr_rule_done(f);
}

const mr_op_def_t mr_op_neg = {
    MR_RULES_NONE_YET, .name = "neg",        .n_in = 1,      .n_out = 1,     .shape = mr_shape_same,
    .vjp = neg_vjp,    .amp = MR_AMP_FOLLOW, .cpu = neg_cpu, .inplace = {1},
};
