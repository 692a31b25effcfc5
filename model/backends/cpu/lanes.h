/* Elementwise kernels of one instruction set on runs of any length of f32, bf16 or f16 (computed in
   f32, rounded once), single-threaded.  The result of an element depends on its value alone,
   never on its position in a run.  Accuracy: tests/model/test_lanes.c.  The kernels are in
   lanes_body.inc, which is compiled once for each instruction set. */
#ifndef MR_MODEL_CPU_LANES_H
#define MR_MODEL_CPU_LANES_H

#include <stdint.h>

#include "base/decls.h"
#include "base/dtype.h"
#include "base/isa.h"

MR_BEGIN_DECLS

/* Ops of one operand and of two; comparisons give bool.  MR_LANE_NONE: the op has no kernel
   here. */
typedef enum mr_lane {
  MR_LANE_NONE,
  MR_LANE_NEG,
  MR_LANE_ABS,
  MR_LANE_SIGN,
  MR_LANE_FLOOR,
  MR_LANE_SQRT,
  MR_LANE_RSQRT,
  MR_LANE_EXP,
  MR_LANE_LOG,
  MR_LANE_SIN,
  MR_LANE_COS,
  MR_LANE_TANH,
  MR_LANE_ERF,
  MR_LANE_LOGISTIC,
  MR_LANE_ADD,
  MR_LANE_SUB,
  MR_LANE_MUL,
  MR_LANE_DIV,
  MR_LANE_MAX,
  MR_LANE_MIN,
  MR_LANE_EQ,
  MR_LANE_NE,
  MR_LANE_LT,
  MR_LANE_LE,
  MR_LANE_GT,
  MR_LANE_GE,
  MR_LANE_N
} mr_lane_t;

/* out[i] = op(a[i * a_step], b[i * b_step]) for i in [0,n); steps are 0 or 1; ops of one operand
   ignore b.  out may be a or b if its step is 1 and the element sizes agree. */
typedef void mr_lane_fn(mr_dtype_t t, const void *a, int a_step, const void *b, int b_step,
                        void *out, int64_t n);

#define MR_FOLD_LANES 64

/* acc[j] = fold(acc[j], x[r * stride + j]) for rows r = 0, 1, ... in this order, j in [0,n). */
typedef void mr_fold_rows_fn(mr_dtype_t t, const void *x, int64_t stride, int64_t rows, float *acc,
                             int64_t n);

typedef struct mr__lanes {
  mr_lane_fn *at[MR_LANE_N];
  mr_lane_fn *i32[MR_LANE_N]; /* the same for i32, wrapping; NULL without a kernel */
  /* out[i] = which[i] ? b[i] : a[i], each index times its step, for elements of 1, 2, 4, 8 bytes */
  void (*select)(const uint8_t *which, int step, const void *a, int a_step, const void *b,
                 int b_step, void *out, int size, int64_t n);
  /* Folds element i into lane i mod MR_FOLD_LANES.  A row may be folded in pieces, with the same
     result, if all their lengths but the last are multiples of MR_FOLD_LANES. */
  void (*sum)(mr_dtype_t t, const void *x, float *lane, int64_t n);
  void (*max)(mr_dtype_t t, const void *x, float *lane, int64_t n);
  /* Fold all lanes into one number, pairwise. */
  float (*sum_join)(const float *lane);
  float (*max_join)(const float *lane);
  mr_fold_rows_fn *sum_rows, *max_rows;
} mr__lanes_t;

extern const mr__lanes_t mr__lanes_plain, mr__lanes_avx2, mr__lanes_avx512;
/* Return the kernels of an instruction set (NULL: not in this build), and those of mr_isa(),
   never NULL.  Both are static. */
const mr__lanes_t *mr__lanes_of(mr_isa_t isa);
const mr__lanes_t *mr__lanes(void);

MR_END_DECLS

#endif
