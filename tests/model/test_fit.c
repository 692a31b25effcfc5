/* Fitting a step into memory, and what recomputing a block's values changes. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include <stdlib.h>
#include <string.h>

#include "model/exec/backend.h"
#include "model/exec/device.h"
#include "model/exec/mem_report.h"
#include "model/train/fit.h"
#include "tests/model/vit_step.h"

enum { BATCH = 16 };

static vit_t small(mr_vit_variant_t variant) {
  vit_t c = vit_default();
  c.model.variant = variant;
  c.model.embed = 48, c.model.mlp = 96, c.model.heads = 4, c.model.layers = 3;
  return c;
}

static size_t peak_of(const vit_t *c, int64_t accumulate) {
  mr_train_config_t t = mr_train_default(BATCH);
  mr_train_plan_t p;
  mr_diag_t diag = {0};
  t.accumulate = accumulate;
  t.compute = c->how;
  mr_loss_t l = mr_vit_loss(&c->model);
  if (mr_train_step_plan(&l, &t, &p, &diag) < 0) fail_msg("%s", diag.text);
  assert_true(p.flop > 0 && p.bytes > 0);
  return p.peak;
}

typedef struct result {
  float loss, norm;
  mr_params_t params; /* after two steps */
  size_t n, peak;
} result_t;

static result_t trained(const vit_t *c, int64_t accumulate) {
  mr_params_t params = {0};
  mr_train_config_t t = mr_train_default(BATCH);
  mr_train_step_t *step;
  mr_train_out_t out;
  mr_diag_t diag = {0};
  static _Alignas(64) float images[BATCH * 32 * 32 * 3];
  static _Alignas(64) int32_t labels[BATCH];
  t.accumulate = accumulate;
  for (int i = 0; i < BATCH * 32 * 32 * 3; i++) images[i] = (float)(i * 7919 % 1000) / 500 - 1;
  for (int i = 0; i < BATCH; i++) labels[i] = i % 10;
  if (vit_params(c, 3, &params, &diag) < 0) fail_msg("%s", diag.text);
  if (vit_step(c, t, &step, &diag) < 0) fail_msg("%s", diag.text);
  for (int64_t i = 1; i <= 2; i++)
    if (vit_run(step, &params, images, labels, 1e-3f, i, 5, &out, &diag) < 0)
      fail_msg("%s", diag.text);
  result_t r = {out.loss, out.grad_norm, params, params.arena_size,
                mr_exec_peak_bytes(mr_train_step_exec(step))};
  mr_train_step_destroy(step);
  return r;
}

static void recomputing_takes_less_and_gives_the_same(void **state) {
  for (int v = 0; v < 4; v++) {
    vit_t c = small(v & 1 ? MR_VIT_TIMM : MR_VIT_FLAX);
    c.how.dtype = v & 2 ? MR_BF16 : MR_F32;
    if (v & 1) c.model.drop_path = 0.2f, c.model.attn_drop = 0.1f;
    result_t kept = trained(&c, 1);
    for (int r = MR_NN_REMAT_DOTS; r <= MR_NN_REMAT_FULL; r++) {
      c.how.remat = (mr_nn_remat_t)r;
      result_t again = trained(&c, 1);
      if (r == MR_NN_REMAT_FULL) assert_true(again.peak < kept.peak);
      assert_true(again.loss == kept.loss && again.norm == kept.norm);
      assert_memory_equal(values_of(&again.params), values_of(&kept.params),
                          kept.n * sizeof(float));
      mr_params_fini(&again.params);
    }
    mr_params_fini(&kept.params);
  }
}

static mr_err_t fit(const vit_t *c, const mr_train_config_t *t, size_t limit, mr_fit_t *out,
                    mr_diag_t *diag) {
  mr_loss_t l = mr_vit_loss(&c->model);
  return mr_fit(&l, true, t, limit, out, diag);
}

