/* Ops that communicate over a named axis: the examples of an enclosing vmap, or the devices of
   mr_pmap.  vmap of the axis turns them into sums, broadcasts and counters; pmap keeps them, and
   the backend computes them. */
#include <stdlib.h>
#include <string.h>

#include "model/control/collectives_private.h"
#include "model/control/control.h"
#include "model/ops/lax.h"
#include "model/ops/rules.h"
#include "model/transforms/transforms.h"

bool mr__axis_sample(mr_sample_t *s, mr_fn_t *body, mr_var_t *y) {
  mr_fn_t *m = NULL;
  mr_var_t *x = mr_sample_f32(s, -1, 1, 3, 2), *out = NULL;
  if (mr_fn_return(body, 1, &y) >= 0 &&
      mr_vmap_axis(body, "i", 3, NULL, NULL, &m, &s->f->diag) >= 0)
    mr_inline(s->f, m, &x, &out);
  mr_fn_destroy(m);
  mr_fn_destroy(body);
  mr_fn_return(s->f, 1, &out);
  return true;
}

mr_var_t *mr_lax_psum(mr_fn_t *f, mr_var_t *x, const char *axis_name) {
  mr_attr_t axis = mr_attr_text("axis_name", mr_mem_text(&f->mem, axis_name));
  return mr_emit1(f, &mr_op_psum, 1, &x, 1, &axis);
}

mr_var_t *mr_lax_pmean(mr_fn_t *f, mr_var_t *x, const char *axis_name) {
  if (!x) return NULL;
  if (!mr_is_float(x->aval.dtype)) {
    mr_fail(&f->diag, MR_ERR_SHAPE, "%s%spmean: want floats, not %s", f->scope,
            *f->scope ? ": " : "", mr_dtype_name(x->aval.dtype));
    return NULL;
  }
  mr_var_t *n = mr_lax_psum(f, mr_literal(f, x->aval.dtype, 1), axis_name);
  return mr_lax_div(f, mr_lax_psum(f, x, axis_name), n);
}

/* The transpose of a sum that all examples receive is the sum of their cotangents. */
static mr_err_t psum_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  din[0] = mr_lax_psum(f, dout[0], mr_attr_get(e, "axis_name")->text);
  return mr_rule_done(f);
}

static mr_err_t psum_batch(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in,
                           mr_batched_t *out) {
  if (!mr_axis_bound(f, e)) return mr_batch_pointwise(f, e, in, out);
  out[0].axis = -1;
  out[0].var = in[0].axis < 0 ? mr_lax_scale(f, (double)f->axis_size, in[0].var)
                              : mr_lax_reduce_sum(f, in[0].var, 1, &in[0].axis);
  return mr_rule_done(f);
}

/* x psum(sin(x)) + pmean(x) */
static bool psum_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  if (k > 0) return false;
  mr_fn_t *b = mr_fn_create();
  mr_var_t *x = mr_fn_input(b, mr_aval_of(MR_F32, 2));
  mr_var_t *y = mr_lax_mul(b, x, mr_lax_psum(b, mr_lax_sin(b, x), "i"));
  return mr__axis_sample(s, b, mr_lax_add(b, y, mr_lax_pmean(b, x, "i")));
}

const mr_op_def_t mr_op_psum = {
    MR_RULES_PRIMITIVE,
    .name = "psum",
    .n_in = 1,
    .n_out = 1,
    .shape = mr_shape_same,
    .batch = psum_batch,
    .sample = psum_sample,
    .collective = true,
    .ad = {.jvp = mr_jvp_linear, .vjp = psum_vjp},
    .amp = {MR_AMP_FOLLOW},
    .shard = {mr_no_shard},
};

/* ---- pmax, pmin ---- */

mr_var_t *mr_lax_pmax(mr_fn_t *f, mr_var_t *x, const char *axis_name) {
  mr_attr_t axis = mr_attr_text("axis_name", mr_mem_text(&f->mem, axis_name));
  return mr_emit1(f, &mr_op_pmax, 1, &x, 1, &axis);
}

mr_var_t *mr_lax_pmin(mr_fn_t *f, mr_var_t *x, const char *axis_name) {
  mr_attr_t axis = mr_attr_text("axis_name", mr_mem_text(&f->mem, axis_name));
  return mr_emit1(f, &mr_op_pmin, 1, &x, 1, &axis);
}

