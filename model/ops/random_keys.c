/* New keys from old ones, equal to those of jax.random. */
#include "model/ops/key.h"
#include "model/ops/lax.h"
#include "model/ops/rules.h"

/* ---- random_split: n new keys from one ---- */
mr_var_t *mr_lax_random_split(mr_fn_t *f, mr_var_t *key, int64_t n) {
  mr_attr_t shape = mr_attr_ints("shape", 1, &n);
  return mr__key_emit(f, &mr_op_random_split, key, 1, &shape);
}

static mr_err_t split_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  return mr__key_shape(e, MR_U32, 1, (int64_t[]){2}, out, diag);
}

static bool split_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  int64_t dim[2];
  mr_var_t *key = mr__key_sample(s, k, dim);
  return key && mr_sample_done(s, mr_lax_random_split(s->f, key, 4));
}

const mr_op_def_t mr_op_random_split = {
    MR_RULES_KEY,         .name = "random_split", .n_in = 1,       .n_out = 1,
    .shape = split_shape, .sample = split_sample, .flop_each = 75,
};

/* ---- random_fold_in: a new key from a key and a number ---- */
mr_var_t *mr_lax_random_fold_in(mr_fn_t *f, mr_var_t *key, mr_var_t *data) {
  return mr_emit1(f, &mr_op_random_fold_in, 2, (mr_var_t *[]){key, data}, 0, NULL);
}

static mr_err_t fold_in_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  mr_aval_t each;
  MR_TRY(mr__key_shape(e, MR_U32, 0, NULL, &each, diag));
  if (!mr_aval_equal(&each, &e->in[1]->aval))
    return mr_shape_fail(e, diag, "want a number u32[] for each key");
  *out = e->in[0]->aval;
  return MR_OK;
}

static bool fold_in_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  if (k > 0) return false;
  mr_var_t *key = mr_sample_dims(s, MR_U32, 0, 9e8, 2);
  return mr_sample_done(s, mr_lax_random_fold_in(s->f, key, mr_sample_scalar(s, MR_U32, 0, 9)));
}

const mr_op_def_t mr_op_random_fold_in = {
    MR_RULES_KEY,           .name = "random_fold_in", .n_in = 2,       .n_out = 1,
    .shape = fold_in_shape, .sample = fold_in_sample, .flop_each = 75,
};
