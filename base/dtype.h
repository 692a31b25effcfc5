/* Element types, their sizes and names, and conversions of the narrow floats.  Any thread; no call
   fails. */
#ifndef MR_BASE_DTYPE_H
#define MR_BASE_DTYPE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/decls.h"

MR_BEGIN_DECLS

#define MR_MAX_NDIM 8

/* X(enum, bytes, name as in a jaxpr, name as in safetensors).  The numbers cross links: rows are
   added at the end. */
#define MR_DTYPE_MAP(X)                   \
  X(BOOL, 1, "bool", "BOOL")              \
  X(U8, 1, "u8", "U8")                    \
  X(I32, 4, "i32", "I32")                 \
  X(U32, 4, "u32", "U32")                 \
  X(I64, 8, "i64", "I64")                 \
  X(U64, 8, "u64", "U64")                 \
  X(BF16, 2, "bf16", "BF16")              \
  X(F16, 2, "f16", "F16")                 \
  X(F32, 4, "f32", "F32")                 \
  X(F64, 8, "f64", "F64")                 \
  X(F8_E4M3FN, 1, "f8_e4m3fn", "F8_E4M3") \
  X(F8_E5M2, 1, "f8_e5m2", "F8_E5M2")

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

typedef uint16_t mr_f16_t; /* IEEE binary16 */

/* Exact; a NaN becomes quiet.  Like the next one without branches, so that loops over it vectorise,
   and the same to the bit as F16C's instructions. */
static inline float mr_f16_to_f32(mr_f16_t h) {
  uint32_t u = h & 0x7FFFu, sign = (uint32_t)(h & 0x8000u) << 16, wide, tiny;
  float f = (float)(int32_t)u * 0x1p-24f; /* what a subnormal is */
  memcpy(&tiny, &f, sizeof tiny);
  wide = (u << 13) + (u >= 0x7C00u ? 0x70000000u : 0x38000000u); /* the exponent's bias */
  wide |= u > 0x7C00u ? 0x400000u : 0;
  wide = (u < 0x400u ? tiny : wide) | sign;
  memcpy(&f, &wide, sizeof f);
  return f;
}

/* Rounds to nearest, ties to even, from 65520 on to infinity; a NaN becomes quiet. */
static inline mr_f16_t mr_f16_from_f32(float f) {
  uint32_t bits, u, normal, small, large;
  memcpy(&bits, &f, sizeof bits);
  u = bits & 0x7FFFFFFFu;
  memcpy(&f, &u, sizeof f);
  f = f * 0x1p24f + 0x1p23f; /* below 2^-14 the sum's low bits count units of 2^-24 */
  memcpy(&small, &f, sizeof small);
  small -= 0x4B000000u;
  normal = (u - 0x38000000u + 0xFFFu + ((u >> 13) & 1u)) >> 13;
  large = u > 0x7F800000u ? 0x7E00u | (u >> 13 & 0x1FFu) : 0x7C00u;
  normal = u < 0x38800000u ? small : u >= 0x47800000u ? large : normal;
  return (mr_f16_t)(normal | (bits >> 16 & 0x8000u));
}

/* Returns v rounded once, to nearest, ties to even; a float in between would round twice. */
mr_f16_t mr_f16_from_f64(double v);

/* t is MR_F8_E4M3FN (4 bits of exponent, largest number 448, no infinity) or MR_F8_E5M2 (the upper
   half of an f16, largest 57344).  Source: Micikevicius et al., "FP8 Formats for Deep Learning"
   (2022); the bits are those of ml_dtypes. */

/* Exact. */
static inline float mr_f8_to_f32(mr_dtype_t t, uint8_t code) {
  uint32_t u = code & 0x7Fu, sign = (uint32_t)(code & 0x80u) << 24, tiny;
  if (t == MR_F8_E5M2) return mr_f16_to_f32((mr_f16_t)(code << 8));
  float f = (float)(int32_t)u * 0x1p-9f; /* what a subnormal is */
  memcpy(&tiny, &f, sizeof tiny);
  u = (u == 0x7Fu ? 0x7FC00000u : u < 8 ? tiny : (u << 20) + 0x3C000000u) | sign;
  memcpy(&f, &u, sizeof f);
  return f;
}

/* Rounds to nearest, ties to even.  What is too large becomes NaN in e4m3fn, infinity in e5m2. */
static inline uint8_t mr_f8_from_f32(mr_dtype_t t, float f) {
  const int wide = t == MR_F8_E5M2, shift = wide ? 21 : 20; /* bits that are dropped */
  const uint32_t largest = wide ? 0x7Bu : 0x7Eu, beyond = wide ? 0x7Cu : 0x7Fu;
  uint32_t bits, u, code, small;
  memcpy(&bits, &f, sizeof bits);
  u = bits & 0x7FFFFFFFu;
  memcpy(&f, &u, sizeof f);
  f = f * (wide ? 0x1p16f : 0x1p9f) + 0x1p23f; /* its low bits count units of a subnormal */
  memcpy(&small, &f, sizeof small);
  code = u - (wide ? 0x38000000u : 0x3C000000u) + (1u << (shift - 1)) - 1 + (u >> shift & 1u);
  code = u < (wide ? 0x38800000u : 0x3C800000u) ? small - 0x4B000000u : code >> shift;
  code = u > 0x7F800000u ? largest + (wide ? 3u : 1u) : code > largest ? beyond : code;
  return (uint8_t)(code | (bits >> 24 & 0x80u));
}

MR_END_DECLS

#endif
