/* The op jit: a function called by name, as jax's jit appears in a jaxpr.  Every rule opens its
   body, and the compiler replaces the call by it. */
#include "model/control/control.h"
#include "model/ops/call.h"
#include "model/ops/lax.h"
#include "model/ops/rules.h"
#include "model/transforms/build.h"
#include "model/transforms/transforms.h"

mr_err_t mr_lax_jit(mr_fn_t *f, const char *name, const mr_fn_t *body, mr_var_t *const *in,
                    mr_var_t **out) {
  MR_TRY(mr__call_whole(f, "jit", "the function", body));
  mr_attr_t attr[] = {mr_attr_text("name", mr_mem_text(&f->mem, name)), mr_attr_fn("jaxpr", body)};
  mr_eqn_t *e = mr_emit(f, &mr_op_jit, body->n_in, in, 2, attr, body->n_out);
  for (int k = 0; e && k < e->n_out; k++) out[k] = e->out[k];
  return mr_rule_done(f);
}

static mr_err_t jit_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  return mr__call_shape(e, "jaxpr", out, diag);
}

static mr_err_t jit_open(mr_fn_t *f, const mr_eqn_t *e, mr_var_t **out) {
  return mr__call_inline(f, e, "jaxpr", out);
}

static mr_err_t jit_spend(mr_fn_t *f, mr_eqn_t *e) { return mr__spend_called(f, e, "jaxpr"); }

static mr_err_t jit_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  MR_TRY(mr_backward_open(f, e, dout, din));
  return jit_spend(f, e->out[0]->def);
}

/* Two results: sum(tanh(x)^2) and x y. */
static bool jit_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  if (k > 0) return false;
  mr_fn_t *b = mr_fn_create();
  mr_var_t *x = mr_fn_input(b, mr_aval_of(MR_F32, 2, 3)), *y[2];
  y[0] = mr_lax_reduce_sum(b, mr_lax_integer_pow(b, mr_lax_tanh(b, x), 2), 2, (int[]){0, 1});
  y[1] = mr_lax_mul(b, x, mr_fn_input(b, x->aval));
  mr_fn_return(b, 2, y);
  mr_var_t *in[] = {mr_sample_f32(s, -1, 1, 2, 3), mr_sample_f32(s, -1, 1, 2, 3)};
  if (mr_lax_jit(s->f, "f", b, in, y) >= 0) mr_fn_return(s->f, 2, y);
  mr_fn_destroy(b);
  return true;
}

const mr_op_def_t mr_op_jit = {
    .name = "jit",
    .n_in = -1,
    .n_out = -1,
    .shape = jit_shape,
    .batch = mr_batch_open,
    .open = jit_open,
    .sample = jit_sample,
    .kind = MR_OP_CALL,
    .shares_names = true,
    .ad = {.jvp = mr_jvp_open, .vjp = jit_vjp, .reach = mr__call_reach, .spend = jit_spend},
    .amp = {MR_AMP_FOLLOW, .passes = true},
    .shard = {mr_shard_open},
};
