/* Matrix products of equations.  Operands are viewed as (batch, rows, columns) by strides, so
   that a transposed operand costs nothing; an operand without such a view is copied into order
   first. */

#include <stdlib.h>
#include <string.h>

#include "model/backends/cpu/kernels.h"
#include "model/backends/cpu/rules.h"
#include "model/ops/operands.h"
#include "model/ops/rules.h"

typedef struct state {
  mr_matmul_t *matmul;
  int bias_in;
  bool copy_a, copy_b;
  mr_move_t move_a, move_b;
  size_t b_at; /* bytes of scratch before b's copy */
} state_t;

typedef struct view {
  int64_t batch, rows, cols; /* strides */
} view_t;

static void product_run(const mr_call_t *c) {
  const state_t *s = c->state;
  const void *a = c->in[0], *b = c->in[1];
  if (s->copy_a) {
    mr__move(&s->move_a, a, c->scratch);
    a = c->scratch;
  }
  if (s->copy_b) {
    void *copy = (char *)c->scratch + s->b_at;
    mr__move(&s->move_b, b, copy);
    b = copy;
  }
  const void *bias = s->bias_in < 0 ? NULL : c->in[s->bias_in];
  if (c->kept.at)
    mr_matmul_run_kept(s->matmul, a, b, bias, c->out[0], c->kept.at, c->kept.make);
  else
    mr_matmul_run(s->matmul, a, b, bias, c->out[0]);
}

static void product_fini(void *state) {
  state_t *s = state;
  mr_matmul_destroy(s->matmul);
  free(s);
}

/* The stride of a group of dimensions in row-major order; false if no single stride fits. */
static bool one_stride(const mr_aval_t *x, const int *dims, int n, int64_t *stride) {
  int64_t s[MR_MAX_NDIM], next = 0;
  bool any = false;
  mr__strides(x, s);
  *stride = 0;
  for (int i = n - 1; i >= 0; i--) {
    if (x->dim[dims[i]] == 1) continue;
    if (!any) *stride = s[dims[i]];
    if (any && s[dims[i]] != next) return false;
    next = s[dims[i]] * x->dim[dims[i]];
    any = true;
  }
  return true;
}

static int64_t size_of(const mr_aval_t *x, const int *dims, int n) {
  int64_t size = 1;
  for (int i = 0; i < n; i++) size *= x->dim[dims[i]];
  return size;
}

/* Views x as a matrix; rows and cols are its two groups of dimensions.  A group of size 1 gets a
   stride that fits.  false if there is no such view with one of the strides 1. */
static bool product_view_of(const mr_aval_t *x, const mr_side_t *d, const int *rows, int n_rows,
                            const int *cols, int n_cols, view_t *v) {
  int64_t m = size_of(x, rows, n_rows), n = size_of(x, cols, n_cols);
  if (!one_stride(x, d->batch, d->n_batch, &v->batch) || !one_stride(x, rows, n_rows, &v->rows) ||
      !one_stride(x, cols, n_cols, &v->cols))
    return false;
  if (n == 1 && m == 1) {
    v->rows = v->cols = 1;
  } else if (n == 1) {
    v->cols = v->rows == 1 ? m : 1;
  } else if (m == 1) {
    v->rows = v->cols == 1 ? n : 1;
  }
  return v->rows == 1 || v->cols == 1;
}

/* The copy that makes x dense as (batch, rows, cols). */
static mr_move_t order_dimensions(const mr_aval_t *x, const mr_side_t *d, const int *rows,
                                  int n_rows, const int *cols, int n_cols, view_t *v) {
  int64_t s[MR_MAX_NDIM], dense = 1;
  mr_move_t m = {.size = mr_dtype_size(x->dtype)};
  int order[MR_MAX_NDIM];
  mr__strides(x, s);
  for (int i = 0; i < d->n_batch; i++) order[m.ndim++] = d->batch[i];
  for (int i = 0; i < n_rows; i++) order[m.ndim++] = rows[i];
  for (int i = 0; i < n_cols; i++) order[m.ndim++] = cols[i];
  for (int i = m.ndim - 1; i >= 0; i--) {
    m.dim[i] = x->dim[order[i]];
    m.from[i] = s[order[i]];
    m.to[i] = dense;
    dense *= m.dim[i];
  }
  v->cols = 1;
  v->rows = size_of(x, cols, n_cols);
  v->batch = v->rows * size_of(x, rows, n_rows);
  return m;
}

