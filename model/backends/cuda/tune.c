/* Measures algorithms of one product by the device's own clock.  The arrays of
   successive runs are different ones, as many as its second-level cache cannot
   hold, since a step of training does not find a product's operands there
   either.  They are filled with drawn bits: products of zeros take less power,
   and so run faster than those of a model. */
#include <string.h>

#include "model/backends/cuda/matmul.h"
#include "model/backends/cuda/program.h"

enum {
  ROTATED = 8,              /* sets of arrays at most */
  BEYOND_CACHE = 160 << 20, /* bytes of all sets: twice the largest second-level cache */
  RUNS = 16
};

/* One set of arrays. */
typedef struct arrays {
  char *a, *b, *d, *bias;
} arrays_t;

typedef struct tuner {
  mr_cuda_device_t *d;
  cublasLtHandle_t handle;
  const mr_product_t *p;
  const mr_cuda_matmul_t *m;
  char *block; /* sets, then the workspace */
  size_t bytes, set, a, b, y;
  int sets;
} tuner_t;

static size_t to_256(size_t n) { return (n + 255) & ~(size_t)255; }

static size_t operand_bytes(const mr_product_operand_t *o, int64_t batch) {
  int64_t one = o->ld * (o->cols - 1) + o->rows, all = o->batch_stride * (batch - 1) + one;
  return to_256((size_t)all * mr_dtype_size(o->dtype));
}

/* 32 bits an item: those of the mask b2 are drawn, those of b3 set; their upper halves are for odd
   items.  VALUE(1) is the number of items. */
const char mr__cuda_fill_text[] =
    "KERNEL k(ARG(0), VALUE(1), VALUE(2), VALUE(3)) {\n"
    "  PTR(u32, y0, 0);\n"
    "  u64 i = ITEM;\n"
    "  u32 h = (u32)i, half = 32 * (u32)(i & 1);\n"
    "  if (i >= b1) return;\n"
    "  h = (h ^ h >> 16) * 0x7feb352du;\n"
    "  h = (h ^ h >> 15) * 0x846ca68bu;\n"
    "  h ^= h >> 16;\n"
    "  y0[i] = (h & (u32)(b2 >> half)) | (u32)(b3 >> half);\n"
    "}\n";

/* Masks of finite numbers of both signs, whose size is between 1/128 and 4. */
static void fill_masks(mr_dtype_t t, uint64_t *drawn, uint64_t *set) {
  switch (t) {
    case MR_BF16: *drawn = 0x83FF83FF83FF83FF, *set = 0x3C003C003C003C00; return;
    case MR_F16: *drawn = 0x8FFF8FFF8FFF8FFF, *set = 0x3000300030003000; return;
    case MR_F64: *drawn = 0x803FFFFFFFFFFFFF, *set = 0x3FC0000000000000; return;
    default: *drawn = 0x83FFFFFF83FFFFFF, *set = 0x3C0000003C000000; return;
  }
}

static bool tuner_fill(const tuner_t *t) {
  cudaKernel_t kernel = NULL;
  const mr_cuda_wanted_t want = {mr__cuda_fill_text, &kernel};
  uint64_t drawn, set, n = t->set * (uint64_t)t->sets / sizeof(uint32_t);
  fill_masks(t->p->a.dtype, &drawn, &set);
  void *arg[] = {t->block, (void *)(uintptr_t)n, (void *)(uintptr_t)drawn, (void *)(uintptr_t)set};
  return mr__cuda_kernels(t->d, &want, 1, NULL) == MR_OK &&
         mr__cuda_launch(t->d, kernel, (int64_t)n, 0, arg, 4) == cudaSuccess;
}

static bool tuner_begin(tuner_t *t) {
  const mr_product_t *p = t->p;
  size_t out = mr_dtype_size(p->d);
  t->a = operand_bytes(&p->a, p->batch), t->b = operand_bytes(&p->b, p->batch);
  t->y = to_256((size_t)(p->d_batch * p->batch) * out);
  t->set = t->a + t->b + t->y + to_256((size_t)p->m * out);
  t->sets = (int)(BEYOND_CACHE / t->set) + 1;
  if (t->sets > ROTATED) t->sets = ROTATED;
  t->bytes = t->set * (size_t)t->sets + MR_CUDA_WORKSPACE;
  t->block = mr__cuda_take(t->d->device, t->bytes);
  if (t->block && tuner_fill(t)) return true;
  mr__cuda_give(t->d->device, t->block, t->bytes);
  return false;
}

static cublasStatus_t tuner_run(const tuner_t *t, int turn,
                                const cublasLtMatmulHeuristicResult_t *r) {
  char *at = t->block + t->set * (size_t)(turn % t->sets);
  char *work = t->block + t->set * (size_t)t->sets;
  arrays_t x = {at, at + t->a, at + t->a + t->b, at + t->a + t->b + t->y};
  return mr__cuda_matmul_start(t->m, t->handle, t->p, &r->algo, x.a, x.b,
                               t->p->bias < 0 ? NULL : x.bias, x.d, work, r->workspaceSize,
                               mr__cuda_stream(t->d));
}

/* The time of one run in milliseconds; negative if it failed. */
static float tuner_time(const tuner_t *t, cudaEvent_t begin, cudaEvent_t end,
                        const cublasLtMatmulHeuristicResult_t *r) {
  const mr_cuda_api_t *cu = t->d->cu;
  float ms = -1;
  for (int i = 0; i < 2; i++)
    if (tuner_run(t, i, r) != CUBLAS_STATUS_SUCCESS) return -1;
  cu->cudaEventRecord(begin, mr__cuda_stream(t->d));
  for (int i = 0; i < RUNS; i++)
    if (tuner_run(t, i, r) != CUBLAS_STATUS_SUCCESS) return -1;
  cu->cudaEventRecord(end, mr__cuda_stream(t->d));
  if (cu->cudaEventSynchronize(end) != cudaSuccess ||
      cu->cudaEventElapsedTime(&ms, begin, end) != cudaSuccess)
    return -1;
  return ms / RUNS;
}

int mr__cuda_tune(mr_cuda_device_t *d, cublasLtHandle_t handle, const mr_product_t *p,
                  const mr_cuda_matmul_t *m, const cublasLtMatmulHeuristicResult_t *found, int n,
                  uint64_t *ns) {
  tuner_t t = {.d = d, .handle = handle, .p = p, .m = m};
  cudaEvent_t begin, end;
  int best = -1;
  float least = 0;
  if (!tuner_begin(&t)) return -1;
  bool events = d->cu->cudaEventCreateWithFlags(&begin, cudaEventDefault) == cudaSuccess;
  if (events && d->cu->cudaEventCreateWithFlags(&end, cudaEventDefault) != cudaSuccess) {
    d->cu->cudaEventDestroy(begin);
    events = false;
  }
  for (int i = 0; events && i < n; i++) {
    float ms = tuner_time(&t, begin, end, &found[i]);
    if (ms >= 0 && (best < 0 || ms < least)) best = i, least = ms;
  }
  if (events) d->cu->cudaEventDestroy(begin), d->cu->cudaEventDestroy(end);
  mr__cuda_give(d->device, t.block, t.bytes);
  *ns = (uint64_t)((double)least * 1e6);
  return best;
}
