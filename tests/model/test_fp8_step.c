/* Training steps with products in f8: how their state moves from step to step, against
   TransformerEngine's rule written out in C and the magnitudes of the batch itself. */
#include "tests/vectors.h"

#include <float.h>
#include <math.h>

#include "base/dtype.h"
#include "model/exec/explain.h"
#include "model/model.h"
#include "model/train/train.h"
#include "tests/random.h"

enum { B = 16, IN = 8, HIDDEN = 32, PRODUCTS = 2, ROW = PRODUCTS * MR_FP8_TENSORS };

/* mean((tanh(x W1) W2 - sum(x))^2) */
static mr_err_t net_trace(const void *of, mr_nn_t *s, mr_var_t *const *field, mr_loss_out_t *out) {
  mr_fn_t *f = s->f;
  int64_t n = field[0]->aval.dim[0];
  const mr_init_t first = {.kind = MR_INIT_NORMAL, .a = 0.3f};
  const mr_init_t second = {.kind = MR_INIT_NORMAL, .a = 0.2f};
  mr_var_t *W1 = mr_nn_param_of(s, "W1", first, IN, HIDDEN);
  mr_var_t *W2 = mr_nn_param_of(s, "W2", second, HIDDEN, 1);
  mr_var_t *h = mr_lax_tanh(f, mr_lax_linear(f, field[0], W1, NULL, false));
  mr_var_t *y = mr_lax_reshape_to(f, mr_lax_dot(f, h, W2), n);
  mr_var_t *d = mr_lax_sub(f, y, mr_lax_reduce_sum(f, field[0], 1, (int[]){1}));
  out->losses = mr_lax_mul(f, d, d);
  out->loss = mr_lax_scale(f, 1.0 / (double)n, mr_lax_reduce_sum(f, out->losses, 1, (int[]){0}));
  out->out[0] = y;
  return f->diag.code < 0 ? f->diag.code : MR_OK;
}

static mr_err_t net_metrics(const void *of, mr_fn_t *f, mr_var_t *const *field,
                            mr_var_t *const *out, mr_loss_report_t *reported) {
  return MR_OK;
}

static const mr_loss_t net = {
    .trace = net_trace,
    .metrics = net_metrics,
    .n_fields = 1,
    .field = {{.name = "x", .aval = {.dtype = MR_F32, .ndim = 1, .dim = {IN}}, .layout = ""}}};

typedef struct trainer {
  mr_train_config_t config;
  mr_params_t params;
  mr_train_step_t *step;
} trainer_t;

static trainer_t trainer_of(const mr_fp8_t *fp8, int64_t accumulate) {
  trainer_t t = {.config = mr_train_default(B)};
  mr_diag_t diag = {0};
  t.config.optim.only_finite = true;
  t.config.optim.dynamic.max_bad = 1 << 20;
  t.config.accumulate = accumulate;
  if (fp8) t.config.compute.fp8 = *fp8;
  if (mr_loss_params(&net, 3, &t.params, &diag) < 0 ||
      mr_train_step_create(&net, &t.config, &t.step, &diag) < 0)
    fail_msg("%s", diag.text);
  return t;
}

static void trainer_fini(trainer_t *t) {
  mr_train_step_destroy(t->step);
  mr_params_fini(&t->params);
}

static void begin(trainer_t *t, int64_t step, const float *x) {
  const mr_train_in_t in = {.step = step, .seed = 5, .lr = 1e-2f};
  mr_diag_t diag = {0};
  if (mr_train_step_run(t->step, &t->params, (const void *const[]){x}, &in, &diag) < 0)
    fail_msg("%s", diag.text);
}

static mr_train_out_t step_once(trainer_t *t, int64_t step, const float *x) {
  mr_train_out_t out;
  begin(t, step, x);
  assert_int_equal(mr_train_step_read(t->step, true, &out, NULL), MR_OK);
  return out;
}

static void draw_batch(round_t *r, float *x) {
  float by = ldexpf(1, draw(r, 12) - 6);
  for (int i = 0; i < B * IN; i++) x[i] = by * (float)(draw(r, 2001) - 1000) / 500;
}

static float magnitude(const float *x, int n) {
  float most = 0;
  for (int i = 0; i < n; i++) most = fmaxf(most, fabsf(mr_bf16_to_f32(mr_bf16_from_f32(x[i]))));
  return most;
}

/* What a step makes of a state, by the rule, from the magnitudes that it has met. */
static void oracle_next(const mr_fp8_t *c, const float *amax, float *scale, float *history) {
  const float most[] = {448, 448, c->format == MR_FP8_E4M3 ? 448 : 57344};
  for (int i = 0; i < ROW; i++) {
    float counts = amax[i];
    for (int k = 1; !c->most_recent && k < c->history; k++)
      counts = fmaxf(counts, history[k * ROW + i]);
    if (!c->most_recent) counts = fmaxf(counts, history[i]);
    float next = ldexpf(most[i % 3] / counts, -c->margin);
    if (counts > 0) scale[i] = fminf(next, FLT_MAX);
    for (int k = 0; k + 1 < c->history; k++) history[k * ROW + i] = history[(k + 1) * ROW + i];
    history[(c->history - 1) * ROW + i] = amax[i];
    history[i] = 0;
  }
}

