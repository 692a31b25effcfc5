/* Draws by key, each with the values of the jax.random function of its name.  A key is u32[2].
   Leading dimensions make many keys, which draw independently, so that vmap over keys is the op
   itself.  The layout, which maps counters to elements, is the attribute partitionable; it is
   absent for jax's default. */
#include "model/ops/lax.h"
#include "model/ops/operands.h"
#include "model/ops/rules.h"

/* Rows of the constant of an op that draws: derivatives are zero, keys are mapped as they are. */
#define DRAW                                                                                    \
  MR_RULES_PRIMITIVE, .ad = {mr_jvp_zero, mr_vjp_zero}, .batch = mr_batch_alike, .draws = true, \
                      .amp = {MR_AMP_FOLLOW}, .shard = {mr_shard_keys}

/* Sets *out to (keys' leading dimensions..., attribute shape..., tail...) of dtype. */
static mr_err_t key_shape(const mr_eqn_t *e, mr_dtype_t dtype, int n_tail, const int64_t *tail,
                          mr_aval_t *out, mr_diag_t *diag) {
  const mr_aval_t *key = &e->in[0]->aval;
  const mr_attr_t *shape = mr_attr_find(e, "shape");
  int n = shape ? shape->n : 0;
  if (key->dtype != MR_U32 || key->ndim < 1 || key->dim[key->ndim - 1] != 2)
    return mr_shape_fail(e, diag, "want a key u32[2], or several u32[...,2]");
  if (key->ndim - 1 + n + n_tail > MR_MAX_NDIM)
    return mr_shape_fail(e, diag, "the result would have too many dimensions");
  *out = mr_aval(dtype, key->ndim - 1, key->dim);
  for (int i = 0; i < n; i++) {
    if (shape->i[i] < 0) return mr_shape_fail(e, diag, "a size in shape is negative");
    out->dim[out->ndim++] = shape->i[i];
  }
  for (int i = 0; i < n_tail; i++) out->dim[out->ndim++] = tail[i];
  return MR_OK;
}

/* The same without tail and with the dtype of attribute dtype: f32, or f64 for the same values. */
static mr_err_t key_shape_float(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  mr_dtype_t t = (mr_dtype_t)mr_attr_get(e, "dtype")->i[0];
  if (t != MR_F32 && t != MR_F64) return mr_shape_fail(e, diag, "want dtype float32");
  return key_shape(e, t, 0, NULL, out, diag);
}

int64_t mr__key_count(const mr_eqn_t *e) { return mr_aval_elems(&e->in[0]->aval) / 2; }

/* Appends op on key with attr[n_attr], fewer than ATTRS, in f's layout.  NULL on failure. */
enum { ATTRS = 8 };

static mr_var_t *key_emit(mr_fn_t *f, const mr_op_def_t *op, mr_var_t *key, int n_attr,
                          const mr_attr_t *attr) {
  mr_attr_t all[ATTRS];
  for (int i = 0; i < n_attr; i++) all[i] = attr[i];
  if (f->keys == MR_KEY_ORIGINAL) all[n_attr++] = mr_attr_bool("partitionable", false);
  return mr_emit1(f, op, 1, &key, n_attr, all);
}

/* Returns the key operand of sample k and sets dim to 2, 3: one key, three keys, three keys in the
   original layout; NULL if k is past those. */
static mr_var_t *key_sample(mr_sample_t *s, int k, int64_t dim[2]) {
  if (k > 2) return NULL;
  dim[0] = 2, dim[1] = 3;
  if (k == 2) mr_key_layout_enter(s->f, MR_KEY_ORIGINAL);
  return k ? mr_sample_dims(s, MR_U32, 0, 9e8, 3, 2) : mr_sample_dims(s, MR_U32, 0, 9, 2);
}

/* ---- random_bits: 32 uniform bits for each element ---- */
mr_var_t *mr_lax_random_bits(mr_fn_t *f, mr_var_t *key, int ndim, const int64_t *dim) {
  mr_attr_t shape = mr_attr_ints("shape", ndim, dim);
  return key_emit(f, &mr_op_random_bits, key, 1, &shape);
}

