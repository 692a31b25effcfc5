/* What the CUDA backend asks of cuBLASLt, recorded: descriptors, layouts, preferences and pointers
   of products, and which algorithm is taken.  Tables of our own answer in the place of the driver
   and of the library; nothing is computed. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "model/backends/cuda/blas.h"
#include "model/backends/cuda/matmul.h"
#include "model/backends/cuda/tunings.h"
#include "model/exec/device.h"
#include "model/model.h"

/* ---- a driver with one device ---- */

static uint32_t clock_ns; /* of the device: products advance it */
static int events;        /* that live; an open device keeps 4 */

static cudaError_t fine(void) { return cudaSuccess; }
static cudaError_t version_13(int *v) { return *v = 13000, cudaSuccess; }
static cudaError_t one_device(int *n) { return *n = 1, cudaSuccess; }
static cudaError_t properties(struct cudaDeviceProp *p, int device) {
  *p = (struct cudaDeviceProp){.major = 9, .multiProcessorCount = 132, .memoryPoolsSupported = 1};
  snprintf(p->name, sizeof p->name, "Recorded GPU");
  return cudaSuccess;
}
static cudaError_t stream(cudaStream_t *s, unsigned flags) {
  return *s = (cudaStream_t)(uintptr_t)0x5000, cudaSuccess;
}
static cudaError_t event_create(cudaEvent_t *e, unsigned flags) {
  events++;
  *e = calloc(1, sizeof clock_ns);
  return cudaSuccess;
}
static cudaError_t event_record(cudaEvent_t e, cudaStream_t s) {
  memcpy(e, &clock_ns, sizeof clock_ns);
  return cudaSuccess;
}
static cudaError_t event_elapsed(float *ms, cudaEvent_t begin, cudaEvent_t end) {
  uint32_t a, b;
  memcpy(&a, begin, sizeof a), memcpy(&b, end, sizeof b);
  return *ms = (float)(b - a) * 1e-6f, cudaSuccess;
}
static cudaError_t event_sync(cudaEvent_t e) { return cudaSuccess; }
static cudaError_t event_destroy(cudaEvent_t e) { return events--, free(e), cudaSuccess; }
static size_t taken;
static cudaError_t take(void **p, size_t n, cudaStream_t s) {
  taken += n;
  return *p = (void *)(uintptr_t)0x700000000000, cudaSuccess;
}
static cudaError_t give(void *p, cudaStream_t s) { return cudaSuccess; }
static const char *no_name(cudaError_t e) { return "recorded"; }

/* Kernels of one program: what is launched is noted. */
static uint64_t filled[4]; /* the last launch's arguments */
static int fills;
static cudaError_t load(cudaLibrary_t *l, const void *code, enum cudaJitOption *a, void **b,
                        unsigned c, enum cudaLibraryOption *d, void **e, unsigned f) {
  return *l = NULL, cudaSuccess;
}
static cudaError_t get_kernel(cudaKernel_t *k, cudaLibrary_t l, const char *name) {
  return *k = (cudaKernel_t)(uintptr_t)0x77, cudaSuccess;
}
static cudaError_t attributes(struct cudaFuncAttributes *a, const void *kernel) {
  return cudaSuccess;
}
static cudaError_t launch(const void *kernel, dim3 blocks, dim3 threads, void **arg, size_t shared,
                          cudaStream_t s) {
  for (int i = 0; i < 4; i++) memcpy(&filled[i], arg[i], sizeof filled[i]);
  assert_true((uint64_t)blocks.x * threads.x >= filled[1]);
  return fills++, cudaSuccess;
}
static nvrtcResult archs_n(int *n) { return *n = 1, NVRTC_SUCCESS; }
static int known_arch = 90;   /* the newest of NVRTC */
static char compiled_for[64]; /* the option of the last program */
static nvrtcResult archs(int *a) { return *a = known_arch, NVRTC_SUCCESS; }
static nvrtcResult program(nvrtcProgram *p, const char *text, const char *name, int n,
                           const char *const *headers, const char *const *names) {
  return *p = NULL, NVRTC_SUCCESS;
}
static nvrtcResult compile(nvrtcProgram p, int n, const char *const *options) {
  snprintf(compiled_for, sizeof compiled_for, "%s", options[0]);
  return NVRTC_SUCCESS;
}
static nvrtcResult no_program(nvrtcProgram *p) { return NVRTC_SUCCESS; }
static nvrtcResult one_byte(nvrtcProgram p, size_t *n) { return *n = 1, NVRTC_SUCCESS; }
static nvrtcResult byte(nvrtcProgram p, char *to) { return *to = 0, NVRTC_SUCCESS; }

static const mr_nvrtc_t compiler = {.nvrtcGetNumSupportedArchs = archs_n,
                                    .nvrtcGetSupportedArchs = archs,
                                    .nvrtcCreateProgram = program,
                                    .nvrtcCompileProgram = compile,
                                    .nvrtcDestroyProgram = no_program,
                                    .nvrtcGetProgramLogSize = one_byte,
                                    .nvrtcGetProgramLog = byte,
                                    .nvrtcGetCUBINSize = one_byte,
                                    .nvrtcGetCUBIN = byte,
                                    .nvrtcGetPTXSize = one_byte,
                                    .nvrtcGetPTX = byte,
                                    .major = 13};

static cudaError_t synchronize(cudaStream_t s) { return cudaSuccess; }
static cudaError_t set_device(int n) { return cudaSuccess; }
static cudaError_t pool(cudaMemPool_t *p, int n) {
  return *p = (cudaMemPool_t)(uintptr_t)&taken, cudaSuccess;
}
static cudaError_t set_pool(cudaMemPool_t p, enum cudaMemPoolAttr a, void *v) {
  return cudaSuccess;
}