/* Batches of very different magnitudes; some hold a number that is not finite. */
static void scales_follow_the_batches_and_skipped_steps_leave_them(void **state) {
  enum { MOST = 6, STEPS = 12 };
  static _Alignas(64) float x[B * IN];
  int skipped = 0;
  for (round_t r = round_first(8); round_next(&r);) {
    mr_fp8_t c = {.format = one_in(&r, 2) ? MR_FP8_E4M3 : MR_FP8_HYBRID,
                  .history = 2 + draw(&r, MOST - 1),
                  .margin = draw(&r, 3) - 1,
                  .most_recent = one_in(&r, 2)};
    trainer_t t = trainer_of(&c, 1 << draw(&r, 3));
    float scale[ROW], history[MOST * ROW] = {0};
    size_t bytes = sizeof(float) * (size_t)(c.history * ROW);
    for (int i = 0; i < ROW; i++) scale[i] = 1;
    for (int k = 1; k <= STEPS; k++) {
      mr_train_fp8_t was = mr_train_step_fp8(t.step);
      round_check(&r, was.n == PRODUCTS && was.history == c.history, "%d products", was.n);
      round_check(&r, !memcmp(was.scale, scale, sizeof scale) && !memcmp(was.amax, history, bytes),
                  "the state before step %d", k);
      draw_batch(&r, x);
      bool bad = one_in(&r, 4);
      if (bad) x[draw(&r, B * IN)] = one_in(&r, 2) ? INFINITY : NAN;
      float W1 = magnitude(mr_params_f32(&t.params, MR_SET_VALUES, 0), IN * HIDDEN);
      mr_train_out_t out = step_once(&t, k, x);
      round_check(&r, out.applied == !bad, "step %d, bad %d: applied %d", k, bad, out.applied);
      round_check(&r, bad == !(isfinite(out.loss) && isfinite(out.grad_norm)),
                  "step %d, bad %d: the norm is %g", k, bad, (double)out.grad_norm);
      skipped += bad;
      if (bad) continue;
      mr_train_fp8_t now = mr_train_step_fp8(t.step);
      const float *met = now.amax + (c.history - 1) * ROW;
      round_check(&r, met[0] == magnitude(x, B * IN) && met[1] == W1,
                  "step %d has met %g and %g, want %g and %g", k, (double)met[0], (double)met[1],
                  (double)magnitude(x, B * IN), (double)W1);
      oracle_next(&c, met, scale, history);
    }
    trainer_fini(&t);
  }
  assert_true(skipped > 4);
}

/* Codes are clamped, so that an infinity could pass for 448; here it meets no other op.  It is the
   loss that is not finite, also where a dynamic scale may explain gradients that are not. */
static void an_infinity_that_a_product_clamps_is_not_hidden(void **state) {
  static _Alignas(64) float x[B * IN];
  mr_fp8_t c = {.history = 4};
  for (int in_batch = 0; in_batch < 2; in_batch++) {
    round_t r = {.x = 3};
    trainer_t t = trainer_of(&c, 1);
    draw_batch(&r, x);
    if (in_batch) x[B * IN - 1] = -INFINITY;
    if (!in_batch) mr_params_f32(&t.params, MR_SET_VALUES, 0)[5] = INFINITY;
    mr_train_out_t out = step_once(&t, 1, x);
    assert_true(!out.applied && !isfinite(out.loss));
    trainer_fini(&t);
  }
}

/* The parts of a batch meet together what the whole meets. */
static void parts_of_a_batch_have_the_scales_of_the_whole(void **state) {
  static _Alignas(64) float x[B * IN];
  mr_fp8_t c = {.history = 4};
  for (round_t r = round_first(6); round_next(&r);) {
    trainer_t whole = trainer_of(&c, 1), parts = trainer_of(&c, 2 << draw(&r, 3));
    for (int k = 1; k <= 4; k++) {
      draw_batch(&r, x);
      mr_train_out_t a = step_once(&whole, k, x), b = step_once(&parts, k, x);
      round_check(&r, fabsf(a.loss - b.loss) <= 1e-2f * a.loss, "losses %g and %g", (double)a.loss,
                  (double)b.loss);
      mr_train_fp8_t p = mr_train_step_fp8(whole.step), q = mr_train_step_fp8(parts.step);
      for (int i = 0; i < ROW; i++)
        round_check(&r, fabsf(p.scale[i] - q.scale[i]) <= 0.05f * p.scale[i],
                    "step %d, tensor %d: scales %g and %g", k, i, (double)p.scale[i],
                    (double)q.scale[i]);
    }
    trainer_fini(&whole), trainer_fini(&parts);
  }
}

/* Unread runs have states of their own, and taking back one that was not applied goes back to what
   it began with. */
