/* How elementwise ops without a kernel of their own run on CPU: one function an element, blocks
   spread over the threads. */
#include <math.h>

#include "model/ops/rules.h"

float mr_cpu_get(mr_dtype_t t, const void *p, int64_t i) {
  switch (t) {
    case MR_F32: return ((const float *)p)[i];
    case MR_BF16: return mr_bf16_to_f32(((const mr_bf16_t *)p)[i]);
    case MR_I32: return (float)((const int32_t *)p)[i];
    case MR_U32: return (float)((const uint32_t *)p)[i];
    case MR_BOOL: return ((const uint8_t *)p)[i] ? 1.0f : 0.0f;
    default: return NAN;
  }
}

void mr_cpu_set(mr_dtype_t t, void *p, int64_t i, float v) {
  switch (t) {
    case MR_F32: ((float *)p)[i] = v; break;
    case MR_BF16: ((mr_bf16_t *)p)[i] = mr_bf16_from_f32(v); break;
    case MR_I32: ((int32_t *)p)[i] = (int32_t)v; break;
    case MR_U32: ((uint32_t *)p)[i] = (uint32_t)v; break;
    case MR_BOOL: ((uint8_t *)p)[i] = v != 0; break;
    default: break;
  }
}

static bool runs(mr_dtype_t t) {
  return t == MR_F32 || t == MR_BF16 || t == MR_I32 || t == MR_U32 || t == MR_BOOL;
}

static mr_err_t check(const mr_cpu_call_t *c, mr_diag_t *diag) {
  for (int i = 0; i < c->eqn->n_in; i++)
    if (!runs(c->eqn->in[i]->aval.dtype))
      return mr_fail(diag, MR_ERR_NORULE, "%s: the CPU has no kernel for %s", c->eqn->op->name,
                     mr_dtype_name(c->eqn->in[i]->aval.dtype));
  return MR_OK;
}

static void unary_run(const mr_cpu_call_t *c) {
  mr_unary_fn *at = (mr_unary_fn *)c->fn;
  const mr_aval_t *x = &c->eqn->in[0]->aval, *y = &c->eqn->out[0]->aval;
  int64_t n = mr_aval_elems(y);
#pragma omp parallel for schedule(static) if (n > 16384)
  for (int64_t i = 0; i < n; i++)
    mr_cpu_set(y->dtype, c->out[0], i, at(mr_cpu_get(x->dtype, c->in[0], i)));
}

mr_err_t mr_cpu_unary(mr_cpu_call_t *c, mr_unary_fn *at, mr_diag_t *diag) {
  MR_TRY(check(c, diag));
  c->run = unary_run;
  c->fn = (void (*)(void))at;
  return MR_OK;
}

static void binary_run(const mr_cpu_call_t *c) {
  mr_binary_fn *at = (mr_binary_fn *)c->fn;
  const mr_aval_t *a = &c->eqn->in[0]->aval, *b = &c->eqn->in[1]->aval;
  const mr_aval_t *y = &c->eqn->out[0]->aval;
  int64_t n = mr_aval_elems(y), as = a->ndim || !y->ndim, bs = b->ndim || !y->ndim;
#pragma omp parallel for schedule(static) if (n > 16384)
  for (int64_t i = 0; i < n; i++)
    mr_cpu_set(y->dtype, c->out[0], i,
               at(mr_cpu_get(a->dtype, c->in[0], i * as), mr_cpu_get(b->dtype, c->in[1], i * bs)));
}

mr_err_t mr_cpu_binary(mr_cpu_call_t *c, mr_binary_fn *at, mr_diag_t *diag) {
  MR_TRY(check(c, diag));
  c->run = binary_run;
  c->fn = (void (*)(void))at;
  return MR_OK;
}
