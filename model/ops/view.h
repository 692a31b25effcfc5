/* View rules that several ops share (mr_op_def.view; mr_view_rule in op.h says what they
   return). */
#ifndef MR_MODEL_OPS_VIEW_H
#define MR_MODEL_OPS_VIEW_H

#include "base/decls.h"
#include "model/ir/op.h"

MR_BEGIN_DECLS

/* For elementwise ops: the same view of every operand of the result's shape. */
mr_view_rule mr_view_each;
/* For ops whose operand 0 has leading dimensions as rows and whose other operands all rows share:
   slices that keep the last dimension whole. */
mr_view_rule mr_view_rows;

/* Returns the aval of view v of x; cannot fail. */
mr_aval_t mr_view_aval(const mr_aval_t *x, const mr_view_t *v);

MR_END_DECLS

#endif
