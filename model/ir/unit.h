/* A unit: one op on a run of consecutive elements, which is what fused loops are made of.

   An op's unit rule says what its loop is; how a backend runs it is the backend's.  A value of a
   fused loop is an array of n elements in row-major order, whatever its shape. */
#ifndef MR_MODEL_IR_UNIT_H
#define MR_MODEL_IR_UNIT_H

#include <stdbool.h>

#include "base/decls.h"
#include "model/ir/fn.h"

MR_BEGIN_DECLS

typedef enum mr_unit_kind {
  MR_UNIT_EACH,   /* element i of the result from elements i of the operands */
  MR_UNIT_SAME,   /* the operand's bytes: a reshape */
  MR_UNIT_REPEAT, /* element i is the operand's element i / inner mod mid: a broadcast */
  MR_UNIT_INDEX,  /* element i is i / inner mod mid, in f32 or i32: a counter */
  MR_UNIT_REDUCE, /* each row of inner elements becomes one: over trailing dimensions */
  MR_UNIT_COLUMNS /* rows of inner elements become one row: over leading dimensions */
} mr_unit_kind_t;

#define MR_UNIT_IN 3

typedef struct mr_unit {
  mr_unit_kind_t kind;
  int64_t mid, inner;
} mr_unit_t;

/* Fills *u, zeroed before; false: with these operands e is no unit. */
typedef bool mr_unit_rule(const mr_eqn_t *e, mr_unit_t *u);

MR_END_DECLS

#endif
