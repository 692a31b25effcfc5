/* Optimizers against optax (tests/golden/optim.txt), and a batch in parts against the whole one. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/model.h"
#include "model/ops/rules.h"
#include "tests/model/vit_step.h"
#include "tests/vectors.h"

enum { NA = 6, NB = 3, N = NA + NB };

static const float start[N] = {0.5f, -1.25f, 0, 2, -0.03125f, 1, 0, 0, 0};
static const float base_grad[N] = {0.25f, -0.5f, 1, -2, 0, 0.125f, 0.75f, -1.5f, 0};

static float grad_at(int i, int step) { return base_grad[i] * (float)(i < NA ? 4 - step : step); }

/* sum(a ga) + sum(b gb), whose gradients are ga and gb: data ga, gb; parameters a, b. */
static mr_fn_t *linear_loss(mr_dtype_t t) {
  mr_fn_t *f = mr_fn_create();
  mr_aval_t a = mr_aval_of(t, 2, 3), b = mr_aval_of(t, 3);
  for (int i = 0; i < 4; i++) mr_fn_input(f, i % 2 ? b : a);
  mr_var_t *x = mr_lax_reduce_sum(f, mr_lax_mul(f, f->in[0], f->in[2]), 2, (int[]){0, 1});
  mr_var_t *y = mr_lax_reduce_sum(f, mr_lax_mul(f, f->in[1], f->in[3]), 1, (int[]){0});
  mr_var_t *loss = mr_lax_add(f, x, y);
  assert_int_equal(mr_fn_return(f, 1, &loss), MR_OK);
  return f;
}

static mr_exec_t *compile(const mr_optim_t *o, mr_dtype_t t, bool in_place) {
  mr_fn_t *loss = linear_loss(t), *f = NULL;
  mr_exec_t *x = NULL;
  mr_diag_t diag = {0};
  const mr_fn_t *part[] = {loss};
  int in = in_place ? 2 * mr_optim_sets(o) : 0;
  if (mr_optim_step_fn(&(mr_optim_loss_t){.n_data = 2, .parts = 1, .part = part}, o, &f, &diag) <
          0 ||
      mr_compile(f, &(mr_compile_options_t){.in_place = in}, &x, &diag) < 0)
    fail_msg("%s: %s", o->def->name, diag.text);
  mr_fn_destroy(loss);
  mr_fn_destroy(f);
  return x;
}

/* The values that optax has after a step of a case. */
static void golden(const char *name, int step, float want[N]) {
  char line[512], word[32];
  FILE *f = vectors_open("optim.txt");
  bool found = false;
  while (!found && fgets(line, sizeof line, f)) {
    int at, k = 0;
    found = sscanf(line, "%31s %d%n", word, &k, &at) == 2 && !strcmp(word, name) && k == step;
    char *next = line + at;
    for (int i = 0; found && i < N; i++) want[i] = strtof(next, &next);
  }
  fclose(f);
  if (!found) fail_msg("optim.txt has no %s %d", name, step);
}

enum { ROW = 16 }; /* floats from one tensor to the next: 64 bytes */

static void near(const char *name, int step, const float *p) {
  float want[N];
  golden(name, step, want);
  for (int i = 0; i < N; i++) {
    float got = p[i < NA ? i : ROW + i - NA];
    if (!(fabsf(got - want[i]) <= 2e-6f * (1 + fabsf(want[i]))))
      fail_msg("%s, step %d, value %d: %.9g, want %.9g", name, step, i, (double)got,
               (double)want[i]);
  }
}

static void steps(const char *name, const mr_optim_t *o, bool in_place) {
  mr_exec_t *x = compile(o, MR_F32, in_place);
  int sets = 1 + o->def->n_slots;
  _Alignas(64) float state[2][6 * ROW] = {{0}}, g[2 * ROW];
  float lr = 0.05f, loss, norm;
  memcpy(state[0], start, NA * sizeof *start);
  for (int step = 1; step <= 3; step++) {
    float t = (float)step, *now = state[in_place ? 0 : (step - 1) % 2];
    float *then = state[in_place ? 0 : step % 2];
    const void *in[4 + 6] = {g, g + ROW, &lr, &t};
    void *out[2 + 6] = {&loss, &norm};
    for (int i = 0; i < N; i++) g[i < NA ? i : ROW + i - NA] = grad_at(i, step);
    for (int k = 0; k < 2 * sets; k++) in[4 + k] = now + k * ROW, out[2 + k] = then + k * ROW;
    mr_exec_run(x, in, out);
    near(name, step, then);
  }
  mr_exec_destroy(x);
}

