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

#include "model/exec/mem_report.h"
#include "model/fit.h"
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
  assert_true(p.cost > 0);
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

static void what_is_chosen_fits_and_a_step_keeps_to_it(void **state) {
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

static void where_nothing_fits_the_smallest_peak_is_told(void **state) {
  vit_t c = small(MR_VIT_TIMM);
  mr_train_config_t t = mr_train_default(BATCH);
  mr_diag_t diag = {0};
  mr_fit_t choice;
  assert_int_equal(fit(&c, &t, 1000, &choice, &diag), MR_ERR_NOMEM);
  const char *at = strchr(diag.text, '(');
  assert_non_null(at);
  size_t least = strtoull(at + 1, NULL, 10);
  assert_int_equal(fit(&c, &t, least, &choice, &diag), MR_OK);
  assert_int_equal(choice.peak, least);
  assert_int_equal(fit(&c, &t, least - 1, &choice, &diag), MR_ERR_NOMEM);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(recomputing_takes_less_and_gives_the_same),
      cmocka_unit_test(what_is_chosen_fits_and_a_step_keeps_to_it),
      cmocka_unit_test(where_nothing_fits_the_smallest_peak_is_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
