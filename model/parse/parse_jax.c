/* Ops that jax 0.10 prints and this tree lacks, written with ops that it has: they give the same
   values, and derivatives where those equal jax's.  One function for each op or family; a table
   at the end maps names to them. */
#include <math.h>
#include <string.h>

#include "model/control/control.h"
#include "model/control/table.h"
#include "model/ops/lax.h"
#include "model/ops/rules.h"
#include "model/parse/parse_private.h"

/* An equation being rewritten. */
typedef struct rewrite {
  mr_parser_t *p;
  mr_fn_t *g;
  mr_parse_line_t *l;
  mr_var_t **out;
  mr_var_t *x, *y, *z; /* the first three operands, NULL if there are fewer */
} rewrite_t;

static const mr_attr_t *find_ints(rewrite_t *r, const char *name) {
  const mr_attr_t *a = mr__parse_find(r->l, name);
  return a && a->kind == MR_ATTR_INTS ? a : NULL;
}

static bool get_int(rewrite_t *r, const char *name, int64_t lo, int64_t hi, int *v) {
  const mr_attr_t *a = mr__parse_find(r->l, name);
  if (!a || a->kind != MR_ATTR_INT || a->i[0] < lo || a->i[0] > hi) return false;
  *v = (int)a->i[0];
  return true;
}

static bool parse_jax_is_text(rewrite_t *r, const char *name, const char *text) {
  const mr_attr_t *a = mr__parse_find(r->l, name);
  return a && a->kind == MR_ATTR_TEXT && !strcmp(a->text, text);
}

static mr_err_t fail_rewrite(rewrite_t *r, const char *why) {
  return mr_fail(&r->g->diag, MR_ERR_DATA, "%s: %s", r->l->op, why);
}

/* Sets the only result to v.  Fails if v is NULL, as g has failed then. */
static mr_err_t parse_jax_give(rewrite_t *r, mr_var_t *v) {
  r->out[0] = v;
  return v && r->l->n_out == 1 ? MR_OK
                               : fail_rewrite(r, "cannot be written with the ops there are");
}

/* ---- pieces ---- */

static mr_var_t *parse_jax_number(rewrite_t *r, mr_dtype_t t, double v) {
  return mr_literal(r->g, t, v);
}

/* Reverses the order of numbers: -x, or for integers -1 - x, which never overflows. */
static mr_var_t *upside_down(rewrite_t *r, mr_var_t *x) {
  if (mr_is_float(x->aval.dtype)) return mr_lax_neg(r->g, x);
  return mr_lax_sub(r->g, mr_literal_whole(r->g, x->aval.dtype, -1), x);
}

static mr_var_t *negate_bool(rewrite_t *r, mr_var_t *x) { /* bool */
  return mr_lax_eq(r->g, x, parse_jax_number(r, MR_BOOL, 0));
}

static mr_var_t *iota_along(rewrite_t *r, int64_t n) { return mr_lax_iota(r->g, MR_I32, 1, &n, 0); }

/* x with dimension `axis` moved to the front, or with `back`, from the front to `axis`. */
static mr_var_t *move_axis(rewrite_t *r, mr_var_t *x, int axis, bool back) {
  int perm[MR_MAX_NDIM], n = 0;
  if (!x || !axis) return x;
  if (!back) perm[n++] = axis;
  for (int i = 0; i < x->aval.ndim; i++)
    if (back)
      perm[i] = i < axis ? i + 1 : i == axis ? 0 : i;
    else if (i != axis)
      perm[n++] = i;
  return mr_lax_transpose(r->g, x, perm);
}

static mr_var_t *take_along(rewrite_t *r, mr_var_t *x, int axis, mr_var_t *index) {
  x = move_axis(r, x, axis, false);
  return move_axis(r, x && index ? mr_lax_take(r->g, x, index) : NULL, axis, true);
}

/* A scalar index as i32, clamped to [0,most]. */
static mr_var_t *clamp_index(rewrite_t *r, mr_var_t *i, int64_t most) {
  i = mr_lax_convert(r->g, i, MR_I32);
  i = mr_lax_max(r->g, i, parse_jax_number(r, MR_I32, 0));
  return mr_lax_min(r->g, i, parse_jax_number(r, MR_I32, (double)most));
}

static mr_var_t *parse_jax_repeat(rewrite_t *r, mr_var_t *x, int ndim, const int64_t *dim,
                                  int first) {
  int at[MR_MAX_NDIM];
  for (int i = 0; x && i < x->aval.ndim; i++) at[i] = i + first;
  return x ? mr_lax_broadcast_in_dim(r->g, x, ndim, dim, at) : NULL;
}

/* ---- ops ---- */

static mr_err_t rewrite_same(rewrite_t *r) {
  if (r->l->n_in != r->l->n_out) return fail_rewrite(r, "want as many results as operands");
  for (int i = 0; i < r->l->n_out; i++) r->out[i] = r->l->in[i];
  return MR_OK;
}

static mr_err_t rewrite_square(rewrite_t *r) {
  return parse_jax_give(r, mr_lax_integer_pow(r->g, r->x, 2));
}

static mr_err_t exp2_(rewrite_t *r) {
  return parse_jax_give(r, mr_lax_exp(r->g, mr_lax_scale(r->g, M_LN2, r->x)));
}

static mr_err_t erfc_(rewrite_t *r) { /* it loses digits if erf is close to 1 */
  mr_dtype_t t = r->x->aval.dtype;
  return parse_jax_give(r, mr_lax_sub(r->g, parse_jax_number(r, t, 1), mr_lax_erf(r->g, r->x)));
}

static mr_err_t tan_(rewrite_t *r) {
  return parse_jax_give(r, mr_lax_div(r->g, mr_lax_sin(r->g, r->x), mr_lax_cos(r->g, r->x)));
}

