/* Ops that move elements: each result element is read from the place that strides give, or is 0
   where a pad has no operand.  Elements are moved as bytes, so every dtype passes. */
#include <inttypes.h>

#include "model/backends/kernels/text.h"
#include "model/ops/operands.h"

/* Writes a kernel that copies: element i of the result is the element of operand 0 at first + the
   sum of c[d] stride[d], where c are the coordinates of i. */
static mr_err_t write_gather(mr_kernel_text_t *t, const int64_t *stride, int64_t first,
                             mr_diag_t *diag) {
  const mr_aval_t *y = &t->e->out[0]->aval;
  MR_TRY(mr__kernel_begin(t, mr_aval_elems(y), diag));
  mr__kernel_place(t->f, "at", "i", y->ndim, y->dim, stride, first);
  fputs("  y0[i] = x0[at];\n", t->f);
  return mr__kernel_end(t, diag);
}

mr_err_t mr__kernel_transpose(mr_kernel_text_t *t, mr_diag_t *diag) {
  const mr_attr_t *p = mr_attr_get(t->e, "permutation");
  int64_t from[MR_MAX_NDIM], stride[MR_MAX_NDIM] = {0};
  mr__kernel_strides(&t->e->in[0]->aval, from);
  for (int i = 0; i < t->e->out[0]->aval.ndim; i++) stride[i] = from[p->i[i]];
  return write_gather(t, stride, 0, diag);
}

mr_err_t mr__kernel_broadcast_in_dim(mr_kernel_text_t *t, mr_diag_t *diag) {
  const mr_aval_t *x = &t->e->in[0]->aval;
  const mr_attr_t *at = mr_attr_get(t->e, "broadcast_dimensions");
  int64_t from[MR_MAX_NDIM], stride[MR_MAX_NDIM] = {0};
  mr__kernel_strides(x, from);
  for (int i = 0; i < x->ndim; i++)
    if (x->dim[i] != 1) stride[at->i[i]] = from[i];
  return write_gather(t, stride, 0, diag);
}

mr_err_t mr__kernel_slice(mr_kernel_text_t *t, mr_diag_t *diag) {
  const mr_aval_t *x = &t->e->in[0]->aval;
  const int64_t *start = mr_attr_get(t->e, "start_indices")->i;
  int64_t stride[MR_MAX_NDIM] = {0}, first = 0;
  mr__kernel_strides(x, stride);
  for (int i = 0; i < x->ndim; i++) first += start[i] * stride[i];
  return write_gather(t, stride, first, diag);
}

mr_err_t mr__kernel_rev(mr_kernel_text_t *t, mr_diag_t *diag) {
  const mr_aval_t *x = &t->e->in[0]->aval;
  const mr_attr_t *dims = mr_attr_get(t->e, "dimensions");
  int64_t stride[MR_MAX_NDIM] = {0}, first = 0;
  mr__kernel_strides(x, stride);
  for (int k = 0; k < dims->n; k++) {
    int64_t d = dims->i[k];
    first += (x->dim[d] - 1) * stride[d];
    stride[d] = -stride[d];
  }
  return write_gather(t, stride, first, diag);
}

mr_err_t mr__kernel_pad(mr_kernel_text_t *t, mr_diag_t *diag) {
  const mr_aval_t *x = &t->e->in[0]->aval, *y = &t->e->out[0]->aval;
  const int64_t *low = mr_attr_get(t->e, "low")->i;
  int64_t from[MR_MAX_NDIM] = {0}, to[MR_MAX_NDIM] = {0};
  mr__kernel_strides(x, from);
  mr__kernel_strides(y, to);
  MR_TRY(mr__kernel_begin(t, mr_aval_elems(y), diag));
  fputs("  int in = 1; i64 at = 0, c;\n", t->f);
  for (int d = 0; d < y->ndim; d++)
    fprintf(t->f,
            "  c = (i64)(i / %" PRId64 " %% %" PRId64 ") - %" PRId64
            "; in &= c >= 0 && c < %" PRId64 "; at += c * %" PRId64 ";\n",
            to[d], y->dim[d], low[d], x->dim[d], from[d]);
  fputs("  if (in) y0[i] = x0[at]; else y0[i] = 0;\n", t->f);
  return mr__kernel_end(t, diag);
}