static cudaError_t memory_info(size_t *left, size_t *all) {
  *left = (size_t)1 << 33, *all = (size_t)1 << 34;
  return cudaSuccess;
}
static const mr_cuda_api_t driver = {.cudaDriverGetVersion = version_13,
                                     .cudaRuntimeGetVersion = version_13,
                                     .cudaGetDeviceCount = one_device,
                                     .cudaGetDeviceProperties = properties,
                                     .cudaSetDevice = set_device,
                                     .cudaGetErrorName = no_name,
                                     .cudaGetErrorString = no_name,
                                     .cudaGetLastError = fine,
                                     .cudaDeviceGetDefaultMemPool = pool,
                                     .cudaMemPoolSetAttribute = set_pool,
                                     .cudaMemGetInfo = memory_info,
                                     .cudaStreamCreateWithFlags = stream,
                                     .cudaStreamSynchronize = synchronize,
                                     .cudaLibraryLoadData = load,
                                     .cudaLibraryGetKernel = get_kernel,
                                     .cudaFuncGetAttributes = attributes,
                                     .cudaLaunchKernel = launch,
                                     .cudaMallocAsync = take,
                                     .cudaFreeAsync = give,
                                     .cudaEventCreateWithFlags = event_create,
                                     .cudaEventRecord = event_record,
                                     .cudaEventElapsedTime = event_elapsed,
                                     .cudaEventSynchronize = event_sync,
                                     .cudaEventDestroy = event_destroy};

/* ---- a library that records ---- */

typedef struct layout {
  cudaDataType type;
  uint64_t rows, cols;
  int64_t ld, stride;
  int32_t batch;
} layout_t;

typedef struct desc {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  cublasOperation_t a, b;
  cublasLtEpilogue_t epilogue;
  int32_t bias_type;
  const void *bias;
} desc_t;

typedef struct started {
  desc_t desc;
  layout_t a, b, d;
  const void *at_a, *at_b, *at_d, *workspace;
  size_t bytes;
  float alpha, beta;
  uint64_t algorithm;
  cudaStream_t stream;
} started_t;

static started_t last; /* the last product */
static int living, asked, found = 3, starts;
static uint64_t most, sums; /* of the last preference */
static unsigned aligned[4]; /* bytes, of a, b, c, d */
static uintptr_t expected;  /* the bias' address while an algorithm is chosen or checked */
static cublasStatus_t refuses = CUBLAS_STATUS_SUCCESS;

static cublasStatus_t lt_create(cublasLtHandle_t *h) {
  return *h = (cublasLtHandle_t)(uintptr_t)0x1234, CUBLAS_STATUS_SUCCESS;
}
static const char *lt_status(cublasStatus_t s) { return "CUBLAS_STATUS_RECORDED"; }

static cublasStatus_t desc_create(cublasLtMatmulDesc_t *d, cublasComputeType_t c,
                                  cudaDataType_t t) {
  desc_t *x = calloc(1, sizeof *x);
  *x = (desc_t){c, t, CUBLAS_OP_N, CUBLAS_OP_N, CUBLASLT_EPILOGUE_DEFAULT, -1, NULL};
  return living++, *d = (void *)x, CUBLAS_STATUS_SUCCESS;
}
static cublasStatus_t desc_destroy(cublasLtMatmulDesc_t d) {
  return living--, free(d), CUBLAS_STATUS_SUCCESS;
}
static cublasStatus_t desc_set(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t name,
                               const void *value, size_t n) {
  desc_t *x = (desc_t *)d;
  switch (name) {
    case CUBLASLT_MATMUL_DESC_TRANSA: memcpy(&x->a, value, n); break;
    case CUBLASLT_MATMUL_DESC_TRANSB: memcpy(&x->b, value, n); break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE: memcpy(&x->epilogue, value, n); break;
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE: memcpy(&x->bias_type, value, n); break;
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: memcpy(&x->bias, value, n); break;
    default: return CUBLAS_STATUS_INVALID_VALUE;
  }
  return CUBLAS_STATUS_SUCCESS;
}
static cublasStatus_t layout_create(cublasLtMatrixLayout_t *l, cudaDataType type, uint64_t rows,
                                    uint64_t cols, int64_t ld) {
  layout_t *x = calloc(1, sizeof *x);
  *x = (layout_t){type, rows, cols, ld, 0, 1};
  return living++, *l = (void *)x, CUBLAS_STATUS_SUCCESS;
}
static cublasStatus_t layout_destroy(cublasLtMatrixLayout_t l) {
  return living--, free(l), CUBLAS_STATUS_SUCCESS;
}
static cublasStatus_t layout_set(cublasLtMatrixLayout_t l, cublasLtMatrixLayoutAttribute_t name,
                                 const void *value, size_t n) {
  layout_t *x = (layout_t *)l;
  if (name == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT && n == sizeof x->batch)
    memcpy(&x->batch, value, n);
  else if (name == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET && n == sizeof x->stride)
    memcpy(&x->stride, value, n);
  else
    return CUBLAS_STATUS_INVALID_VALUE;
  return CUBLAS_STATUS_SUCCESS;
}
static cublasStatus_t pref_create(cublasLtMatmulPreference_t *p) {
  return living++, *p = calloc(1, 8), CUBLAS_STATUS_SUCCESS;
}
static cublasStatus_t pref_destroy(cublasLtMatmulPreference_t p) {
  return living--, free(p), CUBLAS_STATUS_SUCCESS;
}
static cublasStatus_t pref_set(cublasLtMatmulPreference_t p,
                               cublasLtMatmulPreferenceAttributes_t name, const void *value,
                               size_t n) {
  uint32_t number = 0;
  if (name == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) return memcpy(&most, value, n), 0;
  assert_int_equal(n, sizeof number);
  memcpy(&number, value, n);
  if (name >= CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES &&
      name <= CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES)
    return aligned[name - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES] = number,
                          CUBLAS_STATUS_SUCCESS;
  if (name != CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) return CUBLAS_STATUS_INVALID_VALUE;
  return sums = number, CUBLAS_STATUS_SUCCESS;
}