static void add_note(mr_call_t *c, const char *what, size_t bytes) {
  int n = 0;
  while (n < MR_CALL_NOTES && c->note[n].what) n++;
  if (bytes && n < MR_CALL_NOTES) c->note[n] = (mr_call_note_t){what, bytes};
}

static const char packed_note[] = "operand 1 packed";

/* Products with the same operand 1, of the parts of a batch for instance, pack it once. */
static void keep_packed(mr_call_t *c, const state_t *s) {
  mr_matmul_kept_t k = mr_matmul_kept(s->matmul);
  if (!k.bytes || s->copy_b) return;
  c->kept = (mr_call_kept_t){.bytes = k.bytes,
                             .operand = 1,
                             .form = k.form,
                             .form_bytes = k.form_bytes,
                             .what = packed_note};
}

static void product_describe(mr_call_t *c, const state_t *s) {
  mr_matmul_moves_t moves = mr_matmul_moves(s->matmul);
  c->how = mr_matmul_how(s->matmul);
  c->borrowed = mr_matmul_workspace(s->matmul), c->borrowers = 1;
  if (s->copy_a)
    add_note(c, "operand 0 copied into order", 2 * mr_aval_bytes(&c->eqn->in[0]->aval));
  if (s->copy_b)
    add_note(c, "operand 1 copied into order", 2 * mr_aval_bytes(&c->eqn->in[1]->aval));
  add_note(c, "operands converted", moves.converted);
  add_note(c, packed_note, moves.packed);
  add_note(c, "operand 0 turned", moves.turned);
}

static size_t product_round64(size_t n) { return (n + 63) & ~(size_t)63; }

/* A product without terms: 0, plus the bias. */
static void empty_run(const mr_call_t *c) {
  const mr_aval_t *y = &c->eqn->out[0]->aval;
  memset(c->out[0], 0, mr_aval_bytes(y));
  if (c->eqn->n_in < 3 || !mr_aval_elems(y)) return;
  mr_dtype_t from = c->eqn->in[2]->aval.dtype;
  int64_t n = mr_aval_elems(&c->eqn->in[2]->aval);
  for (int64_t at = 0; at < mr_aval_elems(y); at += n)
    mr_convert(from, c->in[2], y->dtype, (char *)c->out[0] + at * (int64_t)mr_dtype_size(y->dtype),
               n);
}

/* Decides how the operands of c are read: in place, or through copies in the scratch. */
static void arrange_copies(mr_call_t *c, const mr_side_t *a, const mr_side_t *b, state_t *s,
                           view_t *va, view_t *vb) {
  const mr_aval_t *x = &c->eqn->in[0]->aval, *w = &c->eqn->in[1]->aval;
  s->copy_a = !product_view_of(x, a, a->free, a->n_free, a->contract, a->n_contract, va);
  s->copy_b = !product_view_of(w, b, b->contract, b->n_contract, b->free, b->n_free, vb);
  if (s->copy_a)
    s->move_a = order_dimensions(x, a, a->free, a->n_free, a->contract, a->n_contract, va);
  if (s->copy_b)
    s->move_b = order_dimensions(w, b, b->contract, b->n_contract, b->free, b->n_free, vb);
  s->b_at = s->copy_a ? product_round64(mr_aval_bytes(x)) : 0;
  c->scratch_bytes = s->b_at + (s->copy_b ? product_round64(mr_aval_bytes(w)) : 0);
}

