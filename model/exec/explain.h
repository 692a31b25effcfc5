/* What the compiler made of a graph, and of those that it runs in loops and branches: everything
   that only moves or converts values on a run, how each product is computed, what became of
   composites. */
#ifndef MR_MODEL_EXEC_EXPLAIN_H
#define MR_MODEL_EXEC_EXPLAIN_H

#include "model/exec/exec.h"

typedef enum mr_move_kind {
  MR_MOVE_CAST,      /* another dtype */
  MR_MOVE_COPY,      /* the same elements elsewhere: slices, joins, spreads, outputs */
  MR_MOVE_TRANSPOSE, /* another order of dimensions */
  MR_MOVE_OPERAND,   /* within a product, before it computes: note says what */
  MR_MOVE_KINDS
} mr_move_kind_t;
const char *mr_move_kind_name(mr_move_kind_t k);

typedef struct mr_move_row {
  mr_move_kind_t kind;
  const mr_eqn_t *eqn;  /* what moves; NULL: the copy of output `out` to the caller */
  const mr_eqn_t *user; /* the first equation that reads the result; NULL: an output of the graph */
  int n_user;
  const char *note; /* of MR_MOVE_OPERAND */
  size_t bytes;     /* read and written in a run of the graph, all repetitions together */
  int64_t times;    /* in a run: more than once within a loop */
  const char *when; /* NULL, or what times and bytes are for: "each step of while" */
  int out;
} mr_move_row_t;

typedef struct mr_product_row {
  const mr_eqn_t *eqn;
  mr_precision_t asked;
  const char *how; /* as executed */
  double flop;     /* of all repetitions */
  int64_t times;
  const char *when;
} mr_product_row_t;

/* An equation that is a composite, a loop of ops made one, or part of an opened composite. */
typedef struct mr_composite_row {
  const mr_eqn_t *eqn;
  const mr_op_def_t *opened; /* of which eqn is a part, or NULL */
  int64_t times;
  const char *when;
} mr_composite_row_t;

typedef struct mr_explained {
  int n_move, n_product, n_composite;
  mr_move_row_t *move;       /* in the order in which they run */
  mr_product_row_t *product; /* likewise */
  mr_composite_row_t *composite;
  /* Of all equations that run, moves included; a while counts with one step, a cond with all of
     its branches. */
  double bytes, flop;
  int n_eqn, n_alias; /* equations; those that cost nothing, as they share their operand's bytes */
  mr_mem_t mem;       /* of texts */
} mr_explained_t;

/* x outlives the result.  MR_ERR_NOMEM; mr_explained_fini frees, also after a failure. */
mr_err_t mr_explained_init(mr_explained_t *r, const mr_exec_t *x, mr_diag_t *diag);
void mr_explained_fini(mr_explained_t *r);

#endif
