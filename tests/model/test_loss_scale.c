/* Dynamic loss scales against jaxamp (golden/amp/scaler.txt), steps left out against optax
   (golden/amp/apply_if_finite.txt), and both together in a training step. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/model.h"
#include "tests/vectors.h"

static FILE *golden(const char *name) {
  char path[128];
  snprintf(path, sizeof path, "amp/%s", name);
  return vectors_open(path);
}

static mr_exec_t *compiled(mr_fn_t *f, const mr_compile_options_t *options) {
  mr_exec_t *x = NULL;
  mr_diag_t diag = {0};
  if (f->diag.code < 0 || mr_compile(f, options, &x, &diag) < 0)
    fail_msg("%s%s", f->diag.text, diag.text);
  mr_fn_destroy(f);
  return x;
}

/* (w f32[2], s f32[], state...) -> (gradient by w of sum(w s), state...): scaled before, divided
   after, as jaxamp does. */
static mr_exec_t *scaler(const mr_loss_scale_t *c) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *w = mr_fn_input(f, mr_aval_of(MR_F32, 2));
  mr_var_t *s = mr_fn_input(f, mr_aval_scalar(MR_F32)), *now[MR_SCALE_VARS];
  for (int i = 0; i < MR_SCALE_VARS; i++)
    now[i] = mr_fn_input(f, mr_aval_scalar(i ? MR_I32 : MR_F32));
  mr_var_t *loss = mr_lax_reduce_sum(f, mr_lax_mul(f, w, s), 1, (int[]){0});
  mr_var_t *grad, *out[1 + MR_SCALE_VARS], *apply;
  assert_int_equal(mr_backward(f, loss, now[0], 1, &w, &grad), MR_OK);
  mr_var_t *finite = mr_optim_finite(f, 1, &grad);
  assert_int_equal(mr_optim_scale_step(f, c, finite, now, out + 1, &apply), MR_OK);
  out[0] = mr_lax_div(f, grad, now[0]);
  assert_int_equal(mr_fn_return(f, 1 + MR_SCALE_VARS, out), MR_OK);
  return compiled(f, NULL);
}

static void run_scaler(mr_exec_t *x, float s, mr_scale_state_t *at, float grad[2]) {
  float w[2] = {1, 2};
  mr_scale_state_t now = *at;
  const void *in[] = {w, &s, &now.scale, &now.good, &now.bad, &now.resets, &now.skipped};
  void *out[] = {grad, &at->scale, &at->good, &at->bad, &at->resets, &at->skipped};
  mr_exec_run(x, in, out);
}

static bool same(float a, float b) { return a == b || (isnan(a) && isnan(b)); }

static void the_scale_moves_as_jaxamps_does(void **state) {
  FILE *f = golden("scaler.txt");
  char line[256], name, bad[8];
  mr_exec_t *x = NULL;
  mr_scale_state_t at = {0};
  int rows = 0;
  while (fgets(line, sizeof line, f)) {
    mr_loss_scale_t c = mr_loss_scale_usual();
    float scale, want_scale, want_grad, grad[2];
    int step, finite, good, resets;
    if (!strncmp(line, "## D", 4)) break; /* depends on what becomes of denormal numbers */
    if (sscanf(line, "## %c: patience %d adjust_factor %f scaler %f bad=%7[a-z]", &name,
               &c.patience, &c.factor, &scale, bad) == 5) {
      mr_exec_destroy(x);
      x = scaler(&c);
      at = (mr_scale_state_t){.scale = scale};
    } else if (sscanf(line, "%d %d %f %d %d %f", &step, &finite, &want_scale, &good, &resets,
                      &want_grad) == 6) {
      run_scaler(x, finite ? 1 : strtof(bad, NULL), &at, grad);
      if (at.scale != want_scale || at.good != good || at.resets != resets ||
          !same(grad[0], want_grad))
        fail_msg("%c, step %d: scale %g count %d resets %d gradient %g, want %g %d %d %g", name,
                 step, (double)at.scale, at.good, at.resets, (double)grad[0], (double)want_scale,
                 good, resets, (double)want_grad);
      rows++;
    }
  }
  mr_exec_destroy(x);
  fclose(f);
  vectors_met(rows, 70);
}

static void jaxamps_usual_settings_are_ours(void **state) {
  FILE *f = golden("scaler.txt");
  char line[256];
  mr_loss_scale_t c = mr_loss_scale_usual();
  bool seen = false;
  while (fgets(line, sizeof line, f)) {
    int patience;
    float factor;
    seen |= sscanf(line,
                   "## defaults DynamicScalerState(patience=Array(%d, dtype=int32), "
                   "adjust_factor=Array(%f",
                   &patience, &factor) == 2 &&
            patience == c.patience && factor == c.factor;
  }
  fclose(f);
  assert_true(seen);
}

