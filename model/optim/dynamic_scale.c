/* dynamic_scale_value_and_grad and dynamic_scale_grad: mr_value_and_grad of the scaled function, a
   division, and the scaler's next state make one attempt; redo_on_nan is a while loop of attempts.
   The arithmetic of the scaler is in scope amp_stop, so that mixed precision leaves it alone.
 */
#include "model/optim/dynamic_scale.h"

#include "model/control/control.h"
#include "model/ops/rules.h"
#include "model/optim/loss_scale.h"
#include "model/transforms/amp.h"

enum { PATIENCE, FACTOR, SCALER, COUNT, RESETS, STATE = MR_DYNAMIC_SCALER_VARS };

mr_dynamic_scaler_state_t mr_dynamic_scaler_state(void) {
  return (mr_dynamic_scaler_state_t){.patience = 2000, .adjust_factor = 2, .scaler = 32768};
}

mr_dynamic_scale_t mr_dynamic_scale_value_and_grad_usual(void) {
  return (mr_dynamic_scale_t){.redo_on_nan = 10, .filter = true};
}

mr_dynamic_scale_t mr_dynamic_scale_grad_usual(void) {
  return (mr_dynamic_scale_t){.filter = true};
}

/* What both functions are asked. */
typedef struct dynamic {
  const mr_fn_t *f;
  const mr_dynamic_scale_t *o;
  bool value; /* y is given, and counts */
  int n, *wrt;
} dynamic_t;

static mr_err_t dynamic_relay_failure(const mr_fn_t *g, mr_diag_t *diag) {
  return mr_diag_relay(diag, g->diag.code, &g->diag);
}

/* Ends g: *to on MR_OK; else g is destroyed and its sentence is in diag. */
static mr_err_t dynamic_end(mr_fn_t *g, int n, mr_var_t *const *out, mr_fn_t **to,
                            mr_diag_t *diag) {
  if (g->diag.code >= 0 && mr_fn_return(g, n, out) >= 0) {
    mr_dce(g);
    *to = g;
    return MR_OK;
  }
  mr_err_t e = dynamic_relay_failure(g, diag);
  mr_fn_destroy(g);
  return e;
}

static mr_fn_t *dynamic_begin(const mr_fn_t *like, int n_in, mr_diag_t *diag) {
  mr_fn_t *g = mr_fn_create();
  if (!g) mr_no_memory(diag, "the graph of dynamic_scale");
  for (int i = 0; g && i < n_in; i++) mr_fn_input(g, like->in[i]->aval);
  return g;
}

static void dynamic_state_inputs(mr_fn_t *g) {
  static const mr_dtype_t dtype[STATE] = {MR_I32, MR_F32, MR_F32, MR_I32, MR_I32};
  for (int i = 0; i < STATE; i++) mr_fn_input(g, mr_aval_scalar(dtype[i]));
}

/* *out: (inputs, scaler f32[]) -> (y times scaler, aux..., its gradients...). */
static mr_err_t dynamic_scale_loss(const dynamic_t *d, mr_fn_t **out, mr_diag_t *diag) {
  const mr_fn_t *f = d->f;
  mr_fn_t *scaled = NULL, *g = dynamic_begin(f, f->n_in, diag);
  if (!g) return MR_ERR_NOMEM;
  mr_var_t **y = mr_mem_take(&g->mem, (size_t)(f->n_out + 1) * sizeof *y);
  mr_var_t *scaler = mr_fn_input(g, mr_aval_scalar(MR_F32));
  mr_inline(g, f, g->in, y);
  const char *outer = mr_amp_stop(g);
  if (g->diag.code >= 0) y[0] = mr_lax_mul(g, y[0], mr_lax_convert(g, scaler, y[0]->aval.dtype));
  mr_scope_leave(g, outer);
  MR_TRY(dynamic_end(g, f->n_out, y, &scaled, diag));
  mr_err_t e = mr_value_and_grad(scaled, d->n, d->wrt, out, diag);
  mr_fn_destroy(scaled);
  return e;
}

