/* A step that is fitted into memory on a device: what a byte costs follows from the device's own
   limits, and the step keeps to the plan there. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <math.h>
#include <stdlib.h>

#include "model/train/fit.h"
#include "tests/model/device_run.h"
#include "tests/model/vit_step.h"

enum { BATCH = 16 };

/* Other programs may slow one of the two down, by less than a factor of 8. */
static void a_byte_costs_what_the_devices_limits_say(void **state) {
  for (int i = 0; i < 2; i++) {
    mr_dtype_t t = i ? MR_BF16 : MR_F32;
    double byte = mr_fit_byte_cost(device, t);
    double gflops = device->backend->limits->fma(device, t, 1),
           gbs = device->backend->limits->bandwidth(device, 1);
    assert_true(gflops > 0 && gbs > 0);
    if (fabs(log2(byte / mr_fit_byte_round(gflops, gbs))) > 3)
      fail_msg("%g operations a byte, but %g GFLOP/s and %g GB/s", byte, gflops, gbs);
    assert_true(mr_fit_byte_cost(device, t) == byte);
  }
}

static void a_step_is_fitted_by_the_device_that_runs_it(void **state) {
  vit_t c = vit_default();
  c.model.embed = 48, c.model.mlp = 96, c.model.heads = 4, c.model.layers = 2;
  mr_loss_t l = mr_vit_loss(&c.model);
  mr_train_config_t t = mr_train_default(BATCH);
  mr_train_plan_t whole, fitted;
  mr_train_step_t *step = NULL;
  mr_fit_t choice, same;
  mr_diag_t diag = {0};
  t.compute = c.how;
  t.compute.device = device;
  if (mr_train_step_plan(&l, &t, &whole, &diag) < 0) fail_msg("%s", diag.text);
  if (mr_fit(&l, true, &t, whole.peak / 2, &choice, &diag) < 0) fail_msg("%s", diag.text);
  assert_true(choice.peak <= whole.peak / 2);
  double byte = mr_fit_byte_cost(device, t.compute.dtype);
  assert_true(choice.byte == byte);
  if (mr_fit_at(&l, true, &t, whole.peak / 2, byte, &same, &diag) < 0) fail_msg("%s", diag.text);
  assert_true(same.remat == choice.remat && same.accumulate == choice.accumulate);
  t.compute.remat = choice.remat, t.accumulate = choice.accumulate;
  if (mr_train_step_plan(&l, &t, &fitted, &diag) < 0) fail_msg("%s", diag.text);
  assert_int_equal(fitted.peak, choice.peak);
  if (mr_train_step_create(&l, &t, &step, &diag) < 0) fail_msg("%s", diag.text);
  assert_int_equal(mr_exec_peak_bytes(mr_train_step_exec(step)), choice.peak);
  mr_train_step_destroy(step);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_byte_costs_what_the_devices_limits_say),
      cmocka_unit_test(a_step_is_fitted_by_the_device_that_runs_it),
  };
  int status = open_device(argc, argv);
  return status ? status : cmocka_run_group_tests(tests, NULL, NULL);
}
