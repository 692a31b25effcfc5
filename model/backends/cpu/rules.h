/* How the CPU lowers each op: the one table that names ops on this side. */
#ifndef MR_MODEL_CPU_RULES_H
#define MR_MODEL_CPU_RULES_H

#include "base/err.h"
#include "model/backends/cpu/unit.h"
#include "model/exec/call.h"
#include "model/ir/op.h"

/* MR_OK, or why the CPU cannot run it. */
typedef mr_err_t mr_cpu_lower_fn(mr_call_t *c, mr_diag_t *diag);
/* Fills u, whose eqn and what it is are set, but for step; false: not for these operands. */
typedef bool mr_cpu_unit_fn(mr_cpu_unit_t *u);

typedef struct mr_cpu_rule {
  const mr_op_def_t *op;
  mr_cpu_lower_fn *lower; /* NULL: its loop alone (elementwise ops) */
  mr_cpu_unit_fn *unit;   /* within a fused loop; NULL: there it needs nothing, or never is */
  mr_lane_t lane;         /* of elementwise ops: the vector kernel that stands for f1 or f2 */
  bool f32_alone;         /* its kernel knows no other precision for products of f32 */
} mr_cpu_rule_t;

/* NULL: it has none of its own.  So it is with elementwise ops that have no vector kernel. */
const mr_cpu_rule_t *mr__cpu_rule(const mr_op_def_t *op);

/* Fills u, whose eqn is set; false: the CPU runs no loop of it. */
bool mr__cpu_unit(mr_cpu_unit_t *u);
/* Of elementwise ops. */
bool mr__cpu_unit_pointwise(mr_cpu_unit_t *u);

/* Gives c a copy of state[bytes] that it frees.  MR_ERR_NOMEM. */
mr_err_t mr__call_state(mr_call_t *c, const void *state, size_t bytes, mr_diag_t *diag);

#define MR_CPU_LOWER(name) mr_err_t mr__cpu_##name(mr_call_t *c, mr_diag_t *diag)
/* rule_move.c */
MR_CPU_LOWER(transpose);
MR_CPU_LOWER(broadcast_in_dim);
MR_CPU_LOWER(slice);
MR_CPU_LOWER(pad);
MR_CPU_LOWER(concatenate);
MR_CPU_LOWER(rev);
MR_CPU_LOWER(take);
MR_CPU_LOWER(take_vjp);
MR_CPU_LOWER(iota);
/* rule_reduce.c */
MR_CPU_LOWER(reduce_sum);
MR_CPU_LOWER(reduce_max);
MR_CPU_LOWER(cumsum);
MR_CPU_LOWER(sum_squares);
/* rule_rows.c */
MR_CPU_LOWER(layer_norm);
MR_CPU_LOWER(layer_norm_vjp);
MR_CPU_LOWER(softmax);
MR_CPU_LOWER(softmax_cross_entropy);
MR_CPU_LOWER(softmax_cross_entropy_vjp);
MR_CPU_LOWER(attention);
MR_CPU_LOWER(attention_vjp);
MR_CPU_LOWER(adamw);
/* rule_units.c */
MR_CPU_LOWER(gelu);
MR_CPU_LOWER(gelu_vjp);
MR_CPU_LOWER(dropout);
MR_CPU_LOWER(fused);
/* product.c */
MR_CPU_LOWER(dot_general);
MR_CPU_LOWER(linear);
/* rule_random.c */
MR_CPU_LOWER(random_bits);
MR_CPU_LOWER(random_uniform);
MR_CPU_LOWER(random_normal);
MR_CPU_LOWER(random_truncated_normal);
MR_CPU_LOWER(random_randint);
MR_CPU_LOWER(random_permutation);
MR_CPU_LOWER(random_split);
MR_CPU_LOWER(random_fold_in);
/* rule_collectives.c */
MR_CPU_LOWER(psum);
MR_CPU_LOWER(axis_index);
MR_CPU_LOWER(all_gather);
#undef MR_CPU_LOWER

#define MR_CPU_UNIT(name) bool mr__cpu_unit_##name(mr_cpu_unit_t *u)
/* rule_reduce.c */
MR_CPU_UNIT(reduce_sum);
MR_CPU_UNIT(reduce_max);
/* rule_units.c */
MR_CPU_UNIT(select_n);
MR_CPU_UNIT(convert_element_type);
MR_CPU_UNIT(integer_pow);
MR_CPU_UNIT(gelu);
MR_CPU_UNIT(gelu_vjp);
MR_CPU_UNIT(dropout);
#undef MR_CPU_UNIT

#endif
