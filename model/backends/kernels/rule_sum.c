/* Reductions, running sums and products of matrices.  Every sum has a fixed order: a work-item adds
   its terms one after the other, in blocks of 16 whose sums are added, so that the error of a long
   f32 sum grows with its blocks alone.  A reduction to few elements is made in two kernels, parts
   first. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "model/backends/kernels/text.h"
#include "model/ir/element.h"
#include "model/ir/op.h"
#include "model/ops/lax.h"
#include "model/ops/operands.h"

/* The dimensions of the operand, those that stay and those that are reduced. */
typedef struct reduction {
  int kept, folded;
  int64_t kept_dim[MR_MAX_NDIM], kept_stride[MR_MAX_NDIM];
  int64_t dim[MR_MAX_NDIM], stride[MR_MAX_NDIM];
  int64_t outputs, terms;
} reduction_t;

static reduction_t reduction_of(const mr_eqn_t *e) {
  const mr_aval_t *x = &e->in[0]->aval;
  unsigned mask = mr__reduce_mask(e);
  int64_t s[MR_MAX_NDIM];
  reduction_t r = {.outputs = mr_aval_elems(&e->out[0]->aval), .terms = 1};
  mr__kernel_strides(x, s);
  for (int i = 0; i < x->ndim; i++) {
    if (mask >> i & 1)
      r.dim[r.folded] = x->dim[i], r.stride[r.folded++] = s[i], r.terms *= x->dim[i];
    else
      r.kept_dim[r.kept] = x->dim[i], r.kept_stride[r.kept++] = s[i];
  }
  return r;
}

mr_kernel_fold_t mr__kernel_fold(const mr_op_def_t *op, mr_dtype_t t) {
  if (op->shard.folds == MR_CUT_SUM) return (mr_kernel_fold_t){"0", "r += v;"};
  const char *step = mr_is_float(t) ? "r = r > v || r != r ? r : v;" : "r = r > v ? r : v;";
  return (mr_kernel_fold_t){mr_is_float(t) ? "-INFINITY"
                            : t == MR_I64  ? "(-0x7FFFFFFFFFFFFFFF - 1)"
                            : t == MR_I32  ? "(-2147483647 - 1)"
                                           : "0",
                            step};
}

/* Folds terms [from,to) of what `load` names as element `k` into a new variable r, in blocks. */
static void write_fold(FILE *f, const char *type, mr_kernel_fold_t how, const char *from,
                       const char *to, const char *load) {
  fprintf(f,
          "  %s all = %s;\n  for (i64 b = %s; b < %s; b += %d) {\n"
          "    i64 end = b + %d < %s ? b + %d : %s;\n    %s r = %s;\n"
          "    for (i64 k = b; k < end; k++) { %s %s }\n"
          "    { %s v = r; r = all; %s all = r; }\n  }\n",
          type, how.start, from, to, MR_KERNEL_BLOCK, MR_KERNEL_BLOCK, to, MR_KERNEL_BLOCK, to,
          type, how.start, load, how.step, type, how.step);
}

/* The statements that read term k of output `o` as v. */
static char *read_statement(const reduction_t *r, mr_dtype_t t) {
  char *text = NULL;
  size_t size = 0;
  FILE *f = open_memstream(&text, &size);
  if (!f) return NULL;
  mr__kernel_place(f, "at", "k", r->folded, r->dim, r->stride, 0);
  fprintf(f, "  %s v = ", mr__kernel_type(t));
  mr__kernel_load(f, t, "x0", "base + at");
  fputc(';', f);
  return fclose(f) ? NULL : text;
}

static mr_err_t write_reduction_parts(mr_kernel_text_t *t, const reduction_t *r, int64_t parts,
                                      mr_kernel_fold_t how, const char *load, mr_diag_t *diag) {
  mr_dtype_t x = t->e->in[0]->aval.dtype;
  const char *type = mr__kernel_type(x);
  int64_t each = (r->terms + parts - 1) / parts;
  t->scratch_t = x == MR_F64 ? MR_F64 : mr_is_float(x) ? MR_F32 : x == MR_U64 ? MR_U64 : MR_I64;
  t->out->scratch_bytes = (size_t)(r->outputs * parts) * mr_dtype_size(t->scratch_t);
  MR_TRY(mr__kernel_begin(t, r->outputs * parts, diag));
  fprintf(t->f,
          "  u64 o = i / %" PRId64 ", part = i %% %" PRId64 "; i64 from = (i64)part * %" PRId64
          ";\n",
          parts, parts, each);
  fprintf(t->f, "  i64 to = from + %" PRId64 " < %" PRId64 " ? from + %" PRId64 " : %" PRId64 ";\n",
          each, r->terms, each, r->terms);
  mr__kernel_place(t->f, "base", "o", r->kept, r->kept_dim, r->kept_stride, 0);
  write_fold(t->f, type, how, "from", "to", load);
  fprintf(t->f, "  s[part * %" PRId64 " + o] = all;\n", r->outputs);
  MR_TRY(mr__kernel_end(t, diag));
  return mr__kernel_fold_parts(t, r->outputs, parts, &(mr_kernel_part_t){how, 0}, 1, diag);
}

