/* x, scale, mean, rstd, dy -> dx, dscale, dbias. */
#include "model/backends/cpu/kernels.h"
#include "model/ops/rules.h"

static mr_err_t shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  if (!mr_aval_same_shape(&e->in[4]->aval, &e->in[0]->aval))
    return mr_shape_fail(e, diag, "dy must have x's shape");
  out[0] = e->in[0]->aval;
  out[1] = out[2] = e->in[1]->aval;
  return MR_OK;
}

static void run(const mr_cpu_call_t *c) {
  const mr_aval_t *x = &c->eqn->in[0]->aval;
  mr_layer_norm_bwd(x->dtype, c->in[0], c->in[1], c->in[2], c->in[3], c->eqn->in[4]->aval.dtype,
                    c->in[4], c->out[0], c->out[1], c->out[2], c->scratch,
                    mr_aval_span(x, 0, x->ndim - 1), x->dim[x->ndim - 1]);
}

static mr_err_t cpu(mr_cpu_call_t *c, mr_diag_t *diag) {
  c->run = run;
  c->scratch_bytes = mr_layer_norm_scratch(mr_aval_elems(&c->eqn->in[1]->aval));
  return MR_OK;
}

const mr_op_def_t mr_op_layer_norm_vjp = {
    MR_RULES_NONE_YET, .name = "layer_norm_vjp", .n_in = 5,          .n_out = 3,
    .shape = shape,    .vjp = mr_no_vjp,         .amp = MR_AMP_WIDE, .cpu = cpu,
};
