#include <stdlib.h>
#include <string.h>

#include "model/backends/cpu/exec_private.h"
#include "model/ops/op.h"

mr_err_t mr_cpu_alias(mr_cpu_call_t *c, mr_diag_t *diag) {
  c->run = NULL;
  return MR_OK;
}

mr_err_t mr_cpu_opened(mr_cpu_call_t *c, mr_diag_t *diag) {
  return mr_fail(diag, MR_ERR_NORULE, "%s: is left in the graph that is lowered", c->eqn->op->name);
}

/* Tensors below this many elements in all: one thread is faster than calling a team together. */
#define SERIAL_ELEMS 8192

static bool is_small(const mr_eqn_t *e) {
  int64_t n = 0;
  for (int k = 0; k < e->n_in; k++) n += mr_aval_elems(&e->in[k]->aval);
  for (int k = 0; k < e->n_out; k++) n += mr_aval_elems(&e->out[k]->aval);
  return n < SERIAL_ELEMS && e->op->amp != MR_AMP_NARROW; /* products know their own size */
}

/* f16 is a dtype of graphs and of files: the CPU moves it, and hands it to functions inside. */
static bool computes_f16(const mr_eqn_t *e) {
  bool half = false, moves = e->op->moves && e->n_in;
  for (int k = 0; k < e->n_in; k++) {
    half |= e->in[k]->aval.dtype == MR_F16;
    moves &= !(e->in[k]->aval.dtype == MR_F16 && e->in[k]->literal); /* a number to be written */
  }
  for (int k = 0; k < e->n_out; k++) half |= e->out[k]->aval.dtype == MR_F16;
  for (int k = 0; k < e->n_attr; k++)
    moves |= e->attr[k].kind == MR_ATTR_FN || e->attr[k].kind == MR_ATTR_FNS;
  return half && (!moves || e->op == &mr_op_convert_element_type);
}

/* Kernels that several ops share do not know for whom they fail. */
static mr_err_t lower_one(mr_cpu_call_t *c, mr_diag_t *diag) {
  const mr_eqn_t *e = c->eqn;
  mr_diag_t own = {0};
  mr_err_t err = computes_f16(e) ? mr_fail(&own, MR_ERR_NORULE, "the CPU computes no f16")
                                 : e->op->cpu(c, &own);
  if (err >= 0) return err;
  if (strstr(own.text, e->op->name)) return mr_fail(diag, err, "%s", own.text);
  return mr_fail(diag, err, "%s%s%s: %s", e->scope, *e->scope ? ": " : "", e->op->name, own.text);
}

mr_err_t mr__lower(mr_exec_t *x, const mr_jit_options_t *o, mr_diag_t *diag) {
  const mr_fn_t *f = x->fn;
  size_t n_slots = (size_t)f->n_out;
  for (int i = 0; i < f->n_eqn; i++) n_slots += (size_t)(f->eqn[i]->n_in + f->eqn[i]->n_out);
  x->slots = calloc(n_slots + 1, sizeof *x->slots);
  x->patch = calloc(n_slots + 1, sizeof *x->patch);
  if (!x->slots || !x->patch) return mr_fail(diag, MR_ERR_NOMEM, "no memory to lower a graph");
  void **slot = x->slots;
  for (int i = 0; i < f->n_eqn; i++) {
    mr_cpu_call_t *c = &x->call[i];
    *c = (mr_cpu_call_t){.eqn = f->eqn[i], .in = slot, .out = slot + f->eqn[i]->n_in};
    slot += f->eqn[i]->n_in + f->eqn[i]->n_out;
    c->serial = is_small(f->eqn[i]);
    c->options = o;
    MR_TRY(lower_one(c, diag));
    c->options = NULL;
  }
  x->result = slot;
  return MR_OK;
}