static mr_matmul_spec_t spec_of(const mr_eqn_t *e, const mr_side_t *a, const mr_side_t *b,
                                int bias_in, const view_t *va, const view_t *vb) {
  const mr_aval_t *x = &e->in[0]->aval, *w = &e->in[1]->aval;
  mr_matmul_spec_t spec = {.batch = size_of(x, a->batch, a->n_batch),
                           .m = size_of(x, a->free, a->n_free),
                           .n = size_of(w, b->free, b->n_free),
                           .k = size_of(x, a->contract, a->n_contract),
                           .a_batch = va->batch,
                           .a_row = va->rows,
                           .a_col = va->cols,
                           .b_batch = vb->batch,
                           .b_row = vb->rows,
                           .b_col = vb->cols,
                           .a = x->dtype,
                           .b = w->dtype,
                           .out = e->out[0]->aval.dtype,
                           .bias = bias_in >= 0,
                           .precision = mr_precision_of(e)};
  spec.out_row = spec.n;
  spec.out_batch = spec.m * spec.n;
  if (spec.bias) spec.bias_dtype = e->in[bias_in]->aval.dtype;
  return spec;
}

/* ---- long vectors ---- */

enum { LONG_VECTOR = 4096, VECTOR_PIECES = 64 };

typedef struct vectors {
  int64_t batch, terms, a_batch, a_step, b_batch, b_step; /* sizes, and strides of elements */
} vectors_t;

/* Terms [from,to) in f64. */
static double add_terms(const vectors_t *v, const float *a, const float *b, int64_t from,
                        int64_t to) {
  double sum = 0;
  if (v->a_step == 1 && v->b_step == 1) {
#pragma omp simd reduction(+ : sum)
    for (int64_t i = from; i < to; i++) sum += (double)a[i] * (double)b[i];
  } else {
    for (int64_t i = from; i < to; i++) sum += (double)a[i * v->a_step] * (double)b[i * v->b_step];
  }
  return sum;
}

/* The pieces follow from the number of terms alone, so any team gives the same bits. */
static void vectors_run(const mr_call_t *c) {
  const vectors_t *v = c->state;
  int64_t piece = (v->terms + VECTOR_PIECES - 1) / VECTOR_PIECES;
  for (int64_t z = 0; z < v->batch; z++) {
    const float *a = (const float *)c->in[0] + z * v->a_batch;
    const float *b = (const float *)c->in[1] + z * v->b_batch;
    double part[VECTOR_PIECES], sum = 0;
#pragma omp parallel for schedule(static) if (v->terms > VECTOR_PIECES * LONG_VECTOR)
    for (int64_t i = 0; i < VECTOR_PIECES; i++) {
      int64_t to = (i + 1) * piece;
      part[i] = add_terms(v, a, b, i * piece, to < v->terms ? to : v->terms);
    }
    for (int64_t i = 0; i < VECTOR_PIECES; i++) sum += part[i];
    ((float *)c->out[0])[z] = (float)sum;
  }
}

/* Whether a product is one of long f32 vectors.  A library adds parts of such a sum one to the
   other in f32, and of millions of terms that loses digits; reading them takes longer than adding
   them in f64. */
static bool is_of_long_vectors(const mr_matmul_spec_t *s) {
  return s->m == 1 && s->n == 1 && s->k >= LONG_VECTOR && s->a == MR_F32 && s->b == MR_F32 &&
         s->out == MR_F32 && !s->bias && s->precision != MR_PRECISION_DEFAULT &&
         s->precision != MR_PRECISION_HIGH;
}

/* Lowers out = a b (+ bias[n]); out is dense (batch, a's free, b's free).  bias_in: index of the
   bias among e->in, or -1. */
