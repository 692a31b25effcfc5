/* fori_loop with bounds that are known: a scan that carries the counter, as in jax. */
#include "model/control/control.h"
#include "model/ops/call.h"
#include "model/ops/lax.h"
#include "model/ops/rules.h"
#include "model/transforms/transforms.h"

/* (constants..., i, carries...) -> (i + 1, carries...) */
static mr_fn_t *counted(const mr_fn_t *body, int n_consts) {
  mr_fn_t *b = mr_fn_create();
  if (!b) return NULL;
  mr_var_t **out = mr_mem_take(&b->mem, (size_t)(body->n_out + 1) * sizeof(mr_var_t *));
  for (int i = 0; i < body->n_in; i++) mr_fn_input(b, body->in[i]->aval);
  out[0] = mr_lax_add(b, b->in[n_consts], mr_literal(b, MR_I32, 1));
  mr_inline(b, body, b->in, out + 1);
  if (b->diag.code >= 0) mr_fn_return(b, body->n_out + 1, out);
  return b;
}

mr_err_t mr_lax_fori_loop(mr_fn_t *f, int32_t lo, int32_t hi, const mr_fn_t *body, int n_consts,
                          mr_var_t *const *in, mr_var_t **out) {
  mr_aval_t counter = mr_aval_scalar(MR_I32);
  char text[MR_AVAL_TEXT];
  MR_TRY(mr__call_whole(f, "fori_loop", "the function", body));
  if (n_consts < 0 || body->n_in - 1 - body->n_out != n_consts)
    return mr__call_refuse(f, "fori_loop",
                           "the function must take %d constants, a counter i32[] and its %d "
                           "carries; it takes %d values",
                           n_consts, body->n_out, body->n_in);
  if (!mr_aval_equal(&body->in[n_consts]->aval, &counter))
    return mr__call_refuse(f, "fori_loop", "the counter, which is input %d, is %s, want i32[]",
                           n_consts, mr_aval_text(&body->in[n_consts]->aval, text));
  mr_fn_t *b = counted(body, n_consts);
  if (!b) return mr_fail(&f->diag, MR_ERR_NOMEM, "fori_loop: no memory");
  mr_scan_t s = {
      .length = hi > lo ? (int64_t)hi - lo : 0, .n_consts = n_consts, .n_carry = body->n_out + 1};
  mr_var_t **x = mr_mem_take(&f->mem, (size_t)(b->n_in + 1) * sizeof(mr_var_t *));
  mr_var_t **y = mr_mem_take(&f->mem, (size_t)(b->n_out + 1) * sizeof(mr_var_t *));
  for (int i = 0, k = 0; i < b->n_in; i++)
    x[i] = i == n_consts ? mr_literal(f, MR_I32, lo) : in[k++];
  mr_err_t err = b->diag.code < 0 ? mr_fail(&f->diag, b->diag.code, "%s", b->diag.text)
                                  : mr_lax_scan(f, b, &s, x, y);
  mr_fn_destroy(b);
  for (int k = 0; k < s.n_carry - 1 && err >= 0; k++) out[k] = y[k + 1];
  return err;
}
