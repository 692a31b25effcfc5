/* Rules that several ops share, and the explicit "has none". */
#ifndef MR_MODEL_OPS_RULES_H
#define MR_MODEL_OPS_RULES_H

#include "base/decls.h"
#include "model/ir/element.h"
#include "model/ir/op.h"
#include "model/ops/batch.h"
#include "model/ops/sample.h"
#include "model/ops/view.h"

MR_BEGIN_DECLS

/* Fail with MR_ERR_NORULE and the op's name. */
mr_err_t mr_no_jvp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *din, mr_var_t **dout);
mr_err_t mr_no_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din);
mr_err_t mr_no_batch(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in, mr_batched_t *out);
mr_err_t mr_no_open(mr_fn_t *f, const mr_eqn_t *e, mr_var_t **out);

/* Rows that a primitive lacks, so that a constant stays short; each is still named. */
#define MR_RULES_PRIMITIVE .open = mr_no_open

/* Output as the input: elementwise ops with one input. */
mr_err_t mr_shape_same(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag);
/* Two inputs of one dtype and one shape, or one of them a scalar. */
mr_err_t mr_shape_pointwise(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag);
/* The same, giving bool. */
mr_err_t mr_shape_compare(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag);
/* The first for floats alone. */
mr_err_t mr_shape_floats(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag);
/* Operand 0 is not bool: "want numbers". */
mr_err_t mr_check_numbers(const mr_eqn_t *e, mr_diag_t *diag);
/* The cotangent of an operand of a pointwise op: summed where the operand was a scalar. */
mr_var_t *mr_unbroadcast(mr_fn_t *f, mr_var_t *d, const mr_var_t *operand);
/* For open rules, over the rows of a tensor like (...,C).  NULL on failure, as in lax.h. */
/* v (...): a value of each row, repeated along like's last dimension. */
mr_var_t *mr_rows_spread(mr_fn_t *f, mr_var_t *v, const mr_aval_t *like);
/* v (C): the same for each row of like. */
mr_var_t *mr_row_repeat(mr_fn_t *f, mr_var_t *v, const mr_aval_t *like);
/* MR_OK, or the failure that a rule's calls left in f. */
mr_err_t mr_rule_done(const mr_fn_t *f);

/* The dtype in which a composite sums elements of t: f64 of f64, else f32. */
static inline mr_dtype_t mr_sum_dtype(mr_dtype_t t) { return t == MR_F64 ? MR_F64 : MR_F32; }

/* ---- jvp rules ---- */
/* An op that is linear in its operands taken together: itself on the tangents. */
mr_err_t mr_jvp_linear(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *din, mr_var_t **dout);
/* One output whose Jacobian with respect to operand 0 is symmetric (every elementwise op of one
   operand): the vjp rule on the tangent.  Other operands are constants. */
mr_err_t mr_jvp_symmetric(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *din, mr_var_t **dout);
/* An op linear in each of its first two operands: the sum of the op with one of them exchanged. */
mr_err_t mr_jvp_product(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *din, mr_var_t **dout);
/* MR_OPEN: through the op's open rule. */
mr_err_t mr_jvp_open(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *din, mr_var_t **dout);
mr_err_t mr_vjp_open(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din);
/* Constant almost everywhere: no tangent and no cotangent. */
mr_err_t mr_jvp_zero(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *din, mr_var_t **dout);
mr_err_t mr_vjp_zero(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din);
/* Tangents summed: either may be NULL (zero). */
mr_var_t *mr_tangent_add(mr_fn_t *f, mr_var_t *a, mr_var_t *b);
/* A tangent of a scalar operand spread over the shape of e's output 0; others as they are. */
mr_var_t *mr_tangent_spread(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *d);

/* ---- elementwise ops ---- */
/* The unit rule of ops that fill mr_op_def.at. */
bool mr_unit_pointwise(const mr_eqn_t *e, mr_unit_t *u);
/* The unit rule of ops that work on one element after the other, on whatever operands. */
bool mr_unit_each(const mr_eqn_t *e, mr_unit_t *u);
/* The unit rule of ops whose result has the bytes of operand 0. */
bool mr_unit_same(const mr_eqn_t *e, mr_unit_t *u);
/* Rows of an elementwise op's constant. */
#define MR_RULES_POINTWISE                                                    \
  .batch = mr_batch_pointwise, .open = mr_no_open, .kind = MR_OP_ELEMENTWISE, \
  .unit = mr_unit_pointwise, .view = mr_view_each

MR_END_DECLS

#endif
