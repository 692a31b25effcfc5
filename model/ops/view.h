/* Views: a slice or a transposition, and how an op lets one through: op(x) seen through a view is
   the op on views of its operands.  The pass transforms/sink.c asks. */
#ifndef MR_MODEL_OPS_VIEW_H
#define MR_MODEL_OPS_VIEW_H

#include "base/decls.h"
#include "model/ir/fn.h"

MR_BEGIN_DECLS

typedef struct mr_view {
  int ndim; /* 0: the operand as it is */
  bool transposes;
  int64_t start[MR_MAX_NDIM], limit[MR_MAX_NDIM]; /* of a slice */
  int perm[MR_MAX_NDIM];                          /* dimension i of the view is perm[i] */
} mr_view_t;

/* v: of e's output 0.  Fills the zeroed in[e->n_in]; false: e lets no such view through. */
typedef bool mr_view_rule(const mr_eqn_t *e, const mr_view_t *v, mr_view_t *in);
/* e on views of its operands, appended to f; NULL in the op's table: with e's own attributes. */
typedef mr_var_t *mr_viewed_fn(mr_fn_t *f, const mr_eqn_t *e, const mr_view_t *v,
                               mr_var_t *const *in);

/* Elementwise ops: the same view of every operand of the result's shape. */
mr_view_rule mr_view_each;
/* Ops that treat leading dimensions of operand 0 as rows, the other operands shared: slices that
   leave the last dimension whole. */
mr_view_rule mr_view_rows;

mr_aval_t mr_view_aval(const mr_aval_t *x, const mr_view_t *v);
/* The view as an equation on x; x itself for a view that changes nothing. */
mr_var_t *mr_view_emit(mr_fn_t *f, mr_var_t *x, const mr_view_t *v);

MR_END_DECLS

#endif
