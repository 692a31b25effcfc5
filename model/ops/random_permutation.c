/* The numbers 0..n-1 in a random order by key, jax.random.permutation's.  Sorting is a matter of
   the whole draw, so each key's is one thread's. */
#include <assert.h>

#include "model/ops/key.h"
#include "model/ops/lax.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_random_permutation(mr_fn_t *f, mr_var_t *key, int64_t n) {
  mr_attr_t shape = mr_attr_ints("shape", 1, &n);
  return mr__key_emit(f, &mr_op_random_permutation, key, 1, &shape);
}

static mr_err_t permutation_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  const mr_attr_t *shape = mr_attr_get(e, "shape");
  if (shape->n != 1 || shape->i[0] > INT32_MAX)
    return mr_shape_fail(e, diag, "want one size of at most 2147483647");
  return mr__key_shape(e, MR_I32, 0, NULL, out, diag);
}

static void permutation_run(const mr_cpu_call_t *c) {
  int64_t keys = mr__key_count(c->eqn), n = mr_attr_get(c->eqn, "shape")->i[0];
  for (int64_t k = 0; k < keys; k++)
    mr_random_permutation_in(mr__key_at(c, k), (uint32_t)n, c->scratch,
                             (uint32_t *)c->out[0] + k * n);
}

static mr_err_t permutation_cpu(mr_cpu_call_t *c, mr_diag_t *diag) {
  c->run = permutation_run;
  c->scratch_bytes = mr_random_permutation_room((uint32_t)mr_attr_get(c->eqn, "shape")->i[0]);
  return MR_OK;
}

static bool permutation_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  int64_t dim[2];
  mr_var_t *key = mr__key_sample(s, k, dim);
  return key && mr_sample_done(s, mr_lax_random_permutation(s->f, key, 7));
}

const mr_op_def_t mr_op_random_permutation = {
    MR_RULES_KEY,
    .name = "random_permutation",
    .n_in = 1,
    .n_out = 1,
    .shape = permutation_shape,
    .sample = permutation_sample,
    .cpu = permutation_cpu,
    .flop_each = 400,
};