static mr_err_t bits_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  return key_shape(e, MR_U32, 0, NULL, out, diag);
}

static bool bits_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  int64_t dim[2];
  mr_var_t *key = key_sample(s, k, dim);
  return key && mr_sample_done(s, mr_lax_random_bits(s->f, key, 2, dim));
}

const mr_op_def_t mr_op_random_bits = {
    DRAW,
    .name = "random_bits",
    .n_in = 1,
    .n_out = 1,
    .shape = bits_shape,
    .sample = bits_sample,
    .cost = {.each = 75},
};

/* ---- random_uniform: in [minval,maxval), equal to jax's to the bit ---- */
mr_var_t *mr_lax_random_uniform(mr_fn_t *f, mr_var_t *key, float lo, float hi, int ndim,
                                const int64_t *dim) {
  mr_attr_t attr[] = {mr_attr_dtype("dtype", MR_F32), mr_attr_float("maxval", hi),
                      mr_attr_float("minval", lo), mr_attr_ints("shape", ndim, dim)};
  return key_emit(f, &mr_op_random_uniform, key, 4, attr);
}

mr_var_t *mr_lax_random_bernoulli(mr_fn_t *f, mr_var_t *key, float p, int ndim,
                                  const int64_t *dim) {
  return mr_lax_lt(f, mr_lax_random_uniform(f, key, 0, 1, ndim, dim), mr_literal(f, MR_F32, p));
}

static bool uniform_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  int64_t dim[2];
  mr_var_t *key = key_sample(s, k, dim);
  return key && mr_sample_done(s, mr_lax_random_uniform(s->f, key, -1, 2, 2, dim));
}

const mr_op_def_t mr_op_random_uniform = {
    DRAW,
    .name = "random_uniform",
    .n_in = 1,
    .n_out = 1,
    .shape = key_shape_float,
    .sample = uniform_sample,
    .cost = {.each = 80},
};

/* ---- random_normal: standard normals ---- */
mr_var_t *mr_lax_random_normal(mr_fn_t *f, mr_var_t *key, int ndim, const int64_t *dim) {
  mr_attr_t attr[] = {mr_attr_dtype("dtype", MR_F32), mr_attr_ints("shape", ndim, dim)};
  return key_emit(f, &mr_op_random_normal, key, 2, attr);
}

static bool normal_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  int64_t dim[2];
  mr_var_t *key = key_sample(s, k, dim);
  return key && mr_sample_done(s, mr_lax_random_normal(s->f, key, 2, dim));
}

const mr_op_def_t mr_op_random_normal = {
    DRAW,
    .name = "random_normal",
    .n_in = 1,
    .n_out = 1,
    .shape = key_shape_float,
    .sample = normal_sample,
    .cost = {.each = 110},
};

/* ---- random_truncated_normal: standard normals within (lower,upper) ---- */
mr_var_t *mr_lax_random_truncated_normal(mr_fn_t *f, mr_var_t *key, float lo, float hi, int ndim,
                                         const int64_t *dim) {
  mr_attr_t attr[] = {mr_attr_dtype("dtype", MR_F32), mr_attr_float("lower", lo),
                      mr_attr_float("upper", hi), mr_attr_ints("shape", ndim, dim)};
  return key_emit(f, &mr_op_random_truncated_normal, key, 4, attr);
}

static mr_err_t truncated_normal_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  if (!(mr_attr_get(e, "lower")->f < mr_attr_get(e, "upper")->f))
    return mr_shape_fail(e, diag, "want lower < upper");
  return key_shape_float(e, out, diag);
}

static bool truncated_normal_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  int64_t dim[2];
  mr_var_t *key = key_sample(s, k, dim);
  return key && mr_sample_done(s, mr_lax_random_truncated_normal(s->f, key, -2, 2, 2, dim));
}

