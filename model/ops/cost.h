/* The cost of an equation, derived from its avals alone: arithmetic and memory traffic on any
   backend. */
#ifndef MR_MODEL_OPS_COST_H
#define MR_MODEL_OPS_COST_H

#include "model/ir/fn.h"

typedef struct mr_cost {
  double flop;  /* additions and multiplications; a fused multiply-add counts as two */
  double bytes; /* each distinct operand read once, each result written once */
  bool product; /* matrix products: limited by arithmetic where their operands fit a cache */
} mr_cost_t;

/* Returns the cost of e by its op's fields flop, body, moves or flop_each (op.h); without them, one
   operation for each element of the largest operand or result.  Cannot fail. */
mr_cost_t mr_cost_of(const mr_eqn_t *e);

#endif