/* Reverses the order of numbers: -x, for integers -1 - x, which never overflows, and not. */
static mr_var_t *in_reverse_order(mr_fn_t *f, mr_var_t *x) {
  mr_dtype_t t = x ? x->aval.dtype : MR_F32;
  if (mr_is_float(t)) return mr_lax_neg(f, x);
  if (t == MR_BOOL) return mr_lax_eq(f, x, mr_literal(f, t, 0));
  return mr_lax_sub(f, mr_literal_whole(f, t, -1), x);
}

static mr_err_t extreme_batch(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in,
                              mr_batched_t *out) {
  bool least = e->op == &mr_op_pmin;
  mr_var_t *x = in[0].var;
  if (!mr_axis_bound(f, e)) return mr_batch_pointwise(f, e, in, out);
  if (in[0].axis >= 0) {
    if (least) x = in_reverse_order(f, x);
    x = mr_lax_reduce_max(f, x, 1, &in[0].axis);
    if (least) x = in_reverse_order(f, x);
  }
  out[0] = (mr_batched_t){x, -1};
  return mr_rule_done(f);
}

/* x pmax(sin(x)), or pmin */
static bool extreme_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  if (k > 0) return false;
  mr_fn_t *b = mr_fn_create();
  mr_var_t *x = mr_fn_input(b, mr_aval_of(MR_F32, 2)), *y = mr_lax_sin(b, x);
  y = op == &mr_op_pmin ? mr_lax_pmin(b, y, "i") : mr_lax_pmax(b, y, "i");
  return mr__axis_sample(s, b, mr_lax_mul(b, x, y));
}

#define EXTREME                                                                                   \
  MR_RULES_PRIMITIVE, .n_in = 1, .n_out = 1, .shape = mr_shape_same, .batch = extreme_batch,      \
                      .sample = extreme_sample, .collective = true, .ad = {mr_no_jvp, mr_no_vjp}, \
                      .amp = {MR_AMP_FOLLOW}, .shard = {mr_no_shard}

const mr_op_def_t mr_op_pmax = {EXTREME, .name = "pmax"};
const mr_op_def_t mr_op_pmin = {EXTREME, .name = "pmin"};

/* ---- axis_index ---- */

mr_var_t *mr_lax_axis_index(mr_fn_t *f, const char *axis_name) {
  mr_attr_t axis = mr_attr_text("axis_name", mr_mem_text(&f->mem, axis_name));
  return mr_emit1(f, &mr_op_axis_index, 0, NULL, 1, &axis);
}

static mr_err_t index_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  out[0] = mr_aval_scalar(MR_I32);
  return MR_OK;
}

static mr_err_t index_batch(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in,
                            mr_batched_t *out) {
  out[0] = (mr_batched_t){mr_lax_iota(f, MR_I32, 1, &f->axis_size, 0), 0};
  return mr_rule_done(f);
}

/* x * index */
static bool index_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  if (k > 0) return false;
  mr_fn_t *b = mr_fn_create();
  mr_var_t *x = mr_fn_input(b, mr_aval_of(MR_F32, 2));
  mr_var_t *i = mr_lax_convert(b, mr_lax_axis_index(b, "i"), MR_F32);
  return mr__axis_sample(s, b, mr_lax_mul(b, x, i));
}

const mr_op_def_t mr_op_axis_index = {
    MR_RULES_PRIMITIVE,
    .name = "axis_index",
    .n_in = 0,
    .n_out = 1,
    .shape = index_shape,
    .batch = index_batch,
    .sample = index_sample,
    .collective = true,
    .ad = {.jvp = mr_jvp_zero, .vjp = mr_vjp_zero},
    .amp = {MR_AMP_FOLLOW},
    .shard = {mr_no_shard},
};

mr_var_t *mr_lax_all_gather(mr_fn_t *f, mr_var_t *x, const char *axis_name, int64_t size) {
  mr_attr_t attr[] = {mr_attr_text("axis_name", mr_mem_text(&f->mem, axis_name)),
                      mr_attr_int("axis_size", size)};
  return mr_emit1(f, &mr_op_all_gather, 1, &x, 2, attr);
}

