/* The state machine of jaxamp's scaler, written with selects, since a graph has no branches
   here. */
#include "model/optim/loss_scale.h"

enum { SCALE, GOOD, BAD, RESETS, SKIPPED };

/* Within these bounds a scale is a normal number. */
#define LARGEST 0x1p127
#define SMALLEST 0x1p-126

mr_scale_state_t mr_scale_state_start(float scale) {
  if (scale > (float)LARGEST) scale = (float)LARGEST;
  if (!(scale >= (float)SMALLEST)) scale = (float)SMALLEST;
  return (mr_scale_state_t){.scale = scale};
}

mr_loss_scale_t mr_loss_scale_usual(void) {
  return (mr_loss_scale_t){.start = 32768, .factor = 2, .patience = 2000, .max_bad = 100};
}

mr_err_t mr_loss_scale_check(const mr_loss_scale_t *c, mr_diag_t *diag) {
  if (!c->patience) return MR_OK;
  if (mr_scale_state_start(c->start).scale != c->start)
    return mr_fail(diag, MR_ERR_CONFIG, "loss scale: start is %g, want [%g,%g]", (double)c->start,
                   SMALLEST, LARGEST);
  if (!(c->factor >= 1 && c->factor <= 65536))
    return mr_fail(diag, MR_ERR_CONFIG, "loss scale: factor is %g, want [1,65536]",
                   (double)c->factor);
  if (c->patience < 0)
    return mr_fail(diag, MR_ERR_CONFIG, "loss scale: patience is %d, want >= 0", c->patience);
  if (c->max_bad < 0)
    return mr_fail(diag, MR_ERR_CONFIG, "loss scale: max_bad is %d, want >= 0", c->max_bad);
  return MR_OK;
}

/* A scalar that is 0 if all of x are finite, else NaN: x * 0 is 0 for a finite x, else NaN, and a
   sum with a NaN is NaN. */
static mr_var_t *zero_if_finite(mr_fn_t *f, mr_var_t *x) {
  int axes[MR_MAX_NDIM] = {0, 1, 2, 3, 4, 5, 6, 7};
  mr_var_t *v = x ? mr_lax_mul(f, x, mr_literal(f, x->aval.dtype, 0)) : NULL;
  return v && v->aval.ndim ? mr_lax_reduce_sum(f, v, v->aval.ndim, axes) : v;
}

mr_var_t *mr_optim_finite(mr_fn_t *f, int n, mr_var_t *const *x) {
  mr_var_t *sum = NULL;
  for (int i = 0; i < n; i++) {
    mr_var_t *v = zero_if_finite(f, x[i]);
    sum = sum ? mr_lax_add(f, sum, v) : v;
  }
  return mr_lax_eq(f, sum, mr_literal(f, MR_F32, 0));
}

mr_var_t *mr_optim_all_finite(mr_fn_t *f, int n, mr_var_t *const *x) {
  mr_var_t *sum = mr_literal(f, MR_F32, 0), *zero = sum;
  for (int i = 0; i < n && f->diag.code >= 0; i++) {
    mr_dtype_t t = x[i]->aval.dtype;
    if (!mr_is_float(t)) continue;
    mr_var_t *v = zero_if_finite(f, mr_is_storage(t) ? mr_lax_convert(f, x[i], MR_F32) : x[i]);
    sum = mr_lax_add(f, sum, mr_lax_convert(f, v, MR_F32));
  }
  return mr_lax_eq(f, sum, zero);
}

static mr_var_t *loss_scale_count(mr_fn_t *f, int32_t v) { return mr_literal(f, MR_I32, v); }

/* yes if which is true, else no. */
static mr_var_t *loss_scale_choose(mr_fn_t *f, mr_var_t *which, mr_var_t *yes, mr_var_t *no) {
  return mr_lax_select_n(f, which, no, yes);
}

static mr_var_t *next_scale(mr_fn_t *f, mr_var_t *factor, mr_var_t *finite, mr_var_t *full,
                            mr_var_t *scale) {
  mr_var_t *more = mr_lax_min(f, mr_lax_mul(f, scale, factor), mr_literal(f, MR_F32, LARGEST));
  mr_var_t *less = mr_lax_max(f, mr_lax_div(f, scale, factor), mr_literal(f, MR_F32, SMALLEST));
  return loss_scale_choose(f, finite, loss_scale_choose(f, full, more, scale), less);
}

void mr_optim_scale_move(mr_fn_t *f, mr_var_t *patience, mr_var_t *factor, mr_var_t *finite,
                         mr_var_t *scale, mr_var_t *count, mr_var_t **more, mr_var_t **counted) {
  mr_var_t *none = loss_scale_count(f, 0), *one = loss_scale_count(f, 1);
  mr_var_t *full = mr_lax_ge(f, count, patience);
  *more = next_scale(f, factor, finite, full, scale);
  *counted = loss_scale_choose(f, finite,
                               loss_scale_choose(f, full, none, mr_lax_add(f, count, one)), none);
}

mr_err_t mr_optim_scale_step(mr_fn_t *f, const mr_loss_scale_t *c, mr_var_t *finite,
                             mr_var_t *const now[MR_SCALE_VARS], mr_var_t *next[MR_SCALE_VARS],
                             mr_var_t **apply) {
  MR_TRY(mr_loss_scale_check(c, &f->diag));
  mr_var_t *one = loss_scale_count(f, 1);
  mr_var_t *good = mr_lax_convert(f, finite, MR_I32), *bad = mr_lax_sub(f, one, good);
  mr_optim_scale_move(f, loss_scale_count(f, c->patience), mr_literal(f, MR_F32, (double)c->factor),
                      finite, now[SCALE], now[GOOD], &next[SCALE], &next[GOOD]);
  next[BAD] = mr_lax_mul(f, mr_lax_add(f, now[BAD], one), bad);
  next[RESETS] = mr_lax_add(f, now[RESETS], bad);
  mr_var_t *late = mr_lax_gt(f, next[BAD], loss_scale_count(f, c->max_bad));
  *apply = mr_lax_ge(f, mr_lax_add(f, good, mr_lax_convert(f, late, MR_I32)), one);
  next[SKIPPED] =
      mr_lax_add(f, now[SKIPPED], mr_lax_sub(f, one, mr_lax_convert(f, *apply, MR_I32)));
  return f->diag.code < 0 ? f->diag.code : MR_OK;
}
