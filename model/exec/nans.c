/* Finds the call that first gives a NaN: each run with the check on looks at the outputs of every
   call. */
#include <math.h>

#include "model/exec/exec_private.h"

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

static bool any_f16(const mr_f16_t *x, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    if ((x[i] & 0x7FFF) > 0x7C00) return true;
  return false;
}

static bool any_f8(mr_dtype_t t, const uint8_t *x, int64_t n) {
  uint8_t last = t == MR_F8_E5M2 ? 0x7C : 0x7E; /* what is no NaN */
  for (int64_t i = 0; i < n; i++)
    if ((x[i] & 0x7F) > last) return true;
  return false;
}

static bool any_nan(mr_dtype_t t, const void *x, int64_t n) {
  return (t == MR_F32 && any_f32(x, n)) || (t == MR_F64 && any_f64(x, n)) ||
         (t == MR_BF16 && any_bf16(x, n)) || (t == MR_F16 && any_f16(x, n)) ||
         (mr_is_storage(t) && any_f8(t, x, n));
}

/* The same for memory that the host reaches by copies alone, one piece at a time. */
static bool any_there(const mr_device_t *d, mr_dtype_t t, const char *x, int64_t n) {
  _Alignas(64) char piece[4096];
  size_t size = mr_dtype_size(t);
  int64_t each = (int64_t)(sizeof piece / size);
  bool found = false;
  for (int64_t i = 0; i < n && !found; i += each) {
    int64_t m = n - i < each ? n - i : each;
    mr_device_copy(d, piece, x + size * (size_t)i, size * (size_t)m, MR_COPY_OUT);
    found = any_nan(t, piece, m);
  }
  return found;
}

bool mr__gives_nan(const mr_call_t *c) {
  for (int k = 0; k < c->eqn->n_out; k++) {
    const mr_aval_t *a = &c->eqn->out[k]->aval;
    int64_t n = mr_aval_elems(a);
    if (c->device->backend->host ? any_nan(a->dtype, c->out[k], n)
                                 : any_there(c->device, a->dtype, c->out[k], n))
      return true;
  }
  return false;
}

void mr_exec_check_nans(mr_exec_t *x, bool on) { x->check_nans = on; }

const mr_eqn_t *mr_exec_nan(const mr_exec_t *x) { return x->nan; }
