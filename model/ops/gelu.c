#include <string.h>

#include "model/ops/lax.h"
#include "model/ops/rules.h"

static const char *kind_name(mr_gelu_t kind) { return kind == MR_GELU_ERF ? "erf" : "tanh"; }

mr_var_t *mr_lax_gelu(mr_fn_t *f, mr_var_t *x, mr_gelu_t kind) {
  return mr_emit1(f, &mr_op_gelu, 1, &x, 1, (mr_attr_t[]){mr_attr_text("kind", kind_name(kind))});
}

static void gelu_run(const mr_cpu_call_t *c) {
  const mr_aval_t *x = &c->eqn->in[0]->aval;
  bool erf_kind = !strcmp(mr_attr_get(c->eqn, "kind")->text, "erf");
  mr_gelu_fwd(erf_kind ? MR_GELU_ERF : MR_GELU_TANH, x->dtype, c->in[0], c->out[0],
              mr_aval_elems(x));
}

static mr_err_t gelu_cpu(mr_cpu_call_t *c, mr_diag_t *diag) {
  c->run = gelu_run;
  return MR_OK;
}

static mr_err_t gelu_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  din[0] =
      mr_emit1(f, &mr_op_gelu_vjp, 2, (mr_var_t *[]){e->in[0], dout[0]}, 1, mr_attr_get(e, "kind"));
  return mr_rule_done(f);
}

const mr_op_def_t mr_op_gelu = {
    MR_RULES_NONE_YET, .name = "gelu",         .n_in = 1,
    .n_out = 1,        .shape = mr_shape_same, .vjp = gelu_vjp,
    .cheap = true,     .amp = MR_AMP_FOLLOW,   .cpu = gelu_cpu,
};
