#include "model/ops/call.h"

#include "model/ops/rules.h"
#include "model/transforms/transforms.h"

mr_err_t mr__call_shape(const mr_eqn_t *e, const char *name, mr_aval_t *out, mr_diag_t *diag) {
  const mr_fn_t *called = mr_attr_called(e, name);
  if (called->n_in != e->n_in || called->n_out < e->n_out)
    return mr_shape_fail(e, diag, "the function takes or gives another number of values");
  for (int i = 0; i < e->n_in; i++)
    if (!mr_aval_equal(&called->in[i]->aval, &e->in[i]->aval))
      return mr_shape_fail(e, diag, "the function takes other shapes");
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

mr_err_t mr__call_failed(mr_fn_t *f, const mr_diag_t *why) {
  return mr_fail(&f->diag, why->code, "%s", why->text);
}
