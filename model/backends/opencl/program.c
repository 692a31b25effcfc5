/* Compiles texts of kernels and keeps the programs, by a hash of the text, until the process ends:
   the same layer, or the next graph with the same shapes, compiles nothing.  The dialect's words
   for OpenCL C are defined here, before the text. */
#include "model/backends/opencl/program.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "model/backends/kernels/kernel.h"

/* The dialect of kernels/kernel.h.  Products and sums are not joined to one rounding, so that a
   device computes what the CPU does. */
static const char dialect[] =
    "#pragma OPENCL FP_CONTRACT OFF\n"
    "#define KERNEL __kernel void\n"
    "#define ARG(n) __global char *b##n, ulong o##n\n"
    "#define PTR(type, name, n) __global type *name = (__global type *)(b##n + o##n)\n"
    "#define DEVICE static inline\n"
    "#define ITEM get_global_id(0)\n"
    "typedef uchar u8; typedef ushort u16; typedef int i32; typedef uint u32; typedef long i64; "
    "typedef ulong u64;\n"
    "#define AS_F32 as_float\n"
    "#define AS_U32 as_uint\n"
    "DEVICE float F16_TO_F32(u16 h) { return vload_half(0, (const half *)&h); }\n"
    "DEVICE u16 F32_TO_F16(float f) { u16 h; vstore_half_rte(f, 0, (half *)&h); return h; }\n";

static const char wide[] = "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n#define HAS_F64 1\n";

typedef struct kept {
  uint64_t hash;
  char *text;
  cl_program program;
} kept_t;

static struct {
  pthread_mutex_t lock;
  kept_t *kept;
  size_t n, cap;
} programs = {.lock = PTHREAD_MUTEX_INITIALIZER};

static cl_program kept_program_find(uint64_t hash, const char *text) {
  for (size_t i = 0; i < programs.n; i++)
    if (programs.kept[i].hash == hash && !strcmp(programs.kept[i].text, text))
      return programs.kept[i].program;
  return NULL;
}

static bool kept_program_keep(uint64_t hash, const char *text, cl_program p) {
  if (programs.n == programs.cap) {
    size_t cap = programs.cap ? 2 * programs.cap : 64;
    kept_t *more = realloc(programs.kept, cap * sizeof *more);
    if (!more) return false;
    programs.kept = more, programs.cap = cap;
  }
  char *own = strdup(text);
  if (!own) return false;
  programs.kept[programs.n++] = (kept_t){hash, own, p};
  return true;
}

static mr_err_t compiler_refuses(const mr_opencl_device_t *d, cl_program p, cl_int code,
                                 mr_diag_t *diag) {
  char log[600] = "", text[40];
  d->cl->clGetProgramBuildInfo(p, d->id, CL_PROGRAM_BUILD_LOG, sizeof log - 1, log, NULL);
  log[strcspn(log, "\n")] = 0;
  return mr_fail(diag, MR_ERR_UNAVAILABLE, "device opencl: %s does not compile a kernel: %s: %s",
                 d->name, mr__opencl_error(code, text), log);
}

static mr_err_t kept_program_build(const mr_opencl_device_t *d, const char *text, cl_program *out,
                                   mr_diag_t *diag) {
  const char *part[] = {d->f64 ? wide : "", dialect, mr_kernel_prelude(), text};
  cl_int code;
  cl_program p = d->cl->clCreateProgramWithSource(d->context, 4, part, NULL, &code);
  if (code != CL_SUCCESS) return mr_no_memory(diag, "a kernel of device opencl");
  const char *options =
      d->rounds ? "-cl-std=CL1.2 -cl-fp32-correctly-rounded-divide-sqrt" : "-cl-std=CL1.2";
  code = d->cl->clBuildProgram(p, 1, &d->id, options, NULL, NULL);
  if (code == CL_SUCCESS) return *out = p, MR_OK;
  mr_err_t err = compiler_refuses(d, p, code, diag);
  d->cl->clReleaseProgram(p);
  return err;
}

/* The program of text, compiled now if it is new. */
static mr_err_t kept_program_of(const mr_opencl_device_t *d, const char *text, cl_program *out,
                                mr_diag_t *diag) {
  uint64_t hash = XXH3_64bits(text, strlen(text));
  *out = kept_program_find(hash, text);
  if (*out) return MR_OK;
  MR_TRY(kept_program_build(d, text, out, diag));
  if (kept_program_keep(hash, text, *out)) return MR_OK;
  d->cl->clReleaseProgram(*out);
  return mr_no_memory(diag, "a kernel of device opencl");
}

mr_err_t mr__opencl_kernel(const mr_opencl_device_t *d, const char *text, cl_kernel *out,
                           mr_diag_t *diag) {
  cl_program p;
  cl_int code;
  pthread_mutex_lock(&programs.lock);
  mr_err_t err = kept_program_of(d, text, &p, diag);
  pthread_mutex_unlock(&programs.lock);
  if (err < 0) return err;
  *out = d->cl->clCreateKernel(p, "k", &code);
  return code == CL_SUCCESS ? MR_OK : mr_no_memory(diag, "a kernel of device opencl");
}
