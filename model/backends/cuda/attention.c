/* Lowers attention to cuDNN.  Plans are kept by shape until the device is closed: all blocks of a
   model share one, and what an equation was taken for before it is opened is what it gets when it
   is lowered. */
#include "model/backends/cuda/attention.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/backends/cuda/attention_graph.h"
#include "model/backends/cuda/device.h"
#include "model/backends/cuda/switch.h"
#include "model/ops/lax.h"

typedef struct kept_plan {
  mr_cuda_attention_t of;
  mr_cudnn_graph_t graph;
  cudnnBackendDescriptor_t plan; /* of graph; NULL: refused */
  size_t workspace;
  bool described; /* a described device takes it: there is no plan, and the workspace is unknown */
  struct kept_plan *next;
} kept_plan_t;

/* Of a device.  The lock also guards the use of the handle. */
typedef struct mr_cuda_plans {
  pthread_mutex_t lock;
  const mr_cudnn_t *of; /* the table that made the handle, and the plans; NULL: none yet */
  cudnnHandle_t handle;
  kept_plan_t *first;
} plans_t;

/* Of the whole process: the first refusal was sent as a notice. */
static atomic_flag plans_said = ATOMIC_FLAG_INIT;

mr_err_t mr__cuda_plans_create(mr_cuda_device_t *d, mr_diag_t *diag) {
  d->plans = calloc(1, sizeof *d->plans);
  if (!d->plans) return mr_no_memory(diag, "device %s", d->device->name);
  pthread_mutex_init(&d->plans->lock, NULL);
  return MR_OK;
}

void mr__cuda_plans_destroy(mr_cuda_device_t *d) {
  plans_t *plans = d->plans;
  if (!plans) return;
  for (kept_plan_t *p = plans->first, *next; p; p = next) {
    next = p->next;
    if (p->plan) plans->of->cudnnBackendDestroyDescriptor(p->plan);
    if (p->plan) mr__cudnn_graph_fini(&p->graph);
    free(p);
  }
  if (plans->of) plans->of->cudnnDestroy(plans->handle);
  pthread_mutex_destroy(&plans->lock);
  free(plans);
}

static mr_err_t plans_handle(plans_t *plans, const mr_cudnn_t *c, mr_diag_t *diag) {
  if (plans->of == c) return MR_OK;
  cudnnStatus_t s = c->cudnnCreate(&plans->handle);
  if (s != CUDNN_STATUS_SUCCESS)
    return mr_fail(diag, MR_ERR_UNAVAILABLE,
                   "device cuda: %s does not start, so that attention is computed by generated "
                   "kernels, which may be slow: %s",
                   c->path, c->cudnnGetErrorString(s));
  plans->of = c;
  return MR_OK;
}

static bool same_attention(const mr_cuda_attention_t *a, const mr_cuda_attention_t *b) {
  return a->B == b->B && a->T == b->T && a->H == b->H && a->D == b->D && a->dtype == b->dtype &&
         a->packed == b->packed && a->backward == b->backward;
}

/* On compute capability 10 cudnn-frontend takes its deterministic form of the backward pass only
   with an engine and knobs of its own choice, which the heuristic does not name. */
static mr_err_t plan_is_fixed(const mr_cuda_attention_t *a, mr_cuda_device_t *d, mr_diag_t *diag) {
  if (!a->backward || mr__cuda_attention_sums(a) || d->major != 10) return MR_OK;
  return mr_fail(diag, MR_ERR_UNAVAILABLE,
                 "device cuda: the backward pass of attention over more than 128 rows is computed "
                 "as separate products on %s, which is slow: cuDNN's would not give the same bits "
                 "in every run",
                 d->name);
}

/* Plans *a.  A refusal is kept as well. */
static mr_err_t plan_new(const mr_cudnn_t *c, mr_cuda_device_t *d, const mr_cuda_attention_t *a,
                         kept_plan_t **out, mr_diag_t *diag) {
  kept_plan_t *p = calloc(1, sizeof *p);
  int64_t workspace = 0;
  if (!p) return mr_no_memory(diag, "a plan of attention");
  p->of = *a;
  mr_err_t e = plan_is_fixed(a, d, diag);
  if (e == MR_OK) e = mr__cudnn_graph(c, a, d->plans->handle, &p->graph, diag);
  if (e == MR_OK) e = mr__cudnn_plan(&p->graph, d->plans->handle, &p->plan, &workspace, diag);
  if (e < 0) {
    mr__cudnn_graph_fini(&p->graph);
    p->plan = NULL;
  }
  p->workspace = (size_t)workspace;
  p->next = d->plans->first, d->plans->first = p;
  return *out = p, MR_OK;
}

/* The same for a described device: what it takes follows from its version of cuDNN. */
static mr_err_t plan_described(mr_cuda_device_t *d, const mr_cuda_attention_t *a, kept_plan_t **out,
                               mr_diag_t *diag) {
  size_t version = (size_t)d->described->cudnn;
  if (!version) return MR_OK;
  kept_plan_t *p = calloc(1, sizeof *p);
  if (!p) return mr_no_memory(diag, "a plan of attention");
  mr_err_t e = plan_is_fixed(a, d, diag);
  if (e == MR_OK) e = mr__cudnn_fits(version, d->name, diag);
  if (e == MR_OK) e = mr__cudnn_computes(version, a, diag);
  p->of = *a;
  p->described = e == MR_OK;
  p->next = d->plans->first, d->plans->first = p;
  return *out = p, MR_OK;
}

