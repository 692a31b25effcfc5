/* Compiles texts of kernels and keeps the programs, by a hash of the text, until the process ends:
   the same layer, or the next graph with the same shapes, compiles nothing.  The dialect's words
   for OpenCL C are defined here, before the text. */
#include "model/backends/opencl/program.h"

#include <assert.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
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
  cl_program program; /* NULL: not built yet */
  unsigned number;    /* its function there is k<number> */
} kept_t;

/* The texts in the order in which they came; `slot` finds them by hash: index + 1, 0: free. */
static struct {
  pthread_mutex_t lock;
  kept_t *kept;
  size_t n, cap;
  uint32_t *slot; /* [slots], a power of two, at most half of them used */
  size_t slots;
} programs = {.lock = PTHREAD_MUTEX_INITIALIZER};

static uint32_t *programs_slot(uint64_t hash, const char *text) {
  size_t at = hash & (programs.slots - 1);
  while (programs.slot[at]) {
    const kept_t *k = &programs.kept[programs.slot[at] - 1];
    if (k->hash == hash && !strcmp(k->text, text)) break;
    at = (at + 1) & (programs.slots - 1);
  }
  return &programs.slot[at];
}

/* Makes room for one text more. */
static bool programs_grow(void) {
  if (programs.n < programs.cap) return true;
  size_t cap = programs.cap ? 2 * programs.cap : 256;
  kept_t *more = realloc(programs.kept, cap * sizeof *more);
  if (more) programs.kept = more;
  uint32_t *slot = calloc(2 * cap, sizeof *slot);
  if (!more || !slot) return free(slot), false;
  free(programs.slot);
  programs.cap = cap, programs.slot = slot, programs.slots = 2 * cap;
  for (size_t i = 0; i < programs.n; i++)
    *programs_slot(more[i].hash, more[i].text) = (uint32_t)i + 1;
  return true;
}

/* The place of a text, new or known; false without memory. */
static bool programs_add(const char *text, size_t *index) {
  uint64_t hash = XXH3_64bits(text, strlen(text));
  if (!programs_grow()) return false;
  uint32_t *slot = programs_slot(hash, text);
  if (!*slot) {
    char *own = strdup(text);
    if (!own) return false;
    programs.kept[programs.n] = (kept_t){hash, own, NULL, (unsigned)programs.n};
    *slot = (uint32_t)++programs.n;
  }
  *index = *slot - 1;
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

static mr_err_t program_compile(const mr_opencl_device_t *d, const char *text, cl_program *out,
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

static const char kernel_head[] = "KERNEL k(";

/* The texts [from,n) that are not built, each with a function name of its own. */
static char *programs_join(size_t from, bool *any) {
  char *all = NULL;
  size_t size = 0, head = sizeof kernel_head - 1;
  FILE *f = open_memstream(&all, &size);
  *any = false;
  if (!f) return NULL;
  for (size_t i = from; i < programs.n; i++) {
    const kept_t *k = &programs.kept[i];
    if (k->program) continue;
    assert(!strncmp(k->text, kernel_head, head));
    fprintf(f, "KERNEL k%u(%s", k->number, k->text + head);
    *any = true;
  }
  if (!fclose(f)) return all;
  free(all);
  return NULL;
}

/* Builds what is new since text `from` came.  After a failure the texts stay without a program, and
   the next call that wants one tries again. */
static mr_err_t programs_build(const mr_opencl_device_t *d, size_t from, mr_diag_t *diag) {
  bool any;
  cl_program p = NULL;
  char *all = programs_join(from, &any);
  if (!all) return mr_no_memory(diag, "the kernels of a graph");
  mr_err_t e = any ? program_compile(d, all, &p, diag) : MR_OK;
  free(all);
  for (size_t i = from; i < programs.n && e >= 0; i++)
    if (!programs.kept[i].program) programs.kept[i].program = p;
  return e;
}

static mr_err_t kernels_get(const mr_opencl_device_t *d, const mr_opencl_wanted_t *want, size_t n,
                            size_t *index, mr_diag_t *diag) {
  size_t from = programs.n;
  for (size_t i = 0; i < n; i++) {
    if (!programs_add(want[i].text, &index[i])) return mr_no_memory(diag, "a kernel's text");
    if (!programs.kept[index[i]].program && index[i] < from) from = index[i];
  }
  MR_TRY(programs_build(d, from, diag));
  for (size_t i = 0; i < n; i++) {
    const kept_t *k = &programs.kept[index[i]];
    char name[16];
    cl_int code;
    snprintf(name, sizeof name, "k%u", k->number);
    cl_kernel made = d->cl->clCreateKernel(k->program, name, &code);
    if (code != CL_SUCCESS) return mr_no_memory(diag, "a kernel of device opencl");
    *want[i].out = made;
  }
  return MR_OK;
}

mr_err_t mr__opencl_kernels(const mr_opencl_device_t *d, const mr_opencl_wanted_t *want, size_t n,
                            mr_diag_t *diag) {
  size_t *index = calloc(n + 1, sizeof *index);
  if (!index) return mr_no_memory(diag, "the kernels of a graph");
  pthread_mutex_lock(&programs.lock);
  mr_err_t e = kernels_get(d, want, n, index, diag);
  pthread_mutex_unlock(&programs.lock);
  free(index);
  return e;
}
