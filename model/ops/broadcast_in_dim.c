/* broadcast_in_dim: repeats a value along new dimensions and those of size 1; and the values that
   are built from it alone. */
#include "model/ops/lax.h"
#include "model/ops/operands.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_broadcast_in_dim(mr_fn_t *f, mr_var_t *x, int ndim, const int64_t *dim,
                                  const int *at) {
  if (!x) return NULL;
  int64_t place[MR_MAX_NDIM];
  for (int i = 0; i < x->aval.ndim; i++) place[i] = at[i];
  mr_attr_t dims = mr_attr_ints("broadcast_dimensions", x->aval.ndim, place);
  dims.hidden = x->aval.ndim == 0;
  return mr_emit1(f, &mr_op_broadcast_in_dim, 1, &x, 2,
                  (mr_attr_t[]){dims, mr_attr_hide(mr_attr_ints("shape", ndim, dim))});
}

const mr_var_t *mr__repeated(const mr_var_t *v) {
  while (v->def && v->def->op == &mr_op_broadcast_in_dim) v = v->def->in[0];
  return v;
}

static mr_err_t broadcast_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  const mr_aval_t *x = &e->in[0]->aval;
  const mr_attr_t *at = mr_attr_get(e, "broadcast_dimensions"), *to = mr_attr_get(e, "shape");
  *out = mr_aval(x->dtype, to->n, to->i);
  if (at->n != x->ndim)
    return mr_shape_fail(e, diag, "want one of broadcast_dimensions for each dimension");
  for (int i = 0; i < x->ndim; i++) {
    if (at->i[i] < 0 || at->i[i] >= to->n || (i && at->i[i] <= at->i[i - 1]))
      return mr_shape_fail(e, diag, "broadcast_dimensions must ascend within the shape");
    if (x->dim[i] != 1 && x->dim[i] != to->i[at->i[i]])
      return mr_shape_fail(e, diag, "a size is neither 1 nor the result's");
  }
  return MR_OK;
}

/* A unit if the operand's dimensions other than 1 are neighbours in the result: element i is the
   operand's element i / inner mod mid. */
static bool broadcast_unit(const mr_eqn_t *e, mr_unit_t *u) {
  const mr_aval_t *x = &e->in[0]->aval, *y = &e->out[0]->aval;
  const mr_attr_t *at = mr_attr_get(e, "broadcast_dimensions");
  int last = -1;
  u->kind = MR_UNIT_REPEAT;
  u->mid = mr_aval_elems(x);
  u->inner = mr_aval_elems(y);
  for (int i = 0; i < x->ndim; i++) {
    if (x->dim[i] == 1) continue;
    if (last >= 0 && mr_aval_span(y, last + 1, (int)at->i[i]) != 1) return false;
    last = (int)at->i[i];
    u->inner = mr_aval_span(y, last + 1, y->ndim);
  }
  return u->inner > 0;
}

/* Returns the dimension of the view that is dimension d of the result. */
static int place_in(const mr_view_t *v, int d) {
  for (int i = 0; v->transposes && i < v->ndim; i++)
    if (v->perm[i] == d) return i;
  return d;
}

/* A slice cuts the operand's own dimensions; a transposition must keep them in order, and then only
   the places change. */
static bool broadcast_view(const mr_eqn_t *e, const mr_view_t *v, mr_view_t *in) {
  const mr_aval_t *x = &e->in[0]->aval;
  const int64_t *at = mr_attr_get(e, "broadcast_dimensions")->i;
  in[0].ndim = v->transposes ? 0 : x->ndim;
  for (int i = 0; i < x->ndim; i++) {
    if (i && place_in(v, (int)at[i]) <= place_in(v, (int)at[i - 1])) return false;
    in[0].start[i] = x->dim[i] == 1 ? 0 : v->start[at[i]];
    in[0].limit[i] = x->dim[i] == 1 ? 1 : v->limit[at[i]];
  }
  return true;
}

static mr_var_t *broadcast_viewed(mr_fn_t *f, const mr_eqn_t *e, const mr_view_t *v,
                                  mr_var_t *const *in) {
  mr_aval_t y = mr_view_aval(&e->out[0]->aval, v);
  const int64_t *old = mr_attr_get(e, "broadcast_dimensions")->i;
  int at[MR_MAX_NDIM];
  for (int i = 0; i < e->in[0]->aval.ndim; i++) at[i] = place_in(v, (int)old[i]);
  return mr_lax_broadcast_in_dim(f, in[0], y.ndim, y.dim, at);
}