/* Algorithms 71, 72, 73, ... with workspaces of 0, 1, 2 KiB, ...; the second asks for too much. */
static cublasStatus_t heuristic(cublasLtHandle_t h, cublasLtMatmulDesc_t desc,
                                cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                cublasLtMatmulPreference_t p, int n,
                                cublasLtMatmulHeuristicResult_t *out, int *count) {
  asked = n;
  expected = (uintptr_t)((desc_t *)desc)->bias;
  *count = n < found ? n : found;
  for (int i = 0; i < *count; i++) {
    out[i] = (cublasLtMatmulHeuristicResult_t){.workspaceSize = (size_t)i << 10};
    out[i].algo.data[0] = 71 + (uint64_t)i;
    if (i == 1) out[i].workspaceSize = (size_t)1 << 40;
  }
  return CUBLAS_STATUS_SUCCESS;
}
static cublasStatus_t algo_check(cublasLtHandle_t h, cublasLtMatmulDesc_t desc,
                                 cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                 cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                 const cublasLtMatmulAlgo_t *algo,
                                 cublasLtMatmulHeuristicResult_t *r) {
  r->workspaceSize = 4096;
  expected = (uintptr_t)((desc_t *)desc)->bias;
  return algo->data[0] >= 71 && algo->data[0] < 80 ? CUBLAS_STATUS_SUCCESS
                                                   : CUBLAS_STATUS_NOT_SUPPORTED;
}
static cublasStatus_t algo_get(const cublasLtMatmulAlgo_t *algo,
                               cublasLtMatmulAlgoConfigAttributes_t name, void *value, size_t n,
                               size_t *written) {
  int32_t id = (int32_t)algo->data[0];
  return memcpy(value, &id, sizeof id), *written = sizeof id, CUBLAS_STATUS_SUCCESS;
}

/* Algorithm 73 takes 2 us, the others 5. */
static cublasStatus_t matmul(cublasLtHandle_t h, cublasLtMatmulDesc_t desc, const void *alpha,
                             const void *a, cublasLtMatrixLayout_t la, const void *b,
                             cublasLtMatrixLayout_t lb, const void *beta, const void *c,
                             cublasLtMatrixLayout_t lc, void *d, cublasLtMatrixLayout_t ld,
                             const cublasLtMatmulAlgo_t *algo, void *work, size_t bytes,
                             cudaStream_t s) {
  last = (started_t){
      *(desc_t *)desc, *(layout_t *)la,       *(layout_t *)lb,      *(layout_t *)ld, a, b, d, work,
      bytes,           *(const float *)alpha, *(const float *)beta, algo->data[0],   s};
  assert_ptr_equal(c, d);
  assert_ptr_equal(lc, ld);
  /* No address is aligned to less than the algorithm was asked for. */
  assert_true(asked == 0 || (uintptr_t)a % aligned[0] == 0);
  assert_true(asked == 0 || (uintptr_t)b % aligned[1] == 0);
  assert_true(asked == 0 || (uintptr_t)d % aligned[3] == 0);
  starts++;
  clock_ns += algo->data[0] == 73 ? 2000 : 5000;
  return refuses;
}

static const mr_cublaslt_t lt = {.cublasLtGetStatusName = lt_status,
                                 .cublasLtCreate = lt_create,
                                 .cublasLtMatmulDescCreate = desc_create,
                                 .cublasLtMatmulDescDestroy = desc_destroy,
                                 .cublasLtMatmulDescSetAttribute = desc_set,
                                 .cublasLtMatrixLayoutCreate = layout_create,
                                 .cublasLtMatrixLayoutDestroy = layout_destroy,
                                 .cublasLtMatrixLayoutSetAttribute = layout_set,
                                 .cublasLtMatmulPreferenceCreate = pref_create,
                                 .cublasLtMatmulPreferenceDestroy = pref_destroy,
                                 .cublasLtMatmulPreferenceSetAttribute = pref_set,
                                 .cublasLtMatmulAlgoGetHeuristic = heuristic,
                                 .cublasLtMatmulAlgoCheck = algo_check,
                                 .cublasLtMatmulAlgoConfigGetAttribute = algo_get,
                                 .cublasLtMatmul = matmul,
                                 .version = 130100,
                                 .path = "recorded"};

/* ---- products ---- */

static mr_fn_t *linear_of(mr_dtype_t t, int64_t rows, int64_t in, int64_t out, bool transposed,
                          bool bias) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, mr_aval_of(t, rows, in));
  mr_var_t *w = mr_fn_input(f, transposed ? mr_aval_of(t, out, in) : mr_aval_of(t, in, out));
  mr_var_t *b = bias ? mr_fn_input(f, mr_aval_of(t, out)) : NULL;
  assert_non_null(mr_lax_linear(f, x, w, b, transposed));
  return f;
}

static _Alignas(
    256) char memory[8][256]; /* addresses alone: operands 0 to 2, the result, the scratch */

/* The device of this process: "cuda", or what a child has opened in its place. */
static const mr_device_t *opened;
static const mr_device_t *device_here(void) {
  mr_diag_t diag = {0};
  if (!opened && mr_device_open("cuda", &opened, &diag) < 0) fail_msg("%s", diag.text);
  return opened;
}

typedef struct bound {
  mr_fn_t *f;
  mr_call_t call;
  void *in[3], *out[1];
} bound_t;

static mr_err_t lower(bound_t *b, mr_fn_t *f) {
  mr_diag_t diag = {0};
  *b = (bound_t){.f = f, .in = {memory[0], memory[1], memory[2]}, .out = {memory[3]}};
  b->call = (mr_call_t){
      .eqn = f->eqn[0], .device = device_here(), .scratch = memory[4], .in = b->in, .out = b->out};
  mr_err_t e = mr__cuda_blas_lower(&b->call, &diag);
  if (e < 0 && e != MR_ERR_NORULE) fail_msg("%s", diag.text);
  return e;
}

static void unbind(bound_t *b) {
  if (b->call.fini) b->call.fini(b->call.state);
  mr_fn_destroy(b->f);
  assert_int_equal(living, 0);
}

/* One dense matrix. */
static void assert_layout(const layout_t *l, cudaDataType type, uint64_t rows, uint64_t cols) {
  assert_int_equal(l->type, type);
  assert_int_equal(l->rows, rows);
  assert_int_equal(l->cols, cols);
  assert_int_equal(l->ld, rows);
  assert_int_equal(l->batch, 1);
}

