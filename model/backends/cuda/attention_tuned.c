/* Measures as tune.c does: by the device's clock, on drawn numbers, on arrays that change from run
   to run.  A row of attention has the version of cuDNN; the first number of its algorithm is 1 for
   the kernel and 0 for cuDNN, and the others are 0. */
#include "model/backends/cuda/attention_tuned.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "model/backends/cuda/attention.h"
#include "model/backends/cuda/matmul.h"
#include "model/backends/cuda/program.h"
#include "model/backends/cuda/tuned.h"
#include "model/backends/kernels/kernel.h"
#include "model/ops/lax.h"
#include "model/ops/operands.h"

enum {
  ENDS = 9, /* operands and results at most */
  SETS = 8, /* of arrays, at most */
  RUNS = 16,
  BEYOND_CACHE = 160 << 20 /* bytes of all sets, as in tune.c */
};

typedef struct trial {
  mr_cuda_device_t *d;
  mr_call_t call; /* cuDNN's, on arrays of the trial */
  cudaKernel_t kernel;
  int64_t items;
  int group, n_in, n_out, sets;
  char *block; /* sets of arrays, then the scratch */
  size_t bytes, set, at[ENDS];
} trial_t;

static size_t trial_room(size_t n) { return (n + 255) & ~(size_t)255; }

static const char *attention_text(const mr_eqn_t *e, char text[MR_PRODUCT_TEXT]) {
  mr_attention_sizes_t s = mr__attention_sizes(e);
  snprintf(text, MR_PRODUCT_TEXT, "%s B=%" PRId64 " T=%" PRId64 " H=%" PRId64 " D=%" PRId64 " %s%s",
           e->op->name, s.B, s.T, s.H, s.D, mr_dtype_name(e->in[0]->aval.dtype),
           s.packed ? " packed" : "");
  return text;
}

/* Draws finite bf16 and f16 of both signs in all sets. */
static bool trial_fill(const trial_t *t) {
  cudaKernel_t kernel = NULL;
  const mr_cuda_wanted_t want = {mr__cuda_fill_text, &kernel};
  uint64_t n = t->set * (uint64_t)t->sets / sizeof(uint32_t);
  void *arg[] = {t->block, (void *)(uintptr_t)n, (void *)(uintptr_t)0x83FF83FF83FF83FF,
                 (void *)(uintptr_t)0x3000300030003000};
  return mr__cuda_kernels(t->d, &want, 1, NULL) == MR_OK &&
         mr__cuda_launch(t->d, kernel, (int64_t)n, 0, arg, 4) == cudaSuccess;
}

static bool trial_kernel(trial_t *t, const mr_eqn_t *e) {
  mr_kernels_t k = {0};
  if (mr_kernels_write(e, 64, &k, NULL) < 0) return false;
  const mr_cuda_wanted_t want = {k.kernel[0].text, &t->kernel};
  t->items = k.kernel[0].items, t->group = k.kernel[0].group;
  bool built = mr__cuda_kernels(t->d, &want, 1, NULL) == MR_OK;
  mr_kernels_fini(&k);
  return built;
}

/* Places operands and results in a set; false without memory. */
static bool trial_begin(trial_t *t, const mr_call_t *c) {
  const mr_eqn_t *e = c->eqn;
  t->call = *c;
  t->n_in = e->n_in, t->n_out = e->n_out;
  for (int i = 0; i < t->n_in + t->n_out; i++) {
    const mr_var_t *v = i < t->n_in ? e->in[i] : e->out[i - t->n_in];
    t->at[i] = t->set;
    t->set += trial_room(mr_aval_bytes(&v->aval));
  }
  t->sets = (int)(BEYOND_CACHE / t->set) + 1;
  if (t->sets > SETS) t->sets = SETS;
  t->bytes = t->set * (size_t)t->sets + trial_room(c->scratch_bytes);
  t->block = mr__cuda_take(t->d->device, t->bytes);
  return t->block != NULL;
}

static bool trial_run(trial_t *t, int turn, bool own) {
  void *end[ENDS];
  char *set = t->block + t->set * (size_t)(turn % t->sets);
  for (int i = 0; i < t->n_in + t->n_out; i++) end[i] = set + t->at[i];
  if (own)
    return mr__cuda_launch(t->d, t->kernel, t->items, t->group, end, t->n_in + t->n_out) ==
           cudaSuccess;
  t->call.in = end, t->call.out = end + t->n_in;
  t->call.scratch = t->block + t->set * (size_t)t->sets;
  t->call.run(&t->call);
  return true;
}

/* The time of one run in milliseconds; negative if it failed. */
static float trial_time(trial_t *t, cudaEvent_t begin, cudaEvent_t end, bool own) {
  const mr_cuda_api_t *cu = t->d->cu;
  float ms = -1;
  bool ran = true;
  for (int i = 0; i < 2; i++) ran &= trial_run(t, i, own);
  cu->cudaEventRecord(begin, mr__cuda_stream(t->d));
  for (int i = 0; i < RUNS; i++) ran &= trial_run(t, i, own);
  cu->cudaEventRecord(end, mr__cuda_stream(t->d));
  if (cu->cudaEventSynchronize(end) != cudaSuccess || !ran ||
      cu->cudaEventElapsedTime(&ms, begin, end) != cudaSuccess)
    return -1;
  return ms / RUNS;
}

/* Measures both; false if one of them fails. */
static bool trial_compare(trial_t *t, bool *own, uint64_t *ns) {
  const mr_cuda_api_t *cu = t->d->cu;
  cudaEvent_t begin, end;
  if (cu->cudaEventCreateWithFlags(&begin, cudaEventBlockingSync) != cudaSuccess) return false;
  if (cu->cudaEventCreateWithFlags(&end, cudaEventBlockingSync) != cudaSuccess)
    return cu->cudaEventDestroy(begin), false;
  float theirs = trial_time(t, begin, end, false), ours = trial_time(t, begin, end, true);
  cu->cudaEventDestroy(begin), cu->cudaEventDestroy(end);
  *own = ours < theirs;
  *ns = (uint64_t)((double)(*own ? ours : theirs) * 1e6);
  return ours >= 0 && theirs >= 0;
}

static bool attention_measure(mr_cuda_device_t *d, const mr_call_t *c, mr_cuda_tuning_t *row) {
  trial_t t = {.d = d};
  bool own = false, measured = trial_kernel(&t, c->eqn) && trial_begin(&t, c);
  measured = measured && trial_fill(&t) && trial_compare(&t, &own, &row->ns);
  mr__cuda_give(d->device, t.block, t.bytes);
  row->algorithm[0] = own;
  return measured;
}

bool mr__cuda_attention_own_is_faster(const mr_call_t *c) {
  mr_cuda_device_t *d = mr__cuda_use(c->device);
  char text[MR_PRODUCT_TEXT];
  mr_cuda_tuning_t row;
  uint64_t version = d->described ? (uint64_t)d->described->cudnn : mr__cuda_attention_version();
  attention_text(c->eqn, text);
  if (mr__cuda_tuned_own(d->name, version, text, &row)) return row.algorithm[0] == 1;
  if (!mr__cuda_tuned_asked() || d->described)
    return mr__cuda_tuned_shipped(d->name, version, text, &row) && row.algorithm[0] == 1;
  row = (mr_cuda_tuning_t){.version = version};
  snprintf(row.device, sizeof row.device, "%s", d->name);
  snprintf(row.product, sizeof row.product, "%s", text);
  if (!attention_measure(d, c, &row)) return false;
  mr__cuda_tuned_put(&row);
  return row.algorithm[0] == 1;
}
