/* x, dy -> dx. */
#include <string.h>

#include "model/backends/cpu/kernels.h"
#include "model/ops/rules.h"

static void run(const mr_cpu_call_t *c) {
  const mr_aval_t *x = &c->eqn->in[0]->aval;
  bool erf_kind = !strcmp(mr_attr_get(c->eqn, "kind")->text, "erf");
  mr_gelu_bwd(erf_kind ? MR_GELU_ERF : MR_GELU_TANH, x->dtype, c->in[0], c->in[1], c->out[0],
              mr_aval_elems(x));
}

static mr_err_t cpu(mr_cpu_call_t *c, mr_diag_t *diag) {
  c->run = run;
  return MR_OK;
}

const mr_op_def_t mr_op_gelu_vjp = {
    MR_RULES_NONE_YET, .name = "gelu_vjp",   .n_in = 2,  .n_out = 1, .shape = mr_shape_pointwise,
    .vjp = mr_no_vjp,  .amp = MR_AMP_FOLLOW, .cpu = cpu,
};