static void a_chosen_plan_fits_and_the_step_stays_within_it(void **state) {
  vit_t c = small(MR_VIT_FLAX);
  mr_train_config_t t = mr_train_default(BATCH);
  mr_diag_t diag = {0};
  size_t whole = peak_of(&c, 1);
  for (int share = 1; share <= 3; share++) {
    mr_fit_t choice;
    size_t limit = whole / (size_t)share;
    if (fit(&c, &t, limit, &choice, &diag) < 0) fail_msg("%s", diag.text);
    assert_true(choice.peak <= limit);
    vit_t own = c;
    own.how.remat = choice.remat;
    assert_int_equal(peak_of(&own, choice.accumulate), choice.peak);
    result_t r = trained(&own, choice.accumulate);
    assert_int_equal(r.peak, choice.peak);
    if (share == 1) assert_true(choice.remat == MR_NN_REMAT_NONE && choice.accumulate == 1);
    if (share > 1) assert_true(choice.remat != MR_NN_REMAT_NONE || choice.accumulate > 1);
    mr_params_fini(&r.params);
  }
}

static void want_the_smallest_peak_reported(const vit_t *c, int64_t batch) {
  mr_train_config_t t = mr_train_default(batch);
  mr_diag_t diag = {0};
  mr_fit_t choice;
  t.compute = c->how;
  assert_int_equal(fit(c, &t, 1000, &choice, &diag), MR_ERR_NOMEM);
  const char *at = strchr(diag.text, '(');
  assert_non_null(at);
  size_t least = strtoull(at + 1, NULL, 10);
  if (fit(c, &t, least, &choice, &diag) < 0) fail_msg("%s", diag.text);
  assert_int_equal(choice.peak, least);
  if (fit(c, &t, least - 1, &choice, &diag) != MR_ERR_NOMEM)
    fail_msg("%zu bytes are the smallest peak, and %zu suffice", least, choice.peak);
}

/* Of the second model, the plans with all parts have another order than those of two parts. */
static void where_nothing_fits_the_smallest_peak_is_reported(void **state) {
  vit_t c = small(MR_VIT_TIMM), other = vit_default();
  want_the_smallest_peak_reported(&c, BATCH);
  other.model.patch = 8, other.model.layers = 2;
  other.model.embed = 64, other.model.mlp = 128, other.model.heads = 2;
  want_the_smallest_peak_reported(&other, 64);
}

/* A step in k parts, as the search estimates it from plans of one and of two. */
static mr_train_plan_t estimated(const vit_t *c, int64_t k) {
  mr_loss_t l = mr_vit_loss(&c->model);
  mr_train_plan_t p[2];
  mr_diag_t diag = {0};
  for (int i = 0; i < 2; i++) {
    mr_train_config_t t = mr_train_default(BATCH / k * (i + 1));
    t.accumulate = i + 1;
    t.compute = c->how;
    if (mr_train_step_plan(&l, &t, &p[i], &diag) < 0) fail_msg("%s", diag.text);
  }
  return (mr_train_plan_t){.flop = p[0].flop + (double)(k - 1) * (p[1].flop - p[0].flop),
                           .bytes = p[0].bytes + (double)(k - 1) * (p[1].bytes - p[0].bytes)};
}

/* Recomputing costs operations, and more parts bytes: they read, add and write all gradients once
   more.  What is cheapest of those that fit depends on what a byte costs. */
