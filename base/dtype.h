/* Element types, their sizes and names, and bfloat16 conversion.  Any thread; no call fails. */
#ifndef MR_BASE_DTYPE_H
#define MR_BASE_DTYPE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/decls.h"

MR_BEGIN_DECLS

#define MR_MAX_NDIM 8

/* X(enum, bytes, name as in a jaxpr, name as in safetensors) */
#define MR_DTYPE_MAP(X)      \
  X(BOOL, 1, "bool", "BOOL") \
  X(U8, 1, "u8", "U8")       \
  X(I32, 4, "i32", "I32")    \
  X(U32, 4, "u32", "U32")    \
  X(I64, 8, "i64", "I64")    \
  X(U64, 8, "u64", "U64")    \
  X(BF16, 2, "bf16", "BF16") \
  X(F16, 2, "f16", "F16")    \
  X(F32, 4, "f32", "F32")    \
  X(F64, 8, "f64", "F64")

typedef enum mr_dtype {
#define MR_DTYPE_ENUM(name, bytes, text, st) MR_##name,
  MR_DTYPE_MAP(MR_DTYPE_ENUM)
#undef MR_DTYPE_ENUM
      MR_DTYPE_COUNT
} mr_dtype_t;

/* mr_dtype_size returns the bytes of one element; the other two return static text: "f32" as in a
   jaxpr, "F32" as in safetensors.  t is in [0,MR_DTYPE_COUNT); for any other number only
   mr_dtype_name is defined, and returns "no dtype". */
size_t mr_dtype_size(mr_dtype_t t);
const char *mr_dtype_name(mr_dtype_t t);
const char *mr_dtype_safetensors(mr_dtype_t t);

typedef uint16_t mr_bf16_t; /* the upper half of an IEEE binary32 */

static inline float mr_bf16_to_f32(mr_bf16_t h) {
  uint32_t u = (uint32_t)h << 16;
  float f;
  memcpy(&f, &u, sizeof f);
  return f;
}

/* Rounds to nearest, ties to even; a NaN stays a (quiet) NaN. */
static inline mr_bf16_t mr_bf16_from_f32(float f) {
  uint32_t u;
  memcpy(&u, &f, sizeof u);
  uint32_t rounded = (u + 0x7FFFu + ((u >> 16) & 1u)) >> 16;
  return (mr_bf16_t)((u & 0x7FFFFFFFu) > 0x7F800000u ? (u >> 16) | 0x40u : rounded);
}

MR_END_DECLS

#endif
