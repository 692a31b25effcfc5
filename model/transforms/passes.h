/* The compiler's passes over a graph, in the order in which they run, each of which can be left
   out.  None changes results but for fold-convert's rounding (see mr_fold_convert).  Each works in
   place on f, of which it is the only user; MR_ERR_NOMEM in diag, then destroy f. */
#ifndef MR_MODEL_PASSES_H
#define MR_MODEL_PASSES_H

#include "model/ir/fn.h"

/* What the passes ask of the backend that a graph is compiled for. */
typedef struct mr_target {
  /* What one fused loop holds at most: equations, and operands and results each, the latter at most
     MR_LOOP_ENDS. */
  int loop_eqns, loop_ends;
  /* What its kernel of elementwise op `op` gives for one element of f32, to the bit (b: ignored by
     ops of one operand). */
  float (*element)(const mr_op_def_t *op, float a, float b);
  /* Whether e, whose op has an open rule, is to be written as primitives, as there is no kernel for
     these operands. */
  bool (*opens)(const mr_eqn_t *e);
} mr_target_t;

#define MR_LOOP_ENDS 32

typedef struct mr_pass {
  const char *name;
  const char *help;
  /* One of the two; the second depends on the target. */
  mr_err_t (*run)(mr_fn_t *f, mr_diag_t *diag);
  mr_err_t (*run_for)(mr_fn_t *f, const mr_target_t *t, mr_diag_t *diag);
  /* What saves the backward pass work if it comes before it; NULL: nothing. */
  mr_err_t (*before_grad)(mr_fn_t *f, mr_diag_t *diag);
} mr_pass_t;

extern const mr_pass_t mr_passes[]; /* ends at {0} */

/* skip: names of passes to leave out, with commas between; NULL: the environment's
   MILLRACE_SKIP_PASSES, if it is set.  MR_ERR_CONFIG for a name that is none lists them. */
mr_err_t mr_passes_run(mr_fn_t *f, const mr_target_t *t, const char *skip, mr_diag_t *diag);
/* One pass alone; p of mr_passes. */
mr_err_t mr_pass_run(const mr_pass_t *p, mr_fn_t *f, const mr_target_t *t, mr_diag_t *diag);
/* Those that spare the backward pass work, before it: mr_value_and_grad, mr_vjp and
   mr_optim_step_fn run them. */
mr_err_t mr_passes_before_grad(mr_fn_t *f, const char *skip, mr_diag_t *diag);

/* Equations that compute the same become one: the same op, operands and attributes.  Barriers and
   ops that call functions stay. */
mr_err_t mr_cse(mr_fn_t *f, mr_diag_t *diag);
/* Elementwise f32 ops of constants become constants; x * 1, x / 1 and x - 0 become x. */
mr_err_t mr_fold_constants(mr_fn_t *f, const mr_target_t *t, mr_diag_t *diag);
/* Slices move up over row-wise and elementwise ops whose results nobody else reads; transpositions
   move into broadcasts and counters, where they vanish.  Values stay the same to the bit, where a
   product of fewer rows is as exact as one of all.  Before mr_grad, it spares the backward pass the
   same work. */
mr_err_t mr_sink(mr_fn_t *f, mr_diag_t *diag);
/* Products of one x become a product with their matrices side by side, where it pays: those of few
   columns and many rows.  Each element stays the sum it was, but kernels for other sizes may add
   its terms in another order. */
mr_err_t mr_merge_products(mr_fn_t *f, mr_diag_t *diag);
/* The same in a graph that is differentiated next, where it pays for q, k and v of one attention
   too, since the backward pass then merges as well. */
mr_err_t mr_merge_before_grad(mr_fn_t *f, mr_diag_t *diag);
/* Chains of elementwise ops, with sums over trailing or leading dimensions at their end, become one
   op that runs in blocks. */
mr_err_t mr_fuse(mr_fn_t *f, const mr_target_t *t, mr_diag_t *diag);

#endif