static void plans_say(const mr_diag_t *why) {
  /* Relaxed: the flag orders nothing, it only lets one thread say it. */
  if (*why->text && !atomic_flag_test_and_set_explicit(&plans_said, memory_order_relaxed))
    mr_notice("%s", why->text);
}

/* The kept plan of *a, made if it is new; NULL if cuDNN does not take it here. */
static const kept_plan_t *plan_for(mr_cuda_device_t *d, const mr_cuda_attention_t *a) {
  const mr_cudnn_t *c;
  kept_plan_t *p = NULL;
  mr_diag_t why = {0};
  if (mr__cuda_is_off(MR_CUDA_SWITCH_CUDNN)) return NULL;
  pthread_mutex_lock(&d->plans->lock);
  if (d->described) {
    for (p = d->plans->first; p && !same_attention(&p->of, a);) p = p->next;
    if (!p) plan_described(d, a, &p, &why);
  } else if (mr__cudnn(&c, &why) == MR_OK && plans_handle(d->plans, c, &why) == MR_OK) {
    for (p = d->plans->first; p; p = p->next)
      if (p->graph.cudnn == c && same_attention(&p->of, a)) break;
    if (!p) plan_new(c, d, a, &p, &why);
  }
  plans_say(&why);
  pthread_mutex_unlock(&d->plans->lock);
  return p && (p->plan || p->described) ? p : NULL;
}

bool mr__cuda_attention_takes(mr_cuda_device_t *d, const mr_eqn_t *e) {
  mr_cuda_attention_t a;
  return mr__cuda_attention(e, &a) && plan_for(d, &a);
}

/* ---- a call ---- */

enum { IN = 6, OUT = 3 }; /* operands and results at most */

typedef struct attention_state {
  const kept_plan_t *plan;
  float scale;
  size_t dq_at, work_at; /* in the scratch; the row sums are at 0 */
  /* Where the scratch has room for an operand or result that is aligned to less than cuDNN is
     promised, as a row of a scan may be. */
  bool aside;
  size_t in_at[IN], out_at[OUT];
  char how[40];
} attention_state_t;

/* The pointers of a run, by number; NULL: the graph has no such array. */
static void attention_arrays(const mr_call_t *c, const attention_state_t *s, void *const *in,
                             void *const *out, const float *one, void *at[MR_CUDNN_IDS]) {
  const mr_cuda_attention_t *a = &s->plan->of;
  size_t third = a->packed ? (size_t)(a->H * a->D) * mr_dtype_size(a->dtype) : 0;
  int n = a->packed ? 1 : 3;
  memset(at, 0, MR_CUDNN_IDS * sizeof *at);
  for (int i = 0; i < 3; i++) {
    at[MR_CUDNN_Q + i] = (char *)in[a->packed ? 0 : i] + (size_t)i * third;
    if (a->backward) at[MR_CUDNN_DQ + i] = (char *)out[a->packed ? 0 : i] + (size_t)i * third;
  }
  at[MR_CUDNN_O] = a->backward ? in[n] : out[0];
  at[MR_CUDNN_STATS] = a->backward ? in[n + 1] : out[1];
  at[MR_CUDNN_SCALE] = (void *)(uintptr_t)&s->scale;
  if (!a->backward) return;
  at[MR_CUDNN_DO] = in[n + 2];
  at[MR_CUDNN_DSUM] = c->scratch;
  if (mr__cuda_attention_sums(a)) at[MR_CUDNN_DQ_SUM] = (char *)c->scratch + s->dq_at;
  at[MR_CUDNN_ONE] = (void *)(uintptr_t)one;
}

static cudnnStatus_t cudnn_execute(const mr_cudnn_t *c, const plans_t *plans,
                                   cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack,
                                   void *const all[MR_CUDNN_IDS], void *workspace) {
  int64_t id[MR_CUDNN_IDS], n = 0;
  void *at[MR_CUDNN_IDS];
  for (int i = MR_CUDNN_Q; i < MR_CUDNN_IDS; i++)
    if (all[i]) id[n] = i, at[n++] = all[i];
  cudnnStatus_t s = c->cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS,
                                                CUDNN_TYPE_INT64, n, id);
  if (s == CUDNN_STATUS_SUCCESS)
    s = c->cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                                    CUDNN_TYPE_VOID_PTR, n, at);
  if (s == CUDNN_STATUS_SUCCESS)
    s = c->cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1,
                                    &workspace);
  if (s == CUDNN_STATUS_SUCCESS) s = c->cudnnBackendFinalize(pack);
  return s == CUDNN_STATUS_SUCCESS ? c->cudnnBackendExecute(plans->handle, plan, pack) : s;
}

static bool is_aligned(const void *at) { return (uintptr_t)at % MR_CUDNN_ALIGN == 0; }

