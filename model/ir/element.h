/* One element of an array in the host's memory, whatever its dtype. */
#ifndef MR_MODEL_IR_ELEMENT_H
#define MR_MODEL_IR_ELEMENT_H

#include <stdint.h>

#include "base/decls.h"
#include "base/dtype.h"

MR_BEGIN_DECLS

/* Element i of an array of f32, bf16, i32, u32 or bool, as f32 (NaN of another); of any dtype but
   f16, as f64; of an integer or bool array, as a 64-bit integer. */
float mr_get_f32(mr_dtype_t t, const void *p, int64_t i);
double mr_get_f64(mr_dtype_t t, const void *p, int64_t i);
int64_t mr_get_i64(mr_dtype_t t, const void *p, int64_t i);
/* Setting rounds, towards zero and within range for integers (f32, f64), or wraps (i64). */
void mr_set_f32(mr_dtype_t t, void *p, int64_t i, float v);
void mr_set_f64(mr_dtype_t t, void *p, int64_t i, double v);
void mr_set_i64(mr_dtype_t t, void *p, int64_t i, int64_t v);

MR_END_DECLS

#endif
