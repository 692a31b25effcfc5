/* The report of `millrace explain` about a compiled graph, as a table
   (explain_table.c) and as JSON (explain_json.c), and of an array on a mesh (explain_array.c). */
#ifndef MR_APPS_LOOK_EXPLAIN_H
#define MR_APPS_LOOK_EXPLAIN_H

#include <stdio.h>

#include "apps/cli/cli.h"
#include "base/err.h"
#include "model/exec/explain.h"
#include "model/mesh/mesh.h"

/* A pass and the numbers of equations before and after it, loops and branches included. */
typedef struct mr_pass_row {
  const char *name, *help;
  int before, after;
} mr_pass_row_t;

/* A generated kernel of the graph. */
typedef struct mr_kernel_row {
  const mr_eqn_t *eqn;
  int number, of;       /* the number-th, from 1, of the `of` kernels of eqn */
  int registers, stack; /* of a work-item; -1: unknown */
} mr_kernel_row_t;

enum { MR_PASS_ROWS = 32 };

typedef struct mr_explanation {
  const mr_exec_t *exec;
  mr_explained_t made;
  mr_pass_row_t pass[MR_PASS_ROWS];
  int n_pass;
  size_t slots; /* bytes of to-device's slots, beside the graph's own memory; 0: none */
  int n_slots;
  mr_kernel_row_t *kernel; /* [n_kernel] in running order, heap; NULL: not asked for */
  int n_kernel, cap_kernel;
} mr_explanation_t;

/* Each prints the report to `to`; MR_ERR_NOMEM.  The table begins with sums by cause and by kind.
   It merges rows that differ only in the numbers of their scopes, unless all is true, which also
   prints their equations; it prints at most `top` rows of moves.  Lines fit the terminal that `to`
   may be. */
mr_err_t mr_explanation_table(const mr_explanation_t *x, bool all, int top, FILE *to,
                              mr_diag_t *diag);
mr_err_t mr_explanation_json(const mr_explanation_t *x, FILE *to, mr_diag_t *diag);

/* Writes what a kernel's equation computes, "fused: mul add -> bf16[128,65,384]", to text[0,size),
   cut if it does not fit. */
void mr_kernel_text(const mr_kernel_row_t *r, char *text, size_t size);

/* Each writes into text[0,size), cut if it does not fit: "one loop: mul add reduce_sum" for a fused
   op's body, the name and then each op once; "gelu, kept as one kernel" for a row; and
   "convert_element_type f32[128,65,384] -> bf16[128,65,384]" for a row. */
void mr_fused_text(const mr_fn_t *body, const char *name, char *text, size_t size);
void mr_composite_text(const mr_composite_row_t *r, char *text, size_t size);
void mr_move_text(const mr_explanation_t *x, const mr_move_row_t *r, char *text, size_t size);

enum { MR_EQUATION_TEXT = 256 };
/* Writes the equation of r as `millrace jaxpr --compiled` prints it, on one line, cut if it does
   not fit; "" for the copy of an output, and without memory.  The names of values are those of the
   whole graph, or of the loop that the equation is in. */
void mr_move_equation(const mr_move_row_t *r, char *text, size_t size);

/* Draws the array of --array on the mesh of --mesh, on standard output.  MR_ERR_USAGE: the mesh,
   the shape or name, or the placement is wrong; else failures of planning the model, and
   MR_ERR_NOMEM. */
mr_err_t mr_explain_array(const mr_args_t *a, mr_diag_t *diag);
/* Prints the collectives of the function `word` (step, loss or grad of the model) on a mesh, with
   the bytes that a rank receives and what asked for them.  MR_ERR_USAGE: a mesh or rules that do
   not fit; else failures of building the function. */
mr_err_t mr_explain_mesh(const mr_args_t *a, const char *word, const mr_mesh_t *m, mr_diag_t *diag);

#endif