static mr_err_t ceil_(rewrite_t *r) {
  return parse_jax_give(r, mr_lax_neg(r->g, mr_lax_floor(r->g, mr_lax_neg(r->g, r->x))));
}

static mr_err_t is_finite(rewrite_t *r) {
  return parse_jax_give(
      r, mr_lax_lt(r->g, mr_lax_abs(r->g, r->x), parse_jax_number(r, r->x->aval.dtype, INFINITY)));
}

/* and, or, xor and not for bools. */
static mr_err_t rewrite_logic(rewrite_t *r) {
  if (r->x->aval.dtype != MR_BOOL) return fail_rewrite(r, "bits of integers have no op here");
  switch (r->l->op[0]) {
    case 'a': return parse_jax_give(r, mr_lax_min(r->g, r->x, r->y));
    case 'o': return parse_jax_give(r, mr_lax_max(r->g, r->x, r->y));
    case 'x': return parse_jax_give(r, mr_lax_ne(r->g, r->x, r->y));
    default: return parse_jax_give(r, negate_bool(r, r->x));
  }
}

static mr_err_t rewrite_clamp(rewrite_t *r) { /* low, x, high */
  return parse_jax_give(r, mr_lax_min(r->g, mr_lax_max(r->g, r->x, r->y), r->z));
}

/* rem for integers, as C's %.  For floats, x - y trunc(x / y) would round. */
static mr_err_t rewrite_rem(rewrite_t *r) {
  if (mr_is_float(r->x->aval.dtype)) return fail_rewrite(r, "remainders of floats have no op here");
  mr_var_t *q = mr_lax_div(r->g, r->x, r->y);
  return parse_jax_give(r, mr_lax_sub(r->g, r->x, mr_lax_mul(r->g, q, r->y)));
}

static mr_err_t pow_(rewrite_t *r) { /* jax also allows integer exponents */
  return parse_jax_give(r, mr_lax_pow(r->g, r->x, mr_lax_convert(r->g, r->y, r->x->aval.dtype)));
}

static mr_err_t rewrite_reduce(rewrite_t *r) {
  const mr_attr_t *a = find_ints(r, "axes");
  int axes[MR_ATTR_MAX];
  if (!a || a->n > MR_MAX_NDIM) return fail_rewrite(r, "want axes");
  for (int i = 0; i < a->n; i++) axes[i] = a->i[i] < 0 || a->i[i] > 7 ? -1 : (int)a->i[i];
  const char *kind = strchr(r->l->op, '_');
  mr_var_t *x = r->x;
  if (!kind)
    return parse_jax_give(r, mr_lax_reduce_sum(r->g, x, a->n, axes)); /* psum over dimensions */
  if (!strcmp(kind, "_min")) {
    x = mr_lax_reduce_max(r->g, upside_down(r, x), a->n, axes);
    return parse_jax_give(r, x ? upside_down(r, x) : NULL);
  }
  if (x->aval.dtype != MR_BOOL) return fail_rewrite(r, "bits of integers have no op here");
  bool all = !strcmp(kind, "_and");
  x = mr_lax_convert(r->g, all ? negate_bool(r, x) : x, MR_F32); /* whose maxima become loops */
  x = mr_lax_reduce_max(r->g, x, a->n, axes);
  return parse_jax_give(r, all ? mr_lax_le(r->g, x, parse_jax_number(r, MR_F32, 0))
                               : mr_lax_gt(r->g, x, parse_jax_number(r, MR_F32, 0)));
}

/* Elements [from,to) along dimension d. */
static mr_var_t *slice_along(rewrite_t *r, mr_var_t *x, int d, int64_t from, int64_t to) {
  int64_t start[MR_MAX_NDIM] = {0}, limit[MR_MAX_NDIM];
  if (!x) return NULL;
  memcpy(limit, x->aval.dim, sizeof limit);
  start[d] = from, limit[d] = to;
  return mr_lax_slice(r->g, x, start, limit);
}

/* Multiplies the halves of dimension d with each other until one element is left, so that the
   derivatives are those of products, also where an element is 0. */
static mr_var_t *product_along(rewrite_t *r, mr_var_t *x, int d) {
  while (x && x->aval.dim[d] > 1) {
    int64_t n = x->aval.dim[d], half = n / 2;
    mr_var_t *rest[2] = {NULL, n % 2 ? slice_along(r, x, d, n - 1, n) : NULL};
    rest[0] = mr_lax_mul(r->g, slice_along(r, x, d, 0, half), slice_along(r, x, d, half, 2 * half));
    x = rest[0] && rest[1] ? mr_lax_concatenate(r->g, 2, rest, d) : n % 2 ? NULL : rest[0];
  }
  return x;
}

/* f16 and bf16 are multiplied in f32 and rounded once, as jax does. */
static mr_err_t reduce_prod(rewrite_t *r) {
  const mr_attr_t *a = find_ints(r, "axes");
  mr_aval_t s = r->x->aval;
  int axes[MR_MAX_NDIM];
  if (!a || a->n > s.ndim) return fail_rewrite(r, "want axes");
  bool narrow = s.dtype == MR_F16 || s.dtype == MR_BF16, none = false;
  mr_var_t *x = narrow ? mr_lax_convert(r->g, r->x, MR_F32) : r->x;
  for (int i = 0; i < a->n; i++) {
    if (a->i[i] < 0 || a->i[i] >= s.ndim) return fail_rewrite(r, "want axes");
    axes[i] = (int)a->i[i], none |= !s.dim[axes[i]];
    if (s.dim[axes[i]]) x = product_along(r, x, axes[i]);
  }
  if (none) return parse_jax_give(r, mr_lax_full(r->g, &r->l->out[0].aval, 1));
  x = x && a->n ? mr_lax_squeeze(r->g, x, a->n, axes) : x;
  return parse_jax_give(r, x && narrow ? mr_lax_convert(r->g, x, s.dtype) : x);
}

