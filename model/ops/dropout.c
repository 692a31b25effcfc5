/* Dropout, twice: by seed and step, with one kernel that draws and applies the mask and draws it
   again in the backward pass instead of keeping it; and by PRNG key, as flax's does, from bernoulli
   and select. */
#include <string.h>

#include "model/ops/lax.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_dropout(mr_fn_t *f, mr_var_t *x, float rate, uint32_t site, mr_var_t *seed,
                         mr_var_t *step) {
  return mr_lax_dropout_from(f, x, rate, site, 0, seed, step);
}

mr_var_t *mr_lax_dropout_from(mr_fn_t *f, mr_var_t *x, float rate, uint32_t site, int64_t first,
                              mr_var_t *seed, mr_var_t *step) {
  const mr_attr_t attr[] = {mr_attr_int("first", first), mr_attr_float("rate", rate),
                            mr_attr_int("site", site)};
  int skip = first == 0; /* what begins at 0 does not say so */
  return mr_emit1(f, &mr_op_dropout, 3, (mr_var_t *[]){x, seed, step}, 3 - skip, attr + skip);
}

int64_t mr_dropout_first(const mr_eqn_t *e) {
  const mr_attr_t *first = mr_attr_find(e, "first");
  return first ? first->i[0] : 0;
}

static mr_err_t dropout_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  const mr_aval_t *seed = &e->in[1]->aval, *step = &e->in[2]->aval;
  if (seed->dtype != MR_U64 || step->dtype != MR_U32 || !mr_aval_same_shape(seed, step))
    return mr_shape_fail(e, diag, "want seed u64[] and step u32[]");
  for (int i = 0; i < seed->ndim; i++) /* if mapped: one mask for each leading index */
    if (i >= e->in[0]->aval.ndim || seed->dim[i] != e->in[0]->aval.dim[i])
      return mr_shape_fail(e, diag, "seed's sizes are not x's first ones");
  double rate = mr_attr_get(e, "rate")->f;
  if (!(rate >= 0 && rate < 1)) return mr_shape_fail(e, diag, "want a rate in [0,1)");
  if (mr_dropout_first(e) < 0 || mr_dropout_first(e) > MR_DROPOUT_FIRST_MOST)
    return mr_shape_fail(e, diag, "want a first element in [0,2^62]");
  return mr_shape_floats(e, out, diag);
}

/* A unit if one seed and step serve all elements. */
static bool dropout_unit(const mr_eqn_t *e, mr_unit_t *u) {
  u->kind = MR_UNIT_EACH;
  return mr_is_narrow(e->in[0]->aval.dtype) && !e->in[1]->aval.ndim && !e->in[2]->aval.ndim;
}

/* The same op on the cotangent: seed, site, step and first element give the same mask. */
static mr_err_t dropout_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  din[0] = mr_lax_dropout_from(f, dout[0], (float)mr_attr_get(e, "rate")->f,
                               (uint32_t)mr_attr_get(e, "site")->i[0], mr_dropout_first(e),
                               e->in[1], e->in[2]);
  return mr_rule_done(f);
}

/* Examples that share seed and step share the mask: dropout of ones draws it once. */
static mr_var_t *shared_mask(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in) {
  mr_var_t *ones = mr_lax_full(f, &e->in[0]->aval, 1);
  mr_eqn_t *m = mr_emit_like(f, e, (mr_var_t *[]){ones, in[1].var, in[2].var});
  mr_batched_t mask = {m ? m->out[0] : NULL, -1};
  return mr_lax_mul(f, mr_batch_front(f, &in[0], 1),
                    mr_batch_front(f, &mask, mr_batch_size(1, in)));
}

static mr_err_t dropout_batch(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in,
                              mr_batched_t *out) {
  int64_t size = mr_batch_size(3, in);
  out[0].axis = 0;
  if (in[1].axis < 0 && in[2].axis < 0) {
    out[0].var = shared_mask(f, e, in);
    return mr_rule_done(f);
  }
  mr_var_t *v[3];
  for (int i = 0; i < 3; i++) v[i] = mr_batch_front(f, &in[i], size);
  mr_eqn_t *b = mr_emit_like(f, e, v);
  out[0].var = b ? b->out[0] : NULL;
  return mr_rule_done(f);
}

