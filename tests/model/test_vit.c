/* The ViTs against numbers of flax and PyTorch (tests/golden/vit): each test has its tolerance. */

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

#include "base/dataset.h"
#include "model/model.h"
#include "tests/model/vit_golden.h"

static void flax_f32_gives_jax_logits_loss_and_gradients(void **state) {
  check_grads(MR_VIT_FLAX, MR_F32, 5e-6, 2e-6, 5e-6, 1e-4);
}

static void timm_f32_gives_pytorch_logits_loss_and_gradients(void **state) {
  check_grads(MR_VIT_TIMM, MR_F32, 5e-6, 2e-6, 5e-6, 1e-4);
}

static void flax_bf16_stays_as_near_to_jax_as_jax_to_itself(void **state) {
  check_grads(MR_VIT_FLAX, MR_BF16, 0.05, 0.02, 0.03, 1.0);
}

static void adamw_gives_optax_parameters_after_one_and_three_steps(void **state) {
  check_adamw("adamw", 0);
}

static void clipped_adamw_gives_optax_parameters_after_one_and_three_steps(void **state) {
  check_adamw("clip_adamw", 1.0f);
}

/* Two clipped steps with a loss scale. */
static model_t scaled_steps(float scale, mr_loss_scale_t dynamic, mr_train_out_t *out) {
  model_t m = setup(MR_VIT_FLAX, MR_BF16);
  mr_train_config_t config = mr_train_default(4);
  mr_train_step_t *step = NULL;
  mr_diag_t diag = {0};
  config.optim.clip_norm = 1;
  config.optim.loss_scale = scale;
  config.optim.dynamic = dynamic;
  if (vit_step(&m.config, config, &step, &diag) < 0) fail_msg("%s", diag.text);
  for (int t = 1; t <= 2; t++)
    assert_int_equal(vit_run(step, &m.params, m.images, m.labels.data, 1e-3f, t, 0, out, &diag),
                     MR_OK);
  mr_train_step_destroy(step);
  return m;
}

static void a_loss_scale_of_a_power_of_two_changes_no_bit_and_another_few(void **state) {
  mr_train_out_t plain, scaled, odd;
  const mr_loss_scale_t none = {0};
  model_t a = scaled_steps(0, none, &plain), b = scaled_steps(1024, none, &scaled);
  model_t c = scaled_steps(3, none, &odd);
  assert_memory_equal(values_of(&a.params), values_of(&b.params),
                      a.params.arena_size * sizeof(float));
  assert_true(plain.loss == scaled.loss && plain.grad_norm == scaled.grad_norm);
  assert_memory_not_equal(values_of(&a.params), values_of(&c.params),
                          a.params.arena_size * sizeof(float));
  assert_true(fabsf(plain.grad_norm - odd.grad_norm) < 1e-2f * plain.grad_norm);
  teardown(&a);
  teardown(&b);
  teardown(&c);
}

static void a_dynamic_scale_changes_no_bit_as_long_as_gradients_are_finite(void **state) {
  mr_loss_scale_t grows = mr_loss_scale_usual();
  grows.patience = 1; /* with the second step */
  mr_train_out_t plain, scaled;
  model_t a = scaled_steps(0, (mr_loss_scale_t){0}, &plain), b = scaled_steps(0, grows, &scaled);
  assert_memory_equal(values_of(&a.params), values_of(&b.params),
                      a.params.arena_size * sizeof(float));
  assert_memory_equal(slot_of(&a.params, 1), slot_of(&b.params, 1),
                      a.params.arena_size * sizeof(float));
  assert_true(plain.grad_norm == scaled.grad_norm && scaled.applied && plain.applied);
  assert_true(plain.loss_scale == 1 && scaled.loss_scale == 32768);
  teardown(&a);
  teardown(&b);
}