/* argmax and argmin: the first index of the greatest or least, or of a NaN. */
static mr_err_t rewrite_argmax(rewrite_t *r) {
  const mr_attr_t *a = find_ints(r, "axes");
  mr_aval_t s = r->x->aval;
  if (!a || a->n != 1 || a->i[0] < 0 || a->i[0] >= s.ndim) return fail_rewrite(r, "want one axis");
  int axis = (int)a->i[0], at[MR_MAX_NDIM], n = 0;
  mr_var_t *x = !strcmp(r->l->op, "argmin") ? upside_down(r, r->x) : r->x;
  for (int i = 0; i < s.ndim; i++)
    if (i != axis) at[n++] = i;
  mr_var_t *most = mr_lax_reduce_max(r->g, x, 1, &axis);
  if (most) most = mr_lax_broadcast_in_dim(r->g, most, s.ndim, s.dim, at);
  mr_var_t *hit = mr_lax_max(r->g, mr_lax_eq(r->g, x, most), mr_lax_ne(r->g, x, x));
  mr_dtype_t t = s.dim[axis] < 1 << 24 ? MR_F32 : MR_I32; /* f32 is exact, and becomes a loop */
  mr_var_t *place = mr_lax_iota(r->g, t, s.ndim, s.dim, axis);
  mr_var_t *none = parse_jax_number(r, t, (double)s.dim[axis]);
  mr_var_t *first = mr_lax_select_n(r->g, hit, mr_lax_full(r->g, &place->aval, none->value), place);
  first = mr_lax_reduce_max(r->g, first ? upside_down(r, first) : NULL, 1, &axis);
  return parse_jax_give(
      r, first ? mr_lax_convert(r->g, upside_down(r, first), r->l->out[0].aval.dtype) : NULL);
}

static mr_err_t parse_jax_split(rewrite_t *r) {
  const mr_attr_t *sizes = find_ints(r, "sizes");
  int axis, n = r->x->aval.ndim;
  if (!sizes || sizes->n != r->l->n_out || !get_int(r, "axis", 0, n - 1, &axis))
    return fail_rewrite(r, "want an axis, and a size for each result");
  int64_t start[MR_MAX_NDIM] = {0}, limit[MR_MAX_NDIM];
  memcpy(limit, r->x->aval.dim, sizeof limit);
  limit[axis] = 0;
  for (int k = 0; k < sizes->n; k++) {
    int64_t left = r->x->aval.dim[axis] - limit[axis];
    start[axis] = limit[axis];
    if (sizes->i[k] < 0 || sizes->i[k] > left) return fail_rewrite(r, "its sizes do not fit");
    limit[axis] += sizes->i[k];
    if (!(r->out[k] = mr_lax_slice(r->g, r->x, start, limit))) return r->g->diag.code;
  }
  return MR_OK;
}

static mr_err_t parse_jax_stack(rewrite_t *r) {
  int axis, n = r->x->aval.ndim;
  if (n == MR_MAX_NDIM || !get_int(r, "axis", 0, n, &axis)) return fail_rewrite(r, "want an axis");
  mr_var_t **piece = mr_mem_take(&r->g->mem, (size_t)r->l->n_in * sizeof *piece);
  for (int i = 0; i < r->l->n_in; i++) {
    int64_t dim[MR_MAX_NDIM];
    if (r->l->in[i]->aval.ndim != n) return fail_rewrite(r, "its operands have other shapes");
    for (int d = 0; d <= n; d++) dim[d] = d == axis ? 1 : r->l->in[i]->aval.dim[d - (d > axis)];
    if (!(piece[i] = mr_lax_reshape(r->g, r->l->in[i], n + 1, dim))) return r->g->diag.code;
  }
  return parse_jax_give(r, mr_lax_concatenate(r->g, r->l->n_in, piece, axis));
}

/* unstack: a slice of each index along an axis, without it. */
static mr_err_t parse_jax_unstack(rewrite_t *r) {
  int axis, n = r->x->aval.ndim;
  if (!get_int(r, "axis", 0, n - 1, &axis) || r->x->aval.dim[axis] != r->l->n_out)
    return fail_rewrite(r, "want an axis, and a result for each of its indices");
  int64_t start[MR_MAX_NDIM] = {0}, limit[MR_MAX_NDIM];
  memcpy(limit, r->x->aval.dim, sizeof limit);
  for (int k = 0; k < r->l->n_out; k++) {
    start[axis] = k, limit[axis] = k + 1;
    mr_var_t *piece = mr_lax_slice(r->g, r->x, start, limit);
    if (!piece || !(r->out[k] = mr_lax_squeeze(r->g, piece, 1, &axis))) return r->g->diag.code;
  }
  return MR_OK;
}

/* empty and empty2, whose values mean nothing: zeros, as jax has them on the CPU. */
static mr_err_t parse_jax_empty(rewrite_t *r) {
  const mr_attr_t *t = mr__parse_find(r->l, "dtype"), *shape = find_ints(r, "shape");
  const mr_aval_t *y = &r->l->out[0].aval;
  bool fits = t && t->kind == MR_ATTR_DTYPE && t->i[0] == (int64_t)y->dtype &&
              y->ndim == (shape ? shape->n : 0);
  for (int d = 0; fits && d < y->ndim; d++) fits = shape->i[d] == y->dim[d];
  if (!fits) return fail_rewrite(r, "want the dtype and the shape of its result");
  if (y->ndim) return parse_jax_give(r, mr_lax_full(r->g, y, 0));
  bool is_float = mr_is_float(y->dtype);
  return parse_jax_give(
      r, is_float ? mr_literal(r->g, y->dtype, 0) : mr_literal_whole(r->g, y->dtype, 0));
}