static void check(const char *name, const mr_optim_t *o) {
  steps(name, o, false);
  steps(name, o, true);
}

static void each_optimizer_steps_as_optax_does(void **state) {
  static const char *const name[] = {"sgd", "momentum", "adam", "lion", "lamb"};
  for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
    mr_optim_t o = mr_optim_of(name[i]);
    assert_non_null(o.def);
    check(name[i], &o);
  }
}

/* ---- other dtypes ---- */

/* The values that optax has after a step of a case in that dtype. */
static void golden_in(const char *name, const char *dtype, int step, double want[N]) {
  char line[512], word[32], type[32];
  FILE *f = vectors_open("optim_dtypes.txt");
  bool found = false;
  while (!found && fgets(line, sizeof line, f)) {
    int at, k = 0;
    found = sscanf(line, "%31s %31s %d%n", word, type, &k, &at) == 3 && !strcmp(word, name) &&
            !strcmp(type, dtype) && k == step;
    char *next = line + at;
    for (int i = 0; found && i < N; i++) want[i] = strtod(next, &next);
  }
  fclose(f);
  if (!found) fail_msg("optim_dtypes.txt has no %s %s %d", name, dtype, step);
}

/* bf16, whose last place is 2^-8 to 2^-7 of a value, and f16, where it is 2^-11 to 2^-10: within
   it, since each op is rounded as there; within two for lamb, whose norms optax makes of squares
   that it has rounded.  Where Adam's eps is 0 in f16 and a gradient is, both give NaN. */
static void near_in(const char *name, mr_dtype_t t, int step, const void *a, const void *b) {
  double want[N], place = t == MR_F16 ? 0x1p-10 : 0x1p-8;
  double tolerance = t == MR_F64 ? 1e-14 : !strncmp(name, "lamb", 4) ? 4 * place : place;
  golden_in(name, t == MR_F64 ? "float64" : t == MR_F16 ? "float16" : "bfloat16", step, want);
  for (int i = 0; i < N; i++) {
    double got = mr_get_f64(t, i < NA ? a : b, i < NA ? i : i - NA);
    if (isnan(want[i]) && isnan(got)) continue;
    if (!(fabs(got - want[i]) <= tolerance * (fabs(want[i]) + (t == MR_F64))))
      fail_msg("%s of %s, step %d, value %d: %.17g, want %.17g", name, mr_dtype_name(t), step, i,
               got, want[i]);
  }
}

static void steps_in(const char *name, const mr_optim_t *o, mr_dtype_t t) {
  mr_exec_t *x = compile(o, t, true);
  int sets = 1 + o->def->n_slots;
  _Alignas(64) double state[6][8] = {{0}}, g[2][8], loss; /* room for any dtype */
  float lr = 0.05f, norm;
  for (int i = 0; i < NA; i++) mr_set_f64(t, state[0], i, (double)start[i]);
  for (int step = 1; step <= 3; step++) {
    float count = (float)step;
    const void *in[4 + 6] = {g[0], g[1], &lr, &count};
    void *out[2 + 6] = {&loss, &norm};
    for (int i = 0; i < N; i++)
      mr_set_f64(t, g[i >= NA], i < NA ? i : i - NA, (double)grad_at(i, step));
    for (int k = 0; k < 2 * sets; k++) in[4 + k] = out[2 + k] = state[k];
    mr_exec_run(x, in, out);
    near_in(name, t, step, state[0], state[1]);
    double sum = 0;
    for (int i = 0; i < N; i++) sum += (double)grad_at(i, step) * (double)grad_at(i, step);
    assert_true(fabs((double)norm - sqrt(sum)) <= 1e-6 * sqrt(sum));
  }
  mr_exec_destroy(x);
}