/* Sets in and out to the operands, copied to the scratch where they are not aligned, and to where
   the results are to be. */
static void attention_aside(const mr_call_t *c, const attention_state_t *s, void *in[IN],
                            void *out[OUT]) {
  for (int k = 0; k < c->eqn->n_in; k++) {
    in[k] = c->in[k];
    if (!s->aside || is_aligned(in[k])) continue;
    in[k] = (char *)c->scratch + s->in_at[k];
    mr__cuda_copy(c->device, in[k], c->in[k], mr_aval_bytes(&c->eqn->in[k]->aval), MR_COPY_WITHIN);
  }
  for (int k = 0; k < c->eqn->n_out; k++)
    out[k] = !s->aside || is_aligned(c->out[k]) ? c->out[k] : (char *)c->scratch + s->out_at[k];
}

static void attention_back(const mr_call_t *c, void *const *out) {
  for (int k = 0; k < c->eqn->n_out; k++)
    if (out[k] != c->out[k])
      mr__cuda_copy(c->device, c->out[k], out[k], mr_aval_bytes(&c->eqn->out[k]->aval),
                    MR_COPY_WITHIN);
}

static void cudnn_run(const mr_call_t *c) {
  const attention_state_t *s = c->state;
  const mr_cudnn_t *cudnn = s->plan->graph.cudnn;
  mr_cuda_device_t *d = mr__cuda_use(c->device);
  const float one = 1;
  cudnnBackendDescriptor_t pack = NULL;
  void *at[MR_CUDNN_IDS], *in[IN], *out[OUT];
  attention_aside(c, s, in, out);
  attention_arrays(c, s, in, out, &one, at);
  pthread_mutex_lock(&d->plans->lock);
  cudnnStatus_t code = cudnn->cudnnSetStream(d->plans->handle, mr__cuda_stream(d));
  if (code == CUDNN_STATUS_SUCCESS)
    code = cudnn->cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack);
  if (code == CUDNN_STATUS_SUCCESS)
    code = cudnn_execute(cudnn, d->plans, s->plan->plan, pack, at, (char *)c->scratch + s->work_at);
  if (pack) cudnn->cudnnBackendDestroyDescriptor(pack);
  pthread_mutex_unlock(&d->plans->lock);
  if (code != CUDNN_STATUS_SUCCESS) {
    mr__cuda_refused(c, cudnn->cudnnGetErrorString(code));
    return;
  }
  attention_back(c, out);
  mr__cuda_ran(d, c, cudaSuccess);
}

static size_t up_to_256(size_t n) { return (n + 255) & ~(size_t)255; }

/* Where in the scratch everything lies; returns its bytes. */
static size_t attention_places(mr_call_t *c, attention_state_t *s) {
  const mr_cuda_attention_t *a = &s->plan->of;
  size_t rows = (size_t)(a->B * a->H * a->T) * sizeof(float),
         at = a->backward ? up_to_256(rows) : 0;
  s->dq_at = at;
  if (mr__cuda_attention_sums(a)) at += up_to_256(rows * (size_t)a->D);
  s->aside = mr__call_align(c) < MR_CUDNN_ALIGN;
  size_t moved = 0;
  for (int k = 0; s->aside && k < c->eqn->n_in; k++) {
    size_t n = mr_aval_bytes(&c->eqn->in[k]->aval);
    s->in_at[k] = at, at += up_to_256(n), moved += 2 * n;
  }
  for (int k = 0; s->aside && k < c->eqn->n_out; k++) {
    size_t n = mr_aval_bytes(&c->eqn->out[k]->aval);
    s->out_at[k] = at, at += up_to_256(n), moved += 2 * n;
  }
  if (s->aside) c->note[0] = (mr_call_note_t){"rows of a scan copied to aligned memory", moved};
  s->work_at = at;
  return at + up_to_256(s->plan->workspace);
}

size_t mr__cuda_attention_version(void) {
  const mr_cudnn_t *c;
  return mr__cudnn(&c, NULL) < 0 ? 0 : c->version;
}

mr_err_t mr__cuda_attention_lower(mr_call_t *c, mr_diag_t *diag) {
  mr_cuda_attention_t a;
  if (!mr__cuda_attention(c->eqn, &a)) return MR_ERR_NORULE;
  mr_cuda_device_t *d = mr__cuda_use(c->device);
  const kept_plan_t *p = plan_for(d, &a);
  if (!p) return MR_ERR_NORULE;
  attention_state_t *s = calloc(1, sizeof *s);
  if (!s) return mr_no_memory(diag, "the lowering of %s", c->eqn->op->name);
  s->plan = p;
  s->scale = (float)mr_attr_get(c->eqn, "scale")->f;
  size_t version = p->described ? (size_t)d->described->cudnn : p->graph.cudnn->version;
  snprintf(s->how, sizeof s->how, "cuDNN %zu.%zu", version / 10000, version / 100 % 100);
  c->state = s, c->fini = free, c->run = cudnn_run;
  c->scratch_bytes = attention_places(c, s);
  c->scratch_unknown = p->described;
  c->how = s->how;
  c->kernels = 1;
  return MR_OK;
}