const mr_op_def_t mr_op_random_truncated_normal = {
    DRAW,
    .name = "random_truncated_normal",
    .n_in = 1,
    .n_out = 1,
    .shape = truncated_normal_shape,
    .sample = truncated_normal_sample,
    .cost = {.each = 120},
};

/* ---- random_randint: integers in [minval,maxval); minval if that is empty ---- */
mr_var_t *mr_lax_random_randint(mr_fn_t *f, mr_var_t *key, int32_t lo, int32_t hi, int ndim,
                                const int64_t *dim) {
  mr_attr_t attr[] = {mr_attr_int("maxval", hi), mr_attr_int("minval", lo),
                      mr_attr_ints("shape", ndim, dim)};
  return key_emit(f, &mr_op_random_randint, key, 3, attr);
}

static mr_err_t randint_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  return key_shape(e, MR_I32, 0, NULL, out, diag);
}

static bool randint_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  int64_t dim[2];
  mr_var_t *key = key_sample(s, k, dim);
  return key && mr_sample_done(s, mr_lax_random_randint(s->f, key, -3, 8, 2, dim));
}

const mr_op_def_t mr_op_random_randint = {
    DRAW,
    .name = "random_randint",
    .n_in = 1,
    .n_out = 1,
    .shape = randint_shape,
    .sample = randint_sample,
    .cost = {.each = 155},
};

/* ---- random_permutation: the numbers 0..n-1 in random order ---- */
mr_var_t *mr_lax_random_permutation(mr_fn_t *f, mr_var_t *key, int64_t n) {
  mr_attr_t shape = mr_attr_ints("shape", 1, &n);
  return key_emit(f, &mr_op_random_permutation, key, 1, &shape);
}

static mr_err_t permutation_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  const mr_attr_t *shape = mr_attr_get(e, "shape");
  if (shape->n != 1 || shape->i[0] > INT32_MAX)
    return mr_shape_fail(e, diag, "want one size of at most 2147483647");
  return key_shape(e, MR_I32, 0, NULL, out, diag);
}

static bool permutation_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  int64_t dim[2];
  mr_var_t *key = key_sample(s, k, dim);
  return key && mr_sample_done(s, mr_lax_random_permutation(s->f, key, 7));
}

const mr_op_def_t mr_op_random_permutation = {
    DRAW,
    .name = "random_permutation",
    .n_in = 1,
    .n_out = 1,
    .shape = permutation_shape,
    .sample = permutation_sample,
    .cost = {.each = 400},
};

/* ---- random_split: n new keys from one ---- */
mr_var_t *mr_lax_random_split(mr_fn_t *f, mr_var_t *key, int64_t n) {
  mr_attr_t shape = mr_attr_ints("shape", 1, &n);
  return key_emit(f, &mr_op_random_split, key, 1, &shape);
}

static mr_err_t split_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  return key_shape(e, MR_U32, 1, (int64_t[]){2}, out, diag);
}

static bool split_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  int64_t dim[2];
  mr_var_t *key = key_sample(s, k, dim);
  return key && mr_sample_done(s, mr_lax_random_split(s->f, key, 4));
}

const mr_op_def_t mr_op_random_split = {
    DRAW,
    .name = "random_split",
    .n_in = 1,
    .n_out = 1,
    .shape = split_shape,
    .sample = split_sample,
    .cost = {.each = 75},
};

/* ---- random_fold_in: a new key from a key and a number ---- */
mr_var_t *mr_lax_random_fold_in(mr_fn_t *f, mr_var_t *key, mr_var_t *data) {
  return mr_emit1(f, &mr_op_random_fold_in, 2, (mr_var_t *[]){key, data}, 0, NULL);
}

static mr_err_t fold_in_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  mr_aval_t each;
  MR_TRY(key_shape(e, MR_U32, 0, NULL, &each, diag));
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
    DRAW,
    .name = "random_fold_in",
    .n_in = 2,
    .n_out = 1,
    .shape = fold_in_shape,
    .sample = fold_in_sample,
    .cost = {.each = 75},
};
