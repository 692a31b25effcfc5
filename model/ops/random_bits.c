/* 32 random bits an element by key, jax.random.bits's. */
#include "model/ops/key.h"
#include "model/ops/lax.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_random_bits(mr_fn_t *f, mr_var_t *key, int ndim, const int64_t *dim) {
  mr_attr_t shape = mr_attr_ints("shape", ndim, dim);
  return mr__key_emit(f, &mr_op_random_bits, key, 1, &shape);
}

static mr_err_t bits_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  return mr__key_shape(e, MR_U32, 0, NULL, out, diag);
}

static void fill(mr_prng_t key, const mr_eqn_t *e, int64_t i, int64_t n, int64_t of, void *to) {
  uint32_t *out = to;
  for (int64_t k = 0; k < n; k++) out[k] = mr_random_word(key, (size_t)(i + k), (size_t)of);
}

static void bits_run(const mr_cpu_call_t *c) { mr__key_draw(c, fill); }

static mr_err_t bits_cpu(mr_cpu_call_t *c, mr_diag_t *diag) {
  c->run = bits_run;
  return MR_OK;
}

static bool bits_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  int64_t dim[2];
  mr_var_t *key = mr__key_sample(s, k, dim);
  return key && mr_sample_done(s, mr_lax_random_bits(s->f, key, 2, dim));
}

const mr_op_def_t mr_op_random_bits = {
    MR_RULES_KEY,        .name = "random_bits", .n_in = 1,       .n_out = 1,
    .shape = bits_shape, .sample = bits_sample, .cpu = bits_cpu, .flop_each = 75,
};