static void evaluation_gives_each_record_its_class_and_its_loss(void **state) {
  model_t m = setup(MR_VIT_FLAX, MR_F32);
  mr_eval_step_t *e = NULL;
  mr_diag_t diag = {0};
  mr_eval_rows_t rows;
  mr_npy_t want = load("flax", "f32.logits");
  assert_int_equal(vit_eval(&m.config, 4, NULL, &e, &diag), MR_OK);
  assert_int_equal(vit_judge(e, &m.params, m.images, m.labels.data, &rows, &diag), MR_OK);
  for (int i = 0; i < 4; i++) {
    const float *of = (float *)want.data + 10 * i;
    int most = 0;
    for (int k = 1; k < 10; k++) most = of[k] > of[most] ? k : most;
    assert_true(rows.guess[i] == (float)most && rows.counts[i] == 1);
    assert_true(rows.metric[0][i] == (float)(most == ((int32_t *)m.labels.data)[i]));
  }
  const float *losses = rows.losses;
  double mean = ((double)losses[0] + losses[1] + losses[2] + losses[3]) / 4;
  assert_true(fabs(mean - scalar("flax", "f32.loss")) < 2e-6);
  mr_eval_step_destroy(e);
  mr_npy_free(&want);
  teardown(&m);
}

static void a_label_out_of_range_is_refused(void **state) {
  model_t m = setup(MR_VIT_FLAX, MR_F32);
  mr_eval_step_t *e = NULL;
  mr_diag_t diag = {0};
  mr_eval_rows_t rows;
  int32_t bad[4] = {0, 1, 10, 2};
  assert_int_equal(vit_eval(&m.config, 4, NULL, &e, &diag), MR_OK);
  assert_int_equal(vit_judge(e, &m.params, m.images, bad, &rows, &diag), MR_ERR_DATA);
  assert_non_null(strstr(diag.text, "label 10"));
  mr_eval_step_destroy(e);
  teardown(&m);
}

/* One step with record 1 left out, its picture filled with v: loss, norm and all parameters. */
static void step_without_record_1(float v, mr_train_out_t *out, model_t *m) {
  *m = setup(MR_VIT_FLAX, MR_F32);
  mr_train_config_t config = mr_train_default(4);
  mr_train_step_t *step = NULL;
  mr_diag_t diag = {0};
  int32_t label[4];
  m->config.model.label_smoothing = 0.1f;
  config.accumulate = 2;
  size_t picture =
      (size_t)(m->config.model.image * m->config.model.image * m->config.model.channels);
  memcpy(label, m->labels.data, sizeof label);
  label[1] = MR_LABEL_NONE;
  for (size_t i = 0; i < picture; i++) m->images[picture + i] = v;
  assert_int_equal(vit_step(&m->config, config, &step, &diag), MR_OK);
  assert_int_equal(vit_run(step, &m->params, m->images, label, 1e-3f, 1, 7, out, &diag), MR_OK);
  mr_train_step_destroy(step);
}

static void a_record_without_a_label_weighs_nothing(void **state) {
  mr_train_out_t a, b;
  model_t m, n;
  step_without_record_1(0, &a, &m);
  step_without_record_1(0.7f, &b, &n);
  assert_memory_equal(&a.loss, &b.loss, sizeof a.loss);
  assert_memory_equal(&a.grad_norm, &b.grad_norm, sizeof a.grad_norm);
  assert_memory_equal(values_of(&m.params), values_of(&n.params),
                      m.params.arena_size * sizeof(float));
  teardown(&m), teardown(&n);
}

static void the_loss_is_the_mean_over_records_with_labels(void **state) {
  model_t m = setup(MR_VIT_FLAX, MR_F32);
  mr_train_config_t config = mr_train_default(4);
  mr_eval_step_t *e = NULL;
  mr_train_step_t *step = NULL;
  mr_train_out_t out;
  mr_diag_t diag = {0};
  mr_eval_rows_t rows;
  int32_t label[4] = {1, MR_LABEL_NONE, 0, MR_LABEL_NONE};
  assert_int_equal(vit_eval(&m.config, 4, NULL, &e, &diag), MR_OK);
  assert_int_equal(vit_judge(e, &m.params, m.images, label, &rows, &diag), MR_OK);
  const float *losses = rows.losses;
  assert_true(losses[1] == 0 && losses[3] == 0 && losses[0] > 0);
  double mean = ((double)losses[0] + (double)losses[2]) / 2;
  assert_int_equal(vit_step(&m.config, config, &step, &diag), MR_OK);
  assert_int_equal(vit_run(step, &m.params, m.images, label, 0, 1, 7, &out, &diag), MR_OK);
  assert_true(fabs((double)out.loss - mean) < 2e-6);
  label[0] = label[2] = MR_LABEL_NONE;
  assert_int_equal(vit_run(step, &m.params, m.images, label, 0, 2, 7, &out, &diag), MR_OK);
  assert_true(out.loss == 0 && out.grad_norm == 0);
  mr_eval_step_destroy(e), mr_train_step_destroy(step);
  teardown(&m);
}

