/* Blocks of a value: slice cuts one out, pad puts zeros around a value, each the other's transpose;
   concatenate puts values side by side, and its transpose is slices. */
#include "model/ops/lax.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_slice(mr_fn_t *f, mr_var_t *x, const int64_t *start, const int64_t *limit) {
  if (!x) return NULL;
  return mr_emit1(
      f, &mr_op_slice, 1, &x, 3,
      (mr_attr_t[]){mr_attr_ints("start_indices", x->aval.ndim, start),
                    mr_attr_ints("limit_indices", x->aval.ndim, limit), mr_attr_none("strides")});
}

static mr_err_t slice_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  const mr_aval_t *x = &e->in[0]->aval;
  const mr_attr_t *from = mr_attr_get(e, "start_indices"), *to = mr_attr_get(e, "limit_indices");
  const int64_t *start = from->i, *limit = to->i;
  if (from->n != x->ndim || to->n != x->ndim)
    return mr_shape_fail(e, diag, "want a start and a limit for each dimension");
  *out = *x;
  for (int i = 0; i < x->ndim; i++) {
    if (start[i] < 0 || start[i] > limit[i] || limit[i] > x->dim[i])
      return mr_shape_fail(e, diag, "a limit lies outside");
    out->dim[i] = limit[i] - start[i];
  }
  return MR_OK;
}

static mr_err_t slice_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  const mr_aval_t *x = &e->in[0]->aval;
  const int64_t *start = mr_attr_get(e, "start_indices")->i;
  const int64_t *limit = mr_attr_get(e, "limit_indices")->i;
  int64_t high[MR_MAX_NDIM];
  for (int i = 0; i < x->ndim; i++) high[i] = x->dim[i] - limit[i];
  din[0] = mr_lax_pad(f, dout[0], start, high);
  return mr_rule_done(f);
}

static mr_err_t slice_batch(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in,
                            mr_batched_t *out) {
  const mr_attr_t *from = mr_attr_get(e, "start_indices"), *to = mr_attr_get(e, "limit_indices");
  int64_t start[MR_MAX_NDIM + 1] = {0}, limit[MR_MAX_NDIM + 1] = {mr_batch_size(1, in)};
  for (int i = 0; i < from->n; i++) {
    start[i + 1] = from->i[i];
    limit[i + 1] = to->i[i];
  }
  out[0].var = mr_lax_slice(f, mr_batch_front(f, &in[0], 1), start, limit);
  out[0].axis = 0;
  return mr_rule_done(f);
}

static bool slice_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  if (k > 0) return false;
  mr_var_t *x = mr_sample_f32(s, -1, 1, 4, 3);
  return mr_sample_done(s, mr_lax_slice(s->f, x, (int64_t[]){1, 0}, (int64_t[]){3, 2}));
}

static bool slice_is_view(const mr_eqn_t *e, mr_view_t *v) {
  v->ndim = e->out[0]->aval.ndim;
  for (int i = 0; i < v->ndim; i++) {
    v->start[i] = mr_attr_get(e, "start_indices")->i[i];
    v->limit[i] = mr_attr_get(e, "limit_indices")->i[i];
  }
  return mr_attr_get(e, "strides")->kind == MR_ATTR_NONE;
}

/* Dimensions that are not sliced. */
/* Block k of equal ones, of q, k and v in one matrix say, may be cut within the blocks. */
static mr_err_t slice_shard(const mr_eqn_t *e, mr_factors_t *s, mr_diag_t *diag) {
  const int64_t *start = mr_attr_get(e, "start_indices")->i;
  for (int d = 0; d < e->out[0]->aval.ndim; d++) {
    int64_t whole = e->in[0]->aval.dim[d], own = e->out[0]->aval.dim[d];
    if (whole == own) mr__factor_all(e, s, d, MR_CUT_EACH);
    if (whole == own || !own || whole % own || start[d] % own) continue;
    mr_factor_in(s, 0, d, mr_factor_add(s, whole / own, MR_CUT_WHOLE));
    int k = mr_factor_add(s, own, MR_CUT_EACH);
    mr_factor_in(s, 0, d, k), mr_factor_out(s, 0, d, k);
  }
  return MR_OK;
}

