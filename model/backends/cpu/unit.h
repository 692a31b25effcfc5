/* The CPU's form of a unit (ir/unit.h) of a fused loop. */
#ifndef MR_MODEL_CPU_UNIT_H
#define MR_MODEL_CPU_UNIT_H

#include "model/backends/cpu/lanes.h"
#include "model/ir/unit.h"

typedef struct mr_cpu_unit mr_cpu_unit_t;
struct mr_cpu_unit {
  const mr_eqn_t *eqn;
  mr_unit_t is;
  int step[MR_UNIT_IN]; /* EACH: 0 if the operand is one element for all, else 1 */
  /* EACH: computes out[i], i in [0,n), from in[k][i * step[k]].  out may be an operand with step
     1 and elements of the same size. */
  void (*run)(const mr_cpu_unit_t *u, const void *const *in, void *out, int64_t n);
  /* The same for an op that depends on the position: element 0 here is element `from` of the
     whole.  run is NULL then. */
  void (*run_at)(const mr_cpu_unit_t *u, const void *const *in, void *out, int64_t from, int64_t n);
  mr_lane_fn *kernel; /* for run, or NULL */
  int64_t whole; /* for run: the value of an attribute: a kind, a power, the number of a site */
  float rate;    /* for run: the rate of dropout */
  int64_t first; /* for run_at: the element of a larger array that dropout's first one is */
  /* REDUCE, of f32 or bf16: folds elements into MR_FOLD_LANES lanes that begin at `start`; `join`
     folds the lanes.  COLUMNS: fold_rows (lanes.h) folds rows into one that begins at `start`. */
  void (*fold)(mr_dtype_t t, const void *x, float *lane, int64_t n);
  float (*join)(const float *lane);
  mr_fold_rows_fn *fold_rows;
  float start;
};

/* For the run of a unit whose kernel has no steps and whose operands and results have elements of
   the same size: calls kernel piece by piece, with operands of one element repeated. */
typedef void mr_unit_kernel(const mr_cpu_unit_t *u, const void *const *in, void *out, int64_t n);
void mr__unit_written_out(const mr_cpu_unit_t *u, mr_unit_kernel *kernel, const void *const *in,
                          void *out, int64_t n);

#endif
