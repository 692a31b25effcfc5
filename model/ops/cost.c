/* The cost of an equation: operations by its op's fields, bytes by its avals, both from shapes
   alone.  It is what the work needs at least, each operand read and each result written once, and
   not a measurement; profile compares the two. */
#include "model/ops/operands.h"

#include "model/ir/op.h"

static bool cost_seen_before(const mr_eqn_t *e, int i) {
  for (int k = 0; k < i; k++)
    if (e->in[k] == e->in[i]) return true;
  return false;
}

/* An op that only moves elements, such as a slice, reads at most as many of an operand as it
   writes. */
static double bytes_in(const mr_eqn_t *e) {
  double given = 0;
  for (int k = 0; k < e->n_out; k++) given += (double)mr_aval_elems(&e->out[k]->aval);
  double sum = 0;
  for (int i = 0; i < e->n_in; i++) {
    if (e->in[i]->literal || cost_seen_before(e, i)) continue;
    double n = (double)mr_aval_elems(&e->in[i]->aval);
    if (e->op->cost.moves && n > given) n = given;
    sum += n * (double)mr_dtype_size(e->in[i]->aval.dtype);
  }
  return sum;
}

static double cost_largest(const mr_eqn_t *e) {
  int64_t most = 0;
  for (int i = 0; i < e->n_in + e->n_out; i++) {
    const mr_var_t *v = i < e->n_in ? e->in[i] : e->out[i - e->n_in];
    int64_t n = mr_aval_elems(&v->aval);
    if (n > most) most = n;
  }
  return (double)most;
}

static double flop_inside(const mr_eqn_t *e) {
  const mr_fn_t *body = mr_attr_called(e, e->op->cost.body);
  double sum = 0;
  for (int i = 0; i < body->n_eqn; i++) sum += mr_cost_of(body->eqn[i]).flop;
  return sum;
}

mr_cost_t mr_cost_of(const mr_eqn_t *e) {
  const mr_op_def_t *op = e->op;
  double given = 0, each = op->cost.each > 0 ? op->cost.each : 1;
  for (int k = 0; k < e->n_out; k++) given += (double)mr_aval_bytes(&e->out[k]->aval);
  return (mr_cost_t){.flop = op->cost.flop    ? op->cost.flop(e)
                             : op->cost.body  ? flop_inside(e)
                             : op->cost.moves ? 0
                                              : each * cost_largest(e),
                     .bytes = bytes_in(e) + given,
                     .product = op->cost.flop != NULL};
}