/* tile, one dimension at a time: (..., n, ...) -> (..., r, n, ...) -> (..., r n, ...). */
static mr_err_t rewrite_tile(rewrite_t *r) {
  const mr_attr_t *reps = find_ints(r, "reps");
  mr_var_t *x = r->x;
  int n = x->aval.ndim;
  if (!reps || reps->n != n || n == MR_MAX_NDIM)
    return fail_rewrite(r, "want a count for each dimension");
  for (int axis = 0; axis < n && x; axis++) {
    int64_t dim[MR_MAX_NDIM], whole[MR_MAX_NDIM], times = reps->i[axis];
    int at[MR_MAX_NDIM];
    if (times == 1) continue;
    if (times < 0 || times > INT32_MAX) return fail_rewrite(r, "want counts of 31 bits");
    memcpy(whole, x->aval.dim, sizeof whole);
    for (int d = 0; d <= n; d++) dim[d] = d == axis ? times : whole[d - (d > axis)];
    for (int d = 0; d < n; d++) at[d] = d + (d >= axis);
    x = mr_lax_broadcast_in_dim(r->g, x, n + 1, dim, at);
    whole[axis] *= times;
    if (x) x = mr_lax_reshape(r->g, x, n, whole);
  }
  return parse_jax_give(r, x);
}

/* pad, not between elements.  A negative padding cuts; a value other than 0 is selected in. */
static mr_err_t rewrite_pad(rewrite_t *r) {
  const mr_attr_t *a = find_ints(r, "padding_config");
  int64_t low[MR_MAX_NDIM], high[MR_MAX_NDIM];
  int n = r->x->aval.ndim;
  if (!a || a->n != 3 * n) return fail_rewrite(r, "want three numbers for each dimension");
  mr_aval_t s = r->x->aval;
  mr_var_t *x = r->x;
  int64_t start[MR_MAX_NDIM] = {0}, limit[MR_MAX_NDIM];
  for (int d = 0; d < n; d++) {
    int64_t lo = a->i[3 * d], hi = a->i[3 * d + 1];
    if (a->i[3 * d + 2]) return fail_rewrite(r, "padding between elements has no op here");
    if (lo < -s.dim[d] || hi < -s.dim[d] || lo > INT32_MAX || hi > INT32_MAX)
      return fail_rewrite(r, "its padding does not fit");
    start[d] = lo < 0 ? -lo : 0, limit[d] = s.dim[d] + (hi < 0 ? hi : 0);
    low[d] = lo > 0 ? lo : 0, high[d] = hi > 0 ? hi : 0;
    if (limit[d] < start[d]) return fail_rewrite(r, "its padding does not fit");
  }
  x = mr_lax_pad(r->g, mr_lax_slice(r->g, x, start, limit), low, high);
  if (r->y->literal && r->y->value == 0) return parse_jax_give(r, x);
  /* Ones padded with zeros mark the inside; the value is selected where they are 0. */
  for (int d = 0; d < n; d++) s.dim[d] = limit[d] - start[d];
  s.dtype = MR_F32;
  mr_var_t *inside = mr_lax_pad(r->g, mr_lax_full(r->g, &s, 1), low, high);
  mr_var_t *around = x ? parse_jax_repeat(r, r->y, n, x->aval.dim, 0) : NULL;
  inside = mr_lax_gt(r->g, inside, parse_jax_number(r, MR_F32, 0));
  return parse_jax_give(r, mr_lax_select_n(r->g, inside, around, x));
}

/* slice with strides: every s-th element from start.  Pads to whole rows of s elements and takes
   the first of each row. */
static mr_err_t strided_slice(rewrite_t *r) {
  const mr_attr_t *from = find_ints(r, "start_indices"), *to = find_ints(r, "limit_indices"),
                  *step = find_ints(r, "strides");
  int n = r->x->aval.ndim;
  if (!from || !to || !step || from->n != n || to->n != n || step->n != n)
    return fail_rewrite(r, "want a start, a limit and a stride for each dimension");
  mr_var_t *x = mr_lax_slice(r->g, r->x, from->i, to->i);
  for (int d = 0; d < n && x; d++) {
    int64_t s = step->i[d], low[MR_MAX_NDIM] = {0}, high[MR_MAX_NDIM] = {0}, dim[MR_MAX_NDIM + 1];
    if (s == 1) continue;
    if (s < 1 || s > INT32_MAX || n == MR_MAX_NDIM)
      return fail_rewrite(r, "its strides do not fit");
    int64_t rows = (x->aval.dim[d] + s - 1) / s;
    high[d] = rows * s - x->aval.dim[d];
    if (!(x = mr_lax_pad(r->g, x, low, high))) break;
    for (int i = 0; i <= n; i++) dim[i] = i == d ? rows : i == d + 1 ? s : x->aval.dim[i - (i > d)];
    if (!(x = mr_lax_reshape(r->g, x, n + 1, dim))) break;
    low[d] = 0, dim[d + 1] = 1;
    x = mr_lax_slice(r->g, x, (const int64_t[MR_MAX_NDIM]){0}, dim);
    if (x) x = mr_lax_squeeze(r->g, x, 1, (int[]){d + 1});
  }
  return parse_jax_give(r, x);
}

/* ---- by index ---- */

static mr_err_t dynamic_slice(rewrite_t *r) {
  const mr_attr_t *sizes = find_ints(r, "slice_sizes");
  int n = r->x->aval.ndim;
  if (!sizes || sizes->n != n || r->l->n_in != n + 1)
    return fail_rewrite(r, "want sizes and starts");
  mr_var_t *x = r->x;
  for (int d = 0; d < n && x; d++) {
    int64_t size = sizes->i[d], whole = r->x->aval.dim[d];
    if (size < 0 || size > whole) return fail_rewrite(r, "its sizes do not fit");
    if (size == whole) continue;
    mr_var_t *start = clamp_index(r, r->l->in[1 + d], whole - size);
    x = take_along(r, x, d, start ? mr_lax_add(r->g, iota_along(r, size), start) : NULL);
  }
  return parse_jax_give(r, x);
}

