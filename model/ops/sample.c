/* Sample inputs, and the samples of elementwise ops.  An op brings examples of itself, with ranges
   in which its derivative is smooth, and tests run every transform on them; so this file is part of
   the library and not of a test. */
#include "model/ops/sample.h"

#include <assert.h>

mr_var_t *mr_sample_in(mr_sample_t *s, mr_dtype_t t, double lo, double hi, int ndim,
                       const int64_t *dim) {
  assert(s->f->n_in < MR_SAMPLE_IN);
  s->lo[s->f->n_in] = lo;
  s->hi[s->f->n_in] = hi;
  return mr_fn_input(s->f, mr_aval(t, ndim, dim));
}

bool mr_sample_done(mr_sample_t *s, mr_var_t *y) {
  if (y && y->def)
    mr_fn_return(s->f, y->def->n_out, y->def->out);
  else
    mr_fn_return(s->f, 1, &y);
  return true;
}

static bool add_unary_sample(const mr_op_def_t *op, mr_sample_t *s, int k, double lo, double hi) {
  if (k > 1) return false;
  mr_var_t *x = k ? mr_sample_scalar(s, MR_F32, lo, hi) : mr_sample_f32(s, lo, hi, 2, 3);
  return mr_sample_done(s, mr_emit1(s->f, op, 1, &x, 0, NULL));
}

bool mr_sample_unary(const mr_op_def_t *op, mr_sample_t *s, int k) {
  return add_unary_sample(op, s, k, -1.5, 1.5);
}

bool mr_sample_unary_positive(const mr_op_def_t *op, mr_sample_t *s, int k) {
  return add_unary_sample(op, s, k, 0.6, 1.9);
}

static bool add_binary_sample(const mr_op_def_t *op, mr_sample_t *s, int k, double lo, double hi) {
  if (k > 2) return false;
  mr_var_t *in[2];
  for (int i = 0; i < 2; i++)
    in[i] = k == i + 1 ? mr_sample_scalar(s, MR_F32, lo, hi) : mr_sample_f32(s, lo, hi, 2, 3);
  return mr_sample_done(s, mr_emit1(s->f, op, 2, in, 0, NULL));
}

bool mr_sample_binary(const mr_op_def_t *op, mr_sample_t *s, int k) {
  return add_binary_sample(op, s, k, -1.5, 1.5);
}

bool mr_sample_binary_positive(const mr_op_def_t *op, mr_sample_t *s, int k) {
  return add_binary_sample(op, s, k, 0.6, 1.9);
}
