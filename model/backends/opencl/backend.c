/* OpenCL 1.2 as a backend: any device with a driver, PoCL's CPU among them.  Kernels are written
   from equations (kernels/kernel.h), CLBlast computes large products; composites are opened into
   primitives, loops and branches run on the host. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/backends/kernels/attention_way.h"
#include "model/backends/kernels/kernel.h"
#include "model/backends/opencl/blas.h"
#include "model/backends/opencl/device.h"
#include "model/backends/opencl/program.h"
#include "model/control/control.h"
#include "model/exec/device.h"
#include "model/ir/op.h"
#include "model/transforms/passes.h"

typedef struct compiled {
  mr_opencl_device_t *d;
  int n;
  cl_kernel kernel[MR_KERNELS_MAX]; /* NULL until built */
  char *text[MR_KERNELS_MAX];
  size_t items[MR_KERNELS_MAX], group[MR_KERNELS_MAX]; /* as in mr_kernel_t */
  int before; /* a product by CLBlast runs behind this many of the kernels; -1: no product */
  mr_product_t product;
} compiled_t;

static void compiled_fini(void *state) {
  compiled_t *s = state;
  for (int i = 0; i < s->n; i++) {
    if (s->kernel[i]) s->d->cl->clReleaseKernel(s->kernel[i]);
    free(s->text[i]);
  }
  free(s);
}

/* Argument k of every kernel of c: operands, results, scratch. */
static const void *argument_at(const mr_call_t *c, int k) {
  const mr_eqn_t *e = c->eqn;
  if (k < e->n_in) return c->in[k];
  return k < e->n_in + e->n_out ? c->out[k - e->n_in] : c->scratch;
}

/* Kernels without groups of their own get one of these: a driver that may choose takes what divides
   the items, 3,216 say, and one that runs a group on a thread keeps every item's variables on its
   stack (PoCL: 6.6 MB of 8).  Two sizes are also two compilations at most. */
static size_t group_of_loop(size_t items) { return items > 4096 ? MR_KERNEL_GROUP : 64; }

static cl_int start_kernel(mr_opencl_device_t *d, const mr_call_t *c, cl_kernel kernel,
                           size_t items, size_t group) {
  int n = c->eqn->n_in + c->eqn->n_out + (c->scratch_bytes > 0);
  cl_int code = CL_SUCCESS;
  for (int k = 0; k < n && code == CL_SUCCESS; k++) {
    size_t offset;
    cl_mem buffer = mr__opencl_find(d, argument_at(c, k), &offset);
    cl_ulong at = offset;
    code = d->cl->clSetKernelArg(kernel, (cl_uint)(2 * k), sizeof buffer, &buffer);
    if (code == CL_SUCCESS)
      code = d->cl->clSetKernelArg(kernel, (cl_uint)(2 * k + 1), sizeof at, &at);
  }
  size_t local = group ? group : group_of_loop(items);
  size_t global = (items + local - 1) / local * local; /* items past the last do nothing */
  if (code == CL_SUCCESS)
    code = d->cl->clEnqueueNDRangeKernel(d->queue, kernel, 1, NULL, &global, &local, 0, NULL, NULL);
  return code;
}

static void compiled_run(const mr_call_t *c) {
  const compiled_t *s = c->state;
  mr_opencl_device_t *d = s->d;
  cl_int code = CL_SUCCESS;
  for (int i = 0; i <= s->n && code == CL_SUCCESS; i++) {
    if (i == s->before) code = mr__opencl_blas_run(c, &s->product);
    if (i < s->n && code == CL_SUCCESS)
      code = start_kernel(d, c, s->kernel[i], s->items[i], s->group[i]);
  }
  mr__opencl_ran(d, c, code);
}

static bool computes_f64(const mr_eqn_t *e) {
  bool wide = false;
  for (int k = 0; k < e->n_in; k++) wide |= e->in[k]->aval.dtype == MR_F64;
  for (int k = 0; k < e->n_out; k++) wide |= e->out[k]->aval.dtype == MR_F64;
  return wide;
}