static bool dropout_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  if (k > 1) return false;
  mr_var_t *x = mr_sample_f32(s, -1, 1, 3, 4), *seed = mr_sample_scalar(s, MR_U64, 1, 99);
  mr_var_t *step = mr_sample_scalar(s, MR_U32, 1, 9);
  return mr_sample_done(s, mr_lax_dropout_from(s->f, x, 0.4f, 3, k ? 12 : 0, seed, step));
}

const mr_op_def_t mr_op_dropout = {
    MR_RULES_PRIMITIVE,
    .batch = dropout_batch,
    .sample = dropout_sample,
    .name = "dropout",
    .n_in = 3,
    .n_out = 1,
    .shape = dropout_shape,
    .ad = {.jvp = mr_jvp_symmetric, .vjp = dropout_vjp},
    .fuse = {.unit = dropout_unit},
    .reuse = {.of = {1}},
    .amp = {MR_AMP_FOLLOW},
    .cost = {.cheap = true, .each = 2},
    .shard = {mr_shard_seeded},
};

/* ---- dropout_part: the dropout of a device's part of a larger array ----

   The larger array is (rows, row) elements, and the part is a piece of its rows, of each of which
   it has one of the runs that a row is: element i of the part is element
   ((place[0] n + i / run) row + place[1] run + i % run) of the array, n being the part's rows. */
mr_var_t *mr_lax_dropout_part(mr_fn_t *f, mr_var_t *x, const mr_dropout_part_t *p, mr_var_t *seed,
                              mr_var_t *step, mr_var_t *place) {
  const mr_attr_t attr[] = {mr_attr_int("first", p->first), mr_attr_float("rate", (double)p->rate),
                            mr_attr_int("row", p->row),     mr_attr_int("rows", p->rows),
                            mr_attr_int("run", p->run),     mr_attr_int("site", p->site)};
  return mr_emit1(f, &mr_op_dropout_part, 4, (mr_var_t *[]){x, seed, step, place}, 6, attr);
}

mr_dropout_part_t mr_dropout_part_of(const mr_eqn_t *e) {
  return (mr_dropout_part_t){.rate = (float)mr_attr_get(e, "rate")->f,
                             .site = (uint32_t)mr_attr_get(e, "site")->i[0],
                             .first = mr_attr_get(e, "first")->i[0],
                             .rows = mr_attr_get(e, "rows")->i[0],
                             .row = mr_attr_get(e, "row")->i[0],
                             .run = mr_attr_get(e, "run")->i[0]};
}

static mr_err_t dropout_part_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  const mr_aval_t *seed = &e->in[1]->aval, *step = &e->in[2]->aval, *place = &e->in[3]->aval;
  mr_dropout_part_t p = mr_dropout_part_of(e);
  int64_t n = mr_aval_elems(&e->in[0]->aval);
  if (seed->dtype != MR_U64 || seed->ndim || step->dtype != MR_U32 || step->ndim)
    return mr_shape_fail(e, diag, "want seed u64[] and step u32[]");
  if (place->dtype != MR_I32 || place->ndim != 1 || place->dim[0] != 2)
    return mr_shape_fail(e, diag, "want a place i32[2]");
  if (!(p.rate >= 0 && p.rate < 1)) return mr_shape_fail(e, diag, "want a rate in [0,1)");
  if (p.first < 0 || p.first > MR_DROPOUT_FIRST_MOST)
    return mr_shape_fail(e, diag, "want a first element in [0,2^62]");
  if (p.run < 1 || p.row < 1 || p.rows < 1 || p.row % p.run || n % p.run || !n ||
      p.rows % (n / p.run))
    return mr_shape_fail(e, diag,
                         "want runs that divide a row and x, and rows of x that divide the rows");
  if (p.rows > MR_DROPOUT_FIRST_MOST / p.row)
    return mr_shape_fail(e, diag, "want rows of at most 2^62 elements together");
  return mr_shape_floats(e, out, diag);
}