static void a_projection_is_asked_for_as_planned(void **state) {
  bound_t b;
  assert_int_equal(lower(&b, linear_of(MR_BF16, 8320, 384, 1152, false, true)), MR_OK);
  assert_int_equal(asked, 1); /* the heuristic's first */
  assert_int_equal(most, MR_CUDA_WORKSPACE);
  assert_int_equal(sums, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
  for (int i = 0; i < 4; i++) assert_int_equal(aligned[i], 64);
  assert_int_equal(expected, 64); /* an address that is a multiple of 64 and of no more */
  assert_string_equal(b.call.how, "cuBLASLt, algorithm 71 (heuristic), sums in f32");
  assert_int_equal(b.call.scratch_bytes, 0);
  assert_int_equal(b.call.kernels, 1);
  b.call.run(&b.call);
  assert_layout(&last.a, CUDA_R_16BF, 1152, 384);
  assert_layout(&last.b, CUDA_R_16BF, 384, 8320);
  assert_layout(&last.d, CUDA_R_16BF, 1152, 8320);
  assert_int_equal(last.desc.compute, CUBLAS_COMPUTE_32F);
  assert_int_equal(last.desc.scale, CUDA_R_32F);
  assert_int_equal(last.desc.a, CUBLAS_OP_N);
  assert_int_equal(last.desc.b, CUBLAS_OP_N);
  assert_int_equal(last.desc.epilogue, CUBLASLT_EPILOGUE_BIAS);
  assert_int_equal(last.desc.bias_type, CUDA_R_16BF);
  assert_ptr_equal(last.desc.bias, memory[2]);
  assert_ptr_equal(last.at_a, memory[1]);
  assert_ptr_equal(last.at_b, memory[0]);
  assert_ptr_equal(last.at_d, memory[3]);
  assert_null(last.workspace);
  assert_true(last.alpha == 1 && last.beta == 0);
  assert_int_equal((uintptr_t)last.stream, 0x5000);
  unbind(&b);
}

static void f32_is_multiplied_as_f32_alone(void **state) {
  bound_t b;
  assert_int_equal(lower(&b, linear_of(MR_F32, 64, 32, 16, true, false)), MR_OK);
  b.call.run(&b.call);
  assert_int_equal(last.desc.compute, CUBLAS_COMPUTE_32F_PEDANTIC);
  assert_int_equal(last.desc.a, CUBLAS_OP_T);
  assert_int_equal(last.desc.epilogue, CUBLASLT_EPILOGUE_DEFAULT);
  assert_int_equal(last.a.type, CUDA_R_32F);
  unbind(&b);
}

static void a_batch_of_products_has_strides(void **state) {
  bound_t b;
  mr_fn_t *f = mr_fn_create();
  mr_dot_dims_t d = {.n_batch = 1, .n_contract = 1, .lhs_contract = {2}, .rhs_contract = {2}};
  assert_non_null(mr_lax_dot_general(f, mr_fn_input(f, mr_aval_of(MR_BF16, 5, 7, 16)),
                                     mr_fn_input(f, mr_aval_of(MR_BF16, 5, 9, 16)), &d, MR_F32));
  assert_int_equal(lower(&b, f), MR_OK);
  b.call.run(&b.call);
  assert_true(last.a.batch == 5 && last.a.stride == 9 * 16);
  assert_true(last.b.batch == 5 && last.b.stride == 7 * 16);
  assert_true(last.d.batch == 5 && last.d.stride == 63 && last.d.type == CUDA_R_32F);
  unbind(&b);
}

/* A scan over rows: each is multiplied with a matrix, and the same numbers are added to each
   product.  The table of calls writes nothing. */
static mr_fn_t *scan_of_products(int64_t rows, int64_t in, int64_t out) {
  mr_fn_t *f = mr_fn_create(), *body = mr_fn_create();
  mr_var_t *w = mr_fn_input(body, mr_aval_of(MR_F32, in, out));
  mr_var_t *b = mr_fn_input(body, mr_aval_of(MR_F32, out));
  mr_var_t *x = mr_fn_input(body, mr_aval_of(MR_F32, 1, in));
  mr_var_t *y = mr_lax_linear(body, x, w, b, false);
  assert_int_equal(mr_fn_return(body, 1, &y), MR_OK);
  mr_var_t *operand[] = {mr_fn_input(f, mr_aval_of(MR_F32, in, out)),
                         mr_fn_input(f, mr_aval_of(MR_F32, out)),
                         mr_fn_input(f, mr_aval_of(MR_F32, rows, 1, in))};
  mr_scan_t s = {.length = rows, .n_consts = 2};
  mr_var_t *result[1];
  if (mr_lax_scan(f, body, &s, operand, result) < 0) fail_msg("%s", f->diag.text);
  assert_int_equal(mr_fn_return(f, 1, result), MR_OK);
  mr_fn_destroy(body);
  return f;
}

/* matmul asserts that the addresses of every step keep what is asked here. */
static void rows_of_a_scan_are_asked_for_as_they_lie(void **state) {
  static const struct {
    int64_t in, out;
    unsigned align;
  } of[] = {{15, 16, 4}, {16, 15, 4}, {16, 16, 64}, {16, 4, 16}, {6, 16, 8}};
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    mr_fn_t *f = scan_of_products(5, of[i].in, of[i].out);
    mr_compile_options_t o = {.device = device_here()};
    mr_diag_t diag = {0};
    mr_exec_t *x = NULL;
    const void *in[] = {memory[0], memory[2], memory[1]};
    void *out[] = {memory[3]};
    int before = starts;
    if (mr_compile(f, &o, &x, &diag) < 0) fail_msg("%s", diag.text);
    for (int k = 0; k < 4; k++) assert_int_equal(aligned[k], of[i].align);
    assert_int_equal(expected, of[i].align); /* NULL would be taken for any alignment */
    mr_exec_start(x, in, out);
    assert_int_equal(starts, before + 5);
    mr_exec_destroy(x);
    mr_fn_destroy(f);
  }
  assert_int_equal(living, 0);
}

static void copies_come_before_the_workspace(void **state) {
  bound_t b;
  mr_cuda_wanted_t want[2];
  mr_fn_t *f = mr_fn_create();
  mr_precision_enter(f, MR_PRECISION_HIGH);
  assert_non_null(mr_lax_dot(f, mr_fn_input(f, mr_aval_of(MR_F32, 64, 32)),
                             mr_fn_input(f, mr_aval_of(MR_F32, 32, 16))));
  assert_int_equal(lower(&b, f), MR_OK);
  assert_int_equal(b.call.scratch_bytes, 16 * 96 * 2 + 64 * 96 * 2);
  assert_int_equal(b.call.kernels, 3);
  assert_int_equal(mr__cuda_blas_wanted(&b.call, want), 2);
  assert_non_null(strstr(want[0].text, "x1"));
  assert_non_null(strstr(want[1].text, "x0"));
  assert_string_equal(b.call.note[0].what, "operand 1 converted");
  assert_int_equal(b.call.note[0].bytes, 32 * 16 * 4 + 16 * 96 * 2);
  unbind(&b);
}

