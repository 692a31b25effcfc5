/* Shared by the rules of while (while.c, while_batch.c) and its lowering.  Its operands are (the
   condition's constants..., the body's constants..., carries...), its results the carries. */
#ifndef MR_MODEL_CONTROL_WHILE_H
#define MR_MODEL_CONTROL_WHILE_H

#include "model/ir/op.h"

typedef struct mr_while_parts {
  const mr_fn_t *cond, *body;
  int n_cond, n_body, n_carry; /* constants of each, and carries */
} mr_while_parts_t;

/* Returns the parts of e, whose attributes while's shape rule has checked; cannot fail. */
mr_while_parts_t mr__while_parts(const mr_eqn_t *e);

/* The batch rule (mr_op_def_t.batch): MR_OK, or the failure in f->diag. */
mr_err_t mr__while_batch(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in, mr_batched_t *out);

#endif
