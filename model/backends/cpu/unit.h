/* A unit: one op on a run of consecutive elements, which is what fused loops are made of.

   An op's unit rule says how the op works on a run; program.h puts units into one blocked loop.  A
   value of a fused loop is an array of n elements in row-major order, whatever its shape. */
#ifndef MR_MODEL_CPU_UNIT_H
#define MR_MODEL_CPU_UNIT_H

#include <stdbool.h>

#include "base/decls.h"
#include "model/backends/cpu/lanes.h"
#include "model/ir/fn.h"

MR_BEGIN_DECLS

typedef enum mr_unit_kind {
  MR_UNIT_EACH,   /* element i of the result from elements i of the operands */
  MR_UNIT_SAME,   /* the operand's bytes: a reshape */
  MR_UNIT_REPEAT, /* element i is the operand's element i / inner mod mid: a broadcast */
  MR_UNIT_INDEX,  /* element i is i / inner mod mid, in f32 or i32: a counter */
  MR_UNIT_REDUCE, /* each row of inner elements becomes one: a sum over trailing dimensions */
  MR_UNIT_COLUMNS /* rows of inner elements become one row: a sum over leading dimensions */
} mr_unit_kind_t;

#define MR_UNIT_IN 3

typedef struct mr_unit mr_unit_t;
struct mr_unit {
  const mr_eqn_t *eqn;
  mr_unit_kind_t kind;
  int step[MR_UNIT_IN]; /* of EACH: 0 where the operand is one element for all, else 1 */
  /* EACH: out[i], i in [0,n), from in[k][i * step[k]].  out may be an operand whose step is 1 and
     whose elements are as large. */
  void (*run)(const mr_unit_t *u, const void *const *in, void *out, int64_t n);
  /* The same for an op that depends on where the run stands: element 0 of it is `from` of the
     whole. run is NULL then. */
  void (*run_at)(const mr_unit_t *u, const void *const *in, void *out, int64_t from, int64_t n);
  int64_t mid, inner;
  /* REDUCE, of f32 or bf16: folds elements into MR_FOLD_LANES lanes that begin at `start`; `join`
     folds the lanes.  COLUMNS: fold_rows (lanes.h) folds rows into one that begins at `start`. */
  void (*fold)(mr_dtype_t t, const void *x, float *lane, int64_t n);
  float (*join)(const float *lane);
  mr_fold_rows_fn *fold_rows;
  float start;
};

/* Fills u, whose eqn is set, but for step; false: not for these operands. */
typedef bool mr_unit_rule(mr_unit_t *u);

MR_END_DECLS

#endif
