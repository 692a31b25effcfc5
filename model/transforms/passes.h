/* The compiler's passes over a graph, in the order in which they run; each can be skipped.  None
   changes results, except that fold-convert omits a rounding (mr_fold_convert) and merge-products
   may add in another order.

   A pass works in place on f, which no other thread uses meanwhile, and does not block.  It returns
   MR_OK, or a failure with its sentence in diag, usually MR_ERR_NOMEM; f is then half rewritten and
   can only be destroyed.  passes.c runs them; each pass has a file of its own. */
#ifndef MR_MODEL_PASSES_H
#define MR_MODEL_PASSES_H

#include "model/ir/fn.h"

/* What the passes need to know of the backend that a graph is compiled for. */
typedef struct mr_target {
  /* Limits of one fused loop: equations; operands, and as many results, at most MR_LOOP_ENDS. */
  int loop_eqns, loop_ends;
  /* Returns what its kernel of elementwise op `op` computes for one element of f32, to the bit; ops
     of one operand ignore b. */
  float (*element)(const mr_op_def_t *op, float a, float b);
  /* Whether e, which has an open rule, must be written as primitives because there is no kernel for
     its operands. */
  bool (*opens)(const struct mr_target *t, const mr_eqn_t *e);
  const struct mr_device *device; /* whose target this is, for opens; NULL: of any device */
  /* Whether a fused loop over n rows of `each` elements may continue past sums and maxima of its
     rows: with ops on one value a row, and with broadcasts of such values along the row.  It may
     then sum its columns too.  NULL: a loop ends at its sums. */
  bool (*rows)(int64_t n, int64_t each);
  /* Operands and results together of a loop over several tensors (mr_join), at most
     MR_JOINED_ENDS; 0: there are no such loops. */
  int joined_ends;
} mr_target_t;

#define MR_LOOP_ENDS 32
#define MR_JOINED_ENDS 1024

typedef struct mr_pass {
  const char *name;
  const char *help;
  /* The pass: one of the two is set; run_for depends on the target. */
  mr_err_t (*run)(mr_fn_t *f, mr_diag_t *diag);
  mr_err_t (*run_for)(mr_fn_t *f, const mr_target_t *t, mr_diag_t *diag);
  /* The part that saves work if it runs before differentiation; NULL: none. */
  mr_err_t (*before_grad)(mr_fn_t *f, mr_diag_t *diag);
} mr_pass_t;

extern const mr_pass_t mr_passes[]; /* ends at {0} */

/* Runs all passes on f but those whose names are in skip, separated by commas; NULL: in
   MILLRACE_SKIP_PASSES of the environment, if it is set.  MR_OK, MR_ERR_CONFIG, before any pass
   runs, for a name that is no pass (the sentence lists them), or the first failure of a pass. */
mr_err_t mr_passes_run(mr_fn_t *f, const mr_target_t *t, const char *skip, mr_diag_t *diag);
/* Whether mr_passes_run leaves p out. */
bool mr_pass_skipped(const mr_pass_t *p, const char *skip);
/* Runs p of mr_passes alone; MR_OK or its failure. */
mr_err_t mr_pass_run(const mr_pass_t *p, mr_fn_t *f, const mr_target_t *t, mr_diag_t *diag);
/* Runs the before_grad parts alone, with skip and failures as in mr_passes_run; mr_value_and_grad,
   mr_vjp and mr_optim_step_fn call it. */
mr_err_t mr_passes_before_grad(mr_fn_t *f, const char *skip, mr_diag_t *diag);

/* Merges equations with the same op, operands and attributes.  Barriers and ops that call functions
   stay.  MR_OK or MR_ERR_NOMEM. */
mr_err_t mr_cse(mr_fn_t *f, mr_diag_t *diag);
/* Replaces elementwise f32 ops of constants by constants, and x * 1, x / 1 and x - 0 by x.  MR_OK
   or MR_ERR_NOMEM. */
mr_err_t mr_fold_constants(mr_fn_t *f, const mr_target_t *t, mr_diag_t *diag);
/* Moves slices up over row-wise and elementwise ops whose results have no other reader, and
   transpositions into broadcasts and counters, where they vanish.  Values stay the same to the bit
   if a product of fewer rows is as exact as one of all rows.  Before mr_grad it saves the backward
   pass the same work.  MR_OK or a failure. */
mr_err_t mr_sink(mr_fn_t *f, mr_diag_t *diag);
/* Merges products of one x into a product with their matrices side by side, where that is faster:
   for few columns and many rows.  Each element stays the same sum, but kernels for other sizes may
   add its terms in another order.  mr_merge_before_grad: for a graph that is differentiated next,
   also merges the products for q, k and v of one attention, since the backward pass is then merged
   as well.  Each returns MR_OK or a failure. */
mr_err_t mr_merge_products(mr_fn_t *f, mr_diag_t *diag);
mr_err_t mr_merge_before_grad(mr_fn_t *f, mr_diag_t *diag);
/* Where the target has rows: a large value that another kernel reads is computed again there, if a
   few plain ops make it from what is kept anyway, or is kept in its place.  Results stay equal to
   the bit.  MR_OK or a failure. */
mr_err_t mr_recompute(mr_fn_t *f, const mr_target_t *t, mr_diag_t *diag);
/* Where the target has no rows: a large value that sums of two ways read is computed for each of
   them, if that moves fewer bytes than to write and read it.  Results stay equal to the bit.  MR_OK
   or a failure. */
mr_err_t mr_unshare(mr_fn_t *f, const mr_target_t *t, mr_diag_t *diag);
/* Joins chains of elementwise ops, with reductions over trailing or leading dimensions at their
   end, into one op that runs in blocks; where the target has rows, a chain continues past the
   reductions over trailing dimensions.  MR_OK or a failure. */
mr_err_t mr_fuse(mr_fn_t *f, const mr_target_t *t, mr_diag_t *diag);
/* Makes loops that compute the same of several tensors, each of any size, one equation: an
   optimizer's update is then one kernel, or a few, for all parameters.  Values stay the same to the
   bit.  MR_OK or a failure. */
mr_err_t mr_join(mr_fn_t *f, const mr_target_t *t, mr_diag_t *diag);
/* Where the target joins loops: makes small conversions, concatenations and slices of several
   tensors one equation, those of inputs at the front, others before what reads several of them.
   Values stay the same to the bit.  MR_OK or a failure. */
mr_err_t mr_beside(mr_fn_t *f, const mr_target_t *t, mr_diag_t *diag);

#endif
