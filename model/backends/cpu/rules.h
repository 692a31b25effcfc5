/* How the CPU lowers each op: the only table of ops in this backend (rules.def), and the rules that
   it lists. */
#ifndef MR_MODEL_CPU_RULES_H
#define MR_MODEL_CPU_RULES_H

#include "base/err.h"
#include "model/backends/cpu/unit.h"
#include "model/exec/call.h"
#include "model/ir/op.h"

/* Lowers c's equation: fills c->run, and its state and scratch_bytes.  MR_OK; MR_ERR_NORULE if
   the CPU has no kernel for these operands; MR_ERR_NOMEM; or the error of what it calls. */
typedef mr_err_t mr_cpu_lower_fn(mr_call_t *c, mr_diag_t *diag);
/* Fills u, whose eqn and is are set, except for step.  false: there is no loop for these
   operands. */
typedef bool mr_cpu_unit_fn(mr_cpu_unit_t *u);

typedef struct mr_cpu_rule {
  const mr_op_def_t *op;
  mr_cpu_lower_fn *lower; /* NULL: an elementwise op, which runs as a loop */
  mr_cpu_unit_fn
      *unit;      /* within a fused loop; NULL: it computes nothing there, or never is there */
  mr_lane_t lane; /* of elementwise ops: the vector kernel used instead of f1 or f2 */
  bool f32_alone; /* its kernel supports only the highest precision for products of f32 */
} mr_cpu_rule_t;

/* Returns the row of op, which is static; NULL: the table has none, as for elementwise ops
   without a vector kernel. */
const mr_cpu_rule_t *mr__cpu_rule(const mr_op_def_t *op);

/* Fill u, whose eqn is set: for any op, and for elementwise ops.  false: the CPU has no loop for
   it. */
bool mr__cpu_unit(mr_cpu_unit_t *u);
bool mr__cpu_unit_pointwise(mr_cpu_unit_t *u);

/* Sets c->state to a copy of state[bytes], which c frees.  MR_OK or MR_ERR_NOMEM. */
mr_err_t mr__call_state(mr_call_t *c, const void *state, size_t bytes, mr_diag_t *diag);

/* ---- for the executor; the first is in rules.c, the others are in elementwise.c ---- */
/* mr_compile_ops_t.lower: MR_OK; MR_ERR_NORULE if the CPU has no kernel for the op or its dtypes;
   MR_ERR_SHAPE, MR_ERR_UNAVAILABLE or MR_ERR_NOMEM from the op's own rule. */
mr_err_t mr__cpu_lower(mr_call_t *c, mr_diag_t *diag);
/* The same for an op of kind MR_OP_ELEMENTWISE: MR_OK, or MR_ERR_NORULE for its dtypes. */
mr_err_t mr__cpu_pointwise(mr_call_t *c, mr_diag_t *diag);
/* mr_target_t.element: returns what the kernel of op gives for one element. */
float mr__cpu_element(const mr_op_def_t *op, float a, float b);

/* ---- the rules ---- */
/* Those that rules.def names: mr__cpu_NAME of mr_cpu_rule_t.lower, each a mr_cpu_lower_fn, which
   returns MR_OK, MR_ERR_NORULE, MR_ERR_NOMEM or the error of what it calls; and mr__cpu_unit_NAME
   of mr_cpu_rule_t.unit, each a mr_cpu_unit_fn, which returns false for operands without a loop. */
#define MR_CPU_VECTOR(name, kernel)
#define MR_CPU_CONTROL(name)
#define MR_CPU_LOWERED(name) mr_cpu_lower_fn mr__cpu_##name;
#define MR_CPU_F32_ALONE(name) mr_cpu_lower_fn mr__cpu_##name;
#define MR_CPU_LOOP(name) mr_cpu_unit_fn mr__cpu_unit_##name;
#define MR_CPU_BOTH(name)         \
  mr_cpu_lower_fn mr__cpu_##name; \
  mr_cpu_unit_fn mr__cpu_unit_##name;
#include "model/backends/cpu/rules.def"
#undef MR_CPU_VECTOR
#undef MR_CPU_CONTROL
#undef MR_CPU_LOWERED
#undef MR_CPU_F32_ALONE
#undef MR_CPU_LOOP
#undef MR_CPU_BOTH

#endif
