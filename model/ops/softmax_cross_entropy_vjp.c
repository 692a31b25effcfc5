/* logits, labels, dloss -> dlogits. */
#include "model/backends/cpu/kernels.h"
#include "model/ops/rules.h"

static void run(const mr_cpu_call_t *c) {
  const mr_aval_t *x = &c->eqn->in[0]->aval;
  mr_xent_bwd(c->in[0], c->in[1], (float)mr_attr_get(c->eqn, "smoothing")->f, c->in[2], c->out[0],
              x->dim[0], x->dim[1]);
}

static mr_err_t cpu(mr_cpu_call_t *c, mr_diag_t *diag) {
  c->run = run;
  return MR_OK;
}

const mr_op_def_t mr_op_softmax_cross_entropy_vjp = {
    MR_RULES_NONE_YET,
    .name = "softmax_cross_entropy_vjp",
    .n_in = 3,
    .n_out = 1,
    .shape = mr_shape_same,
    .vjp = mr_no_vjp,
    .amp = MR_AMP_WIDE,
    .cpu = cpu,
};
