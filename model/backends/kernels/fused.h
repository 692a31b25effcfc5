/* What the kernels of a fused loop share: its body, and the text of one value of it.

   A value of the body is a variable v<id>; the element's number is a variable `i`.  Implemented in
   fused.c; rule_fused.c writes loops that end at their sums, rule_rows.c those that continue past
   sums of rows, rule_tensors.c those over several tensors, rule_beside.c
   equations that are no loops. */
#ifndef MR_MODEL_BACKENDS_KERNELS_FUSED_H
#define MR_MODEL_BACKENDS_KERNELS_FUSED_H

#include "model/backends/kernels/text.h"
#include "model/ir/unit.h"

enum { MR_FUSED_FOLDS = 96 }; /* at least the equations of a body (mr_target_t.loop_eqns) */

typedef struct mr_fused_loop {
  mr_kernel_text_t *t;
  const mr_fn_t *body;
  int64_t n;  /* elements of the loop */
  int n_fold; /* reductions, all of rows or all of columns */
  const mr_eqn_t *fold[MR_FUSED_FOLDS];
  int n_column; /* reductions of columns beside those of rows */
  const mr_eqn_t *column[MR_FUSED_FOLDS];
  bool columns;
  int64_t outputs, terms; /* of each reduction */
  bool continues;         /* equations read what reductions give, which are of rows */
  bool wide;              /* an item has eight neighbouring elements (rule_wide.c) */
} mr_fused_loop_t;

/* Returns the loop of t->e whose body is `body`. */
mr_fused_loop_t mr__fused_loop(mr_kernel_text_t *t, const mr_fn_t *body);

mr_unit_t mr__fused_unit(const mr_eqn_t *e); /* of an equation of a body; cannot fail */
/* The number of v among the inputs of body; -1: none of them. */
int mr__fused_input(const mr_fn_t *body, const mr_var_t *v);
/* Returns the number of v, the result of a reduction that no equation reads, among the results of
   body. */
int mr__fused_result(const mr_fn_t *body, const mr_var_t *v);
mr_kernel_fold_t mr__fused_fold(const mr_eqn_t *e); /* of a reduction */
/* Sets text to the name of a value: its variable, or a constant. */
void mr__fused_name(const mr_var_t *v, char text[MR_KERNEL_NAME]);

/* Declares the variable of v and sets it to element `at` of operand `of`. */
void mr__fused_load(FILE *f, const mr_fused_loop_t *l, const mr_var_t *v, int of, const char *at);
/* Declares the variable of e's result and computes it as element `at`; nothing for a reduction.  In
   a loop that continues, `row` and `k` are the row and the place in it.  MR_OK, or MR_ERR_NORULE.
 */
mr_err_t mr__fused_member(FILE *f, const mr_fused_loop_t *l, const mr_eqn_t *e, const char *at,
                          mr_diag_t *diag);
/* Whether e is a dropout whose draws can be made before its element is computed: seed and step are
   literals, or operands of one element, whose variables are set by then. */
bool mr__fused_draws(const mr_fused_loop_t *l, const mr_eqn_t *e);
/* Writes the statement that sets words[0,4) to the draws of the eight elements that begin at 8
   `eight`, for dropout e. */
void mr__fused_draw(FILE *f, const mr_eqn_t *e, const char *words, const char *eight);
/* As mr__fused_member for dropout e, whose 16 bits are the expression `draw`. */
void mr__fused_dropped(FILE *f, const mr_eqn_t *e, const char *draw);
/* Folds what `from` names into `to`, a float variable, for reduction e. */
void mr__fused_step(FILE *f, const mr_eqn_t *e, const char *to, const char *from);

/* Whether an item of the loop, whose sums are made in `parts` parts, should have eight elements. */
bool mr__fused_is_wide(const mr_fused_loop_t *l, int64_t parts);
/* Writes statements that compute the eight elements that begin at the u32 `at`: they store the
   results, and fold element j into r<fold>[j].  MR_OK or MR_ERR_NORULE (rule_wide.c). */
mr_err_t mr__wide_elements(FILE *f, const mr_fused_loop_t *l, mr_diag_t *diag);

/* Writes the kernels of a loop that continues past sums of its rows, or has sums of columns beside
   them (rule_rows.c).  MR_OK, MR_ERR_NORULE or MR_ERR_NOMEM. */
mr_err_t mr__fused_rows(const mr_fused_loop_t *l, mr_diag_t *diag);
/* Writes the kernel of t->e, a loop over several tensors (rule_tensors.c), or several equations
   side by side (rule_beside.c).  The same failures. */
mr_err_t mr__fused_tensors(mr_kernel_text_t *t, mr_diag_t *diag);
mr_err_t mr__fused_beside(mr_kernel_text_t *t, mr_diag_t *diag);

#endif
