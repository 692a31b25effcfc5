#include <math.h>

#include "model/ops/lax.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_log(mr_fn_t *f, mr_var_t *x) { return mr_emit1(f, &mr_op_log, 1, &x, 0, NULL); }

static float log_at(float x) { return logf(x); }

static mr_err_t log_cpu(mr_cpu_call_t *c, mr_diag_t *diag) { return mr_cpu_unary(c, log_at, diag); }

static mr_err_t log_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  din[0] = mr_lax_div(f, dout[0], e->in[0]);
  return mr_rule_done(f);
}

const mr_op_def_t mr_op_log = {
    MR_RULES_NONE_YET, .name = "log",        .n_in = 1,      .n_out = 1,     .shape = mr_shape_same,
    .vjp = log_vjp,    .amp = MR_AMP_FOLLOW, .cpu = log_cpu, .inplace = {1},
};