/* x divided by the scaler, in f32 or f64. */
static mr_var_t *dynamic_unscale(mr_fn_t *g, mr_var_t *x, mr_var_t *scaler) {
  mr_dtype_t t = x && x->aval.dtype == MR_F64 ? MR_F64 : MR_F32;
  return mr_lax_div(g, mr_lax_convert(g, x, t), mr_lax_convert(g, scaler, t));
}

/* Results in jaxamp's order, divided where they were scaled, from those of dynamic_scale_loss. */
static int dynamic_results(const dynamic_t *d, mr_fn_t *g, mr_var_t *const *y, mr_var_t *scaler,
                           mr_var_t **result) {
  int n = 0, n_out = d->f->n_out;
  if (d->value) result[n++] = dynamic_unscale(g, y[0], scaler);
  for (int i = 1; d->value && i < n_out; i++) result[n++] = y[i];
  for (int i = 0; i < d->n; i++) result[n++] = dynamic_unscale(g, y[n_out + i], scaler);
  for (int i = 1; !d->value && i < n_out; i++) result[n++] = y[i];
  return n;
}

/* *out: (inputs, state) -> (next state, results..., finite bool[]), one attempt. */
static mr_err_t dynamic_attempt(const dynamic_t *d, mr_fn_t **out, mr_diag_t *diag) {
  mr_fn_t *scaled = NULL;
  MR_TRY(dynamic_scale_loss(d, &scaled, diag));
  int n_in = d->f->n_in, n = 0;
  mr_fn_t *g = dynamic_begin(d->f, n_in, diag);
  if (!g) return mr_fn_destroy(scaled), MR_ERR_NOMEM;
  dynamic_state_inputs(g);
  mr_var_t **in = mr_mem_take(&g->mem, (size_t)(n_in + 1) * sizeof *in);
  mr_var_t **y = mr_mem_take(&g->mem, (size_t)(scaled->n_out + 1) * sizeof *y);
  mr_var_t **to = mr_mem_take(&g->mem, (size_t)(scaled->n_out + STATE + 1) * sizeof *to);
  if (g->diag.code >= 0) {
    mr_var_t *const *now = g->in + n_in;
    for (int i = 0; i < n_in; i++) in[i] = g->in[i];
    in[n_in] = now[SCALER];
    mr_inline(g, scaled, in, y);
    const char *outer = mr_amp_stop(g);
    n = dynamic_results(d, g, y, now[SCALER], to + STATE);
    mr_var_t *finite = mr_optim_all_finite(g, n, to + STATE);
    to[PATIENCE] = now[PATIENCE], to[FACTOR] = now[FACTOR];
    mr_optim_scale_move(g, now[PATIENCE], now[FACTOR], finite, now[SCALER], now[COUNT], &to[SCALER],
                        &to[COUNT]);
    mr_var_t *bad = mr_lax_sub(g, mr_literal(g, MR_I32, 1), mr_lax_convert(g, finite, MR_I32));
    to[RESETS] = mr_lax_add(g, now[RESETS], bad);
    to[STATE + n++] = finite;
    mr_scope_leave(g, outer);
  }
  mr_fn_destroy(scaled);
  return dynamic_end(g, STATE + n, to, out, diag);
}

/* ---- redo_on_nan: carries (scaler, count, resets, tries i32[], finite, results...), constants
   (inputs, patience, factor) ---- */

enum { TRIES = 3, FINITE, RESULTS };

