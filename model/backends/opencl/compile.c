/* Compiles one program, or takes it from the kernel cache.  The dialect's words for OpenCL C are
   defined here, before the text. */
#include <stdlib.h>
#include <string.h>

#include "base/xio.h"
#include "model/backends/kernels/cache.h"
#include "model/backends/kernels/kernel.h"
#include "model/backends/opencl/program.h"

/* The dialect of kernels/kernel.h.  Products and sums are not joined to one rounding, so that a
   device computes what the CPU does. */
static const char dialect[] =
    "#pragma OPENCL FP_CONTRACT OFF\n"
    "#define KERNEL __kernel void\n"
    "#define ARG(n) __global char *b##n, ulong o##n\n"
    "#define PTR(type, name, n) __global type *name = (__global type *)(b##n + o##n)\n"
    "#define SPACE __global\n"
    "#define SHARED __local\n"
    "#define DEVICE static inline\n"
    "#define ITEM get_global_id(0)\n"
    "#define KERNEL_OF(n) __kernel __attribute__((reqd_work_group_size(n, 1, 1))) void\n"
    "#define GROUP get_group_id(0)\n"
    "#define LANE ((int)get_local_id(0))\n"
    "#define LOCAL(type, name, n) __local type name[n]\n"
    "#define BARRIER barrier(CLK_LOCAL_MEM_FENCE)\n"
    "typedef uchar u8; typedef ushort u16; typedef int i32; typedef uint u32; typedef long i64; "
    "typedef ulong u64;\n"
    "#define AS_F32 as_float\n"
    "#define AS_U32 as_uint\n"
    "DEVICE float F16_TO_F32(u16 h) { return vload_half(0, (const half *)&h); }\n"
    "DEVICE u16 F32_TO_F16(float f) { u16 h; vstore_half_rte(f, 0, (half *)&h); return h; }\n";

static const char wide[] = "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n#define HAS_F64 1\n";

static const char *options_of(mr_opencl_device_t *d) {
  return d->rounds ? "-cl-std=CL1.2 -cl-fp32-correctly-rounded-divide-sqrt" : "-cl-std=CL1.2";
}

static mr_err_t compiler_refuses(mr_opencl_device_t *d, cl_program p, cl_int code,
                                 mr_diag_t *diag) {
  char log[600] = "", text[40];
  d->cl->clGetProgramBuildInfo(p, d->id, CL_PROGRAM_BUILD_LOG, sizeof log - 1, log, NULL);
  log[strcspn(log, "\n")] = 0;
  return mr_fail(diag, MR_ERR_UNAVAILABLE, "device opencl: %s does not compile a kernel: %s: %s",
                 d->name, mr__opencl_error(code, text), log);
}

static mr_err_t compile_text(mr_opencl_device_t *d, const char *text, cl_program *out,
                             mr_diag_t *diag) {
  const char *part[] = {d->f64 ? wide : "", dialect, mr_kernel_prelude(), text};
  cl_int code;
  cl_program p = d->cl->clCreateProgramWithSource(d->context, 4, part, NULL, &code);
  if (code != CL_SUCCESS) return mr_no_memory(diag, "a kernel of device opencl");
  code = d->cl->clBuildProgram(p, 1, &d->id, options_of(d), NULL, NULL);
  if (code == CL_SUCCESS) return *out = p, MR_OK;
  mr_err_t err = compiler_refuses(d, p, code, diag);
  d->cl->clReleaseProgram(p);
  return err;
}

/* ---- the kernel cache ---- */

enum { INFO = 256 };

static void platform_text(mr_opencl_device_t *d, cl_platform_info which, char text[INFO]) {
  cl_platform_id platform = NULL;
  *text = 0;
  if (d->cl->clGetDeviceInfo(d->id, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL) ==
          CL_SUCCESS &&
      d->cl->clGetPlatformInfo(platform, which, INFO - 1, text, NULL) != CL_SUCCESS)
    *text = 0;
}

/* PoCL keeps what it compiles itself, and compiles each kernel once more in order to give its
   binary: its programs are kept only in a folder that MILLRACE_KERNELS names. */
