/* Measurement of the training step alone: no loading, pictures of noise. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "apps/bench.h"
#include "model/train.h"

enum { WARM_UP = 2, STEPS_MAX = 1000 };

typedef struct setup {
  mr_vit_config_t vit;
  int64_t steps, batch;
  mr_params_t params;
  mr_train_step_t *step;
  float *images;   /* (B,H,W,C) */
  int32_t *labels; /* (B) */
} setup_t;

static mr_err_t read_flags(const mr_args_t *a, setup_t *s, mr_diag_t *diag) {
  int64_t layers = s->vit.layers;
  const char *dtype = mr_args_text(a, "--dtype");
  MR_TRY(mr_args_int(a, "--steps", 1, STEPS_MAX, &s->steps, diag));
  MR_TRY(mr_args_int(a, "--batch", 1, 65536, &s->batch, diag));
  MR_TRY(mr_args_int(a, "--layers", 1, 1000, &layers, diag));
  s->vit.layers = (int)layers;
  if (dtype && strcmp(dtype, "bf16") && strcmp(dtype, "f32"))
    return mr_fail(diag, MR_ERR_USAGE, "bench: --dtype: \"%s\", expected bf16 or f32", dtype);
  if (dtype) s->vit.dtype = strcmp(dtype, "f32") ? MR_BF16 : MR_F32;
  return MR_OK;
}

static mr_err_t prepare(setup_t *s, mr_diag_t *diag) {
  mr_train_config_t train = mr_train_default(s->batch);
  size_t pixels = (size_t)s->batch * (size_t)(s->vit.image * s->vit.image * s->vit.channels);
  MR_TRY(mr_vit_params(&s->vit, 12, &s->params, diag));
  MR_TRY(mr_train_step_create(&s->vit, &train, &s->step, diag));
  s->images = aligned_alloc(64, (pixels * sizeof *s->images + 63) / 64 * 64);
  s->labels = aligned_alloc(64, ((size_t)s->batch * sizeof *s->labels + 63) / 64 * 64);
  if (!s->images || !s->labels) return mr_fail(diag, MR_ERR_NOMEM, "no memory for a batch");
  mr_philox_t g;
  mr_philox_init(&g, 12, 0);
  for (size_t i = 0; i < pixels; i++) s->images[i] = (float)mr_philox_uniform(&g, -2, 2);
  for (int64_t i = 0; i < s->batch; i++) s->labels[i] = (int32_t)(i % s->vit.classes);
  return MR_OK;
}

static mr_err_t time_steps(setup_t *s, double *seconds, mr_diag_t *diag) {
  for (int64_t t = 0; t < WARM_UP + s->steps; t++) {
    struct timespec from, to;
    mr_train_out_t out;
    clock_gettime(CLOCK_MONOTONIC, &from);
    MR_TRY(
        mr_train_step_run(s->step, &s->params, s->images, s->labels, 1e-3f, t + 1, 12, &out, diag));
    clock_gettime(CLOCK_MONOTONIC, &to);
    if (t >= WARM_UP)
      seconds[t - WARM_UP] =
          (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec);
  }
  return MR_OK;
}

mr_err_t mr_bench_step(const mr_args_t *a, mr_bench_t *out, mr_diag_t *diag) {
  setup_t s = {.vit = mr_vit_default(), .steps = 5, .batch = 128};
  double seconds[STEPS_MAX];
  MR_TRY(read_flags(a, &s, diag));
  mr_err_t e = prepare(&s, diag);
  if (e >= 0) e = time_steps(&s, seconds, diag);
  if (e >= 0) {
    double median = mr_bench_median(seconds, (int)s.steps);
    mr_bench_add(out, "step_s", median);
    mr_bench_add(out, "images_per_s", (double)s.batch / median);
    mr_bench_add(out, "batch", (double)s.batch);
    mr_bench_add(out, "parameters", (double)s.params.count);
    out->data = "noise";
  }
  free(s.images);
  free(s.labels);
  mr_train_step_destroy(s.step);
  mr_params_fini(&s.params);
  return e;
}
