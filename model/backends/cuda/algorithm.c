/* Chooses cuBLASLt's algorithm for a product: by a tuning file (tuned.h), by
   measuring, or by the library's own heuristic. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "model/backends/cuda/matmul.h"
#include "model/backends/cuda/tuned.h"

enum { CANDIDATES = 32, ALIGN = 64 /* bytes, of parameters; of other arrays it is more */ };

/* ---- the handle ---- */

mr_err_t mr__cublaslt_handle(mr_cuda_device_t *d, const mr_cublaslt_t *lt, cublasLtHandle_t *handle,
                             mr_diag_t *diag) {
  pthread_mutex_lock(&d->lt.lock);
  /* What has failed is not asked again for each product: the library keeps memory each time. */
  if (d->lt.of != lt && d->lt.refused != lt) {
    d->lt.why = lt->cublasLtCreate(&d->lt.handle);
    *(d->lt.why == CUBLAS_STATUS_SUCCESS ? &d->lt.of : &d->lt.refused) = lt;
  }
  cublasStatus_t s = d->lt.of == lt ? CUBLAS_STATUS_SUCCESS : d->lt.why;
  *handle = d->lt.handle;
  pthread_mutex_unlock(&d->lt.lock);
  if (s == CUBLAS_STATUS_SUCCESS) return MR_OK;
  return mr_fail(diag, MR_ERR_UNAVAILABLE, "device cuda: %s does not start: %s", lt->path,
                 lt->cublasLtGetStatusName(s));
}

void mr__cublaslt_end(mr_cuda_device_t *d) {
  if (d->lt.of) d->lt.of->cublasLtDestroy(d->lt.handle);
  d->lt.of = NULL;
}

/* ---- the choice ---- */

static int algorithm_id(const mr_cublaslt_t *lt, const cublasLtMatmulAlgo_t *algo) {
  int32_t id = -1;
  size_t n = 0;
  lt->cublasLtMatmulAlgoConfigGetAttribute(algo, CUBLASLT_ALGO_CONFIG_ID, &id, sizeof id, &n);
  return id;
}

/* Parts of a long sum are added in f32, in a fixed order: results are the same on every run.
   align: of a, b, c and d. */
