/* NVIDIA's GPUs as a backend.  Kernels are written from equations (kernels/kernel.h) and compiled
   by NVRTC; NVIDIA's libraries take what they compute better (library.h).  Composites are opened
   into primitives; loops and branches run on the host, or in a captured run on the device. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/backends/cuda/captured.h"
#include "model/backends/cuda/condition.h"
#include "model/backends/cuda/library.h"
#include "model/backends/cuda/program.h"
#include "model/backends/kernels/kernel.h"
#include "model/control/control.h"
#include "model/exec/device.h"
#include "model/ir/op.h"
#include "model/transforms/passes.h"

typedef struct compiled {
  int n;
  cudaKernel_t kernel[MR_KERNELS_MAX]; /* NULL until built; the process keeps them */
  char *text[MR_KERNELS_MAX];
  int64_t items[MR_KERNELS_MAX];
  int group[MR_KERNELS_MAX]; /* as in mr_kernel_t */
} compiled_t;

static void cuda_compiled_fini(void *state) {
  compiled_t *s = state;
  for (int i = 0; i < s->n; i++) free(s->text[i]);
  free(s);
}

/* The arguments of every kernel of c: operands, results, scratch. */
static int collect_arguments(const mr_call_t *c, void **arg) {
  const mr_eqn_t *e = c->eqn;
  int n = 0;
  for (int k = 0; k < e->n_in; k++) arg[n++] = c->in[k];
  for (int k = 0; k < e->n_out; k++) arg[n++] = c->out[k];
  if (c->scratch_bytes) arg[n++] = c->scratch;
  return n;
}

static void cuda_compiled_run(const mr_call_t *c) {
  mr_cuda_device_t *d = mr__cuda_use(c->device);
  const compiled_t *s = c->state;
  void *arg[MR_CUDA_ARGUMENTS];
  int n = collect_arguments(c, arg);
  cudaError_t code = cudaSuccess;
  for (int i = 0; i < s->n && code == cudaSuccess; i++)
    code = mr__cuda_launch(d, s->kernel[i], s->items[i], s->group[i], arg, n);
  mr__cuda_ran(d, c, code);
}

/* Keeps the texts of k, which are built with those of the whole graph. */
static mr_err_t cuda_lower_kernels(mr_call_t *c, mr_kernels_t *k, mr_diag_t *diag) {
  if (!k->n) return MR_OK;
  if (c->eqn->n_in + c->eqn->n_out + 1 > MR_CUDA_ARGUMENTS)
    return mr_fail(diag, MR_ERR_NORULE, "%s: device cuda: more than %d operands and results",
                   c->eqn->op->name, MR_CUDA_ARGUMENTS - 1);
  compiled_t *s = calloc(1, sizeof *s);
  if (!s) return mr_no_memory(diag, "the lowering of %s", c->eqn->op->name);
  c->state = s, c->fini = cuda_compiled_fini;
  for (; s->n < k->n; s->n++) {
    s->text[s->n] = k->kernel[s->n].text, k->kernel[s->n].text = NULL;
    s->items[s->n] = k->kernel[s->n].items;
    s->group[s->n] = k->kernel[s->n].group;
  }
  c->scratch_bytes = k->scratch_bytes;
  c->kernels = k->n;
  c->how = mr_kernels_how(c->eqn);
  c->run = cuda_compiled_run;
  return MR_OK;
}

static mr_err_t cuda_lower(mr_call_t *c, mr_diag_t *diag) {
  mr_kernels_t k = {0};
  mr_call_lower_fn *control = mr__control_rule(c->eqn->op);
  if (control) return control(c, diag);
  mr_err_t err = mr__cuda_lower_library(c, diag);
  if (err != MR_ERR_NORULE) return err;
  MR_TRY(mr_kernels_write(c->eqn, mr__call_align(c), &k, diag));
  err = cuda_lower_kernels(c, &k, diag);
  mr_kernels_fini(&k);
  return err;
}

/* The most kernels of calls. */
static size_t cuda_texts(const mr_call_t *call, int n) {
  size_t texts = 0;
  for (int i = 0; i < n; i++)
    texts += call[i].run == cuda_compiled_run ? (size_t)((const compiled_t *)call[i].state)->n
                                              : MR_CUDA_LIBRARY_KERNELS;
  return texts;
}

/* Writes the kernels of a call to want and returns how many. */
static size_t cuda_list_wanted(const mr_call_t *c, mr_cuda_wanted_t *want) {
  if (c->run != cuda_compiled_run) return (size_t)mr__cuda_library_wanted(c, want);
  compiled_t *s = c->state;
  for (int k = 0; k < s->n; k++) want[k] = (mr_cuda_wanted_t){s->text[k], &s->kernel[k]};
  return (size_t)s->n;
}

static mr_err_t cuda_inspect(const mr_device_t *device, const mr_call_t *call, int n,
                             void (*say)(void *arg, const mr_call_t *c,
                                         const mr_backend_kernel_t *k),
                             void *arg, mr_diag_t *diag) {
  mr_cuda_device_t *d = mr__cuda_use(device);
  size_t texts = cuda_texts(call, n), at = 0;
  mr_cuda_wanted_t *want = calloc(texts + 1, sizeof *want);
  mr_cuda_usage_t *usage = calloc(texts + 1, sizeof *usage);
  mr_err_t e = want && usage ? MR_OK : mr_no_memory(diag, "the kernels of a graph");
  for (int i = 0; i < n && e >= 0; i++) at += cuda_list_wanted(&call[i], &want[at]);
  if (e >= 0) e = mr__cuda_kernels_usage(d, want, at, usage, diag);
  at = 0;
  for (int i = 0; i < n && e >= 0; i++)
    for (size_t k = cuda_list_wanted(&call[i], want); k > 0; k--, at++)
      say(arg, &call[i], &(mr_backend_kernel_t){usage[at].registers, usage[at].stack});
  free(want), free(usage);
  return e;
}

