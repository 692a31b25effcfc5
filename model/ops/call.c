#include "model/ops/call.h"

#include <stdarg.h>
#include <stdio.h>

#include "model/ops/rules.h"
#include "model/transforms/transforms.h"

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
  if (fn->diag.code == MR_ERR_NOMEM) return mr_fail(&f->diag, MR_ERR_NOMEM, "%s", fn->diag.text);
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

void mr__call_front(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in, mr_var_t **v,
                    int *axes) {
  for (int i = 0; i < e->n_in; i++) {
    bool mapped = in[i].axis >= 0;
    v[i] = mapped ? mr_batch_move(f, &in[i], 0) : in[i].var;
    axes[i] = mapped ? 0 : MR_UNMAPPED;
  }
}

int64_t mr__call_size(const mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in) {
  for (int i = 0; i < e->n_in; i++)
    if (in[i].axis >= 0) return mr_batch_size(e->n_in, in);
  return f->axis_size;
}

mr_err_t mr__call_mapped(mr_fn_t *f, const mr_fn_t *called, int64_t size, const bool *in,
                         bool *out_mapped, mr_fn_t **out) {
  mr_fn_t *g = mr_fn_create();
  if (!g) return mr_fail(&f->diag, MR_ERR_NOMEM, "vmap: no memory");
  g->axis_name = f->axis_name;
  g->axis_size = size;
  mr_batched_t *x = mr_mem_take(&g->mem, (size_t)(called->n_in + 1) * sizeof *x);
  mr_batched_t *y = mr_mem_take(&g->mem, (size_t)(called->n_out + 1) * sizeof *y);
  mr_var_t **all = mr_mem_take(&g->mem, (size_t)(called->n_out + 1) * sizeof(mr_var_t *));
  for (int i = 0; i < called->n_in && g->diag.code >= 0; i++) {
    mr_aval_t a = called->in[i]->aval;
    if (in[i] && a.ndim == MR_MAX_NDIM)
      mr_fail(&g->diag, MR_ERR_SHAPE, "vmap: a mapped value would have more than %d dimensions",
              MR_MAX_NDIM);
    for (int k = in[i] && g->diag.code >= 0 ? a.ndim++ : 0; k > 0; k--) a.dim[k] = a.dim[k - 1];
    if (in[i]) a.dim[0] = size;
    x[i] = (mr_batched_t){mr_fn_input(g, a), in[i] ? 0 : -1};
  }
  if (g->diag.code >= 0) mr_inline_mapped(g, called, x, y);
  for (int k = 0; k < called->n_out && g->diag.code >= 0; k++) {
    out_mapped[k] |= y[k].axis >= 0;
    all[k] = out_mapped[k] ? mr_batch_front(g, &y[k], size) : y[k].var;
  }
  g->axis_name = NULL;
  if (g->diag.code >= 0) mr_fn_return(g, called->n_out, all);
  if (g->diag.code < 0) {
    mr_err_t err = mr__call_failed(f, &g->diag);
    mr_fn_destroy(g);
    return err;
  }
  mr_dce(g);
  *out = g;
  return MR_OK;
}

/* One equation whose op has a reach rule. */
static void reach_one(const mr_eqn_t *e, bool *moves) {
  mr_mem_t mem = {0};
  bool *in = mr_mem_take(&mem, (size_t)(e->n_in + e->n_out) + 1), *out = in + e->n_in;
  for (int k = 0; k < e->n_in; k++) in[k] = moves[e->in[k]->id];
  e->op->reach(e, in, out);
  for (int k = 0; k < e->n_out; k++) moves[e->out[k]->id] |= out[k];
  mr_mem_fini(&mem);
}

void mr__eqn_moves(int n, mr_eqn_t *const *eqn, bool *moves) {
  for (int i = 0; i < n; i++) {
    const mr_eqn_t *e = eqn[i];
    bool any = false;
    for (int k = 0; k < e->n_in; k++) any |= moves[e->in[k]->id];
    if (!any || e->op->jvp == mr_jvp_zero) continue;
    if (e->op->reach) {
      reach_one(e, moves);
      continue;
    }
    for (int k = 0; k < e->n_out; k++) moves[e->out[k]->id] |= mr_is_float(e->out[k]->aval.dtype);
  }
}

void mr__call_moves(const mr_fn_t *called, const bool *in, bool *out) {
  mr_mem_t mem = {0};
  bool *moves = mr_mem_take(&mem, (size_t)called->n_var + 1);
  for (int i = 0; i < called->n_in; i++) moves[called->in[i]->id] = in[i];
  mr__eqn_moves(called->n_eqn, called->eqn, moves);
  for (int k = 0; k < called->n_out; k++) out[k] = moves[called->out[k]->id];
  mr_mem_fini(&mem);
}

void mr__loop_moves(const mr_fn_t *body, int first_carry, int n_carry, bool *in, bool *out) {
  for (bool more = true; more;) {
    more = false;
    mr__call_moves(body, in, out);
    for (int k = 0; k < n_carry; k++) {
      more |= out[k] && !in[first_carry + k];
      in[first_carry + k] |= out[k];
      out[k] = in[first_carry + k];
    }
  }
}

void mr__call_reach(const mr_eqn_t *e, const bool *in, bool *out) {
  const mr_fn_t *called = mr_attr_called(e, "jaxpr");
  mr_mem_t mem = {0};
  bool *all = mr_mem_take(&mem, (size_t)called->n_out + 1); /* it may give more than e does */
  mr__call_moves(called, in, all);
  for (int k = 0; k < e->n_out; k++) out[k] = all[k];
  mr_mem_fini(&mem);
}

mr_err_t mr__call_failed(mr_fn_t *f, const mr_diag_t *why) {
  return mr_fail(&f->diag, why->code, "%s", why->text);
}
