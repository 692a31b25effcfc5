/* Draws by key, each with the values of the jax.random function of its name. */
#include <assert.h>

#include "model/ops/key.h"
#include "model/ops/lax.h"
#include "model/ops/rules.h"

/* ---- random_bits: 32 uniform bits for each element ---- */
mr_var_t *mr_lax_random_bits(mr_fn_t *f, mr_var_t *key, int ndim, const int64_t *dim) {
  mr_attr_t shape = mr_attr_ints("shape", ndim, dim);
  return mr__key_emit(f, &mr_op_random_bits, key, 1, &shape);
}

static mr_err_t bits_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  return mr__key_shape(e, MR_U32, 0, NULL, out, diag);
}

static bool bits_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  int64_t dim[2];
  mr_var_t *key = mr__key_sample(s, k, dim);
  return key && mr_sample_done(s, mr_lax_random_bits(s->f, key, 2, dim));
}

const mr_op_def_t mr_op_random_bits = {
    MR_RULES_KEY,        .name = "random_bits", .n_in = 1,       .n_out = 1,
    .shape = bits_shape, .sample = bits_sample, .flop_each = 75,
};

/* ---- random_uniform: in [minval,maxval), equal to jax's to the bit ---- */
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

static bool uniform_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  int64_t dim[2];
  mr_var_t *key = mr__key_sample(s, k, dim);
  return key && mr_sample_done(s, mr_lax_random_uniform(s->f, key, -1, 2, 2, dim));
}

const mr_op_def_t mr_op_random_uniform = {
    MR_RULES_KEY,    .name = "random_uniform",     .n_in = 1,
    .n_out = 1,      .shape = mr__key_shape_float, .sample = uniform_sample,
    .flop_each = 80,
};

/* ---- random_normal: standard normals ---- */
mr_var_t *mr_lax_random_normal(mr_fn_t *f, mr_var_t *key, int ndim, const int64_t *dim) {
  mr_attr_t attr[] = {mr_attr_dtype("dtype", MR_F32), mr_attr_ints("shape", ndim, dim)};
  return mr__key_emit(f, &mr_op_random_normal, key, 2, attr);
}

static bool normal_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  int64_t dim[2];
  mr_var_t *key = mr__key_sample(s, k, dim);
  return key && mr_sample_done(s, mr_lax_random_normal(s->f, key, 2, dim));
}

const mr_op_def_t mr_op_random_normal = {
    MR_RULES_KEY,     .name = "random_normal",      .n_in = 1,
    .n_out = 1,       .shape = mr__key_shape_float, .sample = normal_sample,
    .flop_each = 110,
};

/* ---- random_truncated_normal: standard normals within (lower,upper) ---- */
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

static bool truncated_normal_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  int64_t dim[2];
  mr_var_t *key = mr__key_sample(s, k, dim);
  return key && mr_sample_done(s, mr_lax_random_truncated_normal(s->f, key, -2, 2, 2, dim));
}

const mr_op_def_t mr_op_random_truncated_normal = {
    MR_RULES_KEY,     .name = "random_truncated_normal", .n_in = 1,
    .n_out = 1,       .shape = truncated_normal_shape,   .sample = truncated_normal_sample,
    .flop_each = 120,
};

/* ---- random_randint: integers in [minval,maxval); minval if that is empty ---- */
mr_var_t *mr_lax_random_randint(mr_fn_t *f, mr_var_t *key, int32_t lo, int32_t hi, int ndim,
                                const int64_t *dim) {
  mr_attr_t attr[] = {mr_attr_int("maxval", hi), mr_attr_int("minval", lo),
                      mr_attr_ints("shape", ndim, dim)};
  return mr__key_emit(f, &mr_op_random_randint, key, 3, attr);
}

static mr_err_t randint_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  return mr__key_shape(e, MR_I32, 0, NULL, out, diag);
}

static bool randint_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  int64_t dim[2];
  mr_var_t *key = mr__key_sample(s, k, dim);
  return key && mr_sample_done(s, mr_lax_random_randint(s->f, key, -3, 8, 2, dim));
}

const mr_op_def_t mr_op_random_randint = {
    MR_RULES_KEY,           .name = "random_randint", .n_in = 1,        .n_out = 1,
    .shape = randint_shape, .sample = randint_sample, .flop_each = 155,
};

/* ---- random_permutation: the numbers 0..n-1 in random order ---- */
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

static bool permutation_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  int64_t dim[2];
  mr_var_t *key = mr__key_sample(s, k, dim);
  return key && mr_sample_done(s, mr_lax_random_permutation(s->f, key, 7));
}

const mr_op_def_t mr_op_random_permutation = {
    MR_RULES_KEY,     .name = "random_permutation", .n_in = 1,
    .n_out = 1,       .shape = permutation_shape,   .sample = permutation_sample,
    .flop_each = 400,
};