static void the_cheapest_choice_follows_from_what_a_byte_costs(void **state) {
  vit_t c = vit_default();
  c.model.embed = 192, c.model.mlp = 768, c.model.heads = 4, c.model.layers = 3;
  mr_train_config_t t = mr_train_default(BATCH);
  mr_loss_t l = mr_vit_loss(&c.model);
  mr_diag_t diag = {0};
  int recomputes = 0, parts = 0;
  size_t whole = peak_of(&c, 1);
  for (size_t tenths = 8; tenths <= 9; tenths++) {
    size_t limit = whole * tenths / 10;
    mr_train_plan_t each[MR_NN_REMATS];
    int64_t fewest[MR_NN_REMATS];
    for (int r = 0; r < MR_NN_REMATS; r++) {
      vit_t own = c;
      own.how.remat = (mr_nn_remat_t)r;
      for (fewest[r] = 1; peak_of(&own, fewest[r]) > limit;) fewest[r] *= 2;
      each[r] = estimated(&own, fewest[r]);
    }
    for (double byte = 0.001; byte < 1e4; byte *= 100) {
      mr_fit_t choice;
      if (mr_fit_at(&l, true, &t, limit, byte, &choice, &diag) < 0) fail_msg("%s", diag.text);
      const mr_train_plan_t *p = &each[choice.remat];
      assert_true(choice.byte == byte);
      assert_int_equal(choice.accumulate, fewest[choice.remat]);
      for (int r = 0; r < MR_NN_REMATS; r++)
        assert_true(p->flop + byte * p->bytes <= each[r].flop + byte * each[r].bytes);
      recomputes += choice.remat != MR_NN_REMAT_NONE, parts += choice.accumulate > 1;
    }
  }
  assert_true(recomputes > 0 && parts > 0);
}

static void limits_are_rounded_so_that_noise_changes_no_choice(void **state) {
  assert_true(mr_fit_byte_round(100, 10) == 10);
  assert_true(mr_fit_byte_round(190, 10) == 10 && mr_fit_byte_round(52, 10) == 10);
  assert_true(mr_fit_byte_round(800e3, 4300) == 160 && mr_fit_byte_round(650e3, 3000) == 160);
  assert_true(mr_fit_byte_round(1, 1) == 0.625);
  assert_true(mr_fit_byte_round(1e9, 1) == 2560 && mr_fit_byte_round(1, 1e9) == 10.0 / 256);
  assert_true(mr_fit_byte_round(0, 10) == MR_FIT_BYTE && mr_fit_byte_round(10, 0) == MR_FIT_BYTE);
  assert_true(mr_fit_byte_round(0.0 / 0.0, 1) == MR_FIT_BYTE);
  assert_true(mr_fit_byte_cost(NULL, MR_BF16) == MR_FIT_BYTE);
  assert_true(mr_fit_byte_cost(mr_device_default(), MR_F32) == MR_FIT_BYTE);
}

/* A device that says what it can do, and how often it was asked. */
static int asked;
static double said_fma(const mr_device_t *d, mr_dtype_t t, int threads) {
  return asked++, t == MR_BF16 ? 800e3 : 60e3;
}
static double said_bandwidth(const mr_device_t *d, int threads) { return 4000; }

static void a_device_is_asked_once_for_its_limits_in_each_dtype(void **state) {
  const mr_limit_ops_t limits = {.fma = said_fma, .bandwidth = said_bandwidth};
  const mr_backend_t b = {.name = "said", .limits = &limits};
  const mr_device_t said = {&b, NULL, 0, "said:0"}, other = {&b, NULL, 1, "said:1"};
  asked = 0;
  for (int i = 0; i < 3; i++) {
    assert_true(mr_fit_byte_cost(&said, MR_BF16) == 160);
    assert_true(mr_fit_byte_cost(&said, MR_F32) == 10);
  }
  assert_int_equal(asked, 2);
  assert_true(mr_fit_byte_cost(&other, MR_BF16) == 160);
  assert_int_equal(asked, 3); /* each device is asked for its own */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(recomputing_takes_less_and_gives_the_same),
      cmocka_unit_test(a_chosen_plan_fits_and_the_step_stays_within_it),
      cmocka_unit_test(the_cheapest_choice_follows_from_what_a_byte_costs),
      cmocka_unit_test(limits_are_rounded_so_that_noise_changes_no_choice),
      cmocka_unit_test(a_device_is_asked_once_for_its_limits_in_each_dtype),
      cmocka_unit_test(where_nothing_fits_the_smallest_peak_is_reported),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
