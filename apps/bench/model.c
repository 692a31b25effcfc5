/* Measurements of the model alone, on pictures of noise without loading: a training step (on a
   device by queued.h), a forward pass, and the compilation and calls of a training step, mixed
   precision apart. */
#include <stdlib.h>
#include <string.h>

#include "apps/bench/bench.h"
#include "apps/cli/model_arg.h"
#include "base/clock.h"
#include "base/text.h"
#include "model/call/jit.h"
#include "model/exec/device.h"
#include "model/exec/exec.h"
#include "model/nn/vit.h"
#include "model/train/fit.h"
#include "model/train/queued.h"
#include "model/train/train.h"
#include "model/transforms/amp.h"
#include "model/transforms/transforms.h"

/* ---- calls of a jitted step ---- */

enum { CALLS = 4, STEPS_MAX = 1000, PAGE = 4096 };

typedef struct cached {
  const mr_loss_t *loss;
  mr_train_config_t train;
  mr_queue_t *queue;
  mr_jitted_t *jitted;
  int n_in, n_out;
  mr_array_t **in, **out;
} cached_t;

static mr_err_t bench_cached_build(const cached_t *c, mr_fn_t **step, mr_diag_t *diag) {
  mr_params_t list = {0};
  mr_err_t e = mr_train_step_fn(c->loss, &c->train, &list, step, diag);
  mr_params_fini(&list);
  return e;
}

static mr_err_t bench_cached_trace(mr_fn_t *f, void *arg) {
  const cached_t *c = arg;
  mr_fn_t *step = NULL;
  MR_TRY(bench_cached_build(c, &step, &f->diag));
  mr_var_t **out = mr_mem_take(&f->mem, (size_t)(step->n_out + 1) * sizeof *out);
  mr_err_t e = mr_inline(f, step, f->in, out);
  if (e >= 0) e = mr_fn_return(f, step->n_out, out);
  mr_fn_destroy(step);
  return e;
}

/* An array of zeros, but 1 for f32 scalars, by which the optimizer divides. */
static mr_array_t *make_filled_array(const mr_aval_t *a, mr_diag_t *diag) {
  float *x = calloc(1, mr_aval_bytes(a) + sizeof *x);
  if (!x) return NULL;
  if (!a->ndim && a->dtype == MR_F32) *x = 1;
  mr_array_t *y = mr_array_of(*a, x, diag);
  free(x);
  return y;
}

static mr_err_t make_arguments(cached_t *c, mr_diag_t *diag) {
  mr_fn_t *step = NULL;
  MR_TRY(bench_cached_build(c, &step, diag));
  c->in = calloc((size_t)step->n_in + 1, sizeof *c->in);
  c->out = calloc((size_t)step->n_out + 1, sizeof *c->out);
  mr_err_t e = c->in && c->out ? MR_OK : MR_ERR_NOMEM;
  for (c->n_out = step->n_out; e >= 0 && c->n_in < step->n_in; c->n_in++) {
    c->in[c->n_in] = make_filled_array(&step->in[c->n_in]->aval, diag);
    if (!c->in[c->n_in]) e = MR_ERR_NOMEM;
  }
  mr_fn_destroy(step);
  return e < 0 ? mr_no_memory(diag, "the arguments of a step") : e;
}

/* Times one call until it returns, then waits for its run. */
static mr_err_t time_call(cached_t *c, double *ms, mr_diag_t *diag) {
  double from = mr_now_s();
  MR_TRY(mr_jitted_call(c->jitted, c->n_in, c->in, c->n_out, c->out, diag));
  *ms = 1e3 * (mr_now_s() - from);
  mr_err_t e = mr_block_until_ready(c->out[0], diag);
  for (int i = 0; i < c->n_out; i++) mr_array_drop(c->out[i]);
  return e;
}

static mr_err_t bench_cached_run(cached_t *c, mr_bench_t *out, mr_diag_t *diag) {
  double ms[CALLS];
  MR_TRY(make_arguments(c, diag));
  MR_TRY(mr_queue_create(&c->queue, diag));
  MR_TRY(mr_jitted_create(c->queue, "step", bench_cached_trace, c, NULL, &c->jitted, diag));
  for (int i = 0; i < CALLS; i++) MR_TRY(time_call(c, &ms[i], diag));
  mr_bench_add(out, "call_first_ms", ms[0]);
  mr_bench_add(out, "call_cached_ms", mr_bench_median(ms + 1, CALLS - 1));
  mr_bench_add(out, "call_compiles", (double)mr_jitted_stats(c->jitted).misses);
  return MR_OK;
}

/* Adds call_first_ms, the first call, which traces, differentiates and compiles; call_cached_ms,
   the median of three further calls until they return; and call_compiles, the number of
   compilations in all four. */
