/* Which vars may have a tangent: found by walking the equations, functions that they call included,
   before anything is differentiated.  Loops repeat the walk until no further carried value is
   reached.  Gradients of what is not reached are never built. */
#include "model/transforms/build.h"

#include "model/ops/rules.h"

/* mr__eqn_moves for one equation whose op has a reach rule. */
static void reach_one(const mr_eqn_t *e, bool *moves) {
  mr_mem_t mem = {0};
  bool *in = mr_mem_take(&mem, (size_t)(e->n_in + e->n_out) + 1), *out = in + e->n_in;
  for (int k = 0; k < e->n_in; k++) in[k] = moves[e->in[k]->id];
  e->op->ad.reach(e, in, out);
  for (int k = 0; k < e->n_out; k++) moves[e->out[k]->id] |= out[k];
  mr_mem_fini(&mem);
}

void mr__eqn_moves(int n, mr_eqn_t *const *eqn, bool *moves) {
  for (int i = 0; i < n; i++) {
    const mr_eqn_t *e = eqn[i];
    bool any = false;
    for (int k = 0; k < e->n_in; k++) any |= moves[e->in[k]->id];
    if (!any || e->op->ad.jvp == mr_jvp_zero) continue;
    if (e->op->ad.reach) {
      reach_one(e, moves);
      continue;
    }
    for (int k = 0; k < e->n_out; k++) moves[e->out[k]->id] |= mr_is_float(e->out[k]->aval.dtype);
  }
}

void mr__call_moves(const mr_fn_t *called, const bool *in, bool *out) {
  mr_mem_t mem = {0};
  bool *moves = mr_mem_take(&mem, (size_t)called->n_var + 1);
  for (int i = 0; i < called->n_in; i++) moves[called->in[i]->id] = in[i];
  mr__eqn_moves(called->n_eqn, called->eqn, moves);
  for (int k = 0; k < called->n_out; k++) out[k] = moves[called->out[k]->id];
  mr_mem_fini(&mem);
}

void mr__loop_moves(const mr_fn_t *body, int first_carry, int n_carry, bool *in, bool *out) {
  for (bool more = true; more;) {
    more = false;
    mr__call_moves(body, in, out);
    for (int k = 0; k < n_carry; k++) {
      more |= out[k] && !in[first_carry + k];
      in[first_carry + k] |= out[k];
      out[k] = in[first_carry + k];
    }
  }
}

void mr__call_reach(const mr_eqn_t *e, const bool *in, bool *out) {
  const mr_fn_t *called = mr_attr_called(e, "jaxpr");
  mr_mem_t mem = {0};
  bool *all = mr_mem_take(&mem, (size_t)called->n_out + 1); /* it may return more than e takes */
  mr__call_moves(called, in, all);
  for (int k = 0; k < e->n_out; k++) out[k] = all[k];
  mr_mem_fini(&mem);
}
