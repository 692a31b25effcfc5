/* Products of equations as plans for libraries: which operand is which, how each is viewed as a
   matrix of columns, and what has to be copied first. */
#include "model/backends/kernels/product.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "model/backends/kernels/text.h"
#include "model/ir/op.h"
#include "model/ops/lax.h"
#include "model/ops/operands.h"
#include "model/ops/rules.h"

/* One operand of an equation and its groups of dimensions. */
typedef struct viewed {
  const mr_aval_t *x;
  const mr_side_t *s;
} viewed_t;

static int64_t group_size(const mr_aval_t *x, const int *dims, int n) {
  int64_t size = 1;
  for (int i = 0; i < n; i++) size *= x->dim[dims[i]];
  return size;
}

/* The stride of a group of dimensions in row-major order; 0 for a group of size 1.  false if no
   single stride fits. */
static bool group_stride(const mr_aval_t *x, const int *dims, int n, int64_t *stride) {
  int64_t all[MR_MAX_NDIM], next = 0;
  mr__kernel_strides(x, all);
  *stride = 0;
  for (int i = n - 1; i >= 0; i--) {
    if (x->dim[dims[i]] == 1) continue;
    if (!*stride) *stride = all[dims[i]];
    if (next && all[dims[i]] != next) return false;
    next = all[dims[i]] * x->dim[dims[i]];
  }
  return true;
}

/* Views v in place by columns: along one runs k, or the free dimensions do.  false without such a
   view. */
static bool view_in_place(viewed_t v, mr_product_operand_t *o, bool *k_along) {
  int64_t outer = group_size(v.x, v.s->free, v.s->n_free);
  int64_t k = group_size(v.x, v.s->contract, v.s->n_contract), by_outer, by_k;
  if (!group_stride(v.x, v.s->batch, v.s->n_batch, &o->batch_stride) ||
      !group_stride(v.x, v.s->free, v.s->n_free, &by_outer) ||
      !group_stride(v.x, v.s->contract, v.s->n_contract, &by_k))
    return false;
  if (by_k != 1 && by_outer != 1 && k > 1 && outer > 1) return false;
  *k_along = by_k == 1 || (by_outer != 1 && k == 1);
  o->rows = *k_along ? k : outer, o->cols = *k_along ? outer : k;
  o->ld = *k_along ? by_outer : by_k;
  if (o->cols == 1) o->ld = o->rows; /* there is no next column */
  return o->ld >= o->rows;
}

/* The copy of v with k innermost, in n_parts parts. */
static void view_of_copy(viewed_t v, mr_product_operand_t *o) {
  int64_t all[MR_MAX_NDIM], outer = group_size(v.x, v.s->free, v.s->n_free);
  int order[MR_MAX_NDIM], n = 0;
  mr__kernel_strides(v.x, all);
  for (int i = 0; i < v.s->n_batch; i++) order[n++] = v.s->batch[i];
  for (int i = 0; i < v.s->n_free; i++) order[n++] = v.s->free[i];
  for (int i = 0; i < v.s->n_contract; i++) order[n++] = v.s->contract[i];
  for (int i = 0; i < n; i++) o->dim[i] = v.x->dim[order[i]], o->stride[i] = all[order[i]];
  o->ndim = n, o->n_k = v.s->n_contract;
  o->rows = o->ld = o->n_parts * group_size(v.x, v.s->contract, v.s->n_contract);
  o->cols = outer;
  o->batch_stride = o->rows * o->cols;
  o->copied = o->n_parts * mr_aval_elems(v.x);
}

/* is_a: k runs along the rows of op(a), so that a column of k means a transposition; along the
   columns of op(b). */
static void view_operand(viewed_t v, bool is_a, mr_product_operand_t *o) {
  bool k_along = true;
  if (o->n_parts || !view_in_place(v, o, &k_along)) {
    if (!o->n_parts) o->n_parts = 1, o->part[0] = MR_PRODUCT_PART_ALL;
    view_of_copy(v, o);
    k_along = true;
  }
  o->transposed = k_along == is_a;
}

/* Whether `in` is multiplied into `out`, and how. */
static bool takes_dtypes(mr_dtype_t in, mr_dtype_t out, mr_product_sums_t *how) {
  *how = in == MR_F64 ? MR_PRODUCT_F64 : in == MR_F32 ? MR_PRODUCT_F32_PLAIN : MR_PRODUCT_F32;
  if (in == MR_BF16 || in == MR_F16) return out == in || out == MR_F32;
  return (in == MR_F32 || in == MR_F64) && out == in;
}

