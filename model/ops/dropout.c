#include "model/ops/lax.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_dropout(mr_fn_t *f, mr_var_t *x, float rate, uint32_t site, mr_var_t *seed,
                         mr_var_t *step) {
  return mr_emit1(f, &mr_op_dropout, 3, (mr_var_t *[]){x, seed, step}, 2,
                  (mr_attr_t[]){mr_attr_float("rate", rate), mr_attr_int("site", site)});
}

static mr_err_t dropout_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  const mr_aval_t *seed = &e->in[1]->aval, *step = &e->in[2]->aval;
  if (seed->ndim || seed->dtype != MR_U64 || step->ndim || step->dtype != MR_U32)
    return mr_shape_fail(e, diag, "want seed u64[] and step u32[]");
  return mr_shape_same(e, out, diag);
}

static void dropout_run(const mr_cpu_call_t *c) {
  const mr_aval_t *x = &c->eqn->in[0]->aval;
  mr_dropout(x->dtype, c->in[0], c->out[0], mr_aval_elems(x), (float)mr_attr_get(c->eqn, "rate")->f,
             *(const uint64_t *)c->in[1], (uint32_t)mr_attr_get(c->eqn, "site")->i[0],
             *(const uint32_t *)c->in[2]);
}

static mr_err_t dropout_cpu(mr_cpu_call_t *c, mr_diag_t *diag) {
  c->run = dropout_run;
  return MR_OK;
}

/* The mask is a function of seed, site and step: the same op on the cotangent. */
static mr_err_t dropout_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  din[0] = mr_lax_dropout(f, dout[0], (float)mr_attr_get(e, "rate")->f,
                          (uint32_t)mr_attr_get(e, "site")->i[0], e->in[1], e->in[2]);
  return mr_rule_done(f);
}

const mr_op_def_t mr_op_dropout = {
    MR_RULES_NONE_YET,      .name = "dropout",  .n_in = 3,     .n_out = 1,
    .shape = dropout_shape, .vjp = dropout_vjp, .cheap = true, .amp = MR_AMP_FOLLOW,
    .cpu = dropout_cpu,     .inplace = {1},
};
