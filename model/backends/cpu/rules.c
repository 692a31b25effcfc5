/* The table of ops, made from rules.def, and the entries of lowering, which look ops up in it: a
   list beside the code, so that an op with a kernel is two files here, its rule and its row. */
#include "model/backends/cpu/rules.h"

#include <stdlib.h>
#include <string.h>

#include "model/backends/cpu/program.h"
#include "model/control/control.h"
#include "model/exec/call.h"
#include "model/ir/op.h"

static const mr_cpu_rule_t rules[] = {
#define MR_CPU_VECTOR(name, kernel) {.op = &mr_op_##name, .lane = MR_LANE_##kernel},
#define MR_CPU_LOWERED(name) {.op = &mr_op_##name, .lower = mr__cpu_##name},
#define MR_CPU_F32_ALONE(name) {.op = &mr_op_##name, .lower = mr__cpu_##name, .f32_alone = true},
#define MR_CPU_LOOP(name) \
  {.op = &mr_op_##name, .lower = mr__program_one, .unit = mr__cpu_unit_##name},
#define MR_CPU_BOTH(name) \
  {.op = &mr_op_##name, .lower = mr__cpu_##name, .unit = mr__cpu_unit_##name},
#define MR_CPU_CONTROL(name) {.op = &mr_op_##name, .lower = mr__##name##_lower},
#include "model/backends/cpu/rules.def"
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
