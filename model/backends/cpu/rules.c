/* The table of ops: an op is lowered by a rule of its own (LOWERED), as a loop of one unit
   (LOOP), has both (BOTH), or is an elementwise op with a vector kernel (VECTOR). */
#include "model/backends/cpu/rules.h"

#include <stdlib.h>
#include <string.h>

#include "model/backends/cpu/program.h"
#include "model/control/control.h"
#include "model/exec/call.h"
#include "model/ir/op.h"

#define LOWERED(name) \
  { .op = &mr_op_##name, .lower = mr__cpu_##name }
#define LOOP(name) \
  { .op = &mr_op_##name, .lower = mr__program_one, .unit = mr__cpu_unit_##name }
#define BOTH(name) \
  { .op = &mr_op_##name, .lower = mr__cpu_##name, .unit = mr__cpu_unit_##name }
#define VECTOR(name, kernel) \
  { .op = &mr_op_##name, .lane = MR_LANE_##kernel }

static const mr_cpu_rule_t rules[] = {
    VECTOR(add, ADD),
    VECTOR(add_any, ADD),
    VECTOR(sub, SUB),
    VECTOR(mul, MUL),
    VECTOR(div, DIV),
    VECTOR(max, MAX),
    VECTOR(min, MIN),
    VECTOR(eq, EQ),
    VECTOR(ne, NE),
    VECTOR(lt, LT),
    VECTOR(le, LE),
    VECTOR(gt, GT),
    VECTOR(ge, GE),
    VECTOR(neg, NEG),
    VECTOR(abs, ABS),
    VECTOR(sign, SIGN),
    VECTOR(floor, FLOOR),
    VECTOR(sqrt, SQRT),
    VECTOR(rsqrt, RSQRT),
    VECTOR(exp, EXP),
    VECTOR(log, LOG),
    VECTOR(sin, SIN),
    VECTOR(cos, COS),
    VECTOR(tanh, TANH),
    VECTOR(erf, ERF),
    VECTOR(logistic, LOGISTIC),
    LOOP(select_n),
    LOOP(convert_element_type),
    LOOP(integer_pow),
    BOTH(reduce_sum),
    BOTH(reduce_max),
    BOTH(gelu),
    BOTH(gelu_vjp),
    BOTH(dropout),
    LOWERED(stochastic_round),
    LOWERED(fused),
    LOWERED(iota),
    LOWERED(transpose),
    LOWERED(broadcast_in_dim),
    LOWERED(slice),
    LOWERED(pad),
    LOWERED(concatenate),
    LOWERED(rev),
    LOWERED(take),
    LOWERED(take_vjp),
    LOWERED(cumsum),
    LOWERED(sum_squares),
    LOWERED(dot_general),
    LOWERED(linear),
    LOWERED(layer_norm),
    LOWERED(layer_norm_vjp),
    LOWERED(softmax),
    LOWERED(softmax_cross_entropy),
    LOWERED(softmax_cross_entropy_vjp),
    {.op = &mr_op_attention, .lower = mr__cpu_attention, .f32_alone = true},
    {.op = &mr_op_attention_vjp, .lower = mr__cpu_attention_vjp, .f32_alone = true},
    LOWERED(adamw),
    LOWERED(random_bits),
    LOWERED(random_uniform),
    LOWERED(random_normal),
    LOWERED(random_truncated_normal),
    LOWERED(random_randint),
    LOWERED(random_permutation),
    LOWERED(random_split),
    LOWERED(random_fold_in),
    LOWERED(psum),
    LOWERED(axis_index),
    LOWERED(all_gather),
    {.op = &mr_op_scan, .lower = mr__scan_lower},
    {.op = &mr_op_while, .lower = mr__while_lower},
    {.op = &mr_op_cond, .lower = mr__cond_lower},
};

const mr_cpu_rule_t *mr__cpu_rule(const mr_op_def_t *op) {
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
    if (rules[i].op == op) return &rules[i];
  return NULL;
}

bool mr__cpu_unit(mr_cpu_unit_t *u) {
  const mr_op_def_t *op = u->eqn->op;
  if (op->kind == MR_OP_ELEMENTWISE) return mr__cpu_unit_pointwise(u);
  if (!op->fuse.unit || !op->fuse.unit(u->eqn, &u->is)) return false;
  const mr_cpu_rule_t *r = mr__cpu_rule(op);
  bool computes =
      u->is.kind == MR_UNIT_EACH || u->is.kind == MR_UNIT_REDUCE || u->is.kind == MR_UNIT_COLUMNS;
  return computes ? r && r->unit && r->unit(u) : true;
}

/* The dtype that e computes in and that is only stored, or NULL.  Such values are moved, chosen,
   converted and handed to functions inside an equation. */
static const char *computes_storage(const mr_eqn_t *e) {
  const char *held = NULL;
  bool moves = (e->op->cost.moves && e->n_in) || e->op == &mr_op_select_n;
  for (int k = 0; k < e->n_in + e->n_out; k++) {
    mr_dtype_t t = (k < e->n_in ? e->in[k] : e->out[k - e->n_in])->aval.dtype;
    if (mr_is_storage(t)) held = mr_dtype_name(t);
  }
  for (int k = 0; k < e->n_attr; k++)
    moves |= e->attr[k].kind == MR_ATTR_FN || e->attr[k].kind == MR_ATTR_FNS;
  return moves ? NULL : held;
}

mr_err_t mr__cpu_lower(mr_call_t *c, mr_diag_t *diag) {
  const mr_op_def_t *op = c->eqn->op;
  const char *stored = computes_storage(c->eqn);
  if (stored)
    return mr_fail(diag, MR_ERR_NORULE, "the CPU computes no %s: convert to bf16, f16 or f32 first",
                   stored);
  if (op->kind == MR_OP_ELEMENTWISE) return mr__cpu_pointwise(c, diag);
  const mr_cpu_rule_t *r = mr__cpu_rule(op);
  if (r && r->lower) return r->lower(c, diag);
  return mr_fail(diag, MR_ERR_NORULE, "the CPU has no kernel for it");
}

mr_err_t mr__call_state(mr_call_t *c, const void *state, size_t bytes, mr_diag_t *diag) {
  c->state = malloc(bytes);
  if (!c->state) return mr_no_memory(diag, "the lowering of %s", c->eqn->op->name);
  memcpy(c->state, state, bytes);
  c->fini = free;
  return MR_OK;
}