const mr_op_def_t mr_op_slice = {
    MR_RULES_PRIMITIVE,
    .batch = slice_batch,
    .sample = slice_sample,
    .name = "slice",
    .n_in = 1,
    .n_out = 1,
    .shape = slice_shape,
    .ad = {.jvp = mr_jvp_linear, .vjp = slice_vjp},
    .amp = {MR_AMP_FOLLOW},
    .cost = {.moves = true},
    .fuse = {.is_view = slice_is_view},
    .shard = {slice_shard, .sizes = "limit_indices", .from = "start_indices", .linear = true},
};

/* ---- pad ---- */

mr_var_t *mr_lax_pad(mr_fn_t *f, mr_var_t *x, const int64_t *low, const int64_t *high) {
  if (!x) return NULL;
  return mr_emit1(f, &mr_op_pad, 1, &x, 2,
                  (mr_attr_t[]){mr_attr_ints("low", x->aval.ndim, low),
                                mr_attr_ints("high", x->aval.ndim, high)});
}

static mr_err_t pad_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  const mr_attr_t *before = mr_attr_get(e, "low"), *after = mr_attr_get(e, "high");
  const int64_t *low = before->i, *high = after->i;
  *out = e->in[0]->aval;
  if (before->n != out->ndim || after->n != out->ndim)
    return mr_shape_fail(e, diag, "want two counts for each dimension");
  for (int i = 0; i < out->ndim; i++) {
    if (low[i] < 0 || high[i] < 0) return mr_shape_fail(e, diag, "want counts >= 0");
    if (__builtin_add_overflow(out->dim[i], low[i], &out->dim[i]) ||
        __builtin_add_overflow(out->dim[i], high[i], &out->dim[i]))
      return mr_shape_fail(e, diag, "a size is too large to be counted");
  }
  return MR_OK;
}

static mr_err_t pad_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  const mr_aval_t *x = &e->in[0]->aval;
  const int64_t *low = mr_attr_get(e, "low")->i;
  int64_t limit[MR_MAX_NDIM];
  for (int i = 0; i < x->ndim; i++) limit[i] = low[i] + x->dim[i];
  din[0] = mr_lax_slice(f, dout[0], low, limit);
  return mr_rule_done(f);
}

static mr_err_t pad_batch(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in,
                          mr_batched_t *out) {
  const mr_attr_t *before = mr_attr_get(e, "low"), *after = mr_attr_get(e, "high");
  int64_t low[MR_MAX_NDIM + 1] = {0}, high[MR_MAX_NDIM + 1] = {0};
  for (int i = 0; i < before->n; i++) {
    low[i + 1] = before->i[i];
    high[i + 1] = after->i[i];
  }
  out[0].var = mr_lax_pad(f, mr_batch_front(f, &in[0], 1), low, high);
  out[0].axis = 0;
  return mr_rule_done(f);
}

static bool pad_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  if (k > 0) return false;
  mr_var_t *x = mr_sample_f32(s, -1, 1, 2, 3);
  return mr_sample_done(s, mr_lax_pad(s->f, x, (int64_t[]){1, 0}, (int64_t[]){0, 2}));
}

static mr_err_t pad_shard(const mr_eqn_t *e, mr_factors_t *s, mr_diag_t *diag) {
  unsigned padded = 0;
  for (int d = 0; d < e->out[0]->aval.ndim; d++)
    if (mr_attr_get(e, "low")->i[d] || mr_attr_get(e, "high")->i[d]) padded |= 1u << d;
  return mr__shard_but(e, s, padded);
}

const mr_op_def_t mr_op_pad = {
    MR_RULES_PRIMITIVE,
    .batch = pad_batch,
    .sample = pad_sample,
    .name = "pad",
    .n_in = 1,
    .n_out = 1,
    .shape = pad_shape,
    .ad = {.jvp = mr_jvp_linear, .vjp = pad_vjp},
    .amp = {MR_AMP_FOLLOW},
    .cost = {.moves = true},
    .shard = {pad_shard, .linear = true},
};

/* ---- concatenate ---- */