static void dropout_follows_seed_and_step_alone(void **state) {
  float loss[4];
  for (int run = 0; run < 4; run++) {
    model_t m = setup(MR_VIT_FLAX, MR_F32);
    m.config.model.dropout = 0.1f;
    mr_train_config_t opt = mr_train_default(4);
    mr_train_step_t *step = NULL;
    mr_train_out_t out;
    mr_diag_t diag = {0};
    assert_int_equal(vit_step(&m.config, opt, &step, &diag), MR_OK);
    int64_t t = run == 2 ? 2 : 1;
    uint64_t seed = run == 3 ? 8 : 7;
    assert_int_equal(vit_run(step, &m.params, m.images, m.labels.data, 1e-3f, t, seed, &out, &diag),
                     MR_OK);
    loss[run] = out.loss;
    mr_train_step_destroy(step);
    teardown(&m);
  }
  assert_memory_equal(&loss[0], &loss[1], sizeof(float));
  assert_true(loss[0] != loss[2] && loss[0] != loss[3]);
}

/* sum of out, which is a function of x (B,T,3,H,D) with seed and step, traced by hand. */
static mr_fn_t *attention_of(mr_aval_t x, float rate) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *qkv = mr_fn_input(f, x);
  mr_nn_t s = {.f = f, .attn_drop = rate};
  s.seed = mr_fn_input(f, mr_aval_scalar(MR_U64));
  s.step = mr_fn_input(f, mr_aval_scalar(MR_U32));
  mr_var_t *o = mr_nn_attend(&s, qkv);
  assert_int_equal(mr_fn_return(f, 1, &o), MR_OK);
  return f;
}

static void attention_with_dropped_probabilities_is_the_fused_one_where_none_is_dropped(
    void **state) {
  enum { N = 2 * 5 * 3 * 2 * 4 };
  _Alignas(64) float x[N], o[3][N / 3];
  const float rate[] = {0, 1e-7f, .5f};
  uint64_t seed = 3;
  uint32_t step = 1;
  for (int i = 0; i < N; i++) x[i] = (float)(i * 37 % 23) / 11 - 1;
  for (int k = 0; k < 3; k++) {
    mr_fn_t *f = attention_of(mr_aval_of(MR_F32, 2, 5, 3, 2, 4), rate[k]);
    mr_exec_t *e = NULL;
    mr_diag_t diag = {0};
    if (mr_compile(f, NULL, &e, &diag) < 0) fail_msg("%s", diag.text);
    mr_exec_run(e, (const void *[]){x, &seed, &step}, (void *[]){o[k]});
    mr_exec_destroy(e);
    mr_fn_destroy(f);
  }
  int other = 0;
  for (int i = 0; i < N / 3; i++) {
    assert_true(fabsf(o[0][i] - o[1][i]) < 1e-5f);
    other += fabsf(o[0][i] - o[2][i]) > 1e-3f;
  }
  assert_true(other > N / 6);
}

