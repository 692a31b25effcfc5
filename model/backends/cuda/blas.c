/* Lowers products to cuBLASLt.  The scratch of a call holds the copies of
   operands, then the workspace that the algorithm asks for, so that both lie in
   the planned arena. */
#include "model/backends/cuda/blas.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "model/backends/cuda/matmul.h"
#include "model/backends/cuda/switch.h"
#include "model/ir/op.h"

typedef struct blas_state {
  mr_product_t plan;
  mr_cuda_matmul_t matmul;
  mr_cuda_algorithm_t algorithm;
  cublasLtHandle_t handle;
  mr_kernels_t copies;
  cudaKernel_t kernel[2]; /* of copies; NULL until built */
  char how[80];
} blas_state_t;

static void blas_fini(void *state) {
  blas_state_t *s = state;
  mr__cuda_matmul_fini(&s->matmul);
  mr_kernels_fini(&s->copies);
  free(s);
}

static const void *operand_at(const mr_call_t *c, const mr_product_operand_t *o) {
  return o->n_parts ? (const char *)c->scratch + o->at : c->in[o->in];
}

static void blas_run(const mr_call_t *c) {
  const blas_state_t *s = c->state;
  const mr_product_t *p = &s->plan;
  mr_cuda_device_t *d = mr__cuda_use(c->device);
  void *arg[5];
  int n = 0;
  for (int k = 0; k < c->eqn->n_in; k++) arg[n++] = c->in[k];
  arg[n++] = c->out[0];
  arg[n++] = c->scratch;
  cudaError_t copied = cudaSuccess;
  for (int i = 0; i < s->copies.n && copied == cudaSuccess; i++) {
    const mr_kernel_t *k = &s->copies.kernel[i];
    copied = mr__cuda_launch(d, s->kernel[i], k->items, k->group, arg, n);
  }
  if (copied != cudaSuccess) {
    mr__cuda_ran(d, c, copied);
    return;
  }
  cublasStatus_t code = mr__cuda_matmul_start(
      &s->matmul, s->handle, p, &s->algorithm.algo, operand_at(c, &p->a), operand_at(c, &p->b),
      p->bias < 0 ? NULL : c->in[p->bias], c->out[0], (char *)c->scratch + p->copies,
      s->algorithm.workspace, mr__cuda_stream(d));
  if (code != CUBLAS_STATUS_SUCCESS)
    mr__cuda_refused(c, s->matmul.lt->cublasLtGetStatusName(code));
  else
    mr__cuda_ran(d, c, cudaSuccess);
}

static pthread_once_t missing_said = PTHREAD_ONCE_INIT;

static void say_missing(void) {
  const mr_cublaslt_t *lt;
  mr_diag_t why = {0};
  if (mr__cublaslt(&lt, &why) < 0) mr_notice("%s", why.text);
}

/* Once a device: its products go to kernels that are slow, and nothing else would say why. */
static void say_library_failed(mr_cuda_device_t *d, const mr_cublaslt_t *lt, const mr_diag_t *why) {
  pthread_mutex_lock(&d->lt.lock);
  bool first = d->lt.said != lt;
  d->lt.said = lt;
  pthread_mutex_unlock(&d->lt.lock);
  if (first)
    mr_notice("%s, so that products are computed by generated kernels, which are slow", why->text);
}

/* Plans e and chooses its algorithm, for addresses that are multiples of `align`
   bytes.  MR_ERR_NORULE if cuBLASLt does not take it, and a notice if it fails; the caller ends
   s->matmul in any case. */
static mr_err_t blas_choose_described(const mr_cuda_described_t *d, size_t align, blas_state_t *s) {
  const mr_cublaslt_t *lt;
  if (!d->cublaslt) return MR_ERR_NORULE;
  if (mr__cublaslt(&lt, NULL) < 0) lt = NULL;
  mr__cuda_algorithm_described(d, &s->plan, align, lt, &s->algorithm);
  return MR_OK;
}

static mr_err_t blas_choose(mr_cuda_device_t *d, const mr_eqn_t *eqn, size_t align,
                            blas_state_t *s) {
  const mr_cublaslt_t *lt;
  mr_diag_t why = {0};
  if (mr__cuda_is_off(MR_CUDA_SWITCH_CUBLASLT) || !mr__product(eqn, &s->plan)) return MR_ERR_NORULE;
  if (d->described) return blas_choose_described(d->described, align, s);
  if (mr__cublaslt(&lt, NULL) < 0) {
    pthread_once(&missing_said, say_missing);
    return MR_ERR_NORULE;
  }
  mr_err_t e = mr__cublaslt_handle(d, lt, &s->handle, &why);
  if (e >= 0) e = mr__cuda_matmul(lt, &s->plan, &s->matmul, &why);
  if (e >= 0) e = mr__cuda_algorithm(d, &s->plan, align, &s->matmul, &s->algorithm, &why);
  if (e != MR_ERR_UNAVAILABLE) return e;
  say_library_failed(d, lt, &why);
  return MR_ERR_NORULE;
}

bool mr__cuda_blas_takes(mr_cuda_device_t *d, const mr_eqn_t *e) {
  blas_state_t s = {0};
  mr_err_t err = blas_choose(d, e, 64, &s);
  mr__cuda_matmul_fini(&s.matmul);
  return err == MR_OK;
}

static void blas_describe(mr_call_t *c, blas_state_t *s) {
  static const char *const how[] = {"sums in f32", "f32", "f64"};
  static const char *const by[] = {"heuristic", "measured", "chosen on the device", "shipped"};
  if (s->algorithm.id >= 0)
    snprintf(s->how, sizeof s->how, "cuBLASLt, algorithm %d (%s), %s", s->algorithm.id,
             by[s->algorithm.by], how[s->plan.sums]);
  else
    snprintf(s->how, sizeof s->how, "cuBLASLt, algorithm %s, %s", by[s->algorithm.by],
             how[s->plan.sums]);
  c->how = s->how;
  mr__product_notes(c->eqn, &s->plan, c->note);
}

mr_err_t mr__cuda_blas_lower(mr_call_t *c, mr_diag_t *diag) {
  blas_state_t *s = calloc(1, sizeof *s);
  if (!s) return mr_no_memory(diag, "the lowering of %s", c->eqn->op->name);
  mr_err_t err = blas_choose(mr__cuda_use(c->device), c->eqn, mr__call_align(c), s);
  if (err == MR_OK) err = mr__product_copies(c->eqn, &s->plan, &s->copies, diag);
  if (err < 0) {
    blas_fini(s);
    return err;
  }
  c->state = s, c->fini = blas_fini, c->run = blas_run;
  c->scratch_bytes = s->plan.copies + s->algorithm.workspace;
  c->scratch_unknown = s->algorithm.by == MR_CUDA_UNKNOWN;
  c->kernels = 1 + s->copies.n;
  blas_describe(c, s);
  return MR_OK;
}

int mr__cuda_blas_wanted(const mr_call_t *c, mr_cuda_wanted_t *want) {
  if (c->run != blas_run) return 0;
  blas_state_t *s = c->state;
  for (int i = 0; i < s->copies.n; i++)
    want[i] = (mr_cuda_wanted_t){s->copies.kernel[i].text, &s->kernel[i]};
  return s->copies.n;
}
