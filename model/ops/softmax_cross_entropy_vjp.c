/* logits, labels, dloss -> dlogits. */
#include "model/backends/cpu/kernels.h"
#include "model/ops/lax.h"
#include "model/ops/rows.h"
#include "model/ops/rules.h"
#include "model/ops/xent.h"

static mr_err_t shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  const mr_aval_t *x = &e->in[0]->aval;
  mr_aval_t row = mr_aval(x->dtype, 1, x->dim), label = mr_aval(MR_I32, 1, x->dim);
  if (x->ndim != 2 || (x->dtype != MR_F32 && x->dtype != MR_F64) ||
      !mr_aval_equal(&e->in[1]->aval, &label) || !mr_aval_equal(&e->in[2]->aval, &row))
    return mr_shape_fail(
        e, diag, "want logits f32[B,C] (or f64), labels i32[B] and dloss[B] of their dtype");
  return mr_shape_same(e, out, diag);
}

static void run(const mr_cpu_call_t *c) {
  const mr_aval_t *x = &c->eqn->in[0]->aval;
  mr_xent_bwd(c->in[0], c->in[1], (float)mr_attr_get(c->eqn, "smoothing")->f, c->in[2], c->out[0],
              x->dim[0], x->dim[1]);
}

static mr_err_t cpu(mr_cpu_call_t *c, mr_diag_t *diag) {
  c->run = run;
  return MR_OK;
}

static mr_err_t xent_vjp_open(mr_fn_t *f, const mr_eqn_t *e, mr_var_t **out) {
  mr_var_t *p = mr_lax_softmax(f, e->in[0]);
  mr_var_t *d = mr_rows_spread(f, e->in[2], &e->in[0]->aval);
  out[0] = mr_lax_mul(f, mr_lax_sub(f, p, mr__xent_target(f, e)), d);
  out[0] = mr__xent_counted(f, e, out[0]);
  return mr_rule_done(f);
}

static bool softmax_cross_entropy_vjp_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  if (k > 0) return false;
  mr_var_t *in[] = {mr_sample_f32(s, -1, 1, 3, 5), mr_sample_dims(s, MR_I32, 0, 4, 3),
                    mr_sample_f32(s, -1, 1, 3)};
  mr_attr_t smoothing = mr_attr_float("smoothing", 0.1);
  return mr_sample_done(s, mr_emit1(s->f, op, 3, in, 1, &smoothing));
}

const mr_op_def_t mr_op_softmax_cross_entropy_vjp = {
    MR_RULES_COMPOSITE,
    .open = xent_vjp_open,
    .jvp = mr_jvp_open,
    .batch = mr_batch_merge,
    .sample = softmax_cross_entropy_vjp_sample,
    .name = "softmax_cross_entropy_vjp",
    .n_in = 3,
    .n_out = 1,
    .shape = shape,
    .vjp = mr_vjp_open,
    .amp = MR_AMP_WIDE,
    .cpu = cpu,
    .flop_each = 5,
};
