/* The small ViTs of tests/golden/vit, and what flax, PyTorch and optax compute with them, on the
   CPU or a device. */
#ifndef MR_TESTS_MODEL_VIT_GOLDEN_H
#define MR_TESTS_MODEL_VIT_GOLDEN_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/npy.h"
#include "model/exec/device.h"
#include "model/model.h"
#include "tests/model/vit_step.h"
#include "tests/vectors.h"

static const mr_device_t *vit_device; /* where the models compute; NULL: the CPU */

/* Writes the path of a file of a variant's vectors and returns it. */
static inline const char *vit_path(char path[512], const char *variant, const char *file) {
  char name[256];
  snprintf(name, sizeof name, "vit/%s/%s", variant, file);
  return vectors_path(path, name);
}

static inline mr_npy_t load(const char *variant, const char *file) {
  char path[512], name[80];
  mr_npy_t a = {0};
  mr_diag_t diag = {0};
  snprintf(name, sizeof name, "%s.npy", file);
  if (mr_npy_load(vit_path(path, variant, name), &a, &diag) < 0) fail_msg("%s", diag.text);
  return a;
}

static inline double scalar(const char *variant, const char *name) {
  char path[512], line[256], key[128];
  double v = NAN, got;
  FILE *f = fopen(vit_path(path, variant, "scalars.txt"), "r");
  assert_non_null(f);
  while (fgets(line, sizeof line, f))
    if (sscanf(line, "%127s %lf", key, &got) == 2 && !strcmp(key, name)) v = got;
  fclose(f);
  assert_false(isnan(v));
  return v;
}

static inline vit_t small(mr_vit_variant_t variant, mr_dtype_t dtype) {
  return (vit_t){.model = {.variant = variant,
                           .image = 32,
                           .patch = 4,
                           .channels = 3,
                           .embed = 32,
                           .mlp = 64,
                           .heads = 4,
                           .layers = 2,
                           .classes = 10},
                 .how = {.dtype = dtype, .device = vit_device}};
}

typedef struct model {
  vit_t config;
  mr_params_t params;
  mr_npy_t golden; /* the parameters as one vector */
  float *images;   /* (4,32,32,3) */
  mr_npy_t labels;
} model_t;

/* The golden vectors are dense; ours are padded to 64 bytes a tensor. */
static inline void scatter(const mr_params_t *s, const float *dense, float *arena) {
  for (int i = 0; i < s->n; i++) {
    memcpy(arena + s->param[i].offset, dense, s->param[i].size * sizeof(float));
    dense += s->param[i].size;
  }
}

static inline void gather(const mr_params_t *s, const float *arena, float *dense) {
  for (int i = 0; i < s->n; i++) {
    memcpy(dense, arena + s->param[i].offset, s->param[i].size * sizeof(float));
    dense += s->param[i].size;
  }
}

static inline void check_names(const model_t *m, const char *variant) {
  char path[512], line[256], name[128];
  long offset = 0, want = 0;
  int i = 0;
  FILE *f = fopen(vit_path(path, variant, "params.index.txt"), "r");
  assert_non_null(f);
  while (fgets(line, sizeof line, f)) {
    int ndim, at;
    if (line[0] == '#' || sscanf(line, "%127s %ld %d%n", name, &want, &ndim, &at) != 3) continue;
    assert_true(i < m->params.n);
    const mr_aval_t *is = &m->params.param[i].aval;
    assert_int_equal(is->ndim, ndim);
    char *dim = line + at;
    for (int k = 0; k < ndim; k++) assert_int_equal(is->dim[k], strtol(dim, &dim, 10));
    assert_string_equal(m->params.param[i].name, name);
    assert_int_equal(offset, want);
    offset += (long)m->params.param[i++].size;
  }
  fclose(f);
  assert_int_equal(i, m->params.n);
}

static inline model_t setup(mr_vit_variant_t variant, mr_dtype_t dtype) {
  const char *name = variant == MR_VIT_FLAX ? "flax" : "timm";
  model_t m = {.config = small(variant, dtype)};
  mr_diag_t diag = {0};
  if (vit_params(&m.config, 1, &m.params, &diag) < 0) fail_msg("%s", diag.text);
  assert_int_equal(m.params.count, 21162);
  check_names(&m, name);
  m.golden = load(name, "params");
  m.labels = load(name, "labels");
  scatter(&m.params, m.golden.data, values_of(&m.params));
  mr_npy_t images = load(name, "images");
  const float *x = images.data;
  m.images = aligned_alloc(64, images.count * sizeof(float));
  assert_non_null(m.images);
  for (size_t i = 0; i < images.count; i++) {
    size_t b = i / 3072, c = i % 3, pixel = i % 3072 / 3;
    m.images[i] = variant == MR_VIT_FLAX ? x[i] : x[b * 3072 + c * 1024 + pixel];
  }
  mr_npy_free(&images);
  return m;
}