static void each_optimizer_steps_other_floats_as_optax_does(void **state) {
  static const char *const name[] = {"sgd",   "momentum", "nesterov", "adam",
                                     "adamw", "lion",     "lamb",     "lamb_decay"};
  for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
    bool nesterov = !strcmp(name[i], "nesterov"), decay = !strcmp(name[i], "lamb_decay");
    mr_optim_t o = mr_optim_of(nesterov ? "momentum" : decay ? "lamb" : name[i]);
    assert_non_null(o.def);
    o.nesterov = nesterov;
    if (decay || !strcmp(name[i], "adamw")) o.weight_decay = 1e-2f;
    steps_in(name[i], &o, MR_F64);
    steps_in(name[i], &o, MR_BF16);
    steps_in(name[i], &o, MR_F16);
  }
}

static void settings_of_an_optimizer_count(void **state) {
  mr_optim_t o = mr_optim_of("momentum");
  o.nesterov = true;
  check("nesterov", &o);
  o = mr_optim_of("momentum");
  o.clip_norm = 1;
  check("clipped", &o);
  o = mr_optim_of("adamw");
  o.weight_decay = 1e-2f;
  check("adamw", &o);
  o = mr_optim_of("lamb");
  o.weight_decay = 1e-2f;
  check("lamb_decay", &o);
}

/* Gradients whose squares, or whose norm, f32 does not hold. */
static void any_finite_gradient_is_clipped(void **state) {
  static const float largest[] = {1e-20f, 1, 1e15f, 1.7e19f, 1.9e19f, 1e25f, 1e33f, 3.4e38f};
  for (size_t k = 0; k < 2 * sizeof largest / sizeof *largest; k++) {
    mr_optim_t o = mr_optim_of("sgd");
    o.clip_norm = 0.5f, o.loss_scale = k % 2 ? 0.5f : 0;
    mr_exec_t *x = compile(&o, MR_F32, true);
    _Alignas(64) float p[2 * ROW] = {0}, g[2 * ROW] = {0};
    float lr = 1, t = 1, loss, norm;
    double sum = 0;
    for (int i = 0; i < N; i++) {
      float *at = &g[i < NA ? i : ROW + i - NA];
      *at = (i % 2 ? -1.0f : 1.0f) * largest[k / 2] / (float)(1 + i % 3);
      sum += (double)*at * (double)*at;
    }
    mr_exec_run(x, (const void *[]){g, g + ROW, &lr, &t, p, p + ROW},
                (void *[]){&loss, &norm, p, p + ROW});
    double size = sqrt(sum), less = fmin(1, 0.5 / size);
    double said = fmin(size, (double)FLT_MAX);
    if (!(fabs((double)norm - said) <= 1e-6 * said))
      fail_msg("largest %g: the norm is %.9g, want %.9g", (double)largest[k / 2], (double)norm,
               said);
    for (int i = 0; i < N; i++) {
      int at = i < NA ? i : ROW + i - NA;
      double want = -less * (double)g[at];
      if (!(fabs((double)p[at] - want) <= 1e-5 * fabs(want)))
        fail_msg("largest %g, value %d: %.9g, want %.9g", (double)largest[k / 2], i, (double)p[at],
                 want);
    }
    mr_exec_destroy(x);
  }
}

static void wrong_settings_are_named(void **state) {
  mr_diag_t diag = {0};
  assert_null(mr_optim_of("adamx").def);
  mr_optim_t o = mr_optim_of("lion");
  o.b2 = 1.5f;
  assert_int_equal(mr_optim_check(&o, &diag), MR_ERR_CONFIG);
  assert_string_equal(diag.text, "lion.b2: 1.5, want [0,1)");
  o = mr_optim_of("adam");
  o.clip_norm = o.loss_scale = 1e9f, o.eps = 1; /* the ends of what settings allow */
  assert_int_equal(mr_optim_check(&o, &diag), MR_OK);
  o.clip_norm = 1.1e9f;
  diag = (mr_diag_t){0};
  assert_int_equal(mr_optim_check(&o, &diag), MR_ERR_CONFIG);
  assert_string_equal(diag.text, "adam.clip-norm: 1.1e+09, want [0,1e+09]");
}