/* Element i of the result is element i - start of the update if that exists, else x's. */
static mr_err_t dynamic_update_slice(rewrite_t *r) {
  mr_aval_t s = r->x->aval;
  int n = s.ndim;
  if (!r->y || r->y->aval.ndim != n || r->l->n_in != n + 2) return fail_rewrite(r, "want starts");
  mr_var_t *update = r->y, *mask = NULL;
  for (int d = 0; d < n && update; d++) {
    int64_t size = r->y->aval.dim[d], whole = s.dim[d];
    if (size > whole || !size) return fail_rewrite(r, "its sizes do not fit");
    if (size == whole) continue;
    mr_var_t *start = clamp_index(r, r->l->in[2 + d], whole - size);
    mr_var_t *at = start ? mr_lax_sub(r->g, iota_along(r, whole), start) : NULL;
    mr_var_t *zero = parse_jax_number(r, MR_I32, 0),
             *last = parse_jax_number(r, MR_I32, (double)(size - 1));
    mr_var_t *in = mr_lax_min(r->g, mr_lax_ge(r->g, at, zero), mr_lax_le(r->g, at, last)); /* and */
    update = take_along(r, update, d, mr_lax_min(r->g, mr_lax_max(r->g, at, zero), last));
    if (in) in = mr_lax_broadcast_in_dim(r->g, in, n, s.dim, &d);
    mask = mask ? mr_lax_min(r->g, mask, in) : in;
  }
  return parse_jax_give(r, mask && update ? mr_lax_select_n(r->g, mask, r->x, update) : update);
}

/* Reads name=(integers...) from the text of dimension numbers into v[*n].  false if it is
   missing. */
static bool dimension_list(const char *text, const char *name, int *n, int64_t v[MR_MAX_NDIM]) {
  const char *at = strstr(text, name);
  if (!at) return false;
  mr_parser_t p = {.text = text, .at = at + strlen(name)};
  *n = 0;
  if (!mr__parse_is(&p, "=") || !mr__parse_is(&p, "(")) return false;
  while (!mr__parse_is(&p, ")")) {
    if (*n == MR_MAX_NDIM || mr__parse_int(&p, &v[*n]) < 0) return false;
    ++*n;
    if (!mr__parse_is(&p, ",")) return mr__parse_is(&p, ")");
  }
  return true;
}

/* What gather gives for an index outside of the operand: fill_value, of which None is NaN, the
   least integer, the greatest without a sign, or True.  NULL: it is no number of dtype t. */
static mr_var_t *literal_to_fill(rewrite_t *r, mr_dtype_t t) {
  const mr_attr_t *a = mr__parse_find(r->l, "fill_value");
  bool none = !a || a->kind == MR_ATTR_NONE, whole = a && a->kind == MR_ATTR_INT;
  size_t bits = 8 * mr_dtype_size(t);
  if (mr_is_float(t)) {
    if (none) return mr_literal(r->g, t, NAN);
    return whole                      ? mr_literal(r->g, t, (double)a->i[0])
           : a->kind == MR_ATTR_FLOAT ? mr_literal(r->g, t, a->f)
                                      : NULL;
  }
  if (t == MR_BOOL) {
    bool given = a && a->kind == MR_ATTR_BOOL;
    return none || given ? mr_literal_whole(r->g, t, none ? 1 : a->i[0]) : NULL;
  }
  bool is_unsigned = t == MR_U8 || t == MR_U32 || t == MR_U64;
  int64_t least = (int64_t)(~(uint64_t)0 << (bits - 1));
  int64_t most = (int64_t)(~(uint64_t)0 >> (64 - bits));
  if (none) return mr_literal_whole(r->g, t, is_unsigned ? most : least);
  bool fits = whole && (bits == 64 || (is_unsigned ? a->i[0] >= 0 && a->i[0] <= most
                                                   : a->i[0] >= least && a->i[0] < -least));
  return fits ? mr_literal_whole(r->g, t, a->i[0]) : NULL;
}

/* An index whose dtype i32 cannot hold, moved next to the rows [0,whole) if it is far from them. */
static mr_var_t *near_rows(rewrite_t *r, mr_var_t *index, int64_t whole) {
  mr_dtype_t t = index->aval.dtype;
  if (whole > INT32_MAX || (t != MR_I64 && t != MR_U64 && t != MR_U32)) return index;
  index = mr_lax_min(r->g, index, mr_literal_whole(r->g, t, whole));
  return t == MR_I64 ? mr_lax_max(r->g, index, mr_literal_whole(r->g, t, -1)) : index;
}

/* Replaces rows of x, the first n_index dimensions, where index is not in [0,whole). */
static mr_var_t *fill_outside(rewrite_t *r, mr_var_t *x, mr_var_t *index, int64_t whole) {
  mr_var_t *fill = literal_to_fill(r, x->aval.dtype);
  mr_var_t *zero = parse_jax_number(r, MR_I32, 0);
  mr_var_t *most = parse_jax_number(r, MR_I32, (double)(whole - 1));
  mr_var_t *in = mr_lax_min(r->g, mr_lax_ge(r->g, index, zero), mr_lax_le(r->g, index, most));
  if (!fill || !in) return NULL;
  in = parse_jax_repeat(r, in, x->aval.ndim, x->aval.dim, 0);
  fill = parse_jax_repeat(r, fill, x->aval.ndim, x->aval.dim, 0);
  return mr_lax_select_n(r->g, in, fill, x);
}

