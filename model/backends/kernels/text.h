/* Writing a kernel's text: its head with all parameters, loads and stores by dtype, places of
   elements by strides.  The rules (rule_*.c) use these; kernels.c lists them. */
#ifndef MR_MODEL_BACKENDS_KERNELS_TEXT_H
#define MR_MODEL_BACKENDS_KERNELS_TEXT_H

#include <stdio.h>

#include "model/backends/kernels/kernel.h"

/* What one equation's kernels are written with.  Texts are written to f; operands are x0, x1, ...,
   results y0, y1, ..., the scratch s (of `scratch` elements), the work-item's number i, of u64. */
typedef struct mr_kernel_text {
  const mr_eqn_t *e;
  size_t align; /* of operands and results, in bytes */
  mr_kernels_t *out;
  FILE *f;
  size_t size;          /* of the text under way, for open_memstream */
  mr_dtype_t scratch_t; /* of the scratch, if out->scratch_bytes */
  bool block;           /* the kernel is a block of one under way (rule_beside.c): it has no head */
} mr_kernel_text_t;

/* A rule writes the kernels of t->e: MR_OK, MR_ERR_NORULE or MR_ERR_NOMEM. */
typedef mr_err_t mr_kernel_rule_fn(mr_kernel_text_t *t, mr_diag_t *diag);

/* Begins a kernel of `items` work-items: writes its head, up to where the body begins.  All
   parameters are declared; a work-item past the last has returned.  MR_OK, MR_ERR_NOMEM. */
mr_err_t mr__kernel_begin(mr_kernel_text_t *t, int64_t items, mr_diag_t *diag);
/* The same for `groups` work-groups of `width` items each, all of which run.  `i` is not declared:
   GROUP and LANE tell the items apart.  MR_OK, MR_ERR_NOMEM. */
mr_err_t mr__kernel_begin_groups(mr_kernel_text_t *t, int64_t groups, int width, mr_diag_t *diag);
/* Says how the kernel under way is made (mr_kernel_t.form), if it is not the usual way of its op.
 */
void mr__kernel_form(mr_kernel_text_t *t, const char *form);
/* Ends the body.  MR_OK or MR_ERR_NOMEM. */
mr_err_t mr__kernel_end(mr_kernel_text_t *t, mr_diag_t *diag);

/* Return how a dtype's values are held in a kernel's memory, and in its variables: "u16" and
   "float" for bf16.  Integers compute in 64 bits, u64 without a sign.  Static text. */
const char *mr__kernel_held(mr_dtype_t t);
const char *mr__kernel_type(mr_dtype_t t);

/* Write an expression of mr__kernel_type(t): element `at` of pointer `name`; and a statement that
   stores the expression `value` there, rounded to t, or wrapped to its width. */
void mr__kernel_load(FILE *f, mr_dtype_t t, const char *name, const char *at);
void mr__kernel_store(FILE *f, mr_dtype_t t, const char *name, const char *at, const char *value);

/* Writes statements that set the i64 `place` to first + the sum of c[d] stride[d], where c are the
   coordinates of element `index` in a dense array of dim[0,n). */
void mr__kernel_place(FILE *f, const char *place, const char *index, int n, const int64_t *dim,
                      const int64_t *stride, int64_t first);

/* Sets stride[a->ndim] to the row-major strides of a, in elements. */
void mr__kernel_strides(const mr_aval_t *a, int64_t *stride);

/* Writes an expression: `value` of mr__kernel_type(t), rounded to what an array of t holds. */
void mr__kernel_round(FILE *f, mr_dtype_t t, const char *value);

enum { MR_KERNEL_NAME = 48 }; /* bytes of a variable's name, or of a constant */

/* Writes statements that assign to the variable `out` what e computes for one element, as an array
   would hold it, from in[e->n_in], variables of mr__kernel_type or constants.  number: an
   expression, the element's number in its draw.  For elementwise ops, select_n, conversions, powers
   and dropout. MR_OK; MR_ERR_NORULE for dtypes without a kernel. */
mr_err_t mr__kernel_value(FILE *f, const mr_eqn_t *e, char (*in)[MR_KERNEL_NAME], const char *out,
                          const char *number, mr_diag_t *diag);

/* The same for dropout, whose 16 bits that decide are the expression `draw`. */
void mr__kernel_dropped(FILE *f, const mr_eqn_t *e, const char *in, const char *out,
                        const char *draw);

/* How two values are folded: the statement that adds v to r, and what r begins with. */
typedef struct mr_kernel_fold {
  const char *start, *step;
} mr_kernel_fold_t;
/* Returns the fold of reduce_sum and reduce_max over values of t; static texts. */
mr_kernel_fold_t mr__kernel_fold(const mr_op_def_t *op, mr_dtype_t t);

/* An item adds this many terms before it adds their sum to what it has. */
enum { MR_KERNEL_BLOCK = 16 };

/* Returns the parts that `outputs` sums of `terms` terms are made in; 1: each by one item
   (parts.c). */
int64_t mr__kernel_parts(int64_t outputs, int64_t terms);

/* A fold that was made in parts, and the number of the result that it gives. */
typedef struct mr_kernel_part {
  mr_kernel_fold_t how;
  int y;
} mr_kernel_part_t;

/* Writes the kernel that folds the parts of of[0,n), which lie in the scratch.  MR_OK or
   MR_ERR_NOMEM. */
mr_err_t mr__kernel_fold_parts(mr_kernel_text_t *t, int64_t outputs, int64_t parts,
                               const mr_kernel_part_t *of, int n, mr_diag_t *diag);

/* MR_ERR_NORULE: "no kernel for bf16 here". */
mr_err_t mr__kernel_refuse(const mr_eqn_t *e, mr_dtype_t t, mr_diag_t *diag);

/* ---- the rules ---- */
/* Those that rules.def names, of elementwise ops, and of a reduction of rows or columns as a loop
   of it alone (rule_fused.c). */
#define MR_KERNEL(name) mr_kernel_rule_fn mr__kernel_##name;
#define MR_KERNEL_AS(name, other)
#define MR_KERNEL_VALUE(name)
#include "model/backends/kernels/rules.def"
#undef MR_KERNEL
#undef MR_KERNEL_AS
#undef MR_KERNEL_VALUE
mr_kernel_rule_fn mr__kernel_pointwise;
mr_kernel_rule_fn mr__kernel_lone;

#endif