static cublasStatus_t set_preferences(const mr_cublaslt_t *lt, const uint32_t align[4],
                                      cublasLtMatmulPreference_t pref) {
  static const cublasLtMatmulPreferenceAttributes_t aligned[] = {
      CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
      CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
  const uint64_t most = MR_CUDA_WORKSPACE;
  const uint32_t sums = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  cublasStatus_t s = lt->cublasLtMatmulPreferenceSetAttribute(
      pref, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof most);
  if (s == CUBLAS_STATUS_SUCCESS)
    s = lt->cublasLtMatmulPreferenceSetAttribute(pref, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                                 &sums, sizeof sums);
  for (int i = 0; i < 4 && s == CUBLAS_STATUS_SUCCESS; i++)
    s = lt->cublasLtMatmulPreferenceSetAttribute(pref, aligned[i], &align[i], sizeof align[i]);
  return s;
}

/* The heuristic's answers, at most `most`, those first that it expects to be fast; *kept of them
   can be used. */
static cublasStatus_t ask_heuristic(const mr_cuda_matmul_t *m, const uint32_t align[4],
                                    cublasLtHandle_t handle, int most,
                                    cublasLtMatmulHeuristicResult_t *found, int *kept) {
  cublasLtMatmulPreference_t pref;
  int n = 0;
  *kept = 0;
  cublasStatus_t s = m->lt->cublasLtMatmulPreferenceCreate(&pref);
  if (s != CUBLAS_STATUS_SUCCESS) return s;
  s = set_preferences(m->lt, align, pref);
  if (s == CUBLAS_STATUS_SUCCESS)
    s = m->lt->cublasLtMatmulAlgoGetHeuristic(handle, m->desc, m->a, m->b, m->d, m->d, pref, most,
                                              found, &n);
  m->lt->cublasLtMatmulPreferenceDestroy(pref);
  for (int i = 0; s == CUBLAS_STATUS_SUCCESS && i < n; i++)
    if (found[i].state == CUBLAS_STATUS_SUCCESS && found[i].workspaceSize <= MR_CUDA_WORKSPACE)
      found[(*kept)++] = found[i];
  return s;
}

static void take_result(const mr_cuda_matmul_t *m, const cublasLtMatmulHeuristicResult_t *r,
                        mr_cuda_chosen_t by, mr_cuda_algorithm_t *out) {
  *out = (mr_cuda_algorithm_t){r->algo, r->workspaceSize, algorithm_id(m->lt, &r->algo), by};
}

/* A row of a tuning file, if the library takes its algorithm for m. */
static bool take_tuning_row(const mr_cuda_matmul_t *m, cublasLtHandle_t handle,
                            const mr_cuda_tuning_t *row, mr_cuda_chosen_t by,
                            mr_cuda_algorithm_t *out) {
  cublasLtMatmulHeuristicResult_t r = {0};
  cublasLtMatmulAlgo_t algo;
  _Static_assert(sizeof algo == sizeof row->algorithm, "8 numbers");
  memcpy(&algo, row->algorithm, sizeof algo);
  if (m->lt->cublasLtMatmulAlgoCheck(handle, m->desc, m->a, m->b, m->d, m->d, &algo, &r) !=
          CUBLAS_STATUS_SUCCESS ||
      r.workspaceSize > MR_CUDA_WORKSPACE)
    return false;
  r.algo = algo;
  return take_result(m, &r, by, out), true;
}

/* The shipped file is for those who have not measured: who asks for measurements gets their own. */
static bool take_tuned(const mr_cuda_matmul_t *m, cublasLtHandle_t handle, const char *device,
                       const char *product, mr_cuda_algorithm_t *out) {
  const uint64_t version = m->lt->version;
  mr_cuda_tuning_t row;
  if (mr__cuda_tuned_own(device, version, product, &row) &&
      take_tuning_row(m, handle, &row, MR_CUDA_MEASURED, out))
    return true;
  return !mr__cuda_tuned_asked() && mr__cuda_tuned_shipped(device, version, product, &row) &&
         take_tuning_row(m, handle, &row, MR_CUDA_SHIPPED, out);
}

static void keep_measured(mr_cuda_device_t *d, const mr_cublaslt_t *lt, const char *product,
                          const cublasLtMatmulHeuristicResult_t *r, uint64_t ns) {
  mr_cuda_tuning_t row = {.version = lt->version, .workspace = r->workspaceSize, .ns = ns};
  snprintf(row.device, sizeof row.device, "%s", d->name);
  snprintf(row.product, sizeof row.product, "%s", product);
  memcpy(row.algorithm, &r->algo, sizeof row.algorithm);
  mr__cuda_tuned_put(&row);
}

mr_err_t mr__cuda_algorithm(mr_cuda_device_t *d, const mr_product_t *p, size_t align,
                            const mr_cuda_matmul_t *m, mr_cuda_algorithm_t *out, mr_diag_t *diag) {
  const uint32_t in_place = align < ALIGN ? (uint32_t)align : ALIGN; /* copies are in the scratch */
  const uint32_t aligned[4] = {p->a.n_parts ? ALIGN : in_place, p->b.n_parts ? ALIGN : in_place,
                               in_place, in_place};
  cublasLtMatmulHeuristicResult_t found[CANDIDATES];
  char product[MR_PRODUCT_TEXT];
  cublasLtHandle_t handle;
  uint64_t ns;
  mr__product_text(p, product);
  MR_TRY(mr__cublaslt_handle(d, m->lt, &handle, diag));
  /* No address yet, but the alignment that a bias has: a bias is read in place. */
  if (p->bias >= 0 &&
      mr__cuda_matmul_bias(m, (const void *)(uintptr_t)in_place) != CUBLAS_STATUS_SUCCESS)
    return MR_ERR_NORULE;
  if (in_place == ALIGN && take_tuned(m, handle, d->name, product, out)) return MR_OK;
  bool tunes = mr__cuda_tuned_asked() && in_place == ALIGN;
  int n, best = -1;
  cublasStatus_t s = ask_heuristic(m, aligned, handle, tunes ? CANDIDATES : 1, found, &n);
  /* NOT_SUPPORTED: there is no algorithm for this product, as the contract of the call has it. */
  if (s != CUBLAS_STATUS_SUCCESS && s != CUBLAS_STATUS_NOT_SUPPORTED)
    return mr_fail(diag, MR_ERR_UNAVAILABLE,
                   "device cuda: cuBLASLt finds no algorithm for the product %s: %s", product,
                   m->lt->cublasLtGetStatusName(s));
  if (!n) return MR_ERR_NORULE;
  if (tunes && (best = mr__cuda_tune(d, handle, p, m, found, n, &ns)) >= 0)
    keep_measured(d, m->lt, product, &found[best], ns);
  take_result(m, &found[best < 0 ? 0 : best], best < 0 ? MR_CUDA_HEURISTIC : MR_CUDA_MEASURED, out);
  return MR_OK;
}

void mr__cuda_algorithm_described(const mr_cuda_described_t *d, const mr_product_t *p, size_t align,
                                  const mr_cublaslt_t *lt, mr_cuda_algorithm_t *out) {
  char product[MR_PRODUCT_TEXT];
  mr_cuda_tuning_t row;
  *out = (mr_cuda_algorithm_t){.id = -1, .by = MR_CUDA_UNKNOWN};
  mr__product_text(p, product);
  if (align < ALIGN) return;
  bool own = mr__cuda_tuned_own(d->name, d->cublaslt, product, &row);
  if (!own && !mr__cuda_tuned_shipped(d->name, d->cublaslt, product, &row)) return;
  memcpy(&out->algo, row.algorithm, sizeof row.algorithm);
  out->workspace = row.workspace;
  out->by = own ? MR_CUDA_MEASURED : MR_CUDA_SHIPPED;
  if (lt) out->id = algorithm_id(lt, &out->algo);
}
