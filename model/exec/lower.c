/* Lowering: fills one call for each equation by asking the op's own rule for the backend, if it
   brings one (an op of a plug-in may), else the backend.  Small equations are marked to run on one
   thread, where waking a team would cost more than the work. */
#include <stdlib.h>
#include <string.h>

#include "model/exec/exec_private.h"
#include "model/ir/op.h"

/* With fewer elements in all operands and results, one thread is faster than a team. */
#define SERIAL_ELEMS 8192

static bool lower_is_small(const mr_eqn_t *e) {
  int64_t n = 0;
  for (int k = 0; k < e->n_in; k++) n += mr_aval_elems(&e->in[k]->aval);
  for (int k = 0; k < e->n_out; k++) n += mr_aval_elems(&e->out[k]->aval);
  return n < SERIAL_ELEMS && !e->op->cost.product; /* products decide for themselves */
}

size_t mr__call_align(const mr_call_t *c) {
  size_t align = c->options ? c->options->align : 0;
  return align && align < 64 ? align : 64;
}

static mr_err_t lower_ask(mr_call_t *c, mr_diag_t *diag) {
  for (const mr_op_lower_t *l = c->eqn->op->lower; l && l->backend; l++)
    if (!strcmp(l->backend, c->device->backend->name)) return l->lower(c, diag);
  return c->device->backend->compile->lower(c, diag);
}

/* Lowers one equation.  Its error names scope and op: what a rule leaves out is added here. */
static mr_err_t lower_one(mr_call_t *c, mr_diag_t *diag) {
  const mr_eqn_t *e = c->eqn;
  mr_diag_t own = {0};
  if (e->op->kind == MR_OP_ALIAS) return MR_OK;
  mr_err_t err = e->op->kind == MR_OP_CALL
                     ? mr_fail(&own, MR_ERR_NORULE, "was not opened before lowering (compiler bug)")
                     : lower_ask(c, &own);
  if (err >= 0) return err;
  if (strstr(own.text, e->op->name) && strstr(own.text, e->scope))
    return mr_diag_relay(diag, err, &own);
  if (strstr(own.text, e->op->name)) return mr_diag_prefix(diag, err, &own, "%s", e->scope);
  return mr_diag_prefix(diag, err, &own, "%s%s%s", e->scope, *e->scope ? ": " : "", e->op->name);
}

mr_err_t mr__lower(mr_exec_t *x, const mr_compile_options_t *o, mr_diag_t *diag) {
  const mr_fn_t *f = x->fn;
  size_t n_slots = (size_t)f->n_out;
  for (int i = 0; i < f->n_eqn; i++) n_slots += (size_t)(f->eqn[i]->n_in + f->eqn[i]->n_out);
  x->slots = calloc(n_slots + 1, sizeof *x->slots);
  x->patch = calloc(n_slots + 1, sizeof *x->patch);
  if (!x->slots || !x->patch) return mr_no_memory(diag, "the lowering of a graph");
  void **slot = x->slots;
  for (int i = 0; i < f->n_eqn; i++) {
    mr_call_t *c = &x->call[i];
    *c = (mr_call_t){.eqn = f->eqn[i],
                     .device = x->device,
                     .in = slot,
                     .out = slot + f->eqn[i]->n_in,
                     .serial = lower_is_small(f->eqn[i]),
                     .options = o};
    slot += f->eqn[i]->n_in + f->eqn[i]->n_out;
    MR_TRY(lower_one(c, diag));
    c->options = NULL;
  }
  x->result = slot;
  return MR_OK;
}
