/* The calls of OpenCL 1.2 that this backend makes, through a table: the library is opened at run
   time, so that the program starts on machines without it. */
#ifndef MR_MODEL_BACKENDS_OPENCL_API_H
#define MR_MODEL_BACKENDS_OPENCL_API_H

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdbool.h>

#include "base/err.h"

#define MR_OPENCL_CALLS(X)        \
  X(clGetPlatformIDs)             \
  X(clGetDeviceIDs)               \
  X(clGetDeviceInfo)              \
  X(clGetPlatformInfo)            \
  X(clCreateContext)              \
  X(clReleaseContext)             \
  X(clCreateCommandQueue)         \
  X(clReleaseCommandQueue)        \
  X(clCreateBuffer)               \
  X(clReleaseMemObject)           \
  X(clCreateProgramWithSource)    \
  X(clCreateProgramWithBinary)    \
  X(clGetProgramInfo)             \
  X(clBuildProgram)               \
  X(clGetProgramBuildInfo)        \
  X(clReleaseProgram)             \
  X(clCreateKernel)               \
  X(clReleaseKernel)              \
  X(clSetKernelArg)               \
  X(clEnqueueNDRangeKernel)       \
  X(clEnqueueReadBuffer)          \
  X(clEnqueueWriteBuffer)         \
  X(clEnqueueCopyBuffer)          \
  X(clEnqueueMarkerWithWaitList)  \
  X(clEnqueueBarrierWithWaitList) \
  X(clWaitForEvents)              \
  X(clGetEventInfo)               \
  X(clReleaseEvent)               \
  X(clFlush)                      \
  X(clFinish)

typedef struct mr_opencl_api {
#define MR_OPENCL_POINTER(name) __typeof__(&name) name;
  MR_OPENCL_CALLS(MR_OPENCL_POINTER)
#undef MR_OPENCL_POINTER
} mr_opencl_api_t;

/* Points *api at the table, which is static.  MR_OK; MR_ERR_UNAVAILABLE if there is no library, or
   one that lacks a call: the sentence names it.  Any thread; the first call loads the library. */
mr_err_t mr__opencl_api(const mr_opencl_api_t **api, mr_diag_t *diag);

/* Writes the file of the loaded library to path[0,n), with its links followed: its name ends in its
   version.  False without a library. */
bool mr__opencl_loader(char *path, size_t n);

/* Writes "CL_OUT_OF_RESOURCES (-5)" to the caller's text and returns it. */
const char *mr__opencl_error(cl_int code, char text[40]);

#endif
