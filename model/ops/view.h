/* How ops let views through (mr_op_def.view). */
#ifndef MR_MODEL_OPS_VIEW_H
#define MR_MODEL_OPS_VIEW_H

#include "base/decls.h"
#include "model/ir/op.h"

MR_BEGIN_DECLS

/* Elementwise ops: the same view of every operand of the result's shape. */
mr_view_rule mr_view_each;
/* Ops that treat leading dimensions of operand 0 as rows, the other operands shared: slices that
   leave the last dimension whole. */
mr_view_rule mr_view_rows;

/* Of x seen through v. */
mr_aval_t mr_view_aval(const mr_aval_t *x, const mr_view_t *v);

MR_END_DECLS

#endif