static void products_without_an_algorithm_are_left_to_a_kernel(void **state) {
  bound_t b;
  found = 0;
  mr_fn_t *f = linear_of(MR_BF16, 64, 32, 16, true, false);
  assert_false(mr__cuda_blas_takes(mr__cuda_use(device_here()), f->eqn[0]));
  assert_int_equal(lower(&b, f), MR_ERR_NORULE);
  unbind(&b);
  found = 3;
  f = linear_of(MR_BF16, 64, 32, 16, true, false);
  assert_true(mr__cuda_blas_takes(mr__cuda_use(device_here()), f->eqn[0]));
  mr_fn_destroy(f);
}

static char said[2000];
static void keep_notice(void *arg, const char *text) {
  snprintf(said + strlen(said), sizeof said - strlen(said), "%s\n", text);
}

static cublasStatus_t create_fails(cublasLtHandle_t *h) { return CUBLAS_STATUS_NOT_INITIALIZED; }
static cublasStatus_t desc_fails(cublasLtMatmulDesc_t *d, cublasComputeType_t c, cudaDataType_t t) {
  return CUBLAS_STATUS_ALLOC_FAILED;
}
static cublasStatus_t heuristic_fails(cublasLtHandle_t h, cublasLtMatmulDesc_t desc,
                                      cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                      cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                      cublasLtMatmulPreference_t p, int n,
                                      cublasLtMatmulHeuristicResult_t *out, int *count) {
  return CUBLAS_STATUS_INTERNAL_ERROR;
}

/* Two products are left to kernels, and one notice says why. */
static void fails_and_says(const mr_cublaslt_t *table, const char *wanted) {
  bound_t b;
  said[0] = 0;
  mr_notice_to(keep_notice, NULL);
  mr__cublaslt_put(table);
  for (int64_t n = 16; n <= 32; n *= 2) {
    assert_int_equal(lower(&b, linear_of(MR_BF16, 64, 32, n, true, false)), MR_ERR_NORULE);
    unbind(&b);
  }
  mr__cublaslt_put(&lt);
  mr_notice_to(NULL, NULL);
  char *first = strstr(said, wanted);
  if (!first || strcmp(strchr(said, '\n'), "\n")) fail_msg("%s", said);
  assert_non_null(strstr(first, ", so that products are computed by generated kernels"));
}

static void a_library_that_fails_is_said_once(void **state) {
  static mr_cublaslt_t create, desc, choice; /* a device remembers the tables that have failed */
  create = desc = choice = lt;
  create.cublasLtCreate = create_fails;
  desc.cublasLtMatmulDescCreate = desc_fails;
  choice.cublasLtMatmulAlgoGetHeuristic = heuristic_fails;
  fails_and_says(&create, "device cuda: recorded does not start: CUBLAS_STATUS_RECORDED");
  fails_and_says(&desc, "device cuda: cuBLASLt refuses the product ");
  fails_and_says(&choice, "device cuda: cuBLASLt finds no algorithm for the product ");
  assert_int_equal(living, 0);
}

/* The tuning file is read once a process, so that each of these is a process of its own. */

static int tuned_child(const char *path) {
  bound_t b;
  setenv("MILLRACE_TUNING", path, 1);
  mr_notice_to(keep_notice, NULL);
  for (int64_t n = 16; n <= 32; n *= 2) {
    assert_int_equal(lower(&b, linear_of(MR_BF16, 64, 32, n, true, false)), MR_OK);
    printf("%d: %s; scratch %zu\n", (int)n, b.call.how, b.call.scratch_bytes);
    unbind(&b);
  }
  printf("asked %d, started %d, events %d, filled %d\n%s", asked, starts, events, fills, said);
  return 0;
}

/* Runs this program again with `path` as its tuning file and `share` as the folder of shipped
   files; its output. */
static const char *tuned_beside(const char *path, const char *share, bool tunes) {
  static char text[3000];
  char command[900];
  size_t n;
  char self[400];
  ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
  assert_true(len > 0);
  self[len] = 0;
  snprintf(command, sizeof command, "MILLRACE_TUNE=%d MILLRACE_SHARE='%s' '%s' '%s'", tunes, share,
           self, path);
  FILE *p = popen(command, "r");
  assert_non_null(p);
  n = fread(text, 1, sizeof text - 1, p);
  text[n] = 0;
  assert_int_equal(pclose(p), 0);
  return text;
}

static const char *tuned(const char *path, bool tunes) {
  return tuned_beside(path, "/nonexistent", tunes);
}

static void assert_says(const char *text, const char *part) {
  if (!strstr(text, part)) fail_msg("\"%s\" is not in\n%s", part, text);
}

static void algorithms_are_measured_once_and_kept(void **state) {
  char folder[] = "/tmp/tuning-XXXXXX", path[100];
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/new/products.txt", folder);
  const char *text = tuned(path, true);
  assert_says(text, "16: cuBLASLt, algorithm 73 (measured), sums in f32; scratch 2048");
  assert_says(text, "32: cuBLASLt, algorithm 73 (measured)");
  /* 2 products, 2 algorithms, 18 runs; memory is filled once for each product */
  assert_says(text, "asked 32, started 72, events 4, filled 2");
  text = tuned(path, true); /* nothing is measured twice; the library says what it needs now */
  assert_says(text, "16: cuBLASLt, algorithm 73 (measured), sums in f32; scratch 4096");
  assert_says(text, "asked 0, started 0");
  text = tuned(path, false);
  assert_says(text, "algorithm 73 (measured)");
  snprintf(path, sizeof path, "%s/none.txt", folder);
  text = tuned(path, false);
  assert_says(text, "16: cuBLASLt, algorithm 71 (heuristic), sums in f32; scratch 0");
  assert_int_not_equal(access(path, F_OK), 0); /* written only by tuning */
  snprintf(path, sizeof path, "rm -r %s", folder);
  assert_int_equal(system(path), 0);
}

