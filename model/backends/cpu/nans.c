/* Where a NaN first comes from. */
#include <math.h>

#include "model/backends/cpu/exec_private.h"

static bool any_f32(const float *x, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    if (isnan(x[i])) return true;
  return false;
}

static bool any_f64(const double *x, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    if (isnan(x[i])) return true;
  return false;
}

static bool any_bf16(const mr_bf16_t *x, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    if ((x[i] & 0x7FFF) > 0x7F80) return true;
  return false;
}

bool mr__gives_nan(const mr_cpu_call_t *c) {
  for (int k = 0; k < c->eqn->n_out; k++) {
    const mr_aval_t *a = &c->eqn->out[k]->aval;
    int64_t n = mr_aval_elems(a);
    if ((a->dtype == MR_F32 && any_f32(c->out[k], n)) ||
        (a->dtype == MR_F64 && any_f64(c->out[k], n)) ||
        (a->dtype == MR_BF16 && any_bf16(c->out[k], n)))
      return true;
  }
  return false;
}

void mr_exec_check_nans(mr_exec_t *x, bool on) { x->check_nans = on; }

const mr_eqn_t *mr_exec_nan(const mr_exec_t *x) { return x->nan; }
