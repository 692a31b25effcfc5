/* Rules that several ops share, and the explicit "has none". */
#ifndef MR_MODEL_OPS_RULES_H
#define MR_MODEL_OPS_RULES_H

#include "model/ops/op.h"

/* Fail with MR_ERR_NORULE and the op's name. */
mr_err_t mr_no_jvp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *din, mr_var_t **dout);
mr_err_t mr_no_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din);
mr_err_t mr_no_batch(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in, mr_batched_t *out);
mr_err_t mr_no_split(const mr_eqn_t *e, const mr_shard_t *in, mr_shard_t *out);
mr_err_t mr_no_open(mr_fn_t *f, const mr_eqn_t *e, mr_var_t **out);
mr_err_t mr_no_cuda(mr_cpu_call_t *c, mr_diag_t *diag);

/* The rows that no op has yet, so that a constant stays short; each is still named. */
#define MR_RULES_NONE_YET                                                           \
  .jvp = mr_no_jvp, .batch = mr_no_batch, .split = mr_no_split, .open = mr_no_open, \
  .cuda = mr_no_cuda

/* Output as the input: elementwise ops with one input. */
mr_err_t mr_shape_same(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag);
/* Two inputs of one dtype and one shape, or one of them a scalar. */
mr_err_t mr_shape_pointwise(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag);
/* "op: in0, in1 ...: why" with the inputs' avals; returns MR_ERR_SHAPE. */
mr_err_t mr_shape_fail(const mr_eqn_t *e, mr_diag_t *diag, const char *why);

/* The cotangent of an operand of a pointwise op: summed where the operand was a scalar. */
mr_var_t *mr_unbroadcast(mr_fn_t *f, mr_var_t *d, const mr_var_t *operand);
/* MR_OK, or the failure that a rule's calls left in f. */
mr_err_t mr_rule_done(const mr_fn_t *f);

static inline bool mr_is_float(mr_dtype_t t) {
  return t == MR_F32 || t == MR_BF16 || t == MR_F64 || t == MR_F16;
}

/* ---- CPU runs of elementwise ops in f32 and bf16, computed in f32 ---- */
typedef float mr_unary_fn(float x);
typedef float mr_binary_fn(float a, float b);
mr_err_t mr_cpu_unary(mr_cpu_call_t *c, mr_unary_fn *at, mr_diag_t *diag);
mr_err_t mr_cpu_binary(mr_cpu_call_t *c, mr_binary_fn *at, mr_diag_t *diag);
/* Element i of an array of f32, bf16, i32, u32 or bool, as f32. */
float mr_cpu_get(mr_dtype_t t, const void *p, int64_t i);
void mr_cpu_set(mr_dtype_t t, void *p, int64_t i, float v);

#endif
