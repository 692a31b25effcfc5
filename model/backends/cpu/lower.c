/* mr_backend_t.lower of the CPU: finds the rule of an op (rules.c) and calls it. */
#include "model/backends/cpu/lower.h"

#include "model/backends/cpu/rules.h"
#include "model/ir/op.h"

mr_err_t mr__cpu_lower(mr_call_t *c, mr_diag_t *diag) {
  const mr_op_def_t *op = c->eqn->op;
  if (op->kind == MR_OP_ELEMENTWISE) return mr__cpu_pointwise(c, diag);
  const mr_cpu_rule_t *r = mr__cpu_rule(op);
  if (r && r->lower) return r->lower(c, diag);
  return mr_fail(diag, MR_ERR_NORULE, "the CPU has no kernel for it");
}