/* *out: the carries -> whether to try (again). */
static mr_err_t dynamic_again(const mr_fn_t *attempt, int redo, mr_fn_t **out, mr_diag_t *diag) {
  mr_fn_t *g = mr_fn_create();
  if (!g) return mr_no_memory(diag, "the graph of dynamic_scale");
  static const mr_dtype_t dtype[RESULTS] = {MR_F32, MR_I32, MR_I32, MR_I32, MR_BOOL};
  for (int i = 0; i < RESULTS; i++) mr_fn_input(g, mr_aval_scalar(dtype[i]));
  for (int i = STATE; i < attempt->n_out - 1; i++) mr_fn_input(g, attempt->out[i]->aval);
  mr_var_t *go = NULL;
  if (g->diag.code >= 0) {
    mr_var_t *most = mr_literal(g, MR_I32, 1.0 + redo), *one = mr_literal(g, MR_I32, 1);
    go = mr_lax_lt(g, g->in[TRIES], mr_lax_select_n(g, g->in[FINITE], most, one));
  }
  return dynamic_end(g, 1, &go, out, diag);
}

/* *out: (constants, carries) -> (carries). */
static mr_err_t dynamic_body(const mr_fn_t *attempt, mr_fn_t **out, mr_diag_t *diag) {
  int n = attempt->n_in - STATE, first = n + 2, n_result = attempt->n_out - STATE - 1;
  mr_fn_t *g = dynamic_begin(attempt, first, diag);
  if (!g) return MR_ERR_NOMEM;
  for (int i = SCALER; i < STATE; i++) mr_fn_input(g, attempt->in[n + i]->aval);
  mr_fn_input(g, mr_aval_scalar(MR_I32));
  mr_fn_input(g, mr_aval_scalar(MR_BOOL));
  for (int i = 0; i < n_result; i++) mr_fn_input(g, attempt->out[STATE + i]->aval);
  mr_var_t **y = mr_mem_take(&g->mem, (size_t)(attempt->n_out + 1) * sizeof *y);
  mr_var_t **carry = mr_mem_take(&g->mem, (size_t)(RESULTS + n_result) * sizeof *carry);
  if (g->diag.code >= 0 && mr_inline(g, attempt, g->in, y) >= 0) {
    for (int i = SCALER; i < STATE; i++) carry[i - SCALER] = y[i];
    carry[TRIES] = mr_lax_add(g, g->in[first + TRIES], mr_literal(g, MR_I32, 1));
    carry[FINITE] = y[attempt->n_out - 1];
    for (int i = 0; i < n_result; i++) carry[RESULTS + i] = y[STATE + i];
  }
  return dynamic_end(g, RESULTS + n_result, carry, out, diag);
}

/* *out: attempts until one is finite. */
static mr_err_t dynamic_loop(const mr_fn_t *attempt, int redo, mr_fn_t **out, mr_diag_t *diag) {
  int n = attempt->n_in - STATE, first = n + 2, n_result = attempt->n_out - STATE - 1;
  mr_fn_t *again = NULL, *body = NULL, *g = dynamic_begin(attempt, attempt->n_in, diag);
  if (!g) return MR_ERR_NOMEM;
  mr_err_t e = dynamic_again(attempt, redo, &again, diag);
  if (e >= 0) e = dynamic_body(attempt, &body, diag);
  mr_var_t **in = mr_mem_take(&g->mem, (size_t)(first + RESULTS + n_result) * sizeof *in);
  mr_var_t **y = mr_mem_take(&g->mem, (size_t)(RESULTS + n_result) * sizeof *y);
  mr_var_t **to = mr_mem_take(&g->mem, (size_t)(STATE + n_result) * sizeof *to);
  if (e >= 0 && g->diag.code >= 0) {
    for (int i = 0; i < n + STATE; i++) in[i] = g->in[i];
    in[first + TRIES] = mr_literal(g, MR_I32, 0);
    in[first + FINITE] = mr_literal_whole(g, MR_BOOL, 0);
    for (int i = 0; i < n_result; i++)
      in[first + RESULTS + i] = mr_lax_full(g, &attempt->out[STATE + i]->aval, 0);
    to[PATIENCE] = g->in[n + PATIENCE], to[FACTOR] = g->in[n + FACTOR];
    if (mr_lax_while(g, again, 0, body, first, in, y) >= 0) {
      for (int i = SCALER; i < STATE; i++) to[i] = y[i - SCALER];
      for (int i = 0; i < n_result; i++) to[STATE + i] = y[RESULTS + i];
    }
  }
  mr_fn_destroy(again), mr_fn_destroy(body);
  if (e < 0) return mr_fn_destroy(g), e;
  return dynamic_end(g, STATE + n_result, to, out, diag);
}