static mr_err_t bench_calls(const mr_loss_t *l, const mr_train_config_t *t, mr_bench_t *out,
                            mr_diag_t *diag) {
  cached_t c = {.loss = l, .train = *t};
  mr_err_t e = bench_cached_run(&c, out, diag);
  mr_jitted_destroy(c.jitted);
  mr_queue_destroy(c.queue);
  for (int i = 0; i < c.n_in; i++) mr_array_drop(c.in[i]);
  free(c.in);
  free(c.out);
  return e;
}

/* ---- mixed precision ---- */

/* Adds amp_ms, the median of n transforms of the traced loss by mr_amp; nothing for f32. */
static mr_err_t bench_amp(const mr_loss_t *l, const mr_train_config_t *t, int n, mr_bench_t *out,
                          mr_diag_t *diag) {
  const mr_amp_policy_t policy = mr_amp_usual(t->compute.dtype);
  const mr_compute_t wide = {.dtype = MR_F32};
  const mr_loss_use_t use = {.batch = t->batch, .train = true};
  double ms[STEPS_MAX];
  mr_params_t list = {0};
  mr_err_t e = MR_OK;
  if (t->compute.dtype == MR_F32) return MR_OK;
  mr_fn_t *f = mr_loss_fn(l, &wide, &use, &list, diag);
  for (int i = 0; f && e >= 0 && i < n; i++) {
    mr_fn_t *narrow = NULL;
    double from = mr_now_s();
    e = mr_amp(f, &policy, &narrow, diag);
    ms[i] = 1e3 * (mr_now_s() - from);
    mr_fn_destroy(narrow);
  }
  if (f && e >= 0) mr_bench_add(out, "amp_ms", mr_bench_median(ms, n));
  mr_fn_destroy(f);
  mr_params_fini(&list);
  return f ? e : diag->code;
}

/* ---- steps and compilation ---- */

typedef struct setup {
  mr_vit_config_t vit;
  mr_loss_t loss; /* of vit */
  mr_compute_t compute;
  int64_t steps, warm_up, batch, accumulate, ordered, ranks, zero;
  bool queued;  /* its fields lie on a device when a step begins */
  size_t limit; /* of --fit; 0: none */
  mr_params_t params;
  mr_train_step_t *train;
  mr_eval_step_t *eval;
  float *images;     /* (B,H,W,C), in pages of their own */
  int32_t *labels;   /* (B) */
  float reported[2]; /* the losses of the first two training steps */
} setup_t;

static mr_err_t read_flags(const mr_args_t *a, setup_t *s, mr_diag_t *diag) {
  *s = (setup_t){.vit = mr_vit_default(),
                 .compute = {.dtype = MR_BF16},
                 .steps = 5,
                 .warm_up = 2,
                 .batch = 128,
                 .accumulate = 1,
                 .ranks = 1};
  static const mr_dtype_t some[] = {MR_F32, MR_BF16, MR_F16};
  int64_t layers = s->vit.layers, threads = 0;
  const char *dtype = mr_args_text(a, "--dtype");
  MR_TRY(mr_args_int(a, "--steps", 1, STEPS_MAX, &s->steps, diag));
  MR_TRY(mr_args_int(a, "--warm-up", 0, STEPS_MAX, &s->warm_up, diag));
  MR_TRY(mr_args_int(a, "--batch", 1, 65536, &s->batch, diag));
  MR_TRY(mr_args_int(a, "--accumulate", 1, 65536, &s->accumulate, diag));
  MR_TRY(mr_args_int(a, "--ordered", 0, MR_ORDERED_MOST, &s->ordered, diag));
  MR_TRY(mr_args_int(a, "--ranks", 1, MR_ORDERED_MOST, &s->ranks, diag));
  MR_TRY(mr_args_int(a, "--zero", 0, MR_ZERO_MOST, &s->zero, diag));
  if (mr_args_text(a, "--fit"))
    MR_TRY(mr_bytes_parse("--fit", mr_args_text(a, "--fit"), &s->limit, diag));
  MR_TRY(mr_args_int(a, "--layers", 1, 1000, &layers, diag));
  MR_TRY(mr_args_int(a, "--threads", 0, MR_THREADS_MAX, &threads, diag));
  s->vit.layers = (int)layers;
  s->loss = mr_vit_loss(&s->vit);
  s->compute.threads = (int)threads;
  s->compute.pin = mr_args_text(a, "--pin") != NULL;
  MR_TRY(mr_device_arg(a, &s->compute.device, diag));
  for (int i = 0; dtype && i < 3; i++)
    if (!strcmp(dtype, mr_dtype_name(some[i]))) {
      s->compute.dtype = some[i];
      return MR_OK;
    }
  if (!dtype) return MR_OK;
  return mr_fail(diag, MR_ERR_USAGE, "bench: --dtype: \"%s\", expected f32, bf16 or f16", dtype);
}

