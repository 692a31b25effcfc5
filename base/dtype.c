/* Sizes and names of element types, from MR_DTYPE_MAP, and the one conversion that needs more than
   a line: f64 to f16 by way of f32 would round twice, so the first step keeps in its last bit
   whether anything was cut off (rounding to odd). */
#include "base/dtype.h"

#include <math.h>

static const struct {
  size_t size;
  const char *name, *safetensors;
} dtypes[MR_DTYPE_COUNT] = {
#define MR_DTYPE_ROW(name, bytes, text, st) [MR_##name] = {bytes, text, st},
    MR_DTYPE_MAP(MR_DTYPE_ROW)
#undef MR_DTYPE_ROW
};

size_t mr_dtype_size(mr_dtype_t t) { return dtypes[t].size; }
const char *mr_dtype_name(mr_dtype_t t) {
  return (unsigned)t < MR_DTYPE_COUNT ? dtypes[t].name : "no dtype";
}
const char *mr_dtype_safetensors(mr_dtype_t t) { return dtypes[t].safetensors; }

/* v cut to f32, its last bit 1 if anything was cut off: rounding that to fewer bits is rounding
   v. */
static float cut_to_odd(double v) {
  float f = (float)v;
  uint32_t u;
  if ((double)f == v || isnan(f)) return f;
  memcpy(&u, &f, sizeof u);
  u -= fabs((double)f) > fabs(v);
  u |= 1;
  memcpy(&f, &u, sizeof f);
  return f;
}

mr_f16_t mr_f16_from_f64(double v) { return mr_f16_from_f32(cut_to_odd(v)); }