/* Operands of f32 whose precision asks for products of bf16. */
static void split_work(const mr_eqn_t *e, mr_product_t *p) {
  static const mr_product_part_t of_x[] = {MR_PRODUCT_PART_ALL, MR_PRODUCT_PART_FINITE,
                                           MR_PRODUCT_PART_LOWER};
  static const mr_product_part_t of_w[] = {MR_PRODUCT_PART_ALL, MR_PRODUCT_PART_LOWER,
                                           MR_PRODUCT_PART_FINITE};
  mr_precision_t want = mr_precision_of(e);
  if (p->a.from != MR_F32 || (want != MR_PRECISION_DEFAULT && want != MR_PRECISION_HIGH)) return;
  p->a.dtype = p->b.dtype = MR_BF16;
  p->a.rounds = p->b.rounds = true;
  p->a.n_parts = p->b.n_parts = want == MR_PRECISION_HIGH ? 3 : 1;
  memcpy(p->a.part, of_w, sizeof of_w);
  memcpy(p->b.part, of_x, sizeof of_x);
}

/* Operands of 16 bits as f32, which is exact. */
static void widen_operands(mr_product_t *p) {
  if (p->sums != MR_PRODUCT_F32) return;
  mr_product_operand_t *side[] = {&p->a, &p->b};
  p->sums = MR_PRODUCT_F32_PLAIN;
  for (int i = 0; i < 2; i++) {
    side[i]->dtype = MR_F32;
    if (!side[i]->n_parts) side[i]->n_parts = 1, side[i]->part[0] = MR_PRODUCT_PART_ALL;
  }
}

static size_t round_up_256(size_t n) { return (n + 255) & ~(size_t)255; }

static size_t place_copy(mr_product_operand_t *o, size_t at) {
  if (!o->n_parts) return at;
  o->at = at;
  return at + round_up_256((size_t)o->copied * mr_dtype_size(o->dtype));
}

static bool fits_32_bits(const mr_product_t *p) {
  const int64_t n[] = {p->m, p->n, p->k, p->batch, p->a.ld, p->b.ld, p->d_ld};
  for (size_t i = 0; i < sizeof n / sizeof *n; i++)
    if (n[i] > INT32_MAX) return false;
  return true;
}

static bool product_plan(const mr_eqn_t *e, bool wide, mr_product_t *p) {
  if (!e->op->fuse.sides) return false;
  const mr_aval_t *x = &e->in[0]->aval, *w = &e->in[1]->aval;
  mr_side_t sx, sw;
  *p = (mr_product_t){.bias = e->n_in == 3 ? 2 : -1, .d = e->out[0]->aval.dtype};
  p->a = (mr_product_operand_t){.in = 1, .dtype = w->dtype, .from = w->dtype};
  p->b = (mr_product_operand_t){.in = 0, .dtype = x->dtype, .from = x->dtype};
  split_work(e, p);
  if (!mr_aval_elems(x) || !mr_aval_elems(w) || x->dtype != w->dtype) return false;
  if (!takes_dtypes(p->a.dtype, p->d, &p->sums)) return false;
  if (wide) widen_operands(p);
  if (p->bias >= 0 && (e->in[2]->aval.dtype != p->d || p->d == MR_F64)) return false;
  e->op->fuse.sides(e, &sx, &sw);
  view_operand((viewed_t){w, &sw}, true, &p->a);
  view_operand((viewed_t){x, &sx}, false, &p->b);
  p->m = group_size(w, sw.free, sw.n_free), p->n = group_size(x, sx.free, sx.n_free);
  p->k = group_size(x, sx.contract, sx.n_contract) * (p->a.n_parts == 3 ? 3 : 1);
  p->batch = group_size(x, sx.batch, sx.n_batch);
  p->d_ld = p->m, p->d_batch = p->m * p->n;
  p->copies = place_copy(&p->b, place_copy(&p->a, 0));
  return fits_32_bits(p);
}

bool mr__product(const mr_eqn_t *e, mr_product_t *p) { return product_plan(e, false, p); }

bool mr__product_wide(const mr_eqn_t *e, mr_product_t *p) {
  return product_plan(e, true, p) && p->bias < 0;
}

static int write_operand(char *text, size_t room, const char *name, const mr_product_operand_t *o,
                         int64_t batch) {
  int n =
      snprintf(text, room, " %s=%s:%c", name, mr_dtype_name(o->dtype), o->transposed ? 'T' : 'N');
  if (o->ld != o->rows) n += snprintf(text + n, room - (size_t)n, ":ld%" PRId64, o->ld);
  if (batch > 1 && o->batch_stride != o->ld * o->cols)
    n += snprintf(text + n, room - (size_t)n, ":by%" PRId64, o->batch_stride);
  return n;
}

const char *mr__product_text(const mr_product_t *p, char text[MR_PRODUCT_TEXT]) {
  static const char *const sums[] = {"f32", "f32-plain", "f64"};
  const size_t room = MR_PRODUCT_TEXT;
  int n = snprintf(text, room, "m=%" PRId64 " n=%" PRId64 " k=%" PRId64 " batch=%" PRId64, p->m,
                   p->n, p->k, p->batch);
  n += write_operand(text + n, room - (size_t)n, "a", &p->a, p->batch);
  n += write_operand(text + n, room - (size_t)n, "b", &p->b, p->batch);
  snprintf(text + n, room - (size_t)n, " d=%s%s %s", mr_dtype_name(p->d),
           p->bias >= 0 ? " bias" : "", sums[p->sums]);
  return text;
}