static mr_err_t make_noise(setup_t *s, mr_diag_t *diag) {
  size_t pixels = (size_t)s->batch * (size_t)(s->vit.image * s->vit.image * s->vit.channels);
  s->images = aligned_alloc(PAGE, (pixels * sizeof *s->images + PAGE - 1) / PAGE * PAGE);
  s->labels = aligned_alloc(64, ((size_t)s->batch * sizeof *s->labels + 63) / 64 * 64);
  if (!s->images || !s->labels) return mr_no_memory(diag, "a batch");
  mr_philox_t g;
  mr_philox_init(&g, 12, 0);
  for (size_t i = 0; i < pixels; i++) s->images[i] = (float)mr_philox_uniform(&g, -2, 2);
  for (int64_t i = 0; i < s->batch; i++) s->labels[i] = (int32_t)(i % s->vit.classes);
  return MR_OK;
}

/* Applies --fit; the choice is reported with the times. */
static mr_err_t bench_model_fit(setup_t *s, mr_train_config_t *t, mr_diag_t *diag) {
  mr_fit_t choice;
  if (!s->limit) return MR_OK;
  MR_TRY(mr_fit(&s->loss, true, t, s->limit, &choice, diag));
  s->compute.remat = t->compute.remat = choice.remat;
  s->accumulate = t->accumulate = choice.accumulate;
  return MR_OK;
}

static mr_err_t compile_train(setup_t *s, mr_diag_t *diag) {
  mr_train_config_t train = mr_train_default(s->batch);
  train.accumulate = s->accumulate;
  train.ordered = s->ordered;
  train.ranks = (int)s->ranks, train.zero = (int)s->zero;
  train.compute = s->compute;
  train.there = s->queued;
  MR_TRY(bench_model_fit(s, &train, diag));
  return mr_train_step_create(&s->loss, &train, &s->train, diag);
}

static mr_err_t run_train(setup_t *s, int64_t t, mr_diag_t *diag) {
  const void *const field[] = {s->images, s->labels};
  mr_train_out_t out;
  MR_TRY(mr_train_step_run(s->train, &s->params, field, &(mr_train_in_t){t, 12, 1e-3f}, diag));
  MR_TRY(mr_train_step_read(s->train, true, &out, diag));
  if (t <= 2) s->reported[t - 1] = out.loss;
  return MR_OK;
}

static mr_err_t run_eval(setup_t *s, int64_t t, mr_diag_t *diag) {
  const void *const field[] = {s->images, s->labels};
  mr_eval_rows_t rows;
  MR_TRY(mr_eval_step_run(s->eval, &s->params, field, diag));
  return mr_eval_step_read(s->eval, true, &rows, diag);
}

/* Times runs; the warm-up runs, which fault memory in, do not count. */
static mr_err_t bench_model_time_runs(setup_t *s,
                                      mr_err_t (*run)(setup_t *s, int64_t t, mr_diag_t *diag),
                                      mr_bench_t *out, mr_diag_t *diag) {
  double seconds[STEPS_MAX];
  for (int64_t t = 0; t < s->warm_up + s->steps; t++) {
    double from = mr_now_s();
    MR_TRY(run(s, t + 1, diag));
    if (t >= s->warm_up) seconds[t - s->warm_up] = mr_now_s() - from;
  }
  double median = mr_bench_median(seconds, (int)s->steps);
  mr_bench_add(out, "step_s", median);
  mr_bench_add(out, "images_per_s", (double)s->batch / median);
  return MR_OK;
}

static void bench_model_describe(const setup_t *s, mr_bench_t *out) {
  mr_bench_add(out, "batch", (double)s->batch);
  mr_bench_add(out, "threads",
               s->compute.threads ? s->compute.threads : mr_device_threads(mr_device_default()));
  mr_bench_add(out, "parameters", (double)s->params.count);
  out->data = "noise";
}

static void describe_memory(const setup_t *s, mr_bench_t *out) {
  mr_bench_add(out, "accumulate", (double)s->accumulate);
  mr_bench_add(out, "ordered", (double)s->ordered);
  mr_bench_add(out, "ranks", (double)s->ranks);
  mr_bench_add(out, "zero", (double)s->zero);
  mr_bench_add(out, "remat", (double)s->compute.remat); /* 0 none, 1 dots, 2 full */
  mr_bench_add(out, "planned_peak_bytes", (double)mr_exec_peak_bytes(mr_train_step_exec(s->train)));
}