/* gather of rows along one dimension, as x[:, index] gives it; other gathers have no op here. */
static mr_err_t parse_jax_gather(rewrite_t *r) {
  const mr_attr_t *dims = mr__parse_find(r->l, "dimension_numbers"),
                  *sizes = find_ints(r, "slice_sizes");
  int64_t offset[MR_MAX_NDIM], collapsed[MR_MAX_NDIM], map[MR_MAX_NDIM], batch[MR_MAX_NDIM];
  int n_offset, n_collapsed, n_map, n_batch, n = r->x->aval.ndim;
  if (!dims || dims->kind != MR_ATTR_TEXT || !sizes || sizes->n != n || !r->y ||
      !dimension_list(dims->text, "offset_dims", &n_offset, offset) ||
      !dimension_list(dims->text, "collapsed_slice_dims", &n_collapsed, collapsed) ||
      !dimension_list(dims->text, "start_index_map", &n_map, map) ||
      !dimension_list(dims->text, "operand_batching_dims", &n_batch, batch))
    return fail_rewrite(r, "its dimension numbers cannot be read");
  mr_aval_t at = r->y->aval;
  bool rows = n_map == 1 && n_collapsed == 1 && map[0] == collapsed[0] && !n_batch && map[0] >= 0 &&
              map[0] < n && at.ndim >= 1 && at.dim[at.ndim - 1] == 1;
  for (int d = 0; rows && d < n; d++) rows = sizes->i[d] == (d == map[0] ? 1 : r->x->aval.dim[d]);
  if (!rows) return fail_rewrite(r, "other than of rows along one dimension, it has no op here");
  bool fills = parse_jax_is_text(r, "mode", "GatherScatterMode.FILL_OR_DROP");
  int64_t whole = r->x->aval.dim[map[0]];
  if (!fills && !parse_jax_is_text(r, "mode", "GatherScatterMode.PROMISE_IN_BOUNDS") &&
      !parse_jax_is_text(r, "mode", "GatherScatterMode.CLIP"))
    return fail_rewrite(r, "its mode has no op here");
  if (fills && (whole < 1 || whole > INT32_MAX))
    return fail_rewrite(r, "of that many rows, or none, it has no op here");
  mr_var_t *index = mr_lax_convert(r->g, near_rows(r, r->y, whole), MR_I32);
  index = index ? mr_lax_reshape(r->g, index, at.ndim - 1, at.dim) : NULL;
  mr_var_t *x = move_axis(r, r->x, (int)map[0], false);
  mr_var_t *near = index;
  if (index && fills) {
    near = mr_lax_max(r->g, index, parse_jax_number(r, MR_I32, 0));
    near = mr_lax_min(r->g, near, parse_jax_number(r, MR_I32, (double)(whole - 1)));
  }
  x = x && near ? mr_lax_take(r->g, x, near) : NULL;
  if (x && fills && !(x = fill_outside(r, x, index, whole)))
    return fail_rewrite(r, "its fill_value is no number of its dtype");
  if (!x) return r->g->diag.code;
  /* The dimensions of the index come first now; the others belong at offset_dims. */
  int perm[MR_MAX_NDIM], n_index = at.ndim - 1, next = 0, rest = n_index;
  if (n_index + n_offset != x->aval.ndim)
    return fail_rewrite(r, "its dimension numbers do not fit");
  for (int d = 0, k = 0; d < x->aval.ndim; d++) {
    bool is_offset = k < n_offset && offset[k] == d;
    k += is_offset;
    perm[d] = is_offset ? rest++ : next++;
  }
  if (next != n_index) return fail_rewrite(r, "its dimension numbers do not fit");
  return parse_jax_give(r, mr_lax_transpose(r->g, x, perm));
}

/* ---- calls ---- */

/* jit, as jax called it until 0.4 and until 0.7. */
static mr_err_t rewrite_jit(rewrite_t *r) {
  const mr_attr_t *a = mr__parse_find(r->l, "jaxpr"), *name = mr__parse_find(r->l, "name");
  if (!a) a = mr__parse_find(r->l, "call_jaxpr");
  if (!a || a->kind != MR_ATTR_FN) return fail_rewrite(r, "want a function");
  if (a->fn->n_in != r->l->n_in || a->fn->n_out != r->l->n_out)
    return fail_rewrite(r, "want the operands and results of its function");
  const char *called = name && name->kind == MR_ATTR_TEXT ? name->text : r->l->op;
  return mr_lax_jit(r->g, called, a->fn, r->l->in, r->out);
}

static mr_err_t rewrite_remat(rewrite_t *r) {
  const mr_attr_t *a = mr__parse_find(r->l, "jaxpr");
  if (!a || a->kind != MR_ATTR_FN) return fail_rewrite(r, "want a function");
  const mr_attr_t attr[] = {mr_attr_fn("jaxpr", a->fn), mr_attr_int("saved", 0)};
  mr_eqn_t *e = mr_emit(r->g, &mr_op_checkpoint, r->l->n_in, r->l->in, 2, attr, r->l->n_out);
  for (int i = 0; e && i < r->l->n_out; i++) r->out[i] = e->out[i];
  return e ? MR_OK : r->g->diag.code;
}

/* Whether f is max(x, 0) and nothing else, at any depth of calls: an author may give the name
   relu to another function. */
static bool is_relu(const mr_fn_t *f) {
  if (f->n_in != 1 || f->n_out != 1 || f->n_eqn != 1) return false;
  const mr_eqn_t *e = f->eqn[0];
  if (e->n_in < 1 || e->in[0] != f->in[0] || f->out[0] != e->out[0]) return false;
  if (e->op == &mr_op_max) return e->in[1]->literal && e->in[1]->value == 0;
  const mr_attr_t *inner = e->op == &mr_op_jit ? mr_attr_find(e, "jaxpr") : NULL;
  return inner && inner->kind == MR_ATTR_FN && is_relu(inner->fn);
}