static inline void teardown(model_t *m) {
  mr_params_fini(&m->params);
  mr_npy_free(&m->golden);
  mr_npy_free(&m->labels);
  free(m->images);
}

static inline bool is_key_bias(const char *name, size_t size, size_t at) {
  if (strstr(name, "attn.key.bias")) return true;
  return strstr(name, "attn.qkv.bias") && at >= size / 3 && at < 2 * size / 3;
}

/* Whole and worst tensor's relative L2 distance, without the key biases. */
static inline double distance(const mr_params_t *s, const float *got, const float *want,
                              double *worst) {
  double num = 0, den = 0;
  *worst = 0;
  for (int i = 0; i < s->n; i++) {
    const mr_param_t *t = &s->param[i];
    double tn = 0, td = 0;
    for (size_t k = 0; k < t->size; k++) {
      if (is_key_bias(t->name, t->size, k)) continue;
      double d = (double)got[t->offset + k] - (double)want[t->offset + k];
      assert_true(isfinite(d));
      tn += d * d;
      td += (double)want[t->offset + k] * (double)want[t->offset + k];
    }
    if (td > 0 && sqrt(tn / td) > *worst) *worst = sqrt(tn / td);
    num += tn;
    den += td;
  }
  return sqrt(num / den);
}

typedef struct result {
  float loss;
  float logits[40], losses[4];
  float *grad; /* an arena */
} result_t;

/* An array of b's memory with the host's bytes. */
static inline void *put(const mr_device_t *b, const void *host, size_t bytes) {
  void *p = mr_device_take(b, bytes);
  assert_non_null(p);
  mr_device_copy(b, p, host, bytes, MR_COPY_IN);
  return p;
}

/* Outputs hold 0xFF before, NaN in every float: what is not written is seen. */
static inline result_t value_and_grad(model_t *m) {
  const mr_device_t *b = vit_device ? vit_device : mr_device_default();
  mr_compile_options_t o = {.device = b};
  mr_diag_t diag = {0};
  mr_params_t list = {0};
  result_t r = {0};
  mr_fn_t *loss = vit_loss(&m->config, 4, false, &list, &diag), *g = NULL;
  mr_exec_t *x = NULL;
  if (!loss) fail_msg("%s", diag.text);
  int n = list.n, wrt[256];
  void *in[260], *out[260], *host[260];
  const uint64_t seed = 0;
  const uint32_t step = 0;
  for (int i = 0; i < n; i++) wrt[i] = VIT_DATA + i;
  if (mr_value_and_grad(loss, n, wrt, &g, &diag) < 0) fail_msg("%s", diag.text);
  if (mr_compile(g, &o, &x, &diag) < 0) fail_msg("%s", diag.text);
  size_t bytes = (list.arena_size * sizeof(float) + 63) & ~(size_t)63;
  r.grad = aligned_alloc(64, bytes);
  assert_non_null(r.grad);
  const void *data[] = {m->images, m->labels.data, &seed, &step};
  host[0] = &r.loss, host[1] = r.logits, host[2] = r.losses;
  for (int i = 0; i < n; i++) host[3 + i] = r.grad + list.param[i].offset;
  for (int i = 0; i < g->n_in; i++) {
    const float *value = i < VIT_DATA ? NULL : values_of(&m->params);
    in[i] = put(b, value ? value + list.param[i - VIT_DATA].offset : data[i],
                mr_aval_bytes(&g->in[i]->aval));
  }
  for (int i = 0; i < g->n_out; i++) {
    size_t size = mr_aval_bytes(&g->out[i]->aval);
    memset(host[i], 0xFF, size);
    out[i] = put(b, host[i], size);
  }
  mr_exec_run(x, (const void *const *)in, out);
  for (int i = 0; i < g->n_out; i++) {
    mr_device_copy(b, host[i], out[i], mr_aval_bytes(&g->out[i]->aval), MR_COPY_OUT);
    mr_device_give(b, out[i], mr_aval_bytes(&g->out[i]->aval));
  }
  for (int i = 0; i < g->n_in; i++) mr_device_give(b, in[i], mr_aval_bytes(&g->in[i]->aval));
  mr_exec_destroy(x);
  mr_fn_destroy(g);
  mr_fn_destroy(loss);
  mr_params_fini(&list);
  return r;
}

