/* apply_if_finite as a branch: one side is the inner update, the other gives zeros and the state as
   it came. */
#include "model/optim/apply_if_finite.h"

#include "model/control/control.h"
#include "model/optim/loss_scale.h"

enum { IN_A_ROW, LAST, TOTAL, COUNTS = MR_APPLY_IF_FINITE_VARS };

mr_apply_if_finite_state_t mr_apply_if_finite_state(void) {
  return (mr_apply_if_finite_state_t){.last_finite = true};
}

static mr_err_t apply_check(const mr_fn_t *inner, int n, int32_t most, mr_diag_t *diag) {
  char had[MR_AVAL_TEXT], gives[MR_AVAL_TEXT];
  if (inner->diag.code < 0) return mr_diag_relay(diag, inner->diag.code, &inner->diag);
  if (most < 0)
    return mr_fail(diag, MR_ERR_CONFIG, "apply_if_finite: max_consecutive_errors is %d, want >= 0",
                   most);
  if (n < 1 || inner->n_out < n || inner->n_in < inner->n_out)
    return mr_fail(diag, MR_ERR_SHAPE,
                   "apply_if_finite: the update takes %d values and gives %d, of which %d are "
                   "updates; want one update or more, and each value that it gives among those "
                   "that it takes",
                   inner->n_in, inner->n_out, n);
  for (int i = 0; i < inner->n_out; i++)
    if (!mr_aval_equal(&inner->in[i]->aval, &inner->out[i]->aval))
      return mr_fail(diag, MR_ERR_SHAPE,
                     "apply_if_finite: the update takes %s as value %d and "
                     "gives %s, want the same",
                     mr_aval_text(&inner->in[i]->aval, had), i,
                     mr_aval_text(&inner->out[i]->aval, gives));
  return MR_OK;
}

/* (inner's inputs) -> (zeros, the state as it came). */
static mr_fn_t *apply_rejected(const mr_fn_t *inner, int n) {
  mr_fn_t *g = mr_fn_create();
  if (!g) return NULL;
  mr_var_t **y = mr_mem_take(&g->mem, (size_t)inner->n_out * sizeof *y);
  for (int i = 0; i < inner->n_in; i++) mr_fn_input(g, inner->in[i]->aval);
  for (int i = 0; i < inner->n_out && g->diag.code >= 0; i++)
    y[i] = i < n ? mr_lax_full(g, &g->in[i]->aval, 0) : g->in[i];
  mr_fn_return(g, inner->n_out, y);
  return g;
}

/* v + 1, at most the largest i32. */
static mr_var_t *apply_count(mr_fn_t *g, mr_var_t *v) {
  return mr_lax_add(g, mr_lax_min(g, v, mr_literal(g, MR_I32, INT32_MAX - 1)),
                    mr_literal(g, MR_I32, 1));
}

/* The next counts from the counts now, and whether inner is applied, bool[]. */
static mr_var_t *apply_decide(mr_fn_t *g, mr_var_t *finite, int32_t most, mr_var_t *const *now,
                              mr_var_t **next) {
  mr_var_t *none = mr_literal(g, MR_I32, 0);
  next[IN_A_ROW] = mr_lax_select_n(g, finite, apply_count(g, now[IN_A_ROW]), none);
  next[LAST] = finite;
  next[TOTAL] = mr_lax_select_n(g, finite, apply_count(g, now[TOTAL]), now[TOTAL]);
  mr_var_t *late = mr_lax_gt(g, next[IN_A_ROW], mr_literal(g, MR_I32, most));
  return mr_lax_select_n(g, finite, late, finite);
}

static mr_err_t apply_build(mr_fn_t *g, const mr_fn_t *inner, int n, int32_t most) {
  static const mr_dtype_t dtype[COUNTS] = {MR_I32, MR_BOOL, MR_I32};
  mr_var_t **in = mr_mem_take(&g->mem, (size_t)inner->n_in * sizeof *in);
  mr_var_t **y = mr_mem_take(&g->mem, (size_t)inner->n_out * sizeof *y);
  mr_var_t **to = mr_mem_take(&g->mem, (size_t)(inner->n_out + COUNTS) * sizeof *to);
  for (int i = 0; i < n; i++) in[i] = mr_fn_input(g, inner->in[i]->aval);
  for (int i = 0; i < COUNTS; i++) mr_fn_input(g, mr_aval_scalar(dtype[i]));
  for (int i = n; i < inner->n_in; i++) in[i] = mr_fn_input(g, inner->in[i]->aval);
  MR_TRY(g->diag.code);
  mr_var_t *finite = mr_optim_all_finite(g, n, in);
  mr_var_t *apply = apply_decide(g, finite, most, g->in + n, to + n);
  mr_fn_t *rejected = apply_rejected(inner, n);
  if (!rejected) return mr_no_memory(&g->diag, "the graph of apply_if_finite");
  mr_err_t e = mr_lax_cond(g, apply, inner, rejected, in, y);
  mr_fn_destroy(rejected);
  MR_TRY(e);
  for (int i = 0; i < inner->n_out; i++) to[i < n ? i : i + COUNTS] = y[i];
  return mr_fn_return(g, inner->n_out + COUNTS, to);
}

mr_err_t mr_apply_if_finite(const mr_fn_t *inner, int n_updates, int32_t max_consecutive_errors,
                            mr_fn_t **out, mr_diag_t *diag) {
  MR_TRY(apply_check(inner, n_updates, max_consecutive_errors, diag));
  mr_fn_t *g = mr_fn_create();
  if (!g) return mr_no_memory(diag, "the graph of apply_if_finite");
  mr_err_t e = apply_build(g, inner, n_updates, max_consecutive_errors);
  if (e >= 0) return *out = g, MR_OK;
  mr_diag_relay(diag, e, &g->diag);
  mr_fn_destroy(g);
  return e;
}