static void drop_path_takes_whole_records(void **state) {
  enum { B = 400, E = 3 };
  static _Alignas(64) float x[B * E], y[B * E];
  uint64_t seed = 3;
  uint32_t step = 1;
  mr_fn_t *f = mr_fn_create();
  mr_nn_t s = {.f = f};
  mr_var_t *in = mr_fn_input(f, mr_aval_of(MR_F32, B, E));
  s.seed = mr_fn_input(f, mr_aval_scalar(MR_U64));
  s.step = mr_fn_input(f, mr_aval_scalar(MR_U32));
  mr_var_t *out = mr_nn_drop_path(&s, in, .25f);
  mr_exec_t *e = NULL;
  mr_diag_t diag = {0};
  assert_int_equal(mr_fn_return(f, 1, &out), MR_OK);
  if (mr_compile(f, NULL, &e, &diag) < 0) fail_msg("%s", diag.text);
  for (int i = 0; i < B * E; i++) x[i] = (float)(i + 1);
  mr_exec_run(e, (const void *[]){x, &seed, &step}, (void *[]){y});
  int kept = 0;
  for (int b = 0; b < B; b++) {
    bool keep = y[b * E] != 0;
    for (int k = 0; k < E; k++) {
      float want = keep ? x[b * E + k] / .75f : 0;
      assert_true(fabsf(y[b * E + k] - want) <= 1e-6f * want);
    }
    kept += keep;
  }
  assert_in_range(kept, 270, 330); /* 300 on average, deviation 8.7 */
  mr_exec_destroy(e);
  mr_fn_destroy(f);
}

/* The tokens and the logits of m's images, by the two halves, into (4,65,32) and (4,10). */
static void run_halves(const model_t *m, float *tokens, float *logits) {
  mr_params_t list = {0};
  mr_diag_t diag = {0};
  mr_exec_t *e = NULL;
  mr_fn_t *f = mr_fn_create();
  const void *in[64] = {m->images};
  mr_var_t *images = mr_fn_input(f, mr_aval_of(MR_F32, 4, 32, 32, 3)), *out[2];
  mr_nn_t s = {.f = f, .params = &list};
  out[0] = mr_vit_forward_features(&s, &m->config.model, images);
  out[1] = mr_vit_forward_head(&s, &m->config.model, out[0]);
  if (mr_fn_return(f, 2, out) < 0) fail_msg("%s", f->diag.text);
  assert_int_equal(list.n, m->params.n);
  for (int i = 0; i < list.n; i++) {
    assert_string_equal(list.param[i].name, m->params.param[i].name);
    in[1 + i] = values_of(&m->params) + m->params.param[i].offset;
  }
  if (mr_compile(f, NULL, &e, &diag) < 0) fail_msg("%s", diag.text);
  mr_exec_run(e, in, (void *[]){tokens, logits});
  mr_exec_destroy(e);
  mr_fn_destroy(f);
  mr_params_fini(&list);
}

static void expect_near(const char *variant, const char *file, const float *got, size_t n) {
  mr_npy_t want = load(variant, file);
  assert_int_equal(want.count, n);
  for (size_t i = 0; i < n; i++) {
    double w = (double)((float *)want.data)[i];
    if (!(fabs((double)got[i] - w) <= 5e-6 * fmax(1, fabs(w))))
      fail_msg("%s %s: %zu is %.9g, want %.9g", variant, file, i, (double)got[i], w);
  }
  mr_npy_free(&want);
}

static void the_halves_give_the_tokens_before_the_norm_and_the_logits(void **state) {
  static _Alignas(64) float tokens[4 * 65 * 32], logits[40];
  for (int v = 0; v < 2; v++) {
    mr_vit_variant_t variant = v ? MR_VIT_TIMM : MR_VIT_FLAX;
    model_t m = setup(variant, MR_F32);
    memset(tokens, 0xFF, sizeof tokens), memset(logits, 0xFF, sizeof logits);
    run_halves(&m, tokens, logits);
    expect_near(v ? "timm" : "flax", "f32.tokens", tokens, 4 * 65 * 32);
    expect_near(v ? "timm" : "flax", "f32.logits", logits, 40);
    teardown(&m);
  }
}

