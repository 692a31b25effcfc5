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

enum { BATCH = 16 };

static mr_vit_config_t small(mr_vit_variant_t variant) {
  mr_vit_config_t c = mr_vit_default();
  c.variant = variant;
  c.embed = 48, c.mlp = 96, c.heads = 4, c.layers = 3;
  return c;
}

static size_t peak_of(const mr_vit_config_t *c, int64_t accumulate) {
  mr_train_config_t t = mr_train_default(BATCH);
  mr_train_plan_t p;
  mr_diag_t diag = {0};
  t.accumulate = accumulate;
  if (mr_train_step_plan(c, &t, &p, &diag) < 0) fail_msg("%s", diag.text);
  assert_true(p.cost > 0);
  return p.peak;
}

typedef struct result {
  float loss, norm;
  float *p; /* parameters after two steps */
  size_t n, peak;
} result_t;

static result_t trained(const mr_vit_config_t *c, int64_t accumulate) {
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
  if (mr_vit_params(c, 3, &params, &diag) < 0) fail_msg("%s", diag.text);
  if (mr_train_step_create(c, &t, &step, &diag) < 0) fail_msg("%s", diag.text);
  for (int64_t i = 1; i <= 2; i++)
    if (mr_train_step_run(step, &params, images, labels, 1e-3f, i, 5, &out, &diag) < 0)
      fail_msg("%s", diag.text);
  result_t r = {out.loss, out.grad_norm, params.p, params.arena_size,
                mr_exec_peak_bytes(mr_train_step_exec(step))};
  params.p = NULL;
  mr_train_step_destroy(step);
  mr_params_fini(&params);
  return r;
}

static void recomputing_takes_less_and_gives_the_same(void **state) {
  for (int v = 0; v < 4; v++) {
    mr_vit_config_t c = small(v & 1 ? MR_VIT_TIMM : MR_VIT_FLAX);
    c.dtype = v & 2 ? MR_BF16 : MR_F32;
    if (v & 1) c.drop_path = 0.2f, c.attn_drop = 0.1f;
    result_t kept = trained(&c, 1);
    for (int r = MR_VIT_REMAT_DOTS; r <= MR_VIT_REMAT_FULL; r++) {
      c.remat = (mr_vit_remat_t)r;
      result_t again = trained(&c, 1);
      if (r == MR_VIT_REMAT_FULL) assert_true(again.peak < kept.peak);
      assert_true(again.loss == kept.loss && again.norm == kept.norm);
      assert_memory_equal(again.p, kept.p, kept.n * sizeof *kept.p);
      free(again.p);
    }
    free(kept.p);
  }
}

static void what_is_chosen_fits_and_a_step_keeps_to_it(void **state) {
  mr_vit_config_t c = small(MR_VIT_FLAX);
  mr_train_config_t t = mr_train_default(BATCH);
  mr_diag_t diag = {0};
  size_t whole = peak_of(&c, 1);
  for (int share = 1; share <= 3; share++) {
    mr_fit_t fit;
    size_t limit = whole / (size_t)share;
    if (mr_fit(&c, &t, limit, &fit, &diag) < 0) fail_msg("%s", diag.text);
    assert_true(fit.peak <= limit);
    mr_vit_config_t own = c;
    own.remat = fit.remat;
    assert_int_equal(peak_of(&own, fit.accumulate), fit.peak);
    result_t r = trained(&own, fit.accumulate);
    assert_int_equal(r.peak, fit.peak);
    if (share == 1) assert_true(fit.remat == MR_VIT_REMAT_NONE && fit.accumulate == 1);
    if (share > 1) assert_true(fit.remat != MR_VIT_REMAT_NONE || fit.accumulate > 1);
    free(r.p);
  }
}

static void where_nothing_fits_the_smallest_peak_is_told(void **state) {
  mr_vit_config_t c = small(MR_VIT_TIMM);
  mr_train_config_t t = mr_train_default(BATCH);
  mr_diag_t diag = {0};
  mr_fit_t fit;
  assert_int_equal(mr_fit(&c, &t, 1000, &fit, &diag), MR_ERR_NOMEM);
  const char *at = strchr(diag.text, '(');
  assert_non_null(at);
  size_t least = strtoull(at + 1, NULL, 10);
  assert_int_equal(mr_fit(&c, &t, least, &fit, &diag), MR_OK);
  assert_int_equal(fit.peak, least);
  assert_int_equal(mr_fit(&c, &t, least - 1, &fit, &diag), MR_ERR_NOMEM);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(recomputing_takes_less_and_gives_the_same),
      cmocka_unit_test(what_is_chosen_fits_and_a_step_keeps_to_it),
      cmocka_unit_test(where_nothing_fits_the_smallest_peak_is_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