static bool cache_pays(mr_opencl_device_t *d) {
  char path[MR_PATH_MAX], name[INFO] = "";
  bool named;
  if (!mr_kernel_cache_folder(path, sizeof path, &named)) return false;
  platform_text(d, CL_PLATFORM_NAME, name);
  return named || strcmp(name, "Portable Computing Language") != 0;
}

static mr_kernel_entry_t program_entry(mr_opencl_device_t *d, const char *text) {
  char platform[INFO] = "", version[INFO] = "", driver[INFO] = "";
  platform_text(d, CL_PLATFORM_VERSION, platform);
  d->cl->clGetDeviceInfo(d->id, CL_DEVICE_VERSION, INFO - 1, version, NULL);
  d->cl->clGetDeviceInfo(d->id, CL_DRIVER_VERSION, INFO - 1, driver, NULL);
  const char *part[] = {"opencl",
                        platform,
                        d->name,
                        version,
                        driver,
                        options_of(d),
                        d->f64 ? wide : "",
                        dialect,
                        mr_kernel_prelude(),
                        text};
  return mr_kernel_entry(part, sizeof part / sizeof *part);
}

/* Loads an image.  CL_SUCCESS, also for a program with as many kernels as were compiled; a driver's
   code if it refuses the image, and CL_INVALID_BINARY if it finds other kernels in it. */
static cl_int load_image(mr_opencl_device_t *d, const void *image, size_t bytes, size_t kernels,
                         cl_program *out) {
  const unsigned char *data = image;
  cl_int code, taken = CL_SUCCESS;
  size_t n = 0;
  cl_program p =
      d->cl->clCreateProgramWithBinary(d->context, 1, &d->id, &bytes, &data, &taken, &code);
  if (code != CL_SUCCESS) return code;
  code = taken;
  if (code == CL_SUCCESS) code = d->cl->clBuildProgram(p, 1, &d->id, options_of(d), NULL, NULL);
  if (code == CL_SUCCESS)
    code = d->cl->clGetProgramInfo(p, CL_PROGRAM_NUM_KERNELS, sizeof n, &n, NULL);
  if (code == CL_SUCCESS && n != kernels) code = CL_INVALID_BINARY;
  if (code == CL_SUCCESS) return *out = p, code;
  d->cl->clReleaseProgram(p);
  return code;
}

static bool load_cached_program(mr_opencl_device_t *d, mr_kernel_entry_t *e, size_t kernels,
                                cl_program *out) {
  void *image;
  size_t bytes;
  char text[40];
  if (!mr_kernel_cache_get(e, &image, &bytes)) return false;
  cl_int code = load_image(d, image, bytes, kernels, out);
  free(image);
  if (code != CL_SUCCESS) mr_kernel_cache_refused(e, mr__opencl_error(code, text));
  return code == CL_SUCCESS;
}

/* A driver that gives no image keeps nothing. */
static void program_keep(mr_opencl_device_t *d, const mr_kernel_entry_t *e, cl_program p) {
  size_t bytes = 0;
  if (d->cl->clGetProgramInfo(p, CL_PROGRAM_BINARY_SIZES, sizeof bytes, &bytes, NULL) !=
          CL_SUCCESS ||
      !bytes)
    return;
  unsigned char *image = malloc(bytes);
  if (image &&
      d->cl->clGetProgramInfo(p, CL_PROGRAM_BINARIES, sizeof image, &image, NULL) == CL_SUCCESS)
    mr_kernel_cache_put(e, image, bytes);
  free(image);
}

mr_err_t mr__opencl_compile(mr_opencl_device_t *d, const char *text, size_t kernels,
                            cl_program *out, mr_diag_t *diag) {
  if (!cache_pays(d)) return compile_text(d, text, out, diag);
  mr_kernel_entry_t e = program_entry(d, text);
  if (load_cached_program(d, &e, kernels, out)) return MR_OK;
  MR_TRY(compile_text(d, text, out, diag));
  program_keep(d, &e, *out);
  return MR_OK;
}
