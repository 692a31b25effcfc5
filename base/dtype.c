/* Sizes and names of element types in one table, written by MR_DTYPE_MAP. */
#include "base/dtype.h"

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
