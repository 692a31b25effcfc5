/* One program through NVRTC.  The dialect's words for CUDA C++ are defined here, before the text:
   NVRTC has no folder of headers at run time, so that conversions of f16 are written as PTX.
   VALUE(n), which only this backend's own texts use, is a parameter that is a number. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/backends/cuda/program.h"
#include "model/backends/kernels/kernel.h"

/* Division and square roots round correctly, and numbers close to 0 stay, unless options ask
   otherwise. */
static const char dialect[] =
    "#define KERNEL extern \"C\" __global__ void\n"
    "#define ARG(n) char *b##n\n"
    "#define PTR(type, name, n) type *name = (type *)b##n\n"
    "#define VALUE(n) unsigned long long b##n\n"
    "#define KERNEL_OF(n) extern \"C\" __global__ void __launch_bounds__(n)\n"
    "#define GROUP blockIdx.x\n"
    "#define LANE ((int)threadIdx.x)\n"
    "#define LOCAL(type, name, n) __shared__ type name[n]\n"
    "#define BARRIER __syncthreads()\n"
    "#define SPACE\n"
    "#define SHARED\n"
    "#define DEVICE __device__ __forceinline__\n"
    "typedef unsigned char u8; typedef unsigned short u16; typedef int i32;\n"
    "typedef unsigned int u32; typedef long long i64; typedef unsigned long long u64;\n"
    "#define ITEM ((u64)blockIdx.x * blockDim.x + threadIdx.x)\n"
    "#define AS_F32 __uint_as_float\n"
    "#define AS_U32 __float_as_uint\n"
    "#define INFINITY __int_as_float(0x7F800000)\n"
    "#define NAN __int_as_float(0x7FC00000)\n"
    "#define HAS_F64 1\n"
    "DEVICE float F16_TO_F32(u16 h) {\n"
    "  float f; asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(f) : \"h\"(h)); return f; }\n"
    "DEVICE u16 F32_TO_F16(float f) {\n"
    "  u16 h; asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(h) : \"f\"(f)); return h; }\n"
    /* Instructions that NVRTC compiles: a rounding to bf16, whose NaN is always 0x7FFF, and tensor
       cores. */
    "#ifdef __CUDACC_RTC__\n"
    "DEVICE u16 to_bf16(float f) {\n" /* as half of a pair: sm_90 packs it, but converts a single
                                         one by another unit */
    "  u32 p; asm volatile(\"cvt.rn.bf16x2.f32 %0, %1, %2;\" : \"=r\"(p) : \"f\"(0.0f), "
    "\"f\"(f));\n"
    "  return (u16)p; }\n"
    "#define F32_TO_BF16 to_bf16\n"
    "#define WARP_BARRIER __syncwarp()\n"
    "#define UNROLL _Pragma(\"unroll\")\n"
    "#define LOAD_TILE(name, how) DEVICE void name(u32 *r, const u32 *p) { \\\n"
    "  asm volatile(\"ldmatrix.sync.aligned.m8n8.x4\" how \".shared.b16 {%0, %1, %2, %3}, [%4];\" "
    "\\\n"
    "    : \"=r\"(r[0]), \"=r\"(r[1]), \"=r\"(r[2]), \"=r\"(r[3]) \\\n"
    "    : \"r\"((u32)__cvta_generic_to_shared(p)) : \"memory\"); }\n"
    "LOAD_TILE(LDMATRIX, \"\")\n"
    "LOAD_TILE(LDMATRIX_TURNED, \".trans\")\n"
    "#define MMA(name, type) DEVICE void name(float *c, const u32 *a, const u32 *b) { \\\n"
    "  asm volatile(\"mma.sync.aligned.m16n8k16.row.col.f32.\" type \".\" type \".f32 \" \\\n"
    "    \"{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\" \\\n"
    "    : \"+f\"(c[0]), \"+f\"(c[1]), \"+f\"(c[2]), \"+f\"(c[3]) \\\n"
    "    : \"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), \"r\"(b[0]), \"r\"(b[1])); }\n"
    "MMA(mma_bf16, \"bf16\")\n"
    "MMA(mma_f16, \"f16\")\n"
    "#define MMA_BF16 mma_bf16\n"
    "#define MMA_F16 mma_f16\n"
    "DEVICE u32 PAIR_BF16(float low, float high) {\n"
    "  u32 p; asm volatile(\"cvt.rn.bf16x2.f32 %0, %1, %2;\" : \"=r\"(p) : \"f\"(high), "
    "\"f\"(low));\n"
    "  return p; }\n"
    "#endif\n";