static mr_err_t cuda_build(const mr_device_t *device, const mr_call_t *call, int n,
                           mr_diag_t *diag) {
  mr_cuda_device_t *d = mr__cuda_use(device);
  size_t at = 0;
  if (d->described)
    return mr_fail(diag, MR_ERR_UNAVAILABLE,
                   "device cuda: %s is only described here, and computes nothing", d->name);
  for (int i = 0; i < n; i++)
    if (call[i].n_inner && (call[i].eqn->op->cost.unbounded || call[i].inner[0].branch >= 0))
      mr__cuda_conditions(d);
  mr_cuda_wanted_t *want = calloc(cuda_texts(call, n) + 1, sizeof *want);
  if (!want) return mr_no_memory(diag, "the kernels of a graph");
  for (int i = 0; i < n; i++) at += cuda_list_wanted(&call[i], &want[at]);
  mr_err_t e = mr__cuda_kernels(d, want, at, diag);
  free(want);
  return e;
}

/* Every op that has an open form, but neither a kernel nor a library. */
static bool cuda_opens(const mr_target_t *t, const mr_eqn_t *e) {
  return !mr_kernels_take(e, MR_CUDA_ARGUMENTS - 1) &&
         !(t->device && mr__cuda_library_takes(mr__cuda_use(t->device), e)) &&
         !mr__cuda_kernel_attends(e);
}

static float cuda_element(const mr_op_def_t *op, float a, float b) {
  return op->cpu.f1 ? op->cpu.f1(a) : op->cpu.f2(a, b);
}

static const mr_target_t cuda_target = {.loop_eqns = 96,
                                        .loop_ends = 24,
                                        .joined_ends = MR_CUDA_ARGUMENTS - 1,
                                        .element = cuda_element,
                                        .opens = cuda_opens,
                                        .rows = mr_kernels_rows};

static const mr_target_t *cuda_target_of(const mr_device_t *d) {
  return d ? &mr__cuda_use(d)->target : &cuda_target;
}

static mr_err_t cuda_key(const char *number, char key[MR_DEVICE_KEY], mr_diag_t *diag) {
  return mr__device_number("cuda", "MILLRACE_CUDA", number, key, diag);
}

static mr_err_t cuda_open(mr_device_t *d, const char *number, mr_diag_t *diag) {
  return mr__cuda_open(d, number, &cuda_target, diag);
}

static mr_err_t cuda_open_described(mr_device_t *d, const char *what, mr_diag_t *diag) {
  return mr__cuda_open_described(d, what, &cuda_target, diag);
}

static const mr_device_ops_t cuda_device_ops = {.key = cuda_key,
                                                .open = cuda_open,
                                                .open_described = cuda_open_described,
                                                .close = mr__cuda_close,
                                                .write_described = mr__cuda_write_described,
                                                .usable = mr__cuda_usable,
                                                .describe = mr__cuda_describe};
static const mr_memory_ops_t cuda_memory_ops = {.take = mr__cuda_take,
                                                .give = mr__cuda_give,
                                                .room = mr__cuda_room,
                                                .beside = mr__cuda_beside,
                                                .copy = mr__cuda_copy,
                                                .pin = mr__cuda_pin,
                                                .unpin = mr__cuda_unpin};
/* Commands are under way when a run has been given; marks tell when they are done. */
static void *cuda_stream_of(const mr_device_t *device, bool *recorded) {
  mr_cuda_device_t *d = mr__cuda_use(device);
  *recorded = mr__cuda_recording() && mr__cuda_recording()->d == d;
  return mr__cuda_stream(d);
}

static const mr_queue_ops_t cuda_queue_ops = {.copy_later = mr__cuda_copy_later,
                                              .mark = mr__cuda_mark,
                                              .reached = mr__cuda_reached,
                                              .copy_beside = mr__cuda_copy_beside,
                                              .mark_beside = mr__cuda_mark_beside,
                                              .follow_beside = mr__cuda_follow_beside,
                                              .wait_beside = mr__cuda_wait_beside,
                                              .stream = cuda_stream_of,
                                              .clock = &mr__cuda_clock};
static const mr_record_ops_t cuda_record_ops = {.repeat = mr__cuda_repeat,
                                                .forget = mr__cuda_forget,
                                                .choose = mr__cuda_choose,
                                                .loop = mr__cuda_loop};
static const mr_compile_ops_t cuda_compile_ops = {
    .target = cuda_target_of, .lower = cuda_lower, .build = cuda_build, .inspect = cuda_inspect};
static const mr_limit_ops_t cuda_limit_ops = {.fma = mr__cuda_fma, .bandwidth = mr__cuda_bandwidth};

const mr_backend_t mr_backend_cuda = {.name = "cuda",
                                      .align = 256,
                                      .device = &cuda_device_ops,
                                      .memory = &cuda_memory_ops,
                                      .queue = &cuda_queue_ops,
                                      .record = &cuda_record_ops,
                                      .compile = &cuda_compile_ops,
                                      .limits = &cuda_limit_ops};
