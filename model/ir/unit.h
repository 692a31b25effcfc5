/* A unit: one op on a run of consecutive elements.  Fused loops consist of units.

   An op's unit rule describes its loop; each backend has its own way to run it.  In a fused loop a
   value is an array of n elements in row-major order, whatever its shape. */
#ifndef MR_MODEL_IR_UNIT_H
#define MR_MODEL_IR_UNIT_H

#include <stdbool.h>

#include "base/decls.h"
#include "model/ir/fn.h"

MR_BEGIN_DECLS

typedef enum mr_unit_kind {
  MR_UNIT_EACH,   /* element i of the result from elements i of the operands */
  MR_UNIT_SAME,   /* the operand's bytes unchanged: a reshape */
  MR_UNIT_REPEAT, /* element i is the operand's element i / inner mod mid: a broadcast */
  MR_UNIT_INDEX,  /* element i is i / inner mod mid, in f32 or i32: a counter */
  MR_UNIT_REDUCE, /* each row of inner elements becomes one element: over trailing dimensions */
  MR_UNIT_COLUMNS /* all rows of inner elements become one row: over leading dimensions */
} mr_unit_kind_t;

#define MR_UNIT_IN 3

typedef struct mr_unit {
  mr_unit_kind_t kind;
  int64_t mid, inner;
} mr_unit_t;

/* Fills *u, which the caller has zeroed, and returns true; false if e is no unit with these
 * operands. */
typedef bool mr_unit_rule(const mr_eqn_t *e, mr_unit_t *u);

MR_END_DECLS

#endif
