/* Example inputs of an op: what the tests that walk the table of ops run on, so that an op added
   to the table is tested without a test of its own. */
#ifndef MR_MODEL_OPS_SAMPLE_H
#define MR_MODEL_OPS_SAMPLE_H

#include "base/decls.h"
#include "model/ir/op.h"

MR_BEGIN_DECLS

/* One more input of the sample, its values drawn evenly from [lo,hi] (integers: from lo to hi). */
mr_var_t *mr_sample_in(mr_sample_t *s, mr_dtype_t t, double lo, double hi, int ndim,
                       const int64_t *dim);
#define mr_sample_dims(s, t, lo, hi, ...) mr_sample_in(s, t, lo, hi, MR_DIMS(__VA_ARGS__))
#define mr_sample_f32(s, lo, hi, ...) mr_sample_dims(s, MR_F32, lo, hi, __VA_ARGS__)
#define mr_sample_scalar(s, t, lo, hi) mr_sample_in(s, t, lo, hi, 0, NULL)

/* Ends an example: y's equation (or y itself) gives the outputs.  Returns true. */
bool mr_sample_done(mr_sample_t *s, mr_var_t *y);

/* Samples of elementwise ops: operands of one shape, then each of the two a scalar. */
bool mr_sample_unary(const mr_op_def_t *op, mr_sample_t *s, int k);           /* [-1.5,1.5] */
bool mr_sample_unary_positive(const mr_op_def_t *op, mr_sample_t *s, int k);  /* [0.6,1.9] */
bool mr_sample_binary(const mr_op_def_t *op, mr_sample_t *s, int k);          /* as unary */
bool mr_sample_binary_positive(const mr_op_def_t *op, mr_sample_t *s, int k); /* as unary */

MR_END_DECLS

#endif
