/* 32 random bits an element by key, jax.random.bits's. */
#include "model/ops/key.h"
#include "model/ops/lax.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_random_bits(mr_fn_t *f, mr_var_t *key, int ndim, const int64_t *dim) {
  mr_attr_t shape = mr_attr_ints("shape", ndim, dim);
  return mr_emit1(f, &mr_op_random_bits, 1, &key, 1, &shape);
}

static mr_err_t bits_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  return mr__key_shape(e, MR_U32, 0, NULL, out, diag);
}

static void bits_run(const mr_cpu_call_t *c) {
  uint32_t *out = c->out[0];
  int64_t keys = mr__key_count(c->eqn), n = mr_aval_elems(&c->eqn->out[0]->aval);
  int64_t each = keys ? n / keys : 0;
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < n; i++)
    out[i] = mr_key_bits(mr__key_at(c, i / each), (uint64_t)(i % each));
}

static mr_err_t bits_cpu(mr_cpu_call_t *c, mr_diag_t *diag) {
  c->run = bits_run;
  return MR_OK;
}

static bool bits_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  if (k > 1) return false;
  mr_var_t *key = k ? mr_sample_dims(s, MR_U32, 0, 9e8, 3, 2) : mr_sample_dims(s, MR_U32, 0, 9, 2);
  return mr_sample_done(s, mr_lax_random_bits(s->f, key, 2 * k, (int64_t[]){2, 3}));
}

const mr_op_def_t mr_op_random_bits = {
    MR_RULES_KEY,        .name = "random_bits", .n_in = 1,       .n_out = 1,
    .shape = bits_shape, .sample = bits_sample, .cpu = bits_cpu, .flop_each = 75,
};
