#include "model/ops/lax.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_softmax_cross_entropy(mr_fn_t *f, mr_var_t *logits, mr_var_t *labels,
                                       float smoothing) {
  return mr_emit1(f, &mr_op_softmax_cross_entropy, 2, (mr_var_t *[]){logits, labels}, 1,
                  (mr_attr_t[]){mr_attr_float("smoothing", smoothing)});
}

static mr_err_t xent_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  const mr_aval_t *x = &e->in[0]->aval, *y = &e->in[1]->aval;
  if (x->ndim != 2 || x->dtype != MR_F32 || y->ndim != 1 || y->dtype != MR_I32 ||
      x->dim[0] != y->dim[0])
    return mr_shape_fail(e, diag, "want logits f32[B,C] and labels i32[B]");
  out[0] = mr_aval_of(MR_F32, x->dim[0]);
  return MR_OK;
}

static void xent_run(const mr_cpu_call_t *c) {
  const mr_aval_t *x = &c->eqn->in[0]->aval;
  mr_xent_fwd(c->in[0], c->in[1], (float)mr_attr_get(c->eqn, "smoothing")->f, c->out[0], x->dim[0],
              x->dim[1]);
}

static mr_err_t xent_cpu(mr_cpu_call_t *c, mr_diag_t *diag) {
  c->run = xent_run;
  return MR_OK;
}

static mr_err_t xent_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  din[0] = mr_emit1(f, &mr_op_softmax_cross_entropy_vjp, 3,
                    (mr_var_t *[]){e->in[0], e->in[1], dout[0]}, 1, mr_attr_get(e, "smoothing"));
  return mr_rule_done(f);
}

const mr_op_def_t mr_op_softmax_cross_entropy = {
    MR_RULES_NONE_YET,   .name = "softmax_cross_entropy",
    .n_in = 2,           .n_out = 1,
    .shape = xent_shape, .vjp = xent_vjp,
    .amp = MR_AMP_WIDE,  .cpu = xent_cpu,
};
