/* A plan as cuBLASLt's descriptors, and one product of them.

   Compute types: operands of 16 bits take CUBLAS_COMPUTE_32F, exact products
   with sums in f32, on tensor cores.  Operands of f32 take
   CUBLAS_COMPUTE_32F_PEDANTIC and not CUBLAS_COMPUTE_32F, which lets the
   environment (CUBLAS_EMULATE_SINGLE_PRECISION) replace f32 by emulation; no
   type used here rounds f32 to TF32. */
#include "model/backends/cuda/matmul.h"

#include <string.h>

static cudaDataType_t lt_type(mr_dtype_t t) {
  switch (t) {
    case MR_BF16: return CUDA_R_16BF;
    case MR_F16: return CUDA_R_16F;
    case MR_F64: return CUDA_R_64F;
    default: return CUDA_R_32F;
  }
}

static cublasComputeType_t lt_compute(const mr_product_t *p) {
  switch (p->sums) {
    case MR_PRODUCT_F64: return CUBLAS_COMPUTE_64F;
    case MR_PRODUCT_F32_PLAIN: return CUBLAS_COMPUTE_32F_PEDANTIC;
    default: return CUBLAS_COMPUTE_32F;
  }
}

static cudaDataType_t lt_scale(const mr_product_t *p) {
  return p->sums == MR_PRODUCT_F64 ? CUDA_R_64F : CUDA_R_32F;
}

static cublasStatus_t set_layout(const mr_cublaslt_t *lt, cublasLtMatrixLayout_t l, int64_t batch,
                                 int64_t stride) {
  int32_t n = (int32_t)batch;
  cublasStatus_t s =
      lt->cublasLtMatrixLayoutSetAttribute(l, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &n, sizeof n);
  if (s != CUBLAS_STATUS_SUCCESS) return s;
  return lt->cublasLtMatrixLayoutSetAttribute(l, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                              &stride, sizeof stride);
}

static cublasStatus_t describe_operand(const mr_cublaslt_t *lt, const mr_product_operand_t *o,
                                       int64_t batch, cublasLtMatrixLayout_t *l) {
  cublasStatus_t s = lt->cublasLtMatrixLayoutCreate(l, lt_type(o->dtype), (uint64_t)o->rows,
                                                    (uint64_t)o->cols, o->ld);
  if (s != CUBLAS_STATUS_SUCCESS) return *l = NULL, s;
  return batch > 1 ? set_layout(lt, *l, batch, o->batch_stride) : s;
}

static cublasStatus_t describe_result(const mr_cublaslt_t *lt, const mr_product_t *p,
                                      cublasLtMatrixLayout_t *l) {
  cublasStatus_t s =
      lt->cublasLtMatrixLayoutCreate(l, lt_type(p->d), (uint64_t)p->m, (uint64_t)p->n, p->d_ld);
  if (s != CUBLAS_STATUS_SUCCESS) return *l = NULL, s;
  return p->batch > 1 ? set_layout(lt, *l, p->batch, p->d_batch) : s;
}

static cublasStatus_t describe_product(const mr_cublaslt_t *lt, const mr_product_t *p,
                                       cublasLtMatmulDesc_t *desc) {
  cublasOperation_t a = p->a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
                    b = p->b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  cublasLtEpilogue_t bias = CUBLASLT_EPILOGUE_BIAS;
  int32_t of_bias = lt_type(p->d);
  cublasStatus_t s = lt->cublasLtMatmulDescCreate(desc, lt_compute(p), lt_scale(p));
  if (s != CUBLAS_STATUS_SUCCESS) return *desc = NULL, s;
  s = lt->cublasLtMatmulDescSetAttribute(*desc, CUBLASLT_MATMUL_DESC_TRANSA, &a, sizeof a);
  if (s == CUBLAS_STATUS_SUCCESS)
    s = lt->cublasLtMatmulDescSetAttribute(*desc, CUBLASLT_MATMUL_DESC_TRANSB, &b, sizeof b);
  if (s != CUBLAS_STATUS_SUCCESS || p->bias < 0) return s;
  s = lt->cublasLtMatmulDescSetAttribute(*desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &bias, sizeof bias);
  if (s == CUBLAS_STATUS_SUCCESS)
    s = lt->cublasLtMatmulDescSetAttribute(*desc, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &of_bias,
                                           sizeof of_bias);
  return s;
}

mr_err_t mr__cuda_matmul(const mr_cublaslt_t *lt, const mr_product_t *p, mr_cuda_matmul_t *m,
                         mr_diag_t *diag) {
  *m = (mr_cuda_matmul_t){.lt = lt};
  cublasStatus_t s = describe_product(lt, p, &m->desc);
  if (s == CUBLAS_STATUS_SUCCESS) s = describe_operand(lt, &p->a, p->batch, &m->a);
  if (s == CUBLAS_STATUS_SUCCESS) s = describe_operand(lt, &p->b, p->batch, &m->b);
  if (s == CUBLAS_STATUS_SUCCESS) s = describe_result(lt, p, &m->d);
  if (s == CUBLAS_STATUS_SUCCESS) return MR_OK;
  char text[MR_PRODUCT_TEXT];
  return mr_fail(diag, MR_ERR_UNAVAILABLE, "device cuda: cuBLASLt refuses the product %s: %s",
                 mr__product_text(p, text), lt->cublasLtGetStatusName(s));
}

void mr__cuda_matmul_fini(mr_cuda_matmul_t *m) {
  if (m->d) m->lt->cublasLtMatrixLayoutDestroy(m->d);
  if (m->b) m->lt->cublasLtMatrixLayoutDestroy(m->b);
  if (m->a) m->lt->cublasLtMatrixLayoutDestroy(m->a);
  if (m->desc) m->lt->cublasLtMatmulDescDestroy(m->desc);
  *m = (mr_cuda_matmul_t){0};
}

cublasStatus_t mr__cuda_matmul_bias(const mr_cuda_matmul_t *m, const void *bias) {
  return m->lt->cublasLtMatmulDescSetAttribute(m->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias,
                                               sizeof bias);
}

cublasStatus_t mr__cuda_matmul_start(const mr_cuda_matmul_t *m, cublasLtHandle_t handle,
                                     const mr_product_t *p, const cublasLtMatmulAlgo_t *algo,
                                     const void *a, const void *b, const void *bias, void *d,
                                     void *workspace, size_t bytes, cudaStream_t stream) {
  const float one = 1, zero = 0;
  const double one_wide = 1, zero_wide = 0;
  bool wide = p->sums == MR_PRODUCT_F64;
  if (bias) {
    cublasStatus_t s = mr__cuda_matmul_bias(m, bias);
    if (s != CUBLAS_STATUS_SUCCESS) return s;
  }
  return m->lt->cublasLtMatmul(handle, m->desc, wide ? (const void *)&one_wide : &one, a, m->a, b,
                               m->b, wide ? (const void *)&zero_wide : &zero, d, m->d, d, m->d,
                               algo, bytes ? workspace : NULL, bytes, stream);
}