static void steps_in_flight_are_those_read_one_by_one(void **state) {
  enum { STEPS = 3 * MR_TRAIN_RING };
  static _Alignas(64) float x[STEPS][B * IN];
  mr_fp8_t c = {.history = 3};
  round_t r = {.x = 9};
  trainer_t one = trainer_of(&c, 1), many = trainer_of(&c, 1);
  mr_train_out_t a, b;
  for (int k = 0; k < STEPS; k++) draw_batch(&r, x[k]);
  for (int k = 0; k < STEPS; k += MR_TRAIN_RING) {
    for (int i = k; i < k + MR_TRAIN_RING; i++) begin(&many, i + 1, x[i]);
    for (int i = k; i < k + MR_TRAIN_RING; i++) {
      a = step_once(&one, i + 1, x[i]);
      assert_int_equal(mr_train_step_read(many.step, true, &b, NULL), MR_OK);
      assert_true(a.loss == b.loss && a.grad_norm == b.grad_norm);
    }
  }
  mr_train_fp8_t p = mr_train_step_fp8(one.step), q = mr_train_step_fp8(many.step);
  assert_memory_equal(p.scale, q.scale, sizeof(float) * ROW);
  assert_memory_equal(p.amax, q.amax, sizeof(float) * 3 * ROW);
  x[0][0] = NAN;
  assert_false(step_once(&one, STEPS + 1, x[0]).applied);
  mr_train_step_retake(one.step);
  assert_ptr_equal(mr_train_step_fp8(one.step).scale, p.scale);
  trainer_fini(&one), trainer_fini(&many);
}

static void a_step_without_fp8_has_no_state_of_it(void **state) {
  trainer_t t = trainer_of(NULL, 1);
  mr_train_fp8_t none = mr_train_step_fp8(t.step);
  assert_true(!none.n && !none.scale && !none.amax);
  trainer_fini(&t);
}

static void expect_refused(const mr_train_config_t *t, const char *says) {
  mr_train_step_t *step = NULL;
  mr_diag_t diag = {0};
  assert_int_equal(mr_train_step_create(&net, t, &step, &diag), MR_ERR_CONFIG);
  if (!strstr(diag.text, says)) fail_msg("\"%s\" is not in: %s", says, diag.text);
}

static void settings_that_exclude_fp8_are_refused(void **state) {
  mr_train_config_t t = mr_train_default(B);
  t.compute.fp8 = mr_fp8_usual();
  t.compute.dtype = MR_F16;
  expect_refused(&t, "fp8: the model computes in f16, want bf16");
  t.compute.dtype = MR_BF16, t.compute.remat = MR_NN_REMAT_FULL;
  expect_refused(&t, "fp8: remat is full, want none");
  t.compute.remat = MR_NN_REMAT_NONE, t.compute.fp8.margin = 65;
  expect_refused(&t, "fp8: margin is 65, want [-64,64]");
  mr_amp_policy_t wide = mr_amp_usual(MR_BF16);
  mr_diag_t diag = {0};
  assert_int_equal(mr_amp_add_text(&wide, "linear=f32, dot_general=f32", &diag), MR_OK);
  t.compute.fp8.margin = 0, t.compute.policy = &wide;
  expect_refused(&t, "fp8: no product of bf16 operands");
}

/* The casts and copies of a step that nothing but the model accounts for. */
static int moves_as_written(const mr_fp8_t *fp8, int64_t accumulate, int *by_fp8) {
  trainer_t t = trainer_of(fp8, accumulate);
  mr_explained_t r;
  mr_diag_t diag = {0};
  int n = 0;
  if (mr_explained_init(&r, mr_train_step_exec(t.step), &diag) < 0) fail_msg("%s", diag.text);
  for (int i = 0; i < r.n_move; i++) {
    const mr_eqn_t *e = r.move[i].eqn;
    n += e && !*e->by && r.move[i].kind != MR_MOVE_OPERAND;
    *by_fp8 += e && !strcmp(e->by, "fp8") && r.move[i].kind == MR_MOVE_CAST;
  }
  mr_explained_fini(&r);
  trainer_fini(&t);
  return n;
}

static void copies_of_fp8_are_not_attributed_to_the_model(void **state) {
  const mr_fp8_t max = {.history = 4}, recent = {.history = 1, .most_recent = true};
  for (int64_t accumulate = 1; accumulate <= 2; accumulate++) {
    int by_fp8 = 0, none = 0, plain = moves_as_written(NULL, accumulate, &none);
    assert_int_equal(none, 0);
    assert_int_equal(moves_as_written(&max, accumulate, &by_fp8), plain);
    assert_int_equal(moves_as_written(&recent, accumulate, &by_fp8), plain);
    assert_true(by_fp8 >= 2 * PRODUCTS * MR_FP8_TENSORS * (int)accumulate);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(scales_follow_the_batches_and_skipped_steps_leave_them),
      cmocka_unit_test(an_infinity_that_a_product_clamps_is_not_hidden),
      cmocka_unit_test(parts_of_a_batch_have_the_scales_of_the_whole),
      cmocka_unit_test(steps_in_flight_are_those_read_one_by_one),
      cmocka_unit_test(a_step_without_fp8_has_no_state_of_it),
      cmocka_unit_test(settings_that_exclude_fp8_are_refused),
      cmocka_unit_test(copies_of_fp8_are_not_attributed_to_the_model),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
