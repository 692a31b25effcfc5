/* Calls of functions: checks for the builders of loops, branches and calls, and the rules that they
   share.  A called function is a graph in an attribute; here its inputs and outputs are compared
   with the equation's, and the sentence names the one that differs. */
#include "model/ops/call.h"

#include <stdarg.h>
#include <stdio.h>

#include "model/ir/fn.h"
#include "model/ops/rules.h"

mr_err_t mr__call_refuse(mr_fn_t *f, const char *op, const char *fmt, ...) {
  char why[sizeof f->diag.text];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(why, sizeof why, fmt, ap);
  va_end(ap);
  return mr_fail(&f->diag, MR_ERR_SHAPE, "%s%s%s: %s", f->scope, *f->scope ? ": " : "", op, why);
}

mr_err_t mr__call_whole(mr_fn_t *f, const char *op, const char *what, const mr_fn_t *fn) {
  if (!fn) return mr__call_refuse(f, op, "%s is not there", what);
  if (fn->diag.code == MR_ERR_NOMEM) return mr_diag_relay(&f->diag, MR_ERR_NOMEM, &fn->diag);
  if (fn->diag.code < 0) return mr__call_refuse(f, op, "%s failed: %s", what, fn->diag.text);
  return f->diag.code < 0 ? f->diag.code : MR_OK;
}

mr_err_t mr__call_fits(const mr_eqn_t *e, const char *what, int i, const mr_aval_t *got,
                       const mr_aval_t *want, mr_diag_t *diag) {
  char a[MR_AVAL_TEXT], b[MR_AVAL_TEXT];
  if (mr_aval_equal(got, want)) return MR_OK;
  return mr_fail(diag, MR_ERR_SHAPE, "%s%s%s: %s %d is %s, want %s", e->scope,
                 *e->scope ? ": " : "", e->op->name, what, i, mr_aval_text(got, a),
                 mr_aval_text(want, b));
}

mr_err_t mr__call_shape(const mr_eqn_t *e, const char *name, mr_aval_t *out, mr_diag_t *diag) {
  const mr_fn_t *called = mr_attr_called(e, name);
  if (called->n_in != e->n_in || called->n_out < e->n_out)
    return mr_fail(
        diag, MR_ERR_SHAPE,
        "%s%s%s: the function takes %d values and gives %d; there are %d operands and %d "
        "results",
        e->scope, *e->scope ? ": " : "", e->op->name, called->n_in, called->n_out, e->n_in,
        e->n_out);
  for (int i = 0; i < e->n_in; i++)
    MR_TRY(mr__call_fits(e, "operand", i, &e->in[i]->aval, &called->in[i]->aval, diag));
  for (int i = 0; i < e->n_out; i++) out[i] = called->out[i]->aval;
  return MR_OK;
}

mr_err_t mr__call_inline(mr_fn_t *f, const mr_eqn_t *e, const char *name, mr_var_t **out) {
  const mr_fn_t *called = mr_attr_called(e, name);
  mr_var_t **all = mr_mem_take(&f->mem, (size_t)(called->n_out + 1) * sizeof(mr_var_t *));
  MR_TRY(mr_inline(f, called, e->in, all));
  for (int i = 0; i < e->n_out; i++) out[i] = all[i];
  return mr_rule_done(f);
}

mr_err_t mr__call_failed(mr_fn_t *f, const mr_diag_t *why) {
  return mr_diag_relay(&f->diag, why->code, why);
}
