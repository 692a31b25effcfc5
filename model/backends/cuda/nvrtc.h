/* NVRTC, CUDA's compiler as a library, opened at run time. */
#ifndef MR_MODEL_BACKENDS_CUDA_NVRTC_H
#define MR_MODEL_BACKENDS_CUDA_NVRTC_H

#include <nvrtc.h>

#include "base/err.h"

#define MR_NVRTC_CALLS(X)      \
  X(nvrtcVersion)              \
  X(nvrtcGetErrorString)       \
  X(nvrtcGetNumSupportedArchs) \
  X(nvrtcGetSupportedArchs)    \
  X(nvrtcCreateProgram)        \
  X(nvrtcCompileProgram)       \
  X(nvrtcDestroyProgram)       \
  X(nvrtcGetProgramLogSize)    \
  X(nvrtcGetProgramLog)        \
  X(nvrtcGetCUBINSize)         \
  X(nvrtcGetCUBIN)             \
  X(nvrtcGetPTXSize)           \
  X(nvrtcGetPTX)

typedef struct mr_nvrtc {
#define MR_NVRTC_POINTER(name) __typeof__(&name) name;
  MR_NVRTC_CALLS(MR_NVRTC_POINTER)
#undef MR_NVRTC_POINTER
  int major, minor; /* its version */
  char path[512];   /* its file */
} mr_nvrtc_t;

/* Points *nvrtc at the table, which is static.  MR_OK; MR_ERR_UNAVAILABLE if there is no library,
   one that lacks a call, or one without its part libnvrtc-builtins: the sentence says which.  Any
   thread; the first call loads both, which stay open. */
mr_err_t mr__nvrtc(const mr_nvrtc_t **nvrtc, mr_diag_t *diag);

/* Puts another table in its place, which must stay.  For tests, before the first mr__nvrtc. */
void mr__nvrtc_put(const mr_nvrtc_t *table);

#endif