/* A step of adamw around a loss of p and a datum, of these dtypes, says so. */
static void expect_no_step(mr_dtype_t p, mr_dtype_t loss, int ndim, const char *want) {
  mr_diag_t diag = {0};
  mr_fn_t *f = mr_fn_create(), *step = NULL;
  const mr_fn_t *const part[] = {f};
  mr_var_t *x = mr_fn_input(f, mr_aval_of(p, 3)),
           *y = mr_lax_convert(f, mr_fn_input(f, x->aval), loss);
  if (!ndim) y = mr_lax_reduce_sum(f, y, 1, (int[]){0});
  assert_int_equal(mr_fn_return(f, 1, &y), MR_OK);
  mr_optim_t o = mr_optim_of("adamw");
  mr_optim_loss_t l = {.n_data = 1, .parts = 1, .part = part};
  assert_int_equal(mr_optim_step_fn(&l, &o, &step, &diag), MR_ERR_SHAPE);
  assert_string_equal(diag.text, want);
  mr_fn_destroy(f);
}

static void parameters_and_losses_of_other_dtypes_are_refused(void **state) {
  const char *const parameter =
      "parameter 0 is %s[3], want f32, bf16, f16 or f64: the loss may convert it to what it "
      "computes "
      "in";
  char want[128];
  snprintf(want, sizeof want, parameter, "i32");
  expect_no_step(MR_I32, MR_F32, 0, want);
  expect_no_step(MR_F32, MR_I32, 0, "the loss is i32[], want a scalar of f32, bf16, f16 or f64");
  expect_no_step(MR_F32, MR_F32, 1, "the loss is f32[3], want a scalar of f32, bf16, f16 or f64");
}

static void a_loss_that_was_not_traced_is_reported(void **state) {
  mr_diag_t diag = {0};
  mr_fn_t *f = mr_fn_create(), *step = NULL;
  const mr_fn_t *const part[] = {f};
  mr_optim_t o = mr_optim_of("sgd");
  mr_optim_loss_t l = {.parts = 1, .part = part};
  mr_var_t *p = mr_fn_input(f, mr_aval_of(MR_F32, 3));
  assert_int_equal(mr_optim_step_fn(&l, &o, &step, &diag), MR_ERR_SHAPE);
  assert_string_equal(diag.text, "part 0 of the loss gives no value");
  mr_lax_linear(f, p, p, NULL, false);
  diag = (mr_diag_t){0};
  assert_int_equal(mr_optim_step_fn(&l, &o, &step, &diag), MR_ERR_SHAPE);
  assert_string_equal(diag.text,
                      "part 0 of the loss failed: linear f32[3] f32[3]: x's last size is not the "
                      "kernel's input size");
  mr_fn_destroy(f);
}

static void an_average_follows_the_weights(void **state) {
  mr_fn_t *f = mr_fn_create();
  mr_diag_t diag = {0};
  mr_exec_t *x = NULL;
  for (int i = 0; i < 2; i++) mr_fn_input(f, mr_aval_of(MR_F32, 3));
  mr_var_t *y = mr_optim_ema(f, 0.75f, f->in[0], f->in[1]);
  assert_int_equal(mr_fn_return(f, 1, &y), MR_OK);
  assert_int_equal(mr_compile(f, NULL, &x, &diag), MR_OK);
  _Alignas(64) float average[3] = {4, 0, -8}, p[3] = {0, 4, 8}, got[3];
  mr_exec_run(x, (const void *[]){average, p}, (void *[]){got});
  const float want[3] = {3, 1, -4};
  assert_memory_equal(got, want, sizeof want);
  mr_exec_destroy(x);
  mr_fn_destroy(f);
}

/* ---- a batch in parts ---- */