static mr_err_t gather_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  const mr_aval_t *x = &e->in[0]->aval;
  int64_t size = mr_attr_get(e, "axis_size")->i[0];
  if (x->ndim == MR_MAX_NDIM || size < 0)
    return mr_shape_fail(e, diag, "want a size >= 0 and at most 7 dimensions");
  *out = mr_aval_scalar(x->dtype);
  out->dim[out->ndim++] = size;
  for (int i = 0; i < x->ndim; i++) out->dim[out->ndim++] = x->dim[i];
  return MR_OK;
}

/* Each example receives the sum over all examples of the cotangents for its own place. */
static mr_err_t gather_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  din[0] = mr_lax_psum_scatter(f, dout[0], mr_attr_get(e, "axis_name")->text);
  return mr_rule_done(f);
}

static mr_err_t gather_batch(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in,
                             mr_batched_t *out) {
  int64_t size = mr_attr_get(e, "axis_size")->i[0];
  if (!mr_axis_bound(f, e)) { /* another axis is mapped: it follows the gathered one */
    mr_var_t *x = mr_batch_front(f, &in[0], 1);
    mr_eqn_t *b = mr_emit_like(f, e, &x);
    out[0] = (mr_batched_t){b ? b->out[0] : NULL, 1};
    return mr_rule_done(f);
  }
  if (size != f->axis_size)
    return mr_fail(&f->diag, MR_ERR_SHAPE, "all_gather: axis \"%s\" has size %lld, not %lld",
                   f->axis_name, (long long)f->axis_size, (long long)size);
  out[0] = (mr_batched_t){mr_batch_front(f, &in[0], size), -1};
  return mr_rule_done(f);
}

/* x times the sum of sin(gathered), weighted by place */
static bool gather_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  if (k > 0) return false;
  mr_fn_t *b = mr_fn_create();
  mr_var_t *x = mr_fn_input(b, mr_aval_of(MR_F32, 2));
  mr_var_t *all = mr_lax_sin(b, mr_lax_all_gather(b, x, "i", 3));
  mr_var_t *place = mr_lax_iota(b, MR_F32, 2, (int64_t[]){3, 2}, 0);
  all = mr_lax_reduce_sum(b, mr_lax_mul(b, all, place), 1, (int[]){0});
  return mr__axis_sample(s, b, mr_lax_mul(b, x, all));
}

const mr_op_def_t mr_op_all_gather = {
    MR_RULES_PRIMITIVE,
    .name = "all_gather",
    .n_in = 1,
    .n_out = 1,
    .shape = gather_shape,
    .batch = gather_batch,
    .sample = gather_sample,
    .collective = true,
    .ad = {.jvp = mr_jvp_linear, .vjp = gather_vjp},
    .amp = {MR_AMP_FOLLOW},
    .cost = {.moves = true},
    .shard = {mr_no_shard},
};

mr_var_t *mr_lax_psum_scatter(mr_fn_t *f, mr_var_t *x, const char *axis_name) {
  mr_attr_t axis = mr_attr_text("axis_name", mr_mem_text(&f->mem, axis_name));
  return mr_emit1(f, &mr_op_reduce_scatter, 1, &x, 1, &axis);
}

static mr_err_t scatter_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  const mr_aval_t *x = &e->in[0]->aval;
  if (!x->ndim) return mr_shape_fail(e, diag, "want a dimension 0 of the axis's size");
  *out = mr_aval_scalar(x->dtype);
  for (int i = 1; i < x->ndim; i++) out->dim[out->ndim++] = x->dim[i];
  return MR_OK;
}

/* Each row's sum was received at one place alone, whose cotangent all terms of that row receive. */
static mr_err_t scatter_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  din[0] = mr_lax_all_gather(f, dout[0], mr_attr_get(e, "axis_name")->text, e->in[0]->aval.dim[0]);
  return mr_rule_done(f);
}

/* MR_ERR_SHAPE if x, the value of one example, has another dimension 0 than the bound axis. */
static mr_err_t check_rows(mr_fn_t *f, const mr_eqn_t *e) {
  int64_t rows = e->in[0]->aval.dim[0];
  if (rows == f->axis_size) return MR_OK;
  return mr_fail(&f->diag, MR_ERR_SHAPE, "%s: axis \"%s\" has size %lld, not %lld", e->op->name,
                 f->axis_name, (long long)f->axis_size, (long long)rows);
}