/* ---- the transforms ---- */

static mr_err_t dynamic_check(const dynamic_t *d, const char *name, mr_diag_t *diag) {
  if (d->f->diag.code < 0) return dynamic_relay_failure(d->f, diag);
  if (d->o->redo_on_nan < 0 || d->o->redo_on_nan == INT32_MAX)
    return mr_fail(diag, MR_ERR_CONFIG, "%s: redo_on_nan is %d, want [0,2^31-2]", name,
                   d->o->redo_on_nan);
  if (d->f->n_out < 1) return mr_fail(diag, MR_ERR_SHAPE, "%s: the function has no output", name);
  if (!d->o->has_aux && d->f->n_out > 1)
    return mr_fail(diag, MR_ERR_SHAPE,
                   "%s: the function gives %d values, want one, or has_aux for those after it",
                   name, d->f->n_out);
  return MR_OK;
}

/* Passes over the inputs of wrt[n] that have no gradient. */
static void dynamic_filter(dynamic_t *d, int n, const int *wrt) {
  for (int i = 0; i < n; i++) {
    bool is = wrt[i] >= 0 && wrt[i] < d->f->n_in;
    if (is && d->o->filter && !mr_is_float(d->f->in[wrt[i]]->aval.dtype)) continue;
    d->wrt[d->n++] = wrt[i];
  }
}

static mr_err_t dynamic_scale(dynamic_t *d, const char *name, int n, const int *wrt, mr_fn_t **out,
                              mr_diag_t *diag) {
  mr_fn_t *attempt = NULL, *keep = NULL;
  MR_TRY(dynamic_check(d, name, diag));
  if (!(keep = mr_fn_create())) return mr_no_memory(diag, "%s", name);
  d->wrt = mr_mem_take(&keep->mem, (size_t)(n + 1) * sizeof *d->wrt);
  dynamic_filter(d, n, wrt);
  mr_err_t e = dynamic_attempt(d, &attempt, diag);
  mr_fn_destroy(keep);
  if (e < 0) return e;
  if (d->o->redo_on_nan) {
    e = dynamic_loop(attempt, d->o->redo_on_nan, out, diag);
    mr_fn_destroy(attempt);
    return e;
  }
  return dynamic_end(attempt, attempt->n_out - 1, attempt->out, out, diag); /* without `finite` */
}

mr_err_t mr_dynamic_scale_value_and_grad(const mr_fn_t *f, int n, const int *wrt,
                                         const mr_dynamic_scale_t *o, mr_fn_t **out,
                                         mr_diag_t *diag) {
  mr_dynamic_scale_t usual = mr_dynamic_scale_value_and_grad_usual();
  dynamic_t d = {.f = f, .o = o ? o : &usual, .value = true};
  return dynamic_scale(&d, "dynamic_scale_value_and_grad", n, wrt, out, diag);
}

mr_err_t mr_dynamic_scale_grad(const mr_fn_t *f, int n, const int *wrt, const mr_dynamic_scale_t *o,
                               mr_fn_t **out, mr_diag_t *diag) {
  mr_dynamic_scale_t usual = mr_dynamic_scale_grad_usual();
  dynamic_t d = {.f = f, .o = o ? o : &usual};
  return dynamic_scale(&d, "dynamic_scale_grad", n, wrt, out, diag);
}
