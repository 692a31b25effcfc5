/* What an equation costs by its avals alone: arithmetic and traffic, whoever runs it. */
#ifndef MR_MODEL_OPS_COST_H
#define MR_MODEL_OPS_COST_H

#include "model/ir/fn.h"

typedef struct mr_cost {
  double flop;  /* additions and multiplications, a fused one counts as two */
  double bytes; /* each distinct operand read once, each result written once */
  bool product; /* matrix products: limited by arithmetic where their operands fit a cache */
} mr_cost_t;

/* Rules of the op where it has them (flop, flop_each, moves), else one operation for each element
   of the largest operand. */
mr_cost_t mr_cost_of(const mr_eqn_t *e);

#endif
