/* Standard normal draws by key, after jax.random.normal. */
#include "model/ops/key.h"
#include "model/ops/lax.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_random_normal(mr_fn_t *f, mr_var_t *key, int ndim, const int64_t *dim) {
  mr_attr_t attr[] = {mr_attr_dtype("dtype", MR_F32), mr_attr_ints("shape", ndim, dim)};
  return mr__key_emit(f, &mr_op_random_normal, key, 2, attr);
}

static void fill(mr_prng_t key, const mr_eqn_t *e, int64_t i, int64_t n, int64_t of, void *to) {
  float *out = to;
  for (int64_t k = 0; k < n; k++)
    out[k] = mr_normal_of_bits(mr_random_word(key, (size_t)(i + k), (size_t)of));
}

static void normal_run(const mr_cpu_call_t *c) { mr__key_draw(c, fill); }

static mr_err_t normal_cpu(mr_cpu_call_t *c, mr_diag_t *diag) {
  c->run = normal_run;
  return MR_OK;
}

static bool normal_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  int64_t dim[2];
  mr_var_t *key = mr__key_sample(s, k, dim);
  return key && mr_sample_done(s, mr_lax_random_normal(s->f, key, 2, dim));
}

const mr_op_def_t mr_op_random_normal = {
    MR_RULES_KEY,
    .name = "random_normal",
    .n_in = 1,
    .n_out = 1,
    .shape = mr__key_shape_float,
    .sample = normal_sample,
    .cpu = normal_cpu,
    .flop_each = 110,
};