char *mr__cuda_program_text(const char *const *text, size_t n) {
  char *all = NULL;
  size_t size = 0;
  FILE *f = open_memstream(&all, &size);
  if (!f) return NULL;
  fprintf(f, "%s%s", dialect, mr_kernel_prelude());
  for (size_t i = 0; i < n; i++) {
    const char *at = strstr(text[i], " k("); /* behind KERNEL or KERNEL_OF */
    assert(at);
    fprintf(f, "%.*s k%zu(%s", (int)(at - text[i]), text[i], i, at + 3);
  }
  if (!fclose(f)) return all;
  free(all);
  return NULL;
}

/* The compiler's output; NULL without memory. */
static char *program_log(const mr_nvrtc_t *nvrtc, nvrtcProgram p) {
  size_t n = 0;
  nvrtcResult code = nvrtc->nvrtcGetProgramLogSize(p, &n);
  char *log = calloc(1, code == NVRTC_SUCCESS ? n + 1 : 1);
  if (log && code == NVRTC_SUCCESS && n) nvrtc->nvrtcGetProgramLog(p, log);
  return log;
}

static nvrtcResult program_image(const mr_nvrtc_t *nvrtc, nvrtcProgram p, bool ptx,
                                 mr_cuda_image_t *out) {
  nvrtcResult code =
      ptx ? nvrtc->nvrtcGetPTXSize(p, &out->bytes) : nvrtc->nvrtcGetCUBINSize(p, &out->bytes);
  if (code != NVRTC_SUCCESS) return code;
  if (!(out->data = malloc(out->bytes + 1))) return NVRTC_ERROR_OUT_OF_MEMORY;
  return ptx ? nvrtc->nvrtcGetPTX(p, out->data) : nvrtc->nvrtcGetCUBIN(p, out->data);
}

static mr_err_t nvrtc_refuses(const mr_nvrtc_t *nvrtc, nvrtcResult code, const char *log,
                              mr_diag_t *diag) {
  if (code == NVRTC_ERROR_OUT_OF_MEMORY) return mr_no_memory(diag, "a kernel of device cuda");
  return mr_fail(diag, MR_ERR_UNAVAILABLE,
                 "device cuda: NVRTC %d.%d does not compile a kernel: %s: %.*s", nvrtc->major,
                 nvrtc->minor, nvrtc->nvrtcGetErrorString(code),
                 (int)(log ? strcspn(log, "\n") : 0), log ? log : "");
}

/* Products and sums are not joined to one rounding, so that the device computes what the CPU does.
   177: a kernel declares the coordinates of all dimensions, also where one needs none. */
#define OPTIONS \
  "--fmad=false", "--ftz=false", "--prec-div=true", "--prec-sqrt=true", "--diag-suppress=177"

mr_kernel_entry_t mr__cuda_entry(const mr_nvrtc_t *nvrtc, const char *text, const char *arch) {
  char version[40];
  snprintf(version, sizeof version, "nvrtc %d.%d", nvrtc->major, nvrtc->minor);
  const char *const part[] = {"cuda", version, arch, OPTIONS, text};
  return mr_kernel_entry(part, sizeof part / sizeof *part);
}

mr_err_t mr__cuda_compile(const mr_nvrtc_t *nvrtc, const char *text, const char *arch,
                          mr_cuda_image_t *out, char **log, mr_diag_t *diag) {
  nvrtcProgram p = NULL;
  char option[64];
  const char *const options[] = {option, OPTIONS};
  snprintf(option, sizeof option, "--gpu-architecture=%s", arch);
  *out = (mr_cuda_image_t){0};
  nvrtcResult code = nvrtc->nvrtcCreateProgram(&p, text, "kernels.cu", 0, NULL, NULL);
  if (code != NVRTC_SUCCESS) return nvrtc_refuses(nvrtc, code, NULL, diag);
  code = nvrtc->nvrtcCompileProgram(p, sizeof options / sizeof *options, options);
  char *said = program_log(nvrtc, p);
  if (code == NVRTC_SUCCESS) code = program_image(nvrtc, p, !strncmp(arch, "compute", 7), out);
  nvrtc->nvrtcDestroyProgram(&p);
  mr_err_t err = code == NVRTC_SUCCESS ? MR_OK : nvrtc_refuses(nvrtc, code, said, diag);
  if (err < 0) free(out->data), out->data = NULL;
  if (log) *log = said;
  if (!log) free(said);
  return err;
}
