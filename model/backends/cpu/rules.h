/* How the CPU lowers each op: the only table of ops in this backend (rules.c), and the rules that
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
/* mr_backend_t.lower: MR_OK; MR_ERR_NORULE if the CPU has no kernel for the op or its dtypes;
   MR_ERR_SHAPE, MR_ERR_UNAVAILABLE or MR_ERR_NOMEM from the op's own rule. */
mr_err_t mr__cpu_lower(mr_call_t *c, mr_diag_t *diag);
/* The same for an op of kind MR_OP_ELEMENTWISE: MR_OK, or MR_ERR_NORULE for its dtypes. */
mr_err_t mr__cpu_pointwise(mr_call_t *c, mr_diag_t *diag);
/* mr_target_t.element: returns what the kernel of op gives for one element. */
float mr__cpu_element(const mr_op_def_t *op, float a, float b);

/* ---- the rules ---- */
#define MR_CPU_LOWER(name) mr_err_t mr__cpu_##name(mr_call_t *c, mr_diag_t *diag)
/* The rules of mr_cpu_rule_t.lower, each a mr_cpu_lower_fn: it returns MR_OK, MR_ERR_NORULE,
   MR_ERR_NOMEM or the error of what it calls.  rule_move.c has transpose to iota, rule_reduce.c
   reduce_sum to sum_squares, rule_rows.c layer_norm to adamw, rule_units.c gelu to fused, product.c
   dot_general and linear, rule_random.c the draws, rule_collectives.c psum to all_gather. */
MR_CPU_LOWER(transpose);
MR_CPU_LOWER(broadcast_in_dim);
MR_CPU_LOWER(slice);
MR_CPU_LOWER(pad);
MR_CPU_LOWER(concatenate);
MR_CPU_LOWER(rev);
MR_CPU_LOWER(take);
MR_CPU_LOWER(take_vjp);
MR_CPU_LOWER(iota);
MR_CPU_LOWER(reduce_sum);
MR_CPU_LOWER(reduce_max);
MR_CPU_LOWER(cumsum);
MR_CPU_LOWER(sum_squares);
MR_CPU_LOWER(layer_norm);
MR_CPU_LOWER(layer_norm_vjp);
MR_CPU_LOWER(softmax);
MR_CPU_LOWER(softmax_cross_entropy);
MR_CPU_LOWER(softmax_cross_entropy_vjp);
MR_CPU_LOWER(attention);
MR_CPU_LOWER(attention_vjp);
MR_CPU_LOWER(adamw);
MR_CPU_LOWER(gelu);
MR_CPU_LOWER(gelu_vjp);
MR_CPU_LOWER(dropout);
MR_CPU_LOWER(stochastic_round);
MR_CPU_LOWER(fused);
MR_CPU_LOWER(dot_general);
MR_CPU_LOWER(linear);
MR_CPU_LOWER(random_bits);
MR_CPU_LOWER(random_uniform);
MR_CPU_LOWER(random_normal);
MR_CPU_LOWER(random_truncated_normal);
MR_CPU_LOWER(random_randint);
MR_CPU_LOWER(random_permutation);
MR_CPU_LOWER(random_split);
MR_CPU_LOWER(random_fold_in);
MR_CPU_LOWER(psum);
MR_CPU_LOWER(axis_index);
MR_CPU_LOWER(all_gather);
#undef MR_CPU_LOWER

#define MR_CPU_UNIT(name) bool mr__cpu_unit_##name(mr_cpu_unit_t *u)
/* The rules of mr_cpu_rule_t.unit, each a mr_cpu_unit_fn: it returns false for operands without a
   loop.  rule_reduce.c has the two reductions, rule_units.c the rest. */
MR_CPU_UNIT(reduce_sum);
MR_CPU_UNIT(reduce_max);
MR_CPU_UNIT(select_n);
MR_CPU_UNIT(convert_element_type);
MR_CPU_UNIT(integer_pow);
MR_CPU_UNIT(gelu);
MR_CPU_UNIT(gelu_vjp);
MR_CPU_UNIT(dropout);
#undef MR_CPU_UNIT

#endif
