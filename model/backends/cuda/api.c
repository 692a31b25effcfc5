/* The table of the run-time library's calls.  It is the one place that names them, so that a test
   can put a table of its own there. */
#include "model/backends/cuda/api.h"

#include <stdio.h>

#define CALL(name) .name = name,
static const mr_cuda_api_t library = {MR_CUDA_CALLS(CALL)};
#undef CALL

static const mr_cuda_api_t *table = &library;

const mr_cuda_api_t *mr__cuda_api(void) { return table; }

void mr__cuda_api_put(const mr_cuda_api_t *other) { table = other ? other : &library; }

const char *mr__cuda_error(cudaError_t code, char text[160]) {
  snprintf(text, 160, "%s (%s)", table->cudaGetErrorName(code), table->cudaGetErrorString(code));
  return text;
}
