/* One element of an f32, bf16 or f16 array as a float, for the kernels in plain C. */
#ifndef MR_MODEL_CPU_ELEMENT_H
#define MR_MODEL_CPU_ELEMENT_H

#include <stdint.h>

#include "base/dtype.h"

static inline float element_get(mr_dtype_t t, const void *x, int64_t i) {
  return t == MR_F32   ? ((const float *)x)[i]
         : t == MR_F16 ? mr_f16_to_f32(((const mr_f16_t *)x)[i])
                       : mr_bf16_to_f32(((const mr_bf16_t *)x)[i]);
}

static inline void element_put(mr_dtype_t t, void *x, int64_t i, float v) {
  if (t == MR_F32)
    ((float *)x)[i] = v;
  else if (t == MR_F16)
    ((mr_f16_t *)x)[i] = mr_f16_from_f32(v);
  else
    ((mr_bf16_t *)x)[i] = mr_bf16_from_f32(v);
}

#endif