static void write_text(const char *path, const char *text) {
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fputs(text, f);
  assert_int_equal(fclose(f), 0);
}

static void a_tuning_file_that_others_may_write_is_left_aside(void **state) {
  char folder[] = "/tmp/tuning-XXXXXX", path[100], link[100];
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/products.txt", folder);
  snprintf(link, sizeof link, "%s/link.txt", folder);
  mode_t before = umask(002); /* what a run writes itself, it believes */
  assert_says(tuned(path, true), "algorithm 73 (measured)");
  umask(before);
  assert_says(tuned(path, false), "algorithm 73 (measured)");
  assert_int_equal(chmod(path, 0666), 0);
  const char *text = tuned(path, false);
  assert_says(text, "it is left as it is");
  assert_says(text, "algorithm 71 (heuristic)");
  assert_int_equal(chmod(path, 0600), 0);
  assert_says(tuned(path, false), "algorithm 73 (measured)");
  assert_int_equal(symlink(path, link), 0);
  assert_says(tuned(link, false), "algorithm 71 (heuristic)");
  snprintf(path, sizeof path, "rm -r %s", folder);
  assert_int_equal(system(path), 0);
}

static void a_damaged_tuning_file_is_left_aside_and_said_once(void **state) {
  char path[] = "/tmp/tuning-XXXXXX", kept[100] = "";
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  close(fd);
  write_text(path, "my notes\n");
  const char *text = tuned(path, true);
  assert_says(text, "algorithm 73 (measured)");
  assert_says(text, "line 1: want \"millrace products 1\"; it is left as it is");
  assert_null(strstr(strstr(text, "left as it is") + 5, "left as it is"));
  FILE *f = fopen(path, "r");
  assert_non_null(fgets(kept, sizeof kept, f));
  fclose(f);
  assert_string_equal(kept, "my notes\n");
  unlink(path);
}

/* Writes a tuning file with one row: the product of 16 columns of tuned_child. */
static void write_tuning(const char *path, const char *device, uint64_t version,
                         uint64_t algorithm) {
  char product[MR_PRODUCT_TEXT];
  mr_fn_t *f = linear_of(MR_BF16, 64, 32, 16, true, false);
  mr_cuda_tuning_t row = {.version = version, .algorithm = {algorithm}, .workspace = 12288};
  mr_cuda_tunings_t t = {0};
  mr_diag_t diag = {0};
  mr_product_t p;
  assert_true(mr__product(f->eqn[0], &p));
  snprintf(row.device, sizeof row.device, "%s", device);
  snprintf(row.product, sizeof row.product, "%s", mr__product_text(&p, product));
  assert_int_equal(mr__cuda_tunings_put(&t, &row, &diag), MR_OK);
  FILE *to = fopen(path, "w");
  assert_non_null(to);
  mr__cuda_tunings_print(&t, to);
  assert_int_equal(fclose(to), 0);
  mr__cuda_tunings_fini(&t);
  mr_fn_destroy(f);
}

/* A row that the library refuses now is not used. */
static void an_algorithm_that_the_library_refuses_is_not_used(void **state) {
  char path[] = "/tmp/tuning-XXXXXX";
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  close(fd);
  write_tuning(path, "Recorded GPU", 130100, 99);
  const char *text = tuned(path, false);
  assert_says(text, "16: cuBLASLt, algorithm 71 (heuristic)");
  unlink(path);
}

/* ---- the file that comes with the program ---- */

typedef struct shipped {
  char folder[40], own[80], file[120];
} shipped_t;

/* A folder of shipped files, in which `file` is the one of this device and version. */
static void shipped_init(shipped_t *s) {
  char command[200], name[MR_CUDA_TUNINGS_FILE];
  strcpy(s->folder, "/tmp/shipped-XXXXXX");
  assert_non_null(mkdtemp(s->folder));
  snprintf(command, sizeof command, "mkdir -p %s/cuda/products", s->folder);
  assert_int_equal(system(command), 0);
  snprintf(s->own, sizeof s->own, "%s/own.txt", s->folder);
  assert_string_equal(mr__cuda_tunings_file("Recorded GPU", 130100, name),
                      "cuda/products/Recorded-GPU-130100.txt");
  snprintf(s->file, sizeof s->file, "%s/%.70s", s->folder, name);
}

static void shipped_fini(const shipped_t *s) {
  char command[200];
  snprintf(command, sizeof command, "rm -r %s", s->folder);
  assert_int_equal(system(command), 0);
}

static void a_shipped_file_has_what_the_users_own_lacks(void **state) {
  shipped_t s;
  shipped_init(&s);
  write_tuning(s.file, "Recorded GPU", 130100, 74);
  const char *text = tuned_beside(s.own, s.folder, false);
  assert_says(text, "16: cuBLASLt, algorithm 74 (shipped), sums in f32; scratch 4096");
  assert_says(text, "32: cuBLASLt, algorithm 71 (heuristic)");
  assert_null(strstr(text, "tuning file"));
  write_tuning(s.own, "Recorded GPU", 130100, 75);
  assert_says(tuned_beside(s.own, s.folder, false), "16: cuBLASLt, algorithm 75 (measured)");
  write_tuning(s.own, "Recorded GPU", 130100, 99); /* which the library refuses */
  assert_says(tuned_beside(s.own, s.folder, false), "16: cuBLASLt, algorithm 74 (shipped)");
  assert_says(tuned_beside("off", s.folder, false), "16: cuBLASLt, algorithm 71 (heuristic)");
  shipped_fini(&s);
}

