/* The calls of CUDA's run-time library that this backend makes, through a table, in whose place a
   test puts its own.  The library is linked statically and looks for the driver at its first call,
   so that a program starts on machines without one. */
#ifndef MR_MODEL_BACKENDS_CUDA_API_H
#define MR_MODEL_BACKENDS_CUDA_API_H

#include <cuda_runtime_api.h>

#if CUDART_VERSION < 13000 /* where these names stand for calls without the data of edges */
#undef cudaStreamGetCaptureInfo
#define cudaStreamGetCaptureInfo cudaStreamGetCaptureInfo_v3
#define cudaStreamUpdateCaptureDependencies cudaStreamUpdateCaptureDependencies_v2
#define cudaGraphAddNode cudaGraphAddNode_v2
#endif

#define MR_CUDA_CALLS(X)                 \
  X(cudaDriverGetVersion)                \
  X(cudaRuntimeGetVersion)               \
  X(cudaGetDeviceCount)                  \
  X(cudaGetDeviceProperties)             \
  X(cudaSetDevice)                       \
  X(cudaGetErrorName)                    \
  X(cudaGetErrorString)                  \
  X(cudaGetLastError)                    \
  X(cudaStreamCreateWithFlags)           \
  X(cudaStreamDestroy)                   \
  X(cudaStreamSynchronize)               \
  X(cudaStreamWaitEvent)                 \
  X(cudaStreamBeginCapture)              \
  X(cudaStreamEndCapture)                \
  X(cudaStreamGetCaptureInfo)            \
  X(cudaStreamBeginCaptureToGraph)       \
  X(cudaStreamUpdateCaptureDependencies) \
  X(cudaGraphConditionalHandleCreate)    \
  X(cudaGraphAddNode)                    \
  X(cudaGraphInstantiate)                \
  X(cudaGraphLaunch)                     \
  X(cudaGraphDestroy)                    \
  X(cudaGraphExecDestroy)                \
  X(cudaDeviceGetDefaultMemPool)         \
  X(cudaMemPoolSetAttribute)             \
  X(cudaMemPoolGetAttribute)             \
  X(cudaMallocAsync)                     \
  X(cudaFreeAsync)                       \
  X(cudaMalloc)                          \
  X(cudaFree)                            \
  X(cudaMemGetInfo)                      \
  X(cudaMallocHost)                      \
  X(cudaFreeHost)                        \
  X(cudaHostRegister)                    \
  X(cudaHostUnregister)                  \
  X(cudaPointerGetAttributes)            \
  X(cudaMemcpyAsync)                     \
  X(cudaEventCreateWithFlags)            \
  X(cudaEventRecord)                     \
  X(cudaEventElapsedTime)                \
  X(cudaEventQuery)                      \
  X(cudaEventSynchronize)                \
  X(cudaEventDestroy)                    \
  X(cudaLibraryLoadData)                 \
  X(cudaLibraryUnload)                   \
  X(cudaLibraryGetKernel)                \
  X(cudaFuncGetAttributes)               \
  X(cudaLaunchKernel)

typedef struct mr_cuda_api {
#define MR_CUDA_POINTER(name) __typeof__(&name) name;
  MR_CUDA_CALLS(MR_CUDA_POINTER)
#undef MR_CUDA_POINTER
} mr_cuda_api_t;

/* Returns the table, static.  Any thread. */
const mr_cuda_api_t *mr__cuda_api(void);

/* Puts another table in its place, which must stay; NULL: the library's again.  For tests: no other
   thread may use the backend, and no device may be open. */
void mr__cuda_api_put(const mr_cuda_api_t *table);

/* Writes "cudaErrorMemoryAllocation (out of memory)" to the caller's text and returns it. */
const char *mr__cuda_error(cudaError_t code, char text[160]);

#endif
