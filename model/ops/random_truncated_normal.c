/* Standard normals cut to (lower,upper) by key, after jax.random.truncated_normal. */
#include "model/ops/key.h"
#include "model/ops/lax.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_random_truncated_normal(mr_fn_t *f, mr_var_t *key, float lo, float hi, int ndim,
                                         const int64_t *dim) {
  mr_attr_t attr[] = {mr_attr_dtype("dtype", MR_F32), mr_attr_float("lower", lo),
                      mr_attr_float("upper", hi), mr_attr_ints("shape", ndim, dim)};
  return mr__key_emit(f, &mr_op_random_truncated_normal, key, 4, attr);
}

static mr_err_t truncated_normal_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  if (!(mr_attr_get(e, "lower")->f < mr_attr_get(e, "upper")->f))
    return mr_shape_fail(e, diag, "want lower < upper");
  return mr__key_shape_float(e, out, diag);
}

static void fill(mr_prng_t key, const mr_eqn_t *e, int64_t i, int64_t n, int64_t of, void *to) {
  float lo = (float)mr_attr_get(e, "lower")->f, hi = (float)mr_attr_get(e, "upper")->f;
  float *out = to;
  for (int64_t k = 0; k < n; k++)
    out[k] = mr_truncated_normal_of_bits(mr_random_word(key, (size_t)(i + k), (size_t)of), lo, hi);
}

static void truncated_normal_run(const mr_cpu_call_t *c) { mr__key_draw(c, fill); }

static mr_err_t truncated_normal_cpu(mr_cpu_call_t *c, mr_diag_t *diag) {
  c->run = truncated_normal_run;
  return MR_OK;
}

static bool truncated_normal_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  int64_t dim[2];
  mr_var_t *key = mr__key_sample(s, k, dim);
  return key && mr_sample_done(s, mr_lax_random_truncated_normal(s->f, key, -2, 2, 2, dim));
}

const mr_op_def_t mr_op_random_truncated_normal = {
    MR_RULES_KEY,
    .name = "random_truncated_normal",
    .n_in = 1,
    .n_out = 1,
    .shape = truncated_normal_shape,
    .sample = truncated_normal_sample,
    .cpu = truncated_normal_cpu,
    .flop_each = 120,
};