static void a_tuning_run_prefers_its_own_figures(void **state) {
  shipped_t s;
  mr_cuda_tunings_t t = {0};
  mr_diag_t diag = {0};
  char text[8000];
  shipped_init(&s);
  write_tuning(s.file, "Recorded GPU", 130100, 74);
  assert_says(tuned_beside(s.own, s.folder, true), "16: cuBLASLt, algorithm 73 (measured)");
  FILE *f = fopen(s.own, "r");
  assert_non_null(f);
  size_t n = fread(text, 1, sizeof text, f);
  fclose(f);
  if (mr__cuda_tunings_parse(text, n, &t, &diag) < 0) fail_msg("%s", diag.text);
  assert_int_equal(t.n, 2);
  for (size_t i = 0; i < t.n; i++) assert_int_equal(t.row[i].algorithm[0], 73);
  mr__cuda_tunings_fini(&t);
  assert_says(tuned_beside("off", s.folder, true), "16: cuBLASLt, algorithm 73 (measured)");
  assert_int_not_equal(access("off", F_OK), 0);
  shipped_fini(&s);
}

static void a_damaged_or_foreign_shipped_file_is_left_aside_and_said_once(void **state) {
  static const struct {
    const char *device; /* NULL: no rows, another text */
    uint64_t version;
    const char *says;
  } of[] = {
      {NULL, 0, "line 1: want \"millrace products 1\"; it is not used"},
      {"Another GPU", 130100, "a row of Another GPU with version 130100, want Recorded GPU"},
      {"Recorded GPU", 120900, "a row of Recorded GPU with version 120900, want Recorded GPU"},
  };
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    shipped_t s;
    shipped_init(&s);
    if (of[i].device)
      write_tuning(s.file, of[i].device, of[i].version, 74);
    else
      write_text(s.file, "my notes\n");
    const char *text = tuned_beside(s.own, s.folder, false);
    assert_says(text, "16: cuBLASLt, algorithm 71 (heuristic)");
    assert_says(text, of[i].says);
    assert_null(strstr(strstr(text, "it is not used") + 5, "it is not used"));
    shipped_fini(&s);
  }
}

/* ---- a described device ---- */

/* What a product is planned as: how, kernels, scratch, and the planned peak of a graph. */
static void print_planned(char *text, size_t n) {
  static const mr_dtype_t dtype[] = {MR_BF16, MR_F32, MR_F64};
  const mr_compile_options_t o = {.device = device_here(), .plan_only = true};
  size_t at = 0;
  for (int i = 0; i < 6; i++) {
    mr_diag_t diag = {0};
    mr_exec_t *x = NULL;
    bound_t b;
    mr_fn_t *f = linear_of(dtype[i / 2], 64, 32, 16, i % 2, i == 0);
    mr_var_t *y = f->eqn[f->n_eqn - 1]->out[0];
    assert_int_equal(mr_fn_return(f, 1, &y), MR_OK);
    if (mr_compile(f, &o, &x, &diag) < 0) fail_msg("%s", diag.text);
    size_t peak = mr_exec_peak_bytes(x);
    int unplanned = mr_exec_unplanned(x);
    mr_exec_destroy(x);
    assert_int_equal(lower(&b, f), MR_OK);
    at += (size_t)snprintf(text + at, n - at, "%s; %d kernels, scratch %zu, peak %zu, %d open\n",
                           b.call.how, b.call.kernels, b.call.scratch_bytes, peak, unplanned);
    unbind(&b);
  }
}

static const char description[] =
    "millrace device 1\nname Recorded GPU\ncompute-capability 9.0\nprocessors 132\n"
    "memory 8589934592\ncublaslt 130100\ncudnn 0\nf32-gflops 60000\nbf16-gflops 800000\n"
    "copy-gbs 4000\n";

static const char another[] =
    "millrace device 1\nname Another GPU\ncompute-capability 8.0\nprocessors 108\n"
    "memory 4294967296\ncublaslt 130100\ncudnn 0\nf32-gflops 60000\nbf16-gflops 800000\n"
    "copy-gbs 4000\n";

/* The description at path, and another one beside it. */
static void write_descriptions(const char *path) {
  char other[140];
  write_text(path, description);
  snprintf(other, sizeof other, "%s.other", path);
  write_text(other, another);
}

static int described_child(const char *file) {
  const mr_device_t *b, *other, *real;
  mr_diag_t diag = {0};
  char text[3000], name[300];
  snprintf(name, sizeof name, "cuda:described=%s", file);
  if (mr_device_open_to_plan(name, &b, &diag) < 0) return puts(diag.text), 0;
  opened = b;
  print_planned(text, sizeof text);
  fputs(text, stdout);
  printf("asked %d, started %d, events %d, taken %zu\n", asked, starts, events, taken);
  printf("%zu bytes; %d\n", mr_device_room(b), mr_device_take(b, 64) != NULL);
  mr_exec_t *x = NULL;
  mr_fn_t *f = linear_of(MR_BF16, 64, 32, 16, true, false);
  const mr_compile_options_t o = {.device = b};
  if (mr_compile(f, &o, &x, &diag) < 0) puts(diag.text);
  mr_fn_destroy(f);
  diag = (mr_diag_t){0};
  /* Beside it: another one that is described, and one that is there. */
  strcat(name, ".other");
  if (mr_device_open_to_plan(name, &other, &diag) < 0 || mr_device_open("cuda", &real, &diag) < 0)
    return puts(diag.text), 1;
  printf("%s has %zu bytes, %s is number %d\n", mr__cuda_use(other)->name, mr_device_room(other),
         real->name, real->index);
  mr_device_close(other);
  printf("still %zu bytes and algorithm %s\n", mr_device_room(b),
         mr__cuda_use(b)->described ? "as described" : "none");
  return 0;
}

/* The recorded library's first algorithm has no workspace: both plans are the same. */
static void a_described_device_plans_as_the_device_itself(void **state) {
  shipped_t s;
  char here[3000], file[120], at[200];
  shipped_init(&s);
  snprintf(file, sizeof file, "%s/gpu.txt", s.folder);
  snprintf(at, sizeof at, "described=%s", file);
  write_descriptions(file);
  print_planned(here, sizeof here);
  const char *text = tuned_beside(at, s.folder, false);
  assert_says(text, "cuBLASLt, algorithm chosen on the device, sums in f32; 1 kernels, scratch 0");
  assert_says(text, "asked 0, started 0, events 0, taken 0"); /* nothing of CUDA is called */
  assert_says(text, "8589934592 bytes; 0");
  assert_says(text, "Recorded GPU is only described here, and computes nothing");
  assert_says(text, "Another GPU has 4294967296 bytes, cuda:0 is number 0");
  assert_says(text, "still 8589934592 bytes and algorithm as described");
  const char *a = here, *b = text;
  for (int i = 0; i < 6; i++) { /* but for the algorithm and what is open */
    a = strstr(a, " kernels, "), b = strstr(b, " kernels, ");
    assert_non_null(a);
    assert_non_null(b);
    size_t n = (size_t)(strstr(a, " open") - a) - 1;
    assert_memory_equal(a, b, n);
    assert_int_equal(a[n], '0');
    assert_int_equal(b[n], '1');
    a++, b++;
  }
  shipped_fini(&s);
}

