/* A report on a compiled graph, including the graphs of its loops and branches: each equation or
   operand that only moves or converts values, conversions within fused loops included, how each
   product is computed, and which composites were kept or opened. */
#ifndef MR_MODEL_EXEC_EXPLAIN_H
#define MR_MODEL_EXEC_EXPLAIN_H

#include "model/exec/exec.h"

typedef enum mr_move_kind {
  MR_MOVE_CAST,      /* converts to another dtype */
  MR_MOVE_COPY,      /* copies elements: slices, concatenations, broadcasts, outputs */
  MR_MOVE_TRANSPOSE, /* changes the order of dimensions */
  MR_MOVE_OPERAND,   /* prepares an operand within a product; note says how */
  MR_MOVE_KINDS
} mr_move_kind_t;
/* Returns the name of a kind, "cast"; static.  k < MR_MOVE_KINDS. */
const char *mr_move_kind_name(mr_move_kind_t k);

typedef struct mr_move_row {
  mr_move_kind_t kind;
  const mr_eqn_t *eqn;  /* the equation that moves; NULL: the copy of output `out` to the caller */
  const mr_eqn_t *user; /* the first equation that reads the result; NULL: an output of the graph */
  int n_user;
  const mr_fn_t *fn;    /* that eqn belongs to: compiled, or the body of a fused loop */
  const mr_eqn_t *loop; /* the fused loop that eqn is a step of: its values never leave the cache,
                           so it moves 0 bytes; else NULL */
  const char *note;     /* set for MR_MOVE_OPERAND and for what a loop copies: what is moved */
  size_t bytes;         /* read and written in a run of the graph, all repetitions together */
  double ns;            /* measured time in a run; -1: not measured, or a part of a kernel, of a
                           fused loop or of a graph inside a loop, whose time is not divided */
  int64_t times;        /* repetitions in a run: more than one within a loop */
  const char *when;     /* what times and bytes refer to, "each step of while"; NULL: a run */
  int out;
} mr_move_row_t;

typedef struct mr_product_row {
  const mr_eqn_t *eqn;
  mr_precision_t asked;
  const char *how; /* how it is executed */
  double flop;     /* of all repetitions */
  int64_t times;
  const char *when;
} mr_product_row_t;

/* An equation that is a composite, a fused loop, or part of an opened composite. */
typedef struct mr_composite_row {
  const mr_eqn_t *eqn;
  const mr_op_def_t *opened; /* the composite that eqn is a part of, or NULL */
  int64_t times;
  const char *when;
} mr_composite_row_t;

typedef struct mr_explained {
  int n_move, n_product, n_composite;
  mr_move_row_t *move;       /* in running order */
  mr_product_row_t *product; /* in running order */
  mr_composite_row_t *composite;
  /* Sums over all equations that run, moves included; a while counts one step, a cond all of its
     branches. */
  double bytes, flop;
  double ns;          /* time of a run; 0: none was profiled (mr_exec_profile) */
  double kernels;     /* that a run starts on a device, repetitions included; 0 on the CPU */
  int n_eqn, n_alias; /* all equations; those without a call, as they share their operand's bytes */
  mr_mem_t mem;       /* holds the texts */
} mr_explained_t;

/* Fills *r, which points into x and must not outlive it.  MR_OK or MR_ERR_NOMEM; the caller frees
 *r with mr_explained_fini in both cases. */
mr_err_t mr_explained_init(mr_explained_t *r, const mr_exec_t *x, mr_diag_t *diag);
void mr_explained_fini(mr_explained_t *r);

#endif