/* relu's jvp rule: the tangent if x > 0, else 0. */
static mr_fn_t *relu_rule(const mr_fn_t *body) {
  mr_fn_t *rule = mr_fn_create();
  if (!rule) return rule;
  mr_var_t *x = mr_fn_input(rule, body->in[0]->aval), *t = mr_fn_input(rule, body->in[0]->aval);
  mr_var_t *zero = mr_literal(rule, x->aval.dtype, 0);
  mr_var_t *none = mr_lax_full(rule, &x->aval, 0);
  mr_var_t *out[] = {mr_lax_max(rule, x, zero),
                     mr_lax_select_n(rule, mr_lax_gt(rule, x, zero), none, t)};
  mr_fn_return(rule, 2, out);
  return rule;
}

/* custom_jvp and custom_vjp calls, whose rule jax does not print.  relu is recognised by its name
   and body.  Any other call refuses derivatives, as its rule may differ from those of its
   body. */
static mr_err_t rewrite_custom(rewrite_t *r) {
  const mr_attr_t *a = mr__parse_find(r->l, "call_jaxpr");
  if (!a) a = mr__parse_find(r->l, "fun_jaxpr");
  if (!a || a->kind != MR_ATTR_FN) return fail_rewrite(r, "want a function");
  mr_fn_t *rule = parse_jax_is_text(r, "name", "relu") && is_relu(a->fn) ? relu_rule(a->fn) : NULL;
  const mr_attr_t attr[] = {mr_attr_fn("call_jaxpr", a->fn), mr_attr_fn("jvp_jaxpr", rule)};
  mr_eqn_t *e =
      mr_emit(r->g, &mr_op_custom_jvp_call, r->l->n_in, r->l->in, rule ? 2 : 1, attr, r->l->n_out);
  mr_fn_destroy(rule);
  for (int i = 0; e && i < r->l->n_out; i++) r->out[i] = e->out[i];
  return e ? MR_OK : r->g->diag.code;
}

/* ---- the table ---- */

/* Broadcasts the operands of an elementwise op along their dimensions of size 1. */
static void parse_jax_spread(mr_fn_t *g, mr_parse_line_t *l) {
  const mr_aval_t *y = &l->out[0].aval;
  for (int i = 0; l->n_out == 1 && i < l->n_in; i++) {
    const mr_aval_t *x = &l->in[i]->aval;
    int at[MR_MAX_NDIM];
    bool spreads = x->ndim == y->ndim && !mr_aval_same_shape(x, y);
    for (int d = 0; d < x->ndim; d++) {
      spreads = spreads && (x->dim[d] == 1 || x->dim[d] == y->dim[d]);
      at[d] = d;
    }
    if (spreads) l->in[i] = mr_lax_broadcast_in_dim(g, l->in[i], y->ndim, y->dim, at);
  }
}

static const struct rule {
  const char *op;
  int n_in; /* -1: any, at least one */
  mr_err_t (*write)(rewrite_t *r);
  bool spreads; /* elementwise, of several operands */
} rules[] = {{"square", 1, rewrite_square, false},
             {"exp2", 1, exp2_, false},
             {"tan", 1, tan_, false},
             {"erfc", 1, erfc_, false},
             {"ceil", 1, ceil_, false},
             {"is_finite", 1, is_finite, false},
             {"and", 2, rewrite_logic, true},
             {"or", 2, rewrite_logic, true},
             {"xor", 2, rewrite_logic, true},
             {"not", 1, rewrite_logic, false},
             {"clamp", 3, rewrite_clamp, true},
             {"rem", 2, rewrite_rem, true},
             {"pow", 2, pow_, true},
             {"reduce_min", 1, rewrite_reduce, false},
             {"reduce_and", 1, rewrite_reduce, false},
             {"reduce_or", 1, rewrite_reduce, false},
             {"reduce_prod", 1, reduce_prod, false},
             {"psum", 1, rewrite_reduce, false},
             {"argmax", 1, rewrite_argmax, false},
             {"argmin", 1, rewrite_argmax, false},
             {"split", 1, parse_jax_split, false},
             {"stack", -1, parse_jax_stack, false},
             {"unstack", 1, parse_jax_unstack, false},
             {"empty", 0, parse_jax_empty, false},
             {"empty2", 0, parse_jax_empty, false},
             {"tile", 1, rewrite_tile, false},
             {"pad", 2, rewrite_pad, false},
             {"slice", 1, strided_slice, false},
             {"dynamic_slice", -1, dynamic_slice, false},
             {"dynamic_update_slice", -1, dynamic_update_slice, false},
             {"gather", 2, parse_jax_gather, false},
             {"copy", 1, rewrite_same, false},
             {"copy_p", 1, rewrite_same, false},
             {"pvary", -1, rewrite_same, false},
             {"xla_call", -1, rewrite_jit, false},
             {"pjit", -1, rewrite_jit, false},
             {"remat2", -1, rewrite_remat, false},
             {"remat", -1, rewrite_remat, false},
             {"checkpoint", -1, rewrite_remat, false},
             {"custom_jvp_call", -1, rewrite_custom, false},
             {"custom_vjp_call", -1, rewrite_custom, false}};

/* Whether to rewrite the line.  An op that this tree has too is rewritten only in the form that
   jax alone prints. */