static void a_described_device_has_the_algorithms_of_tuning_files(void **state) {
  shipped_t s;
  char file[120], at[200];
  shipped_init(&s);
  snprintf(file, sizeof file, "%s/gpu.txt", s.folder);
  snprintf(at, sizeof at, "described=%s", file);
  write_descriptions(file);
  write_tuning(s.file, "Recorded GPU", 130100, 74);
  const char *text = tuned_beside(at, s.folder, false);
  assert_says(text, "cuBLASLt, algorithm 74 (shipped), sums in f32; 1 kernels, scratch 12288");
  shipped_fini(&s);
}

/* "compute_89a" is no architecture: the instructions that 9.0 alone has need its own code. */
static void kernels_are_compiled_for_what_the_compiler_knows(void **state) {
  static const struct {
    int known;
    const char *says;
  } of[] = {{90, "--gpu-architecture=sm_90a"},
            {89, "--gpu-architecture=compute_89"},
            {80, "--gpu-architecture=compute_80"}};
  mr_cuda_device_t *d = mr__cuda_use(device_here());
  cudaKernel_t kernel;
  mr_diag_t diag = {0};
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    char text[40];
    const mr_cuda_wanted_t want = {text, &kernel};
    snprintf(text, sizeof text, "KERNEL k() { /* %d */ }", of[i].known);
    known_arch = of[i].known;
    if (mr__cuda_kernels(d, &want, 1, &diag) < 0) fail_msg("%s", diag.text);
    assert_string_equal(compiled_for, of[i].says);
  }
  known_arch = 100; /* for newer devices alone */
  const mr_cuda_wanted_t want = {"KERNEL k() { /* none */ }", &kernel};
  assert_int_equal(mr__cuda_kernels(d, &want, 1, &diag), MR_ERR_UNAVAILABLE);
  assert_non_null(strstr(diag.text, "compiles for no device like Recorded GPU"));
  known_arch = 90;
}

/* The limit of bf16 is timed by the device's clock: 5 us a product here.  Its operands are filled
   with numbers: no bits of an infinity or NaN come of the masks. */
static void the_limit_of_bf16_is_a_large_product(void **state) {
  double rate = mr__cuda_fma(device_here(), MR_BF16, 1);
  assert_int_equal(last.a.rows, 8192);
  assert_int_equal(last.d.cols, 8192);
  assert_true(fabs(rate / (2.0 * 8192 * 8192 * 8192 / 5000) - 1) < 1e-3);
  assert_true(filled[1] * 4 >= (uint64_t)3 * 8192 * 8192 * 2);
  for (int i = 0; i < 4; i++) {
    uint16_t drawn = (uint16_t)(filled[2] >> 16 * i), set = (uint16_t)(filled[3] >> 16 * i);
    assert_int_equal(drawn & set, 0);
    assert_true(((drawn | set) & 0x7F80) != 0x7F80 && (set & 0x7F80));
  }
  assert_int_equal(living, 0);
}

/* Last: a device that has failed stays so. */
static void a_product_that_fails_is_said(void **state) {
  bound_t b;
  mr_diag_t diag = {0};
  said[0] = 0;
  mr_notice_to(keep_notice, NULL);
  assert_int_equal(lower(&b, linear_of(MR_BF16, 64, 32, 16, true, false)), MR_OK);
  refuses = CUBLAS_STATUS_EXECUTION_FAILED;
  b.call.run(&b.call);
  assert_non_null(strstr(said, "linear failed with CUBLAS_STATUS_RECORDED"));
  assert_int_equal(mr__cuda_usable(device_here(), &diag), MR_ERR_UNAVAILABLE);
  mr_notice_to(NULL, NULL);
  unbind(&b);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_projection_is_asked_for_as_planned),
      cmocka_unit_test(f32_is_multiplied_as_f32_alone),
      cmocka_unit_test(a_batch_of_products_has_strides),
      cmocka_unit_test(rows_of_a_scan_are_asked_for_as_they_lie),
      cmocka_unit_test(copies_come_before_the_workspace),
      cmocka_unit_test(products_without_an_algorithm_are_left_to_a_kernel),
      cmocka_unit_test(a_library_that_fails_is_said_once),
      cmocka_unit_test(algorithms_are_measured_once_and_kept),
      cmocka_unit_test(a_tuning_file_that_others_may_write_is_left_aside),
      cmocka_unit_test(a_damaged_tuning_file_is_left_aside_and_said_once),
      cmocka_unit_test(an_algorithm_that_the_library_refuses_is_not_used),
      cmocka_unit_test(a_shipped_file_has_what_the_users_own_lacks),
      cmocka_unit_test(a_tuning_run_prefers_its_own_figures),
      cmocka_unit_test(a_damaged_or_foreign_shipped_file_is_left_aside_and_said_once),
      cmocka_unit_test(a_described_device_plans_as_the_device_itself),
      cmocka_unit_test(a_described_device_has_the_algorithms_of_tuning_files),
      cmocka_unit_test(kernels_are_compiled_for_what_the_compiler_knows),
      cmocka_unit_test(the_limit_of_bf16_is_a_large_product),
      cmocka_unit_test(a_product_that_fails_is_said),
  };
  mr__cuda_api_put(&driver);
  mr__cublaslt_put(&lt);
  mr__nvrtc_put(&compiler);
  setenv("MILLRACE_KERNELS", "off", 1);
  if (argc > 1 && !strncmp(argv[1], "described=", 10)) return described_child(argv[1] + 10);
  if (argc > 1) return tuned_child(argv[1]);
  unsetenv("MILLRACE_TUNE");
  setenv("MILLRACE_TUNING", "/nonexistent/products.txt", 1);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