/* Whether e reduces rows or columns of floats, and not of none: neighbouring items then read
   neighbouring elements, as those of a fused loop do. */
static bool is_loop(const mr_eqn_t *e) {
  mr_dtype_t x = e->in[0]->aval.dtype;
  mr_unit_t u = {0};
  bool any = mr_aval_elems(&e->in[0]->aval) > 0;
  return any && (x == MR_F32 || mr_is_narrow(x)) && e->op->fuse.unit && e->op->fuse.unit(e, &u) &&
         (u.kind == MR_UNIT_COLUMNS || u.kind == MR_UNIT_REDUCE);
}

static mr_err_t write_reduction(mr_kernel_text_t *t, mr_kernel_fold_t how, mr_diag_t *diag) {
  mr_dtype_t x = t->e->in[0]->aval.dtype, y = t->e->out[0]->aval.dtype;
  reduction_t r = reduction_of(t->e);
  int64_t parts = mr__kernel_parts(r.outputs, r.terms);
  char terms[32];
  if (mr_is_storage(x)) return mr__kernel_refuse(t->e, x, diag);
  if (is_loop(t->e)) return mr__kernel_lone(t, diag);
  char *load = read_statement(&r, x);
  if (!load) return mr_no_memory(diag, "the kernel of %s", t->e->op->name);
  mr_err_t err;
  if (parts > 1) {
    err = write_reduction_parts(t, &r, parts, how, load, diag);
  } else if ((err = mr__kernel_begin(t, r.outputs, diag)) == MR_OK) {
    snprintf(terms, sizeof terms, "%" PRId64, r.terms);
    mr__kernel_place(t->f, "base", "i", r.kept, r.kept_dim, r.kept_stride, 0);
    write_fold(t->f, mr__kernel_type(x), how, "0", terms, load);
    mr__kernel_store(t->f, y, "y0", "i", "all");
    err = mr__kernel_end(t, diag);
  }
  free(load);
  return err;
}

mr_err_t mr__kernel_reduce_sum(mr_kernel_text_t *t, mr_diag_t *diag) {
  return write_reduction(t, mr__kernel_fold(t->e->op, t->e->in[0]->aval.dtype), diag);
}

mr_err_t mr__kernel_reduce_max(mr_kernel_text_t *t, mr_diag_t *diag) {
  return write_reduction(t, mr__kernel_fold(t->e->op, t->e->in[0]->aval.dtype), diag);
}

mr_err_t mr__kernel_cumsum(mr_kernel_text_t *t, mr_diag_t *diag) {
  const mr_aval_t *x = &t->e->in[0]->aval;
  int axis = (int)mr_attr_get(t->e, "axis")->i[0];
  bool back = mr_attr_get(t->e, "reverse")->i[0] != 0;
  int64_t n = x->dim[axis], inner = mr_aval_span(x, axis + 1, x->ndim);
  char last[48];
  snprintf(last, sizeof last, "(%" PRId64 " - k)", n - 1);
  if (mr_is_storage(x->dtype)) return mr__kernel_refuse(t->e, x->dtype, diag);
  MR_TRY(mr__kernel_begin(t, mr_aval_span(x, 0, axis) * inner, diag));
  fprintf(t->f, "  %s sum = 0;\n  for (i64 k = 0; k < %" PRId64 "; k++) {\n",
          mr__kernel_type(x->dtype), n);
  fprintf(t->f,
          "  i64 at = ((i64)(i / %" PRId64 ") * %" PRId64 " + %s) * %" PRId64
          " + (i64)(i %% %" PRId64 ");\n",
          inner, n, back ? last : "k", inner, inner);
  fputs("  sum += ", t->f);
  mr__kernel_load(t->f, x->dtype, "x0", "at");
  fputs(";\n", t->f);
  mr__kernel_store(t->f, x->dtype, "y0", "at", "sum");
  fputs("  }\n", t->f);
  return mr__kernel_end(t, diag);
}

/* ---- products ---- */