/* Sums the cotangent over the repeated dimensions. */
static mr_err_t broadcast_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout,
                              mr_var_t **din) {
  const mr_aval_t *x = &e->in[0]->aval, *y = &e->out[0]->aval;
  const mr_attr_t *at = mr_attr_get(e, "broadcast_dimensions");
  int axes[MR_MAX_NDIM], n = 0;
  for (int d = 0; d < y->ndim; d++) {
    bool kept = false;
    for (int i = 0; i < x->ndim; i++) kept |= at->i[i] == d && x->dim[i] == y->dim[d];
    if (!kept) axes[n++] = d;
  }
  mr_var_t *sum = n ? mr_lax_reduce_sum(f, dout[0], n, axes) : dout[0];
  din[0] = sum && sum->aval.ndim != x->ndim ? mr_lax_reshape(f, sum, x->ndim, x->dim) : sum;
  return mr_rule_done(f);
}

static mr_err_t broadcast_batch(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in,
                                mr_batched_t *out) {
  const mr_aval_t *y = &e->out[0]->aval;
  const mr_attr_t *place = mr_attr_get(e, "broadcast_dimensions");
  int at[MR_MAX_NDIM + 1] = {0};
  int64_t dim[MR_MAX_NDIM] = {mr_batch_size(1, in)};
  if (y->ndim == MR_MAX_NDIM) return mr_shape_fail(e, &f->diag, "vmap: too many dimensions");
  for (int i = 0; i < place->n; i++) at[i + 1] = (int)place->i[i] + 1;
  for (int i = 0; i < y->ndim; i++) dim[i + 1] = y->dim[i];
  out[0].var = mr_lax_broadcast_in_dim(f, mr_batch_front(f, &in[0], 1), y->ndim + 1, dim, at);
  out[0].axis = 0;
  return mr_rule_done(f);
}

static bool broadcast_in_dim_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  mr_var_t *x;
  switch (k) {
    case 0:
      x = mr_sample_f32(s, -1, 1, 2, 4);
      x = mr_lax_broadcast_in_dim(s->f, x, 3, (int64_t[]){2, 3, 4}, (int[]){0, 2});
      return mr_sample_done(s, x);
    case 1:
      x = mr_sample_f32(s, -1, 1, 2, 1);
      x = mr_lax_broadcast_in_dim(s->f, x, 3, (int64_t[]){2, 3, 4}, (int[]){0, 2});
      return mr_sample_done(s, x);
    case 2:
      x = mr_sample_scalar(s, MR_F32, -1, 1);
      return mr_sample_done(s, mr_lax_broadcast_in_dim(s->f, x, 2, (int64_t[]){2, 3}, NULL));
  }
  return false;
}

/* A repeated dimension has no place in the operand. */
static mr_err_t broadcast_shard(const mr_eqn_t *e, mr_factors_t *s, mr_diag_t *diag) {
  const mr_aval_t *x = &e->in[0]->aval, *y = &e->out[0]->aval;
  const int64_t *at = mr_attr_get(e, "broadcast_dimensions")->i;
  for (int d = 0, i = 0; d < y->ndim; d++) {
    int k = mr_factor_add(s, y->dim[d], MR_CUT_EACH);
    mr_factor_out(s, 0, d, k);
    if (i == x->ndim || at[i] != d) continue;
    if (x->dim[i] == y->dim[d]) mr_factor_in(s, 0, i, k);
    i++;
  }
  return MR_OK;
}

const mr_op_def_t mr_op_broadcast_in_dim = {
    MR_RULES_PRIMITIVE,
    .batch = broadcast_batch,
    .sample = broadcast_in_dim_sample,
    .name = "broadcast_in_dim",
    .n_in = 1,
    .n_out = 1,
    .shape = broadcast_shape,
    .ad = {.jvp = mr_jvp_linear, .vjp = broadcast_vjp},
    .fuse = {.unit = broadcast_unit, .view = broadcast_view, .viewed = broadcast_viewed},
    .amp = {MR_AMP_FOLLOW},
    .cost = {.moves = true},
    .shard = {broadcast_shard, .sizes = "shape", .linear = true},
};

mr_var_t *mr_lax_full(mr_fn_t *f, const mr_aval_t *like, double value) {
  return mr_lax_broadcast_in_dim(f, mr_literal(f, like->dtype, value), like->ndim, like->dim, NULL);
}

mr_var_t *mr_rows_spread(mr_fn_t *f, mr_var_t *v, const mr_aval_t *like) {
  int at[MR_MAX_NDIM];
  for (int i = 0; i < MR_MAX_NDIM; i++) at[i] = i;
  return mr_lax_broadcast_in_dim(f, v, like->ndim, like->dim, at);
}

mr_var_t *mr_row_repeat(mr_fn_t *f, mr_var_t *v, const mr_aval_t *like) {
  return mr_lax_broadcast_in_dim(f, v, like->ndim, like->dim, (int[]){like->ndim - 1});
}
