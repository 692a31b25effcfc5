/* Standard normal draws by key, after jax.random.normal. */
#include "model/ops/key.h"
#include "model/ops/lax.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_random_normal(mr_fn_t *f, mr_var_t *key, int ndim, const int64_t *dim) {
  mr_attr_t attr[] = {mr_attr_dtype("dtype", MR_F32), mr_attr_ints("shape", ndim, dim)};
  return mr_emit1(f, &mr_op_random_normal, 1, &key, 2, attr);
}

static mr_err_t normal_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  mr_dtype_t t = (mr_dtype_t)mr_attr_get(e, "dtype")->i[0];
  if (t != MR_F32 && t != MR_F64) return mr_shape_fail(e, diag, "want dtype float32");
  return mr__key_shape(e, t, 0, NULL, out, diag);
}

static void fill(mr_key_t key, const mr_eqn_t *e, int64_t i, int64_t n, float *out) {
  for (int64_t k = 0; k < n; k++) out[k] = mr_key_normal(key, (uint64_t)(i + k));
}

static void normal_run(const mr_cpu_call_t *c) { mr__key_draw(c, fill); }

static mr_err_t normal_cpu(mr_cpu_call_t *c, mr_diag_t *diag) {
  c->run = normal_run;
  return MR_OK;
}

static bool normal_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  if (k > 1) return false;
  mr_var_t *key = k ? mr_sample_dims(s, MR_U32, 0, 9e8, 3, 2) : mr_sample_dims(s, MR_U32, 0, 9, 2);
  return mr_sample_done(s, mr_lax_random_normal(s->f, key, 2 * k, (int64_t[]){2, 3}));
}

const mr_op_def_t mr_op_random_normal = {
    MR_RULES_KEY,          .name = "random_normal", .n_in = 1,         .n_out = 1,
    .shape = normal_shape, .sample = normal_sample, .cpu = normal_cpu, .flop_each = 110,
};