static void a_head_takes_tokens_of_its_width(void **state) {
  vit_t c = small(MR_VIT_TIMM, MR_F32);
  const int64_t width[] = {32, 31};
  for (int i = 0; i < 2; i++) {
    mr_params_t list = {0};
    mr_fn_t *f = mr_fn_create();
    mr_nn_t s = {.f = f, .params = &list};
    mr_var_t *tokens = mr_fn_input(f, mr_aval_of(MR_F32, 4, 7, width[i]));
    mr_var_t *logits = mr_vit_forward_head(&s, &c.model, tokens);
    if (!i) {
      assert_non_null(logits);
      mr_aval_t want = mr_aval_of(MR_F32, 4, 10);
      assert_true(mr_aval_equal(&logits->aval, &want));
      assert_int_equal(list.n, 4);
      assert_string_equal(list.param[0].name, "norm.weight");
      assert_string_equal(list.param[3].name, "head.bias");
    } else {
      assert_null(logits);
      assert_int_equal(f->diag.code, MR_ERR_SHAPE);
      assert_string_equal(f->diag.text, "vit head: tokens are f32[4,7,31], want (B,T,32)");
    }
    mr_fn_destroy(f);
    mr_params_fini(&list);
  }
}

static mr_params_t list_of(const vit_t *c, bool train) {
  mr_params_t p = {0};
  mr_diag_t diag = {0};
  mr_fn_t *f = vit_loss(c, 2, train, &p, &diag);
  if (!f) fail_msg("%s", diag.text);
  mr_fn_destroy(f);
  return p;
}

static void timm_settings_shape_the_model(void **state) {
  vit_t c = vit_default();
  mr_diag_t diag = {0};
  c.model.variant = MR_VIT_TIMM;
  mr_params_t with = list_of(&c, true);
  c.model.no_qkv_bias = true, c.model.drop_path = .1f, c.model.attn_drop = .1f;
  mr_params_t without = list_of(&c, true);
  assert_int_equal(with.n - without.n, c.model.layers);
  assert_int_equal(with.count - without.count, 3 * c.model.embed * c.model.layers);
  mr_params_fini(&with);
  mr_params_fini(&without);
  c.model.variant = MR_VIT_FLAX;
  assert_int_equal(mr_vit_check(&c.model, &diag), MR_ERR_CONFIG);
  assert_non_null(strstr(diag.text, "style=timm"));
}

static void bad_settings_are_named(void **state) {
  mr_diag_t diag = {0};
  vit_t c = vit_default();
  c.model.patch = 5;
  assert_int_equal(mr_vit_check(&c.model, &diag), MR_ERR_CONFIG);
  assert_non_null(strstr(diag.text, "vit.patch: 5"));
  c = vit_default();
  c.model.heads = 7;
  diag = (mr_diag_t){0};
  assert_int_equal(mr_vit_check(&c.model, &diag), MR_ERR_CONFIG);
  assert_non_null(strstr(diag.text, "vit.heads: 7"));
  assert_int_equal(mr_vit_check(&(mr_vit_config_t){0}, NULL), MR_ERR_CONFIG);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(flax_f32_gives_jax_logits_loss_and_gradients),
      cmocka_unit_test(timm_f32_gives_pytorch_logits_loss_and_gradients),
      cmocka_unit_test(flax_bf16_stays_as_near_to_jax_as_jax_to_itself),
      cmocka_unit_test(adamw_gives_optax_parameters_after_one_and_three_steps),
      cmocka_unit_test(clipped_adamw_gives_optax_parameters_after_one_and_three_steps),
      cmocka_unit_test(a_loss_scale_of_a_power_of_two_changes_no_bit_and_another_few),
      cmocka_unit_test(a_dynamic_scale_changes_no_bit_as_long_as_gradients_are_finite),
      cmocka_unit_test(evaluation_gives_each_record_its_class_and_its_loss),
      cmocka_unit_test(a_label_out_of_range_is_refused),
      cmocka_unit_test(a_record_without_a_label_weighs_nothing),
      cmocka_unit_test(the_loss_is_the_mean_over_records_with_labels),
      cmocka_unit_test(dropout_follows_seed_and_step_alone),
      cmocka_unit_test(attention_with_dropped_probabilities_is_the_fused_one_where_none_is_dropped),
      cmocka_unit_test(drop_path_takes_whole_records),
      cmocka_unit_test(the_halves_give_the_tokens_before_the_norm_and_the_logits),
      cmocka_unit_test(a_head_takes_tokens_of_its_width),
      cmocka_unit_test(timm_settings_shape_the_model),
      cmocka_unit_test(bad_settings_are_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