/* Dimensions of one operand in a group, with their strides in it. */
static int product_group_of(const mr_aval_t *x, const int *dims, int n, int64_t *dim,
                            int64_t *stride) {
  int64_t s[MR_MAX_NDIM];
  mr__kernel_strides(x, s);
  for (int i = 0; i < n; i++) dim[i] = x->dim[dims[i]], stride[i] = s[dims[i]];
  return n;
}

static int64_t product_group_size(const mr_aval_t *x, const int *dims, int n) {
  int64_t size = 1;
  for (int i = 0; i < n; i++) size *= x->dim[dims[i]];
  return size;
}

static void write_product_group(FILE *f, const char *place, const char *index, const mr_aval_t *x,
                                const int *dims, int n) {
  int64_t dim[MR_MAX_NDIM], stride[MR_MAX_NDIM];
  n = product_group_of(x, dims, n, dim, stride);
  mr__kernel_place(f, place, index, n, dim, stride, 0);
}

/* One term: operands of f32 are rounded to bf16 where the equation asks for it, or split into two
   parts for three products. */
static const char *term_of(const mr_eqn_t *e) {
  mr_precision_t p = mr_precision_of(e);
  if (e->in[0]->aval.dtype != MR_F32 || e->in[1]->aval.dtype != MR_F32) return "T v = a * b;";
  if (p == MR_PRECISION_DEFAULT) return "T v = bf16_to(bf16_of(a)) * bf16_to(bf16_of(b));";
  if (p != MR_PRECISION_HIGH) return "T v = a * b;";
  return "T v; { T ah = bf16_to(bf16_of(a)), bh = bf16_to(bf16_of(b));"
         " if (ah - ah != 0 || bh - bh != 0) v = ah * bh;"
         " else v = ah * bh + ah * bf16_to(bf16_of(b - bh)) + bf16_to(bf16_of(a - ah)) * bh; }";
}

static char *term_reading(const mr_eqn_t *e, const mr_side_t *l, const mr_side_t *r) {
  const mr_aval_t *x = &e->in[0]->aval, *w = &e->in[1]->aval;
  char *text = NULL;
  size_t size = 0;
  FILE *f = open_memstream(&text, &size);
  if (!f) return NULL;
  write_product_group(f, "pk", "k", x, l->contract, l->n_contract);
  write_product_group(f, "qk", "k", w, r->contract, r->n_contract);
  fputs("  T a = ", f);
  mr__kernel_load(f, x->dtype, "x0", "p + pk");
  fputs(";\n  T b = ", f);
  mr__kernel_load(f, w->dtype, "x1", "q + qk");
  fprintf(f, ";\n  %s", term_of(e));
  return fclose(f) ? NULL : text;
}

mr_err_t mr__kernel_dot_general(mr_kernel_text_t *t, mr_diag_t *diag) {
  const mr_aval_t *x = &t->e->in[0]->aval, *w = &t->e->in[1]->aval, *y = &t->e->out[0]->aval;
  mr_side_t l, r;
  char terms[32];
  bool wide = x->dtype == MR_F64 || w->dtype == MR_F64;
  const char *type = wide ? "double" : mr__kernel_type(x->dtype);
  if (mr_is_storage(x->dtype)) return mr__kernel_refuse(t->e, x->dtype, diag);
  mr__dot_sides(t->e, &l, &r);
  int64_t m = product_group_size(x, l.free, l.n_free), n = product_group_size(w, r.free, r.n_free);
  char *load = term_reading(t->e, &l, &r);
  if (!load) return mr_no_memory(diag, "the kernel of dot_general");
  mr_err_t err = mr__kernel_begin(t, mr_aval_elems(y), diag);
  if (err == MR_OK) {
    fprintf(t->f,
            "  typedef %s T;\n  u64 z = i / %" PRId64 ", row = i / %" PRId64 " %% %" PRId64
            ", col = i %% %" PRId64 ";\n",
            type, m * n, n, m, n);
    write_product_group(t->f, "pz", "z", x, l.batch, l.n_batch);
    write_product_group(t->f, "pr", "row", x, l.free, l.n_free);
    write_product_group(t->f, "qz", "z", w, r.batch, r.n_batch);
    write_product_group(t->f, "qc", "col", w, r.free, r.n_free);
    fputs("  i64 p = pz + pr, q = qz + qc;\n", t->f);
    snprintf(terms, sizeof terms, "%" PRId64, product_group_size(x, l.contract, l.n_contract));
    write_fold(t->f, "T", (mr_kernel_fold_t){"0", "r += v;"}, "0", terms, load);
    mr__kernel_store(t->f, y->dtype, "y0", "i", "all");
    err = mr__kernel_end(t, diag);
  }
  free(load);
  return err;
}