/* Keeps the texts of k, which are built with those of the whole graph. */
static mr_err_t lower_kernels(mr_call_t *c, mr_kernels_t *k, mr_diag_t *diag) {
  compiled_t *s = calloc(1, sizeof *s);
  if (!s) return mr_no_memory(diag, "the lowering of %s", c->eqn->op->name);
  s->d = mr__opencl_device(c->device);
  c->state = s, c->fini = compiled_fini;
  for (; s->n < k->n; s->n++) {
    s->text[s->n] = k->kernel[s->n].text, k->kernel[s->n].text = NULL;
    s->items[s->n] = (size_t)k->kernel[s->n].items;
    s->group[s->n] = (size_t)k->kernel[s->n].group;
  }
  s->before = -1;
  c->scratch_bytes = k->scratch_bytes;
  c->kernels = k->n;
  c->how = mr_kernels_how(c->eqn);
  c->run = compiled_run;
  return MR_OK;
}

static mr_err_t lower_generated(mr_call_t *c, mr_diag_t *diag) {
  mr_kernels_t k = {0};
  MR_TRY(mr_kernels_write(c->eqn, mr__call_align(c), &k, diag));
  mr_err_t err = k.n ? lower_kernels(c, &k, diag) : MR_OK;
  mr_kernels_fini(&k);
  return err;
}

static mr_err_t lower_by_clblast(mr_call_t *c, const mr_product_t *p, mr_diag_t *diag) {
  mr_kernels_t k = {0};
  MR_TRY(mr__product_copies(c->eqn, p, &k, diag));
  int before = k.n;
  mr_err_t err = mr__product_is_narrow(p) ? mr__product_narrow(c->eqn, p, &k, diag) : MR_OK;
  if (err == MR_OK) err = lower_kernels(c, &k, diag);
  mr_kernels_fini(&k);
  if (err < 0) return err;
  compiled_t *s = c->state;
  s->before = before, s->product = *p;
  c->kernels++;
  c->how = p->sums == MR_PRODUCT_F64 ? "CLBlast, f64" : "CLBlast, sums in f32";
  mr__product_notes(c->eqn, p, c->note);
  return MR_OK;
}

static mr_err_t opencl_lower(mr_call_t *c, mr_diag_t *diag) {
  const mr_op_def_t *op = c->eqn->op;
  const mr_opencl_device_t *d = mr__opencl_device(c->device);
  mr_product_t p;
  mr_call_lower_fn *control = mr__control_rule(op);
  if (control) return control(c, diag);
  if (computes_f64(c->eqn) && !d->f64)
    return mr_fail(diag, MR_ERR_NORULE, "%s: device %s: %s does not compute in f64", op->name,
                   c->device->name, d->name);
  return mr__opencl_blas_takes(c->eqn, &p) ? lower_by_clblast(c, &p, diag)
                                           : lower_generated(c, diag);
}

static mr_err_t opencl_build(const mr_device_t *d, const mr_call_t *call, int n, mr_diag_t *diag) {
  size_t texts = 0, at = 0;
  for (int i = 0; i < n; i++)
    if (call[i].run == compiled_run) texts += (size_t)((const compiled_t *)call[i].state)->n;
  mr_opencl_wanted_t *want = calloc(texts + 1, sizeof *want);
  if (!want) return mr_no_memory(diag, "the kernels of a graph");
  for (int i = 0; i < n; i++) {
    compiled_t *s = call[i].run == compiled_run ? call[i].state : NULL;
    for (int k = 0; s && k < s->n; k++)
      want[at++] = (mr_opencl_wanted_t){s->text[k], &s->kernel[k]};
  }
  mr_err_t e = mr__opencl_kernels(mr__opencl_device(d), want, texts, diag);
  free(want);
  return e;
}

/* The kernel of attention is for tensor cores; without them it is taken if it is asked for. */
static bool opencl_attends(const mr_opencl_device_t *d, const mr_eqn_t *e) {
  return mr_attention_way() == MR_ATTENTION_OWN && mr_kernels_attend(e, d->shared);
}