typedef struct trained {
  float loss, norm;
  size_t peak;
  mr_params_t params;
} trained_t;

enum { B = 64, PIXELS = 8 * 8 * 3 };

static trained_t train(int64_t parts, float dropout) {
  trained_t r = {0};
  mr_diag_t diag = {0};
  vit_t c = vit_default();
  c.model.image = 8, c.model.embed = 32, c.model.mlp = 64, c.model.heads = 2, c.model.layers = 2;
  c.model.dropout = dropout, c.how.dtype = MR_F32;
  mr_train_config_t t = mr_train_default(B);
  mr_train_step_t *step = NULL;
  mr_train_out_t out;
  t.accumulate = parts;
  t.optim = mr_optim_of("sgd");
  if (vit_params(&c, 3, &r.params, &diag) < 0 || vit_step(&c, t, &step, &diag) < 0)
    fail_msg("%s", diag.text);
  float *images = aligned_alloc(64, B * PIXELS * sizeof *images);
  _Alignas(64) int32_t labels[B];
  for (int i = 0; i < B * PIXELS; i++)
    images[i] = (float)(i % B % 7 - 3) * .3f + (float)(i % 5) * .1f;
  for (int i = 0; i < B; i++) labels[i] = i % 10;
  if (vit_run(step, &r.params, images, labels, 0.1f, 1, 5, &out, &diag) < 0)
    fail_msg("%s", diag.text);
  r.loss = out.loss, r.norm = out.grad_norm;
  r.peak = mr_exec_peak_bytes(mr_train_step_exec(step));
  mr_train_step_destroy(step);
  free(images);
  return r;
}

static void parts_of_a_batch_add_up_to_its_step_in_less_memory(void **state) {
  trained_t whole = train(1, 0), parts = train(4, 0);
  assert_true(fabsf(whole.loss - parts.loss) < 1e-5f);
  assert_true(fabsf(whole.norm - parts.norm) < 1e-4f * whole.norm);
  for (size_t i = 0; i < whole.params.arena_size; i++)
    if (!(fabsf(values_of(&whole.params)[i] - values_of(&parts.params)[i]) < 1e-5f))
      fail_msg("weight %zu: %g, want %g", i, (double)values_of(&parts.params)[i],
               (double)values_of(&whole.params)[i]);
  if (!(parts.peak < whole.peak / 2)) fail_msg("%zu bytes against %zu", parts.peak, whole.peak);
  mr_params_fini(&whole.params), mr_params_fini(&parts.params);
}

static void parts_draw_masks_of_their_own(void **state) {
  trained_t a = train(2, .5f), b = train(2, .5f), whole = train(1, .5f);
  assert_memory_equal(&a.loss, &b.loss, sizeof a.loss);
  assert_true(a.loss != whole.loss);
  mr_params_fini(&a.params), mr_params_fini(&b.params), mr_params_fini(&whole.params);
}

static void parts_must_divide_the_batch(void **state) {
  mr_diag_t diag = {0};
  vit_t c = vit_default();
  mr_train_config_t t = mr_train_default(32);
  mr_train_step_t *step = NULL;
  t.accumulate = 5;
  assert_int_equal(vit_step(&c, t, &step, &diag), MR_ERR_CONFIG);
  assert_string_equal(diag.text, "accumulate: 5, want a divisor of the batch 32");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_optimizer_steps_as_optax_does),
      cmocka_unit_test(each_optimizer_steps_other_floats_as_optax_does),
      cmocka_unit_test(settings_of_an_optimizer_count),
      cmocka_unit_test(any_finite_gradient_is_clipped),
      cmocka_unit_test(wrong_settings_are_named),
      cmocka_unit_test(parameters_and_losses_of_other_dtypes_are_refused),
      cmocka_unit_test(a_loss_that_was_not_traced_is_reported),
      cmocka_unit_test(an_average_follows_the_weights),
      cmocka_unit_test(parts_of_a_batch_add_up_to_its_step_in_less_memory),
      cmocka_unit_test(parts_draw_masks_of_their_own),
      cmocka_unit_test(parts_must_divide_the_batch),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
