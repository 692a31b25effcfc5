/* Opens libOpenCL once, at run time, so that a program needs neither it nor a driver to start; each
   call is found by its name.  Codes of errors become names as far as users meet them. */
#include "model/backends/opencl/api.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/library.h"

static struct {
  pthread_once_t once;
  mr_opencl_api_t call;
  const char *missing; /* a call that the library lacks; "" without a library, NULL: all is there */
  char path[512];      /* its file, or why it cannot be loaded; empty: it is missing */
} library = {.once = PTHREAD_ONCE_INIT};

#define CALL(name) {#name, offsetof(mr_opencl_api_t, name)},
static const mr_library_call_t calls[] = {MR_OPENCL_CALLS(CALL){0}};
#undef CALL

static void library_open(void) {
  void *lib = mr_library_open("libOpenCL.so.1", library.path, sizeof library.path);
  library.missing = mr_library_calls(lib, calls, &library.call);
}

mr_err_t mr__opencl_api(const mr_opencl_api_t **api, mr_diag_t *diag) {
  pthread_once(&library.once, library_open);
  if (!library.missing) return *api = &library.call, MR_OK;
  if (!*library.missing && *library.path)
    return mr_fail(diag, MR_ERR_UNAVAILABLE, "device opencl: libOpenCL.so.1 cannot be loaded: %s",
                   library.path);
  if (!*library.missing)
    return mr_fail(
        diag, MR_ERR_UNAVAILABLE,
        "device opencl: there is no libOpenCL.so.1 on this machine; install ocl-icd-libopencl1 and "
        "a driver (pocl-opencl-icd computes on the CPU)");
  return mr_fail(diag, MR_ERR_UNAVAILABLE,
                 "device opencl: libOpenCL.so.1 lacks %s, want OpenCL 1.2", library.missing);
}

bool mr__opencl_loader(char *path, size_t n) {
  const mr_opencl_api_t *cl;
  char real[PATH_MAX];
  if (mr__opencl_api(&cl, NULL) < 0 || !realpath(library.path, real)) return false;
  snprintf(path, n, "%s", real);
  return true;
}

const char *mr__opencl_error(cl_int code, char text[40]) {
  static const struct {
    cl_int code;
    const char *name;
  } known[] = {{CL_DEVICE_NOT_AVAILABLE, "CL_DEVICE_NOT_AVAILABLE"},
               {CL_MEM_OBJECT_ALLOCATION_FAILURE, "CL_MEM_OBJECT_ALLOCATION_FAILURE"},
               {CL_OUT_OF_RESOURCES, "CL_OUT_OF_RESOURCES"},
               {CL_OUT_OF_HOST_MEMORY, "CL_OUT_OF_HOST_MEMORY"},
               {CL_BUILD_PROGRAM_FAILURE, "CL_BUILD_PROGRAM_FAILURE"},
               {CL_INVALID_BUFFER_SIZE, "CL_INVALID_BUFFER_SIZE"}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (known[i].code == code) {
      snprintf(text, 40, "%s (%d)", known[i].name, code);
      return text;
    }
  snprintf(text, 40, "error %d", code);
  return text;
}