/* Every op without a kernel that has an open form. */
static bool opencl_opens(const mr_target_t *t, const mr_eqn_t *e) {
  return !mr_kernels_take(e, MR_KERNEL_ENDS) &&
         !(t->device && opencl_attends(mr__opencl_device(t->device), e));
}

static float opencl_element(const mr_op_def_t *op, float a, float b) {
  return op->cpu.f1 ? op->cpu.f1(a) : op->cpu.f2(a, b);
}

/* A block is one buffer, which may be smaller than what is free. */
static size_t opencl_room(const mr_device_t *device) {
  mr_opencl_device_t *d = mr__opencl_device(device);
  size_t taken = mr__opencl_taken(d), left = d->memory > taken ? d->memory - taken : 0;
  return left < d->largest ? left : d->largest;
}

static void opencl_describe(void (*say)(void *arg, const char *line), void *arg) {
  char text[4096], path[512], loader[600];
  mr_diag_t why = {0};
  if (mr__opencl_loader(path, sizeof path)) {
    snprintf(loader, sizeof loader, "opencl-loader: %s", path);
    say(arg, loader);
    mr__opencl_blas_describe(say, arg);
  }
  if (mr__opencl_probe(text, sizeof text, &why) < 0) {
    say(arg, why.text);
    return;
  }
  if (!*text) say(arg, "no platform has a device; pocl-opencl-icd computes on the CPU");
  char *rest = NULL;
  for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
    say(arg, line);
}

_Static_assert(2 * 24 <= MR_KERNEL_ENDS, "a fused loop has as many ends as a kernel takes");
static const mr_target_t opencl_target = {.loop_eqns = 96,
                                          .loop_ends = 24,
                                          .joined_ends = MR_KERNEL_ENDS,
                                          .element = opencl_element,
                                          .opens = opencl_opens,
                                          .rows = mr_kernels_rows};

static const mr_target_t *opencl_target_of(const mr_device_t *d) {
  return d ? &mr__opencl_device(d)->target : &opencl_target;
}

static mr_err_t opencl_key(const char *number, char key[MR_DEVICE_KEY], mr_diag_t *diag) {
  return mr__device_number("opencl", "MILLRACE_OPENCL", number, key, diag);
}

static mr_err_t opencl_open(mr_device_t *d, const char *number, mr_diag_t *diag) {
  return mr__opencl_open(d, number, &opencl_target, diag);
}

static const mr_device_ops_t opencl_device_ops = {.key = opencl_key,
                                                  .open = opencl_open,
                                                  .close = mr__opencl_close,
                                                  .usable = mr__opencl_usable,
                                                  .describe = opencl_describe};
static const mr_memory_ops_t opencl_memory_ops = {
    .take = mr__opencl_take, .give = mr__opencl_give, .room = opencl_room, .copy = mr__opencl_copy};
/* Commands are under way when a run has been given; marks tell when they are done. */
static const mr_queue_ops_t opencl_queue_ops = {.copy_later = mr__opencl_copy_later,
                                                .mark = mr__opencl_mark,
                                                .reached = mr__opencl_reached,
                                                .copy_beside = mr__opencl_copy_beside,
                                                .mark_beside = mr__opencl_mark_beside,
                                                .follow_beside = mr__opencl_follow_beside,
                                                .wait_beside = mr__opencl_wait_beside};
static const mr_compile_ops_t opencl_compile_ops = {
    .target = opencl_target_of, .lower = opencl_lower, .build = opencl_build};
static const mr_limit_ops_t opencl_limit_ops = {.fma = mr__opencl_fma,
                                                .bandwidth = mr__opencl_bandwidth};

const mr_backend_t mr_backend_opencl = {.name = "opencl",
                                        .align = 256,
                                        .device = &opencl_device_ops,
                                        .memory = &opencl_memory_ops,
                                        .queue = &opencl_queue_ops,
                                        .compile = &opencl_compile_ops,
                                        .limits = &opencl_limit_ops};