static mr_err_t scatter_batch(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in,
                              mr_batched_t *out) {
  if (!mr_axis_bound(f, e)) { /* another axis is mapped: it follows the rows */
    mr_var_t *x = mr_batch_move(f, &in[0], 1);
    mr_eqn_t *b = mr_emit_like(f, e, &x);
    out[0] = (mr_batched_t){b ? b->out[0] : NULL, 0};
    return mr_rule_done(f);
  }
  MR_TRY(check_rows(f, e));
  mr_var_t *x = mr_batch_front(f, &in[0], f->axis_size);
  out[0] = (mr_batched_t){mr_lax_reduce_sum(f, x, 1, (int[]){0}), 0}; /* row r is example r's */
  return mr_rule_done(f);
}

/* x, from its outer product with the place's number on */
static mr_var_t *sample_rows(mr_fn_t *b, mr_var_t *x) {
  mr_var_t *place = mr_lax_iota(b, MR_F32, 2, (int64_t[]){3, 2}, 0);
  mr_var_t *rows = mr_lax_broadcast_in_dim(b, x, 2, (int64_t[]){3, 2}, (int[]){1});
  return mr_lax_mul(b, mr_lax_sin(b, rows), place);
}

static bool scatter_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  if (k > 0) return false;
  mr_fn_t *b = mr_fn_create();
  mr_var_t *x = mr_fn_input(b, mr_aval_of(MR_F32, 2));
  return mr__axis_sample(s, b, mr_lax_mul(b, x, mr_lax_psum_scatter(b, sample_rows(b, x), "i")));
}

const mr_op_def_t mr_op_reduce_scatter = {
    MR_RULES_PRIMITIVE,
    .name = "reduce_scatter",
    .n_in = 1,
    .n_out = 1,
    .shape = scatter_shape,
    .batch = scatter_batch,
    .sample = scatter_sample,
    .collective = true,
    .ad = {.jvp = mr_jvp_linear, .vjp = scatter_vjp},
    .amp = {MR_AMP_FOLLOW},
    .shard = {mr_no_shard},
};

mr_var_t *mr_lax_all_to_all(mr_fn_t *f, mr_var_t *x, const char *axis_name) {
  mr_attr_t axis = mr_attr_text("axis_name", mr_mem_text(&f->mem, axis_name));
  return mr_emit1(f, &mr_op_all_to_all, 1, &x, 1, &axis);
}

static mr_err_t exchange_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  if (!e->in[0]->aval.ndim) return mr_shape_fail(e, diag, "want a dimension 0 of the axis's size");
  *out = e->in[0]->aval;
  return MR_OK;
}

/* What went from here to there comes back. */
static mr_err_t exchange_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  din[0] = mr_lax_all_to_all(f, dout[0], mr_attr_get(e, "axis_name")->text);
  return mr_rule_done(f);
}

static mr_err_t exchange_batch(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in,
                               mr_batched_t *out) {
  if (!mr_axis_bound(f, e)) { /* another axis is mapped: it follows the rows */
    mr_var_t *x = mr_batch_move(f, &in[0], 1);
    mr_eqn_t *b = mr_emit_like(f, e, &x);
    out[0] = (mr_batched_t){b ? b->out[0] : NULL, 1};
    return mr_rule_done(f);
  }
  MR_TRY(check_rows(f, e));
  /* What example k has for r is row k of what r receives. */
  out[0] = (mr_batched_t){mr_batch_front(f, &in[0], f->axis_size), 1};
  return mr_rule_done(f);
}

static bool exchange_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  if (k > 0) return false;
  mr_fn_t *b = mr_fn_create();
  mr_var_t *x = mr_fn_input(b, mr_aval_of(MR_F32, 2));
  mr_var_t *all = mr_lax_all_to_all(b, sample_rows(b, x), "i");
  mr_var_t *place = mr_lax_iota(b, MR_F32, 2, (int64_t[]){3, 2}, 0);
  all = mr_lax_reduce_sum(b, mr_lax_mul(b, all, place), 1, (int[]){0});
  return mr__axis_sample(s, b, mr_lax_mul(b, x, all));
}

const mr_op_def_t mr_op_all_to_all = {
    MR_RULES_PRIMITIVE,
    .name = "all_to_all",
    .n_in = 1,
    .n_out = 1,
    .shape = exchange_shape,
    .batch = exchange_batch,
    .sample = exchange_sample,
    .collective = true,
    .ad = {.jvp = mr_jvp_linear, .vjp = exchange_vjp},
    .amp = {MR_AMP_FOLLOW},
    .cost = {.moves = true},
    .shard = {mr_no_shard},
};