static void a_scale_stays_a_normal_number(void **state) {
  mr_loss_scale_t c = {.start = 1, .factor = 65536, .patience = 1, .max_bad = 0};
  mr_exec_t *x = scaler(&c);
  mr_scale_state_t up = {.scale = 1}, down = {.scale = 1};
  float grad[2];
  for (int i = 0; i < 40; i++) {
    run_scaler(x, 1, &up, grad);
    assert_true(grad[0] == 1);
    run_scaler(x, NAN, &down, grad);
  }
  assert_true(up.scale == 0x1p127f && down.scale == 0x1p-126f);
  assert_true(down.bad == 40 && down.resets == 40 && down.skipped == 0);
  mr_exec_destroy(x);
}

/* A step of sgd on one weight whose gradient is the data; in place. */
static mr_exec_t *step_of(const mr_optim_t *o) {
  mr_fn_t *loss = mr_fn_create(), *f = NULL;
  mr_diag_t diag = {0};
  mr_var_t *g = mr_fn_input(loss, mr_aval_scalar(MR_F32));
  mr_var_t *y = mr_lax_mul(loss, g, mr_fn_input(loss, mr_aval_scalar(MR_F32)));
  assert_int_equal(mr_fn_return(loss, 1, &y), MR_OK);
  const mr_fn_t *part[] = {loss};
  if (mr_optim_step_fn(&(mr_optim_loss_t){.n_data = 1, .parts = 1, .part = part}, o, &f, &diag) < 0)
    fail_msg("%s", diag.text);
  mr_fn_destroy(loss);
  return compiled(f, &(mr_compile_options_t){.in_place = mr_optim_sets(o)});
}

/* sets: the weight, what the optimizer keeps, the average. */
static void run_step(mr_exec_t *x, float g, float lr, float t, mr_scale_state_t *at, int sets,
                     float (*set)[16]) {
  float loss, norm;
  mr_scale_state_t now = *at;
  const void *in[16] = {&g, &lr, &t, &now.scale, &now.good, &now.bad, &now.resets, &now.skipped};
  void *out[16] = {&loss, &norm, &at->scale, &at->good, &at->bad, &at->resets, &at->skipped};
  for (int k = 0; k < sets; k++) in[3 + MR_SCALE_VARS + k] = out[2 + MR_SCALE_VARS + k] = set[k];
  mr_exec_run(x, in, out);
}

static void steps_without_finite_gradients_are_left_out_as_optax_does(void **state) {
  FILE *f = golden("apply_if_finite.txt");
  char line[256], grad[16], param[32];
  mr_exec_t *x = NULL;
  mr_scale_state_t at = {0};
  _Alignas(64) float p[1][16];
  int step, most, bad, finite, total, rows = 0;
  while (fgets(line, sizeof line, f)) {
    if (sscanf(line, "## N=%d", &most) == 1) {
      mr_optim_t o = mr_optim_of("sgd");
      o.dynamic = (mr_loss_scale_t){.start = 1, .factor = 1, .patience = 1000, .max_bad = most};
      mr_exec_destroy(x);
      x = step_of(&o);
      at = (mr_scale_state_t){.scale = 1};
      p[0][0] = 1;
    } else if (sscanf(line, "%d %15s %31s %d %d %d", &step, grad, param, &bad, &finite, &total) ==
               6) {
      run_step(x, strtof(grad, NULL), 0.5f, (float)step, &at, 1, p);
      if (!same(p[0][0], strtof(param, NULL)) || at.bad != bad || at.resets != total ||
          (at.bad == 0) != finite)
        fail_msg("N=%d, step %d: param %g, %d in a row of %d, want %s", most, step, (double)p[0][0],
                 at.bad, at.resets, line);
      rows++;
    }
  }
  mr_exec_destroy(x);
  fclose(f);
  assert_true(rows >= 22);
}