static bool is_jax_form(mr_parse_line_t *l) {
  const mr_attr_t *strides = mr__parse_find(l, "strides"), *axes = mr__parse_find(l, "axes");
  if (!strcmp(l->op, "psum")) return axes && axes->kind == MR_ATTR_INTS;
  if (!strcmp(l->op, "slice")) return strides && strides->kind == MR_ATTR_INTS;
  if (!strcmp(l->op, "pow")) return l->n_in == 2 && l->in[0]->aval.dtype != l->in[1]->aval.dtype;
  if (!strcmp(l->op, "checkpoint")) return !mr__parse_find(l, "saved");
  if (!strcmp(l->op, "custom_jvp_call")) return !mr__parse_find(l, "jvp_jaxpr");
  if (!strcmp(l->op, "custom_vjp_call")) return !mr__parse_find(l, "bwd_jaxpr");
  return true;
}

mr_err_t mr__parse_jax(mr_parser_t *p, mr_fn_t *g, mr_parse_line_t *l, mr_var_t **out, bool *done) {
  for (size_t k = 0; k < sizeof rules / sizeof *rules; k++) {
    if (strcmp(rules[k].op, l->op) || !is_jax_form(l)) continue;
    if (rules[k].n_in >= 0 ? l->n_in != rules[k].n_in : l->n_in < 1) continue;
    if (rules[k].spreads) parse_jax_spread(g, l);
    if (g->diag.code < 0) return g->diag.code;
    rewrite_t r = {.p = p, .g = g, .l = l, .out = out, .x = l->n_in ? l->in[0] : NULL};
    r.y = l->n_in > 1 ? l->in[1] : NULL;
    r.z = l->n_in > 2 ? l->in[2] : NULL;
    *done = true;
    mr_err_t err = rules[k].write(&r);
    return err < 0 ? err : g->diag.code;
  }
  return MR_OK;
}

/* ---- operands and attributes ---- */

/* A constant of jax 0.3 has the dtype of the operand beside it, which a comparison does not have in
   its result; one that is alone has that of the result, as has one that a select chooses. */
mr_err_t mr__parse_jax_plain(mr_parser_t *p, mr_fn_t *g, mr_parse_line_t *l) {
  static const char *const compares[] = {"eq", "ne", "lt", "le", "gt", "ge"};
  const mr_attr_t *called = mr__parse_find(l, "jaxpr");
  if (!called) called = mr__parse_find(l, "call_jaxpr");
  const mr_fn_t *fn = called && called->kind == MR_ATTR_FN ? called->fn : NULL;
  mr_dtype_t wants = l->out[0].aval.dtype;
  for (size_t k = 0; k < sizeof compares / sizeof *compares; k++)
    for (int i = 0; !strcmp(l->op, compares[k]) && i < l->n_in; i++)
      if (!l->plain[i]) wants = l->in[i]->aval.dtype;
  for (int i = 0; i < l->n_in; i++) {
    const mr_var_t *v = l->in[i];
    mr_dtype_t t = fn && fn->n_in == l->n_in ? fn->in[i]->aval.dtype : wants;
    if (!l->plain[i] || v->aval.dtype == t) continue;
    bool whole = v->aval.dtype == MR_I32, to_float = mr_is_float(t);
    if (to_float && v->aval.dtype != MR_BOOL)
      l->in[i] = mr_literal(g, t, v->value);
    else if (whole && !to_float && t != MR_BOOL && (t == MR_I64 || v->value >= 0) &&
             (t != MR_U8 || v->value <= UINT8_MAX))
      l->in[i] = mr_literal_whole(g, t, (int64_t)v->value);
    if (!l->in[i]) return mr__parse_no_memory(p);
  }
  return MR_OK;
}

/* Whether an attribute has no influence on values: placement, lowering, names.  jax prints them
   for the ops that have them. */
static bool says_nothing(const mr_attr_t *a) {
  static const char *const names[] = {
      "sharding",    "out_sharding",     "accuracy",          "inline",
      "keep_unused", "donated_invars",   "ctx_mesh",          "in_layouts",
      "out_layouts", "in_shardings",     "out_shardings",     "compiler_options_kvs",
      "linear",      "_split_transpose", "axis_index_groups", "precision"};
  bool empty = a->kind == MR_ATTR_NONE || (a->kind == MR_ATTR_BOOL && !a->i[0]) ||
               (a->kind == MR_ATTR_INTS && !a->n) ||
               (a->kind == MR_ATTR_TEXT && !strcmp(a->text, "(None, None)"));
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(a->name, names[i])) return empty;
  return false;
}

/* Whether the op of this tree has the attribute, although it has no influence on values. */
static bool op_prints(const char *op, const char *attr) {
  if (!strcmp(attr, "sharding")) return !strcmp(op, "iota");
  return !strcmp(attr, "out_sharding") && !strcmp(op, "reduce_sum");
}

/* Whether an attribute is the shape of the result, which broadcast_in_dim had to say until 0.4. */
static bool repeats_shape(const mr_parse_line_t *l, const mr_attr_t *a) {
  const mr_aval_t *y = &l->out[0].aval;
  bool same = !strcmp(l->op, "broadcast_in_dim") && !strcmp(a->name, "shape") &&
              a->kind == MR_ATTR_INTS && a->n == y->ndim;
  for (int d = 0; same && d < y->ndim; d++) same = a->i[d] == y->dim[d];
  return same;
}

static void drop_attrs(mr_parse_line_t *l) {
  int n = 0;
  for (int i = 0; i < l->n_attr; i++) {
    const mr_attr_t *a = &l->attr[i];
    bool needless = says_nothing(a) && !op_prints(l->op, a->name);
    if (!needless && !repeats_shape(l, a)) l->attr[n++] = *a;
  }
  l->n_attr = n;
}

void mr__parse_jax_fit(mr_fn_t *g, mr_parse_line_t *l) {
  const mr_op_def_t *op = mr_op_find(l->op);
  drop_attrs(l);
  if (op->kind == MR_OP_ELEMENTWISE || op == &mr_op_select_n) parse_jax_spread(g, l);
}