/* The mask of the whole, of which the part is taken. */
static mr_err_t dropout_part_open(mr_fn_t *f, const mr_eqn_t *e, mr_var_t **out) {
  const mr_aval_t *x = &e->in[0]->aval;
  mr_dropout_part_t p = mr_dropout_part_of(e);
  const mr_aval_t whole = mr_aval_of(x->dtype, p.rows, p.row);
  int64_t n = mr_aval_elems(x) / p.run;
  mr_var_t *mask = mr_lax_dropout_from(f, mr_lax_full(f, &whole, 1), p.rate, p.site, p.first,
                                       e->in[1], e->in[2]);
  mr_var_t *at[2];
  for (int i = 0; i < 2; i++) {
    at[i] = mr_lax_slice(f, e->in[3], (int64_t[]){i}, (int64_t[]){i + 1});
    at[i] = mr_lax_reshape(f, at[i], 0, NULL);
  }
  mask = mr_lax_take(f, mr_lax_reshape_to(f, mask, p.rows / n, n * p.row), at[0]);
  mask = mr_lax_reshape_to(f, mask, n, p.row / p.run, p.run);
  mask = mr_lax_take(f, mr_lax_transpose(f, mask, (int[]){1, 0, 2}), at[1]);
  out[0] = mr_lax_mul(f, e->in[0], mr_lax_reshape(f, mask, x->ndim, x->dim));
  return mr_rule_done(f);
}

static mr_err_t dropout_part_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout,
                                 mr_var_t **din) {
  mr_dropout_part_t p = mr_dropout_part_of(e);
  din[0] = mr_lax_dropout_part(f, dout[0], &p, e->in[1], e->in[2], e->in[3]);
  return mr_rule_done(f);
}

static bool dropout_part_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  if (k > 1) return false;
  mr_var_t *x = mr_sample_f32(s, -1, 1, 2, 4), *seed = mr_sample_scalar(s, MR_U64, 1, 99);
  mr_var_t *step = mr_sample_scalar(s, MR_U32, 1, 9);
  mr_var_t *place = mr_sample_dims(s, MR_I32, 0, 1, 2);
  const mr_dropout_part_t p = {
      .rate = 0.4f, .site = 3, .first = k ? 16 : 0, .rows = 4, .row = 12, .run = 4};
  return mr_sample_done(s, mr_lax_dropout_part(s->f, x, &p, seed, step, place));
}

const mr_op_def_t mr_op_dropout_part = {
    .open = dropout_part_open,
    .batch = mr_batch_open,
    .sample = dropout_part_sample,
    .name = "dropout_part",
    .n_in = 4,
    .n_out = 1,
    .shape = dropout_part_shape,
    .ad = {.jvp = mr_jvp_symmetric, .vjp = dropout_part_vjp},
    .reuse = {.of = {1}},
    .amp = {MR_AMP_FOLLOW},
    .cost = {.cheap = true, .each = 2},
    .shard = {mr_shard_whole},
};

/* As flax writes it: primitives only. */
mr_var_t *mr_lax_dropout_by_key(mr_fn_t *f, mr_var_t *x, float rate, mr_var_t *key) {
  if (!x || !key) return NULL;
  if (!(rate >= 0 && rate <= 1)) {
    mr_fail(&f->diag, MR_ERR_SHAPE, "dropout: the rate is %g, want one of [0,1]", (double)rate);
    return NULL;
  }
  if (rate == 0) return x;
  mr_var_t *zero = mr_lax_full(f, &x->aval, 0);
  if (rate == 1) return zero;
  float keep = 1 - rate;
  mr_var_t *coin = mr_lax_random_bernoulli(f, key, keep, x->aval.ndim, x->aval.dim);
  return mr_lax_select_n(f, coin, zero, mr_lax_div(f, x, mr_literal(f, x->aval.dtype, keep)));
}