/* Steps with a bad one among them end, to the bit, where the good ones alone do. */
static void a_step_that_is_left_out_leaves_no_trace_in_any_optimizer(void **state) {
  static const char *const name[] = {"sgd", "momentum", "adam", "adamw", "lion", "lamb"};
  static const float g[] = {0.5f, NAN, -0.25f, INFINITY, 1};
  for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
    mr_optim_t o = mr_optim_of(name[i]);
    o.dynamic = mr_loss_scale_usual();
    o.ema = 0.5f;
    o.clip_norm = 0.75f;
    mr_exec_t *x = step_of(&o);
    int sets = mr_optim_sets(&o);
    _Alignas(64) float all[4][16] = {{0.75f}}, few[4][16] = {{0.75f}};
    mr_scale_state_t a = {.scale = 32768}, b = {.scale = 32768};
    for (int k = 0, t = 0; k < 5; k++) {
      run_step(x, g[k], 0.1f, (float)(k + 1), &a, sets, all);
      if (isfinite(g[k])) run_step(x, g[k], 0.1f, (float)++t, &b, sets, few);
    }
    for (int k = 0; k < sets; k++) assert_true(all[k][0] == few[k][0] && all[k][0] != 0);
    if (a.scale != 8192 || b.scale != 32768 || a.skipped != 2 || b.skipped)
      fail_msg("%s: scales %g and %g, %d and %d steps left out", name[i], (double)a.scale,
               (double)b.scale, a.skipped, b.skipped);
    mr_exec_destroy(x);
  }
}

/* A limit changes no bit of a step that stays below it, and a step that does not is left out. */
static void a_parameter_beyond_its_limit_is_a_step_that_is_not_finite(void **state) {
  static const char *const name[] = {"sgd", "momentum", "adam", "adamw", "lion", "lamb"};
  static const float g[] = {0.5f, -0.25f, 1e-3f, 1};
  for (size_t i = 0; i < sizeof name / sizeof *name; i++)
    for (int dynamic = 0; dynamic < 2; dynamic++) {
      mr_optim_t o = mr_optim_of(name[i]);
      o.only_finite = !dynamic || i % 2;
      o.dynamic = mr_loss_scale_usual();
      if (!dynamic) o.dynamic.patience = 0;
      mr_exec_t *free_of = step_of(&o);
      o.below = 65520;
      mr_exec_t *limited = step_of(&o);
      int sets = mr_optim_sets(&o);
      _Alignas(64) float a[3][16] = {{0.75f}}, b[3][16] = {{0.75f}}, was[3][16];
      mr_scale_state_t at = {.scale = 1}, now = {.scale = 1};
      for (int k = 0; k < 4; k++) {
        run_step(free_of, g[k], 0.1f, (float)(k + 1), &at, sets, a);
        run_step(limited, g[k], 0.1f, (float)(k + 1), &now, sets, b);
      }
      assert_memory_equal(a, b, sizeof a);
      assert_memory_equal(&at, &now, sizeof at);
      memcpy(was, b, sizeof was);
      run_step(limited, 1, 1e7f, 5, &now, sets, b);
      assert_memory_equal(was, b, sizeof b);
      if (now.bad != 1 || now.skipped != 1)
        fail_msg("%s: %d bad, %d left out", name[i], now.bad, now.skipped);
      run_step(limited, 1, 0.1f, 6, &now, sets, b);
      assert_true(now.bad == 0 && isfinite(b[0][0]) && memcmp(was, b, sizeof b));
      mr_exec_destroy(free_of), mr_exec_destroy(limited);
    }
}

static void wrong_settings_are_named(void **state) {
  mr_diag_t diag = {0};
  mr_optim_t o = mr_optim_of("sgd");
  o.dynamic = (mr_loss_scale_t){.start = 1, .factor = 0.5f, .patience = 1};
  assert_int_equal(mr_optim_check(&o, &diag), MR_ERR_CONFIG);
  assert_string_equal(diag.text, "loss scale: factor is 0.5, want [1,65536]");
  o.dynamic = (mr_loss_scale_t){.factor = 2, .patience = 1};
  diag = (mr_diag_t){0};
  assert_int_equal(mr_optim_check(&o, &diag), MR_ERR_CONFIG);
  assert_string_equal(diag.text, "loss scale: start is 0, want [1.17549e-38,1.70141e+38]");
  o.dynamic.patience = 0; /* none is asked for */
  assert_int_equal(mr_optim_check(&o, &diag), MR_OK);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_scale_moves_as_jaxamps_does),
      cmocka_unit_test(jaxamps_usual_settings_are_ours),
      cmocka_unit_test(a_scale_stays_a_normal_number),
      cmocka_unit_test(steps_without_finite_gradients_are_left_out_as_optax_does),
      cmocka_unit_test(a_step_that_is_left_out_leaves_no_trace_in_any_optimizer),
      cmocka_unit_test(a_parameter_beyond_its_limit_is_a_step_that_is_not_finite),
      cmocka_unit_test(wrong_settings_are_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
