/* Reads and writes one element of an array in host memory, of a dtype known only at run time.

   p is the first element of an array of t with more than i elements; i is >= 0.  Nothing here
   fails, and threads may work on different elements at once. */
#ifndef MR_MODEL_IR_ELEMENT_H
#define MR_MODEL_IR_ELEMENT_H

#include <stdint.h>

#include "base/decls.h"
#include "base/dtype.h"

MR_BEGIN_DECLS

/* Return element i converted.
   f32: from f32, bf16, f16, f8, i32, u32 and bool; NaN for other dtypes.
   f64: from any dtype.
   i64: from integers and bool (0 or 1) only; a u64 from 2^63 on returns negative. */
float mr_get_f32(mr_dtype_t t, const void *p, int64_t i);
double mr_get_f64(mr_dtype_t t, const void *p, int64_t i);
int64_t mr_get_i64(mr_dtype_t t, const void *p, int64_t i);
/* Store v as element i.  f32 and f64 round to a floating t; for an integer t they truncate towards
   zero and clamp to its range (NaN gives 0), and for bool they store whether v is not 0.  i64: t
   must be an integer dtype or bool; the bits wrap to its width. */
void mr_set_f32(mr_dtype_t t, void *p, int64_t i, float v);
void mr_set_f64(mr_dtype_t t, void *p, int64_t i, double v);
void mr_set_i64(mr_dtype_t t, void *p, int64_t i, int64_t v);

MR_END_DECLS

#endif
