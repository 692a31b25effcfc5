/* mr_backend_t.lower of the CPU: finds the rule of an op (rules.c) and calls it. */
#include "model/backends/cpu/lower.h"

#include "model/backends/cpu/rules.h"
#include "model/ir/op.h"
#include "model/ops/lax.h"

/* Whether e computes in f16, which the CPU cannot.  It only moves f16 and passes it to functions
   inside an equation. */
static bool computes_f16(const mr_eqn_t *e) {
  bool half = false, moves = e->op->moves && e->n_in;
  for (int k = 0; k < e->n_in; k++) {
    half |= e->in[k]->aval.dtype == MR_F16;
    moves &= !(e->in[k]->aval.dtype == MR_F16 && e->in[k]->literal); /* its value must be written */
  }
  for (int k = 0; k < e->n_out; k++) half |= e->out[k]->aval.dtype == MR_F16;
  for (int k = 0; k < e->n_attr; k++)
    moves |= e->attr[k].kind == MR_ATTR_FN || e->attr[k].kind == MR_ATTR_FNS;
  return half && (!moves || e->op == &mr_op_convert_element_type);
}

mr_err_t mr__cpu_lower(mr_call_t *c, mr_diag_t *diag) {
  const mr_op_def_t *op = c->eqn->op;
  if (computes_f16(c->eqn)) return mr_fail(diag, MR_ERR_NORULE, "the CPU computes no f16");
  if (op->kind == MR_OP_ELEMENTWISE) return mr__cpu_pointwise(c, diag);
  const mr_cpu_rule_t *r = mr__cpu_rule(op);
  if (r && r->lower) return r->lower(c, diag);
  return mr_fail(diag, MR_ERR_NORULE, "the CPU has no kernel for it");
}