mr_err_t mr__kernel_concatenate(mr_kernel_text_t *t, mr_diag_t *diag) {
  const mr_aval_t *y = &t->e->out[0]->aval;
  int64_t d = mr_attr_get(t->e, "dimension")->i[0], inner = mr_aval_span(y, (int)d + 1, y->ndim);
  int64_t from = 0;
  MR_TRY(mr__kernel_begin(t, mr_aval_elems(y), diag));
  fprintf(t->f, "  u64 row = i / %" PRId64 ", c = i %% %" PRId64 "; %s v = 0;\n", y->dim[d] * inner,
          y->dim[d] * inner, mr__kernel_held(y->dtype));
  for (int k = 0; k < t->e->n_in; k++) {
    int64_t n = t->e->in[k]->aval.dim[d] * inner;
    if (n && from)
      fprintf(t->f, "  if (c >= %" PRId64 " && c < %" PRId64 ")", from, from + n);
    else if (n)
      fprintf(t->f, "  if (c < %" PRId64 ")", n);
    if (n) fprintf(t->f, " v = x%d[row * %" PRId64 " + c - %" PRId64 "];\n", k, n, from);
    from += n;
  }
  fputs("  y0[i] = v;\n", t->f);
  return mr__kernel_end(t, diag);
}

/* ---- rows by index ---- */
static void write_row(mr_kernel_text_t *t, const char *of, int64_t n) {
  fprintf(t->f,
          "    i64 row = x1[%s]; row = row < 0 ? 0 : row >= %" PRId64 " ? %" PRId64 " : row;\n", of,
          n, n - 1);
}

mr_err_t mr__kernel_take(mr_kernel_text_t *t, mr_diag_t *diag) {
  mr_take_sizes_t s = mr__take_sizes(t->e, &t->e->in[0]->aval);
  MR_TRY(mr__kernel_begin(t, s.batch * s.at * s.row, diag));
  fprintf(t->f, "  u64 k = i / %" PRId64 ";\n  {\n", s.row);
  write_row(t, "k", s.n);
  fprintf(t->f,
          "    y0[i] = x0[((i64)(k / %" PRId64 ") * %" PRId64 " + row) * %" PRId64
          " + (i64)(i %% %" PRId64 ")];\n  }\n",
          s.at, s.n, s.row, s.row);
  return mr__kernel_end(t, diag);
}

/* Each element of the result looks for the rows that fall on it, in order: no two work-items add to
   one place, so the sum has one order. */
mr_err_t mr__kernel_take_vjp(mr_kernel_text_t *t, mr_diag_t *diag) {
  const mr_aval_t *y = &t->e->out[0]->aval;
  mr_take_sizes_t s = mr__take_sizes(t->e, y);
  MR_TRY(mr__kernel_begin(t, s.batch * s.n * s.row, diag));
  fprintf(t->f,
          "  u64 z = i / %" PRId64 "; i64 mine = (i64)(i / %" PRId64 " %% %" PRId64
          "), j = (i64)(i %% %" PRId64 ");\n  %s sum = 0;\n  for (u64 k = z * %" PRId64
          "; k < (z + 1) * %" PRId64 "; k++) {\n",
          s.n * s.row, s.row, s.n, s.row, mr__kernel_type(y->dtype), s.at, s.at);
  write_row(t, "k", s.n);
  char at[64];
  snprintf(at, sizeof at, "(i64)k * %" PRId64 " + j", s.row);
  fputs("    if (row == mine) sum += ", t->f);
  mr__kernel_load(t->f, t->e->in[0]->aval.dtype, "x0", at);
  fputs(";\n  }\n", t->f);
  mr__kernel_store(t->f, y->dtype, "y0", "i", "sum");
  return mr__kernel_end(t, diag);
}
