/* Draws in [minval,maxval) by key, jax.random.uniform's to the bit. */
#include "model/ops/key.h"
#include "model/ops/lax.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_random_uniform(mr_fn_t *f, mr_var_t *key, float lo, float hi, int ndim,
                                const int64_t *dim) {
  mr_attr_t attr[] = {mr_attr_dtype("dtype", MR_F32), mr_attr_float("maxval", hi),
                      mr_attr_float("minval", lo), mr_attr_ints("shape", ndim, dim)};
  return mr__key_emit(f, &mr_op_random_uniform, key, 4, attr);
}

mr_var_t *mr_lax_random_bernoulli(mr_fn_t *f, mr_var_t *key, float p, int ndim,
                                  const int64_t *dim) {
  return mr_lax_lt(f, mr_lax_random_uniform(f, key, 0, 1, ndim, dim), mr_literal(f, MR_F32, p));
}

static void fill(mr_prng_t key, const mr_eqn_t *e, int64_t i, int64_t n, int64_t of, void *to) {
  float lo = (float)mr_attr_get(e, "minval")->f, hi = (float)mr_attr_get(e, "maxval")->f;
  float *out = to;
  for (int64_t k = 0; k < n; k++)
    out[k] = mr_uniform_of_bits(mr_random_word(key, (size_t)(i + k), (size_t)of), lo, hi);
}

static void uniform_run(const mr_cpu_call_t *c) { mr__key_draw(c, fill); }

static mr_err_t uniform_cpu(mr_cpu_call_t *c, mr_diag_t *diag) {
  c->run = uniform_run;
  return MR_OK;
}

static bool uniform_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  int64_t dim[2];
  mr_var_t *key = mr__key_sample(s, k, dim);
  return key && mr_sample_done(s, mr_lax_random_uniform(s->f, key, -1, 2, 2, dim));
}

const mr_op_def_t mr_op_random_uniform = {
    MR_RULES_KEY,
    .name = "random_uniform",
    .n_in = 1,
    .n_out = 1,
    .shape = mr__key_shape_float,
    .sample = uniform_sample,
    .cpu = uniform_cpu,
    .flop_each = 80,
};