static inline void check_grads(mr_vit_variant_t variant, mr_dtype_t dtype, double logit_tol,
                               double loss_tol, double whole_tol, double tensor_tol) {
  const char *name = variant == MR_VIT_FLAX ? "flax" : "timm";
  const char *kind = dtype == MR_F32 ? "f32" : "bf16";
  char file[64];
  model_t m = setup(variant, dtype);
  result_t r = value_and_grad(&m);
  snprintf(file, sizeof file, "%s.logits", kind);
  mr_npy_t logits = load(name, file);
  snprintf(file, sizeof file, "%s.grads", kind);
  mr_npy_t grads = load(name, file);
  float *want = calloc(m.params.arena_size, sizeof *want);
  double worst_logit = 0, worst;
  for (int i = 0; i < 40; i++)
    worst_logit = fmax(worst_logit, fabs(r.logits[i] - (double)((float *)logits.data)[i]));
  scatter(&m.params, grads.data, want);
  double whole = distance(&m.params, r.grad, want, &worst);
  snprintf(file, sizeof file, "%s.loss", kind);
  double loss_off = fabs(r.loss - scalar(name, file));
  print_message("%s %s: logits %.2e, loss %.2e, gradients %.2e, worst tensor %.2e\n", name, kind,
                worst_logit, loss_off, whole, worst);
  assert_true(worst_logit < logit_tol);
  assert_true(loss_off < loss_tol);
  assert_true(whole < whole_tol);
  assert_true(worst < tensor_tol);
  free(want);
  free(r.grad);
  mr_npy_free(&logits);
  mr_npy_free(&grads);
  teardown(&m);
}

static inline void check_params(const model_t *m, const char *file) {
  mr_npy_t want = load("flax", file);
  float *got = calloc(want.count, sizeof *got);
  gather(&m->params, values_of(&m->params), got);
  size_t at = 0, far = 0;
  double worst = 0;
  for (int i = 0; i < m->params.n; i++) {
    const mr_param_t *t = &m->params.param[i];
    for (size_t k = 0; k < t->size; k++, at++) {
      if (is_key_bias(t->name, t->size, k)) continue;
      double d = fabs(got[at] - (double)((float *)want.data)[at]);
      assert_true(isfinite(d));
      far += d > 2e-6;
      worst = fmax(worst, d);
    }
  }
  print_message("%s: %zu of %zu beyond 2e-6, worst %.2e\n", file, far, want.count, worst);
  assert_true(far <= want.count / 1000);
  assert_true(worst < 1e-4);
  free(got);
  mr_npy_free(&want);
}

static inline void check_adamw(const char *tag, float clip_norm) {
  model_t m = setup(MR_VIT_FLAX, MR_F32);
  mr_train_config_t opt = mr_train_default(4);
  mr_train_step_t *step = NULL;
  mr_train_out_t out;
  mr_diag_t diag = {0};
  char name[64];
  opt.optim.clip_norm = clip_norm;
  if (vit_step(&m.config, opt, &step, &diag) < 0) fail_msg("%s", diag.text);
  for (int t = 1; t <= 3; t++) {
    if (vit_run(step, &m.params, m.images, m.labels.data, 1e-3f, t, 0, &out, &diag) < 0)
      fail_msg("%s", diag.text);
    snprintf(name, sizeof name, "f32.%s.loss_before_step%d", tag, t);
    assert_true(fabs(out.loss - scalar("flax", name)) < 1e-5);
    snprintf(name, sizeof name, "f32.%s.grad_norm_before_clip_step%d", tag, t);
    assert_true(fabs(out.grad_norm - scalar("flax", name)) < 1e-4);
    snprintf(name, sizeof name, "f32.%s.params%d", tag, t);
    if (mr_train_step_fetch(step, &m.params, &diag) < 0) fail_msg("%s", diag.text);
    if (t != 2) check_params(&m, name);
  }
  mr_train_step_destroy(step);
  teardown(&m);
}

#endif