static void setup_fini(setup_t *s) {
  free(s->images);
  free(s->labels);
  mr_train_step_destroy(s->train);
  mr_eval_step_destroy(s->eval);
  mr_params_fini(&s->params);
}

static mr_err_t time_queued(setup_t *s, const mr_args_t *a, mr_bench_t *out, mr_diag_t *diag) {
  size_t pixels = (size_t)(s->vit.image * s->vit.image * s->vit.channels);
  size_t bytes[] = {(size_t)s->batch * pixels * sizeof *s->images,
                    (size_t)s->batch * sizeof *s->labels};
  const mr_queued_t q = {.device = s->compute.device,
                         .step = s->train,
                         .params = &s->params,
                         .field = {s->images, s->labels},
                         .bytes = {bytes[0], bytes[1]},
                         .warm_up = s->warm_up,
                         .steps = mr_args_text(a, "--steps") ? s->steps : 0};
  mr_queued_times_t t;
  MR_TRY(mr_queued_measure(&q, &t, diag));
  mr_bench_add(out, "step_s", t.step_s);
  mr_bench_add(out, "images_per_s", (double)s->batch / t.step_s);
  mr_bench_add(out, "step_with_copy_s", t.copied_s);
  mr_bench_add(out, "images_per_s_with_copy", (double)s->batch / t.copied_s);
  mr_bench_add(out, "steps", (double)t.steps);
  mr_bench_add(out, "rows", t.rows);
  mr_bench_add(out, "warm_up_s", t.warm_up_s);
  mr_bench_add(out, "device_clock", t.by_device);
  s->reported[0] = t.loss[0], s->reported[1] = t.loss[1];
  return MR_OK;
}

static mr_err_t time_steps(setup_t *s, const mr_args_t *a, mr_bench_t *out, mr_diag_t *diag) {
  MR_TRY(s->queued ? time_queued(s, a, out, diag) : bench_model_time_runs(s, run_train, out, diag));
  mr_bench_add(out, "first_loss", s->reported[0]);
  if (s->queued || s->steps + s->warm_up > 1) mr_bench_add(out, "second_loss", s->reported[1]);
  return MR_OK;
}

mr_err_t mr_bench_step(const mr_args_t *a, mr_bench_t *out, mr_diag_t *diag) {
  setup_t s;
  MR_TRY(read_flags(a, &s, diag));
  s.queued = s.compute.device && !s.compute.device->backend->host;
  mr_err_t e = mr_loss_params(&s.loss, 12, &s.params, diag);
  if (e >= 0) e = compile_train(&s, diag);
  if (e >= 0) e = make_noise(&s, diag);
  if (e >= 0) e = time_steps(&s, a, out, diag);
  if (e >= 0) bench_model_describe(&s, out);
  if (e >= 0) describe_memory(&s, out);
  setup_fini(&s);
  return e;
}

mr_err_t mr_bench_infer(const mr_args_t *a, mr_bench_t *out, mr_diag_t *diag) {
  setup_t s;
  MR_TRY(read_flags(a, &s, diag));
  mr_err_t e = mr_loss_params(&s.loss, 12, &s.params, diag);
  if (e >= 0) e = mr_eval_step_create(&s.loss, &s.compute, s.batch, NULL, &s.eval, diag);
  if (e >= 0) e = make_noise(&s, diag);
  if (e >= 0) e = bench_model_time_runs(&s, run_eval, out, diag);
  if (e >= 0) bench_model_describe(&s, out);
  setup_fini(&s);
  return e;
}

/* Traces, differentiates, plans and compiles anew each time.  oneDNN's caches help from the second
   time on, so the first is reported with the median. */
mr_err_t mr_bench_compile(const mr_args_t *a, mr_bench_t *out, mr_diag_t *diag) {
  setup_t s;
  double ms[STEPS_MAX];
  MR_TRY(read_flags(a, &s, diag));
  MR_TRY(mr_loss_params(&s.loss, 12, &s.params, diag));
  mr_err_t e = MR_OK;
  for (int64_t t = 0; t < s.steps && e >= 0; t++) {
    double from = mr_now_s();
    e = compile_train(&s, diag);
    ms[t] = 1e3 * (mr_now_s() - from);
    mr_train_step_destroy(s.train);
    s.train = NULL;
  }
  if (e >= 0) {
    mr_bench_add(out, "first_ms", ms[0]);
    mr_bench_add(out, "compile_ms", mr_bench_median(ms, (int)s.steps));
    mr_train_config_t train = mr_train_default(s.batch);
    train.compute = s.compute;
    e = bench_amp(&s.loss, &train, (int)s.steps, out, diag);
    if (e >= 0) e = bench_calls(&s.loss, &train, out, diag);
  }
  if (e >= 0) bench_model_describe(&s, out);
  setup_fini(&s);
  return e;
}