static mr_err_t lower_product(mr_call_t *c, const mr_side_t *a, const mr_side_t *b, int bias_in,
                              mr_diag_t *diag) {
  if (!mr_aval_elems(&c->eqn->in[0]->aval) || !mr_aval_elems(&c->eqn->in[1]->aval)) {
    c->run = empty_run;
    c->how = "nothing to multiply";
    return MR_OK;
  }
  state_t *s = calloc(1, sizeof *s);
  if (!s) return mr_no_memory(diag, "the lowering of %s", c->eqn->op->name);
  view_t va, vb;
  s->bias_in = bias_in;
  arrange_copies(c, a, b, s, &va, &vb);
  mr_matmul_spec_t spec = spec_of(c->eqn, a, b, bias_in, &va, &vb);
  if (is_of_long_vectors(&spec) && !s->copy_a && !s->copy_b) {
    const vectors_t v = {spec.batch, spec.k, spec.a_batch, spec.a_col, spec.b_batch, spec.b_row};
    free(s);
    c->run = vectors_run;
    c->how = "f32, f64 sums";
    return mr__call_state(c, &v, sizeof v, diag);
  }
  mr_err_t err = mr_matmul_create(&spec, &s->matmul, diag);
  if (err < 0) {
    free(s);
    return err;
  }
  c->state = s;
  c->fini = product_fini;
  c->run = product_run;
  product_describe(c, s);
  keep_packed(c, s);
  return MR_OK;
}

/* f64 in plain C: sums over the contracted dimensions, element by element. */
static int64_t offset_at(int64_t index, const mr_aval_t *x, const int *dims, int n) {
  int64_t stride[MR_MAX_NDIM], at = 0;
  mr__strides(x, stride);
  for (int i = n - 1; i >= 0; i--) {
    at += index % x->dim[dims[i]] * stride[dims[i]];
    index /= x->dim[dims[i]];
  }
  return at;
}

static void dot_run_f64(const mr_call_t *c) {
  const mr_aval_t *x = &c->eqn->in[0]->aval, *w = &c->eqn->in[1]->aval;
  const double *p = c->in[0], *q = c->in[1];
  double *y = c->out[0];
  const mr_side_t *s = c->state, a = s[0], b = s[1];
  int64_t m = size_of(x, a.free, a.n_free), n = size_of(w, b.free, b.n_free);
  int64_t kk = size_of(x, a.contract, a.n_contract), all = size_of(x, a.batch, a.n_batch) * m * n;
  for (int64_t o = 0; o < all; o++) {
    int64_t batch = o / (m * n);
    int64_t pa =
        offset_at(batch, x, a.batch, a.n_batch) + offset_at(o / n % m, x, a.free, a.n_free);
    int64_t qa = offset_at(batch, w, b.batch, b.n_batch) + offset_at(o % n, w, b.free, b.n_free);
    double sum = 0;
    for (int64_t i = 0; i < kk; i++)
      sum += p[pa + offset_at(i, x, a.contract, a.n_contract)] *
             q[qa + offset_at(i, w, b.contract, b.n_contract)];
    y[o] = sum;
  }
}

mr_err_t mr__cpu_dot_general(mr_call_t *c, mr_diag_t *diag) {
  mr_side_t s[2];
  mr__dot_sides(c->eqn, &s[0], &s[1]);
  if (c->eqn->in[0]->aval.dtype == MR_F64 && c->eqn->out[0]->aval.dtype == MR_F64) {
    c->run = dot_run_f64;
    c->how = "f64";
    return mr__call_state(c, s, sizeof s, diag);
  }
  return lower_product(c, &s[0], &s[1], -1, diag);
}

mr_err_t mr__cpu_linear(mr_call_t *c, mr_diag_t *diag) {
  int n = c->eqn->in[0]->aval.ndim, k = mr_attr_get(c->eqn, "transposed")->i[0] ? 1 : 0;
  mr_side_t a = {.n_free = n - 1, .n_contract = 1, .contract = {n - 1}};
  mr_side_t b = {.n_free = 1, .free = {1 - k}, .n_contract = 1, .contract = {k}};
  for (int i = 0; i < n - 1; i++) a.free[i] = i;
  return lower_product(c, &a, &b, c->eqn->n_in == 3 ? 2 : -1, diag);
}
