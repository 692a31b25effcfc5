/* Rules that several ops share, and those of an op that has none.  rules.c implements this header,
   but for mr_rows_spread and mr_row_repeat (broadcast_in_dim.c) and reductions (reduce.c).
   Sentences of failures are in f->diag, or in diag; NULL operands give NULL. */
#ifndef MR_MODEL_OPS_RULES_H
#define MR_MODEL_OPS_RULES_H

#include "base/decls.h"
#include "model/ir/element.h"
#include "model/ir/op.h"
#include "model/ops/batch.h"
#include "model/ops/sample.h"
#include "model/ops/shard.h"

MR_BEGIN_DECLS

/* Rules of an op that has none: each returns MR_ERR_NORULE, with scope and op in f->diag. */
mr_err_t mr_no_jvp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *din, mr_var_t **dout);
mr_err_t mr_no_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din);
mr_err_t mr_no_batch(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in, mr_batched_t *out);
mr_err_t mr_no_open(mr_fn_t *f, const mr_eqn_t *e, mr_var_t **out);

/* Rows that a primitive lacks, so that a constant stays short; each is still named. */
#define MR_RULES_PRIMITIVE .open = mr_no_open

/* ---- shape rules: each sets *out and returns MR_OK, or MR_ERR_SHAPE with a sentence.  An
   elementwise op also refuses dtypes for which its `at` has no function.
   same: output as the input, for ops with one input.
   pointwise: two inputs of one dtype and one shape, or one of them a scalar.
   compare: pointwise, giving bool.
   floats: same, for floats alone.
   mr_check_numbers is no rule but a part of one: operand 0 must not be bool ---- */
mr_err_t mr_shape_same(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag);
mr_err_t mr_shape_pointwise(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag);
mr_err_t mr_shape_compare(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag);
mr_err_t mr_shape_floats(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag);
mr_err_t mr_check_numbers(const mr_eqn_t *e, mr_diag_t *diag);

/* ---- parts of vjp and open rules: each returns a var owned by f, NULL on failure.
   unbroadcast: the cotangent of an operand of a pointwise op from d, that of the result: summed if
   the operand is a scalar; NULL, without a failure, for a literal.
   rows_spread: v (...), one value for each row of like (...,C), repeated along the last dimension.
   row_repeat: v (C), repeated for each row of like ---- */
mr_var_t *mr_unbroadcast(mr_fn_t *f, mr_var_t *d, const mr_var_t *operand);
mr_var_t *mr_rows_spread(mr_fn_t *f, mr_var_t *v, const mr_aval_t *like);
mr_var_t *mr_row_repeat(mr_fn_t *f, mr_var_t *v, const mr_aval_t *like);
/* MR_OK, or the failure in f->diag: what a rule returns at its end. */
mr_err_t mr_rule_done(const mr_fn_t *f);

/* Returns the dtype in which a composite sums elements of t: f64 for f64, else f32. */
static inline mr_dtype_t mr_sum_dtype(mr_dtype_t t) { return t == MR_F64 ? MR_F64 : MR_F32; }

/* ---- jvp and vjp rules for an op's constant; each returns as mr_op_def.ad says: MR_OK, MR_OPEN
   or a failure in f->diag.
   jvp_linear: an op that is linear in its operands taken together; itself on the tangents.
   jvp_symmetric: one output whose Jacobian by operand 0 is symmetric, as for every elementwise op
   of one operand; the vjp rule on the tangent.  Other operands are constants.
   jvp_product: an op that is linear in each of its first two operands; the sum of the op with one
   of them replaced by its tangent.
   jvp_open, vjp_open: always MR_OPEN, for ops that are differentiated through their open rule.
   jvp_zero, vjp_zero: constant almost everywhere; no tangent and no cotangent ---- */
mr_err_t mr_jvp_linear(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *din, mr_var_t **dout);
mr_err_t mr_jvp_symmetric(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *din, mr_var_t **dout);
mr_err_t mr_jvp_product(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *din, mr_var_t **dout);
mr_err_t mr_jvp_open(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *din, mr_var_t **dout);
mr_err_t mr_vjp_open(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din);
mr_err_t mr_jvp_zero(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *din, mr_var_t **dout);
mr_err_t mr_vjp_zero(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din);
/* Parts of jvp rules: each returns a tangent owned by f; NULL if that is zero, or on failure.
   add: the sum of a and b, either of which may be NULL (zero).
   spread: d, the tangent of an operand of e, in the shape of e's output 0 if the operand is a
   scalar */
mr_var_t *mr_tangent_add(mr_fn_t *f, mr_var_t *a, mr_var_t *b);
mr_var_t *mr_tangent_spread(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *d);

/* ---- unit rules (unit.h): each sets u->kind and returns whether e is a unit with these operands.
   pointwise: ops with mr_op_def.cpu, if it has a function for operand 0's dtype.
   each: ops that compute element by element on any operands; always true.
   same: ops whose result has the bytes of operand 0; always true ---- */
bool mr_unit_pointwise(const mr_eqn_t *e, mr_unit_t *u);
bool mr_unit_each(const mr_eqn_t *e, mr_unit_t *u);
bool mr_unit_same(const mr_eqn_t *e, mr_unit_t *u);

/* ---- view rules (mr_op_def.fuse): each returns as mr_view_rule in op.h does.
   each: for elementwise ops, the same view of every operand of the result's shape.
   rows: for ops whose operand 0 has leading dimensions as rows and whose other operands all rows
   share: slices that keep the last dimension whole ---- */
mr_view_rule mr_view_each;
mr_view_rule mr_view_rows;
/* Returns the aval of view v of x; cannot fail. */
mr_aval_t mr_view_aval(const mr_aval_t *x, const mr_view_t *v);

/* Rows of an elementwise op's constant. */
#define MR_RULES_POINTWISE                                                    \
  .batch = mr_batch_pointwise, .open = mr_no_open, .kind = MR_OP_ELEMENTWISE, \
  .fuse = {.unit = mr_unit_pointwise, .view = mr_view_each}, .shard = {mr_shard_each}

/* ---- reductions: in[0] loses the dimensions in attribute axes (reduce.c) ---- */

/* The shape rule without a check of the dtype: MR_OK, or MR_ERR_SHAPE for an axis that is missing
   or repeated. */
mr_err_t mr__reduce_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag);
/* Returns v, of the result's shape, broadcast to the operand's; it belongs to f.  NULL on failure,
   which is in f->diag. */
mr_var_t *mr__reduce_spread(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *v);
/* The unit rule: true if trailing or leading axes of more than one element in all are reduced and
   the operand is f32, bf16 or f16 with elements.  Axes of size 1 may be anywhere. */
bool mr__reduce_unit(const mr_eqn_t *e, mr_unit_t *u);
/* Fills axes[MR_MAX_NDIM] with the axes of the mapped reduction and returns how many; *axis becomes
   the mapped dimension of its result. */
int mr__reduce_batch(const mr_eqn_t *e, const mr_batched_t *in, int *axes, int *axis);

MR_END_DECLS

#endif