mr_var_t *mr_lax_concatenate(mr_fn_t *f, int n, mr_var_t *const *x, int dimension) {
  return mr_emit1(f, &mr_op_concatenate, n, x, 1,
                  (mr_attr_t[]){mr_attr_int("dimension", dimension)});
}

static mr_err_t concatenate_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  int64_t d = mr_attr_get(e, "dimension")->i[0];
  if (e->n_in < 1) return mr_shape_fail(e, diag, "want at least one operand");
  *out = e->in[0]->aval;
  if (d < 0 || d >= out->ndim) return mr_shape_fail(e, diag, "no such dimension");
  for (int k = 1; k < e->n_in; k++) {
    mr_aval_t a = e->in[k]->aval;
    int64_t more = d < a.ndim ? a.dim[d] : 0;
    if (d < a.ndim) a.dim[d] = out->dim[d];
    if (!mr_aval_equal(&a, out))
      return mr_shape_fail(e, diag, "operands differ beside the joined dimension");
    if (__builtin_add_overflow(out->dim[d], more, &out->dim[d]))
      return mr_shape_fail(e, diag, "a size is too large to be counted");
  }
  return MR_OK;
}

/* Each operand's cotangent is a slice of the result's. */
static mr_err_t concatenate_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout,
                                mr_var_t **din) {
  int64_t d = mr_attr_get(e, "dimension")->i[0], start[MR_MAX_NDIM] = {0}, limit[MR_MAX_NDIM];
  const mr_aval_t *y = &e->out[0]->aval;
  for (int i = 0; i < y->ndim; i++) limit[i] = y->dim[i];
  for (int k = 0; k < e->n_in; k++) {
    limit[d] = start[d] + e->in[k]->aval.dim[d];
    din[k] = mr_lax_slice(f, dout[0], start, limit);
    start[d] = limit[d];
  }
  return mr_rule_done(f);
}

static mr_err_t concatenate_batch(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in,
                                  mr_batched_t *out) {
  int64_t size = mr_batch_size(e->n_in, in);
  mr_var_t **x = mr_mem_take(&f->mem, (size_t)(e->n_in + 1) * sizeof(mr_var_t *));
  for (int i = 0; i < e->n_in; i++) x[i] = mr_batch_front(f, &in[i], size);
  out[0].var = mr_lax_concatenate(f, e->n_in, x, (int)mr_attr_get(e, "dimension")->i[0] + 1);
  out[0].axis = 0;
  return mr_rule_done(f);
}

static bool concatenate_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  if (k > 0) return false;
  mr_var_t *x[] = {mr_sample_f32(s, -1, 1, 2, 1), mr_sample_f32(s, -1, 1, 2, 3),
                   mr_sample_f32(s, -1, 1, 2, 2)};
  return mr_sample_done(s, mr_lax_concatenate(s->f, 3, x, 1));
}

/* Operands of one size are blocks of the result, and may be cut within the blocks. */
static mr_err_t concatenate_shard(const mr_eqn_t *e, mr_factors_t *s, mr_diag_t *diag) {
  int d = (int)mr_attr_get(e, "dimension")->i[0];
  int64_t own = e->in[0]->aval.dim[d];
  MR_TRY(mr__shard_but(e, s, 1u << d));
  for (int i = 1; i < e->n_in; i++)
    if (e->in[i]->aval.dim[d] != own) return MR_OK;
  mr_factor_out(s, 0, d, mr_factor_add(s, e->n_in, MR_CUT_WHOLE));
  int k = mr_factor_add(s, own, MR_CUT_EACH);
  mr_factor_out(s, 0, d, k);
  for (int i = 0; i < e->n_in; i++) mr_factor_in(s, i, d, k);
  return MR_OK;
}

const mr_op_def_t mr_op_concatenate = {
    MR_RULES_PRIMITIVE,
    .batch = concatenate_batch,
    .sample = concatenate_sample,
    .name = "concatenate",
    .n_in = -1,
    .n_out = 1,
    .shape = concatenate_shape,
    .ad = {.jvp = mr_jvp_linear, .vjp = concatenate_vjp},
    .amp = {MR_AMP_FOLLOW},
    .cost = {.moves = true},
    .shard = {concatenate_shard, .linear = true},
};
