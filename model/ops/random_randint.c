/* Integers of [minval,maxval) by key, jax.random.randint's; minval where that is empty. */
#include "model/ops/key.h"
#include "model/ops/lax.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_random_randint(mr_fn_t *f, mr_var_t *key, int32_t lo, int32_t hi, int ndim,
                                const int64_t *dim) {
  mr_attr_t attr[] = {mr_attr_int("maxval", hi), mr_attr_int("minval", lo),
                      mr_attr_ints("shape", ndim, dim)};
  return mr__key_emit(f, &mr_op_random_randint, key, 3, attr);
}

static mr_err_t randint_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  return mr__key_shape(e, MR_I32, 0, NULL, out, diag);
}

static void fill(mr_prng_t key, const mr_eqn_t *e, int64_t i, int64_t n, int64_t of, void *to) {
  int32_t lo = (int32_t)mr_attr_get(e, "minval")->i[0],
          hi = (int32_t)mr_attr_get(e, "maxval")->i[0];
  mr_random_randint_part(key, (size_t)of, (size_t)i, (size_t)n, lo, hi, to);
}

static void randint_run(const mr_cpu_call_t *c) { mr__key_draw(c, fill); }

static mr_err_t randint_cpu(mr_cpu_call_t *c, mr_diag_t *diag) {
  c->run = randint_run;
  return MR_OK;
}

static bool randint_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  int64_t dim[2];
  mr_var_t *key = mr__key_sample(s, k, dim);
  return key && mr_sample_done(s, mr_lax_random_randint(s->f, key, -3, 8, 2, dim));
}

const mr_op_def_t mr_op_random_randint = {
    MR_RULES_KEY,           .name = "random_randint", .n_in = 1,          .n_out = 1,
    .shape = randint_shape, .sample = randint_sample, .cpu = randint_cpu, .flop_each = 155,
};
