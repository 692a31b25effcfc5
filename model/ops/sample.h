/* Example inputs of an op.  The tests that go through the table of ops run on them, so that an op
   added to the table is tested without a test of its own. */
#ifndef MR_MODEL_OPS_SAMPLE_H
#define MR_MODEL_OPS_SAMPLE_H

#include "base/decls.h"
#include "model/ir/op.h"

MR_BEGIN_DECLS

/* Appends an input to the sample, at most MR_SAMPLE_IN of them (asserted), with values drawn evenly
   from [lo,hi], both included for integers.  Returns it, owned by s->f; NULL on failure. */
mr_var_t *mr_sample_in(mr_sample_t *s, mr_dtype_t t, double lo, double hi, int ndim,
                       const int64_t *dim);
#define mr_sample_dims(s, t, lo, hi, ...) mr_sample_in(s, t, lo, hi, MR_DIMS(__VA_ARGS__))
#define mr_sample_f32(s, lo, hi, ...) mr_sample_dims(s, MR_F32, lo, hi, __VA_ARGS__)
#define mr_sample_scalar(s, t, lo, hi) mr_sample_in(s, t, lo, hi, 0, NULL)

/* Ends an example: the outputs are those of y's equation, or y itself if it has none.  Returns
   true; a failure is in s->f->diag. */
bool mr_sample_done(mr_sample_t *s, mr_var_t *y);

/* Sample rules of elementwise ops: operands f32[2,3], then, for each operand, one example in which
   it is a scalar.  Values are in [-1.5,1.5], those of the positive rules in [0.6,1.9].  Each
   returns true, or false if k is past the last example. */
bool mr_sample_unary(const mr_op_def_t *op, mr_sample_t *s, int k);
bool mr_sample_unary_positive(const mr_op_def_t *op, mr_sample_t *s, int k);
bool mr_sample_binary(const mr_op_def_t *op, mr_sample_t *s, int k);
bool mr_sample_binary_positive(const mr_op_def_t *op, mr_sample_t *s, int k);

MR_END_DECLS

#endif
