/* The small ViTs on a device against numbers of flax, PyTorch and optax: logits, losses, gradients
   and parameters, with the tolerances of the CPU. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include "tests/model/device_run.h"
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

int main(int argc, char **argv) {
  int status = open_device(argc, argv);
  if (status) return status;
  vit_device = device;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(flax_f32_gives_jax_logits_loss_and_gradients),
      cmocka_unit_test(timm_f32_gives_pytorch_logits_loss_and_gradients),
      cmocka_unit_test(flax_bf16_stays_as_near_to_jax_as_jax_to_itself),
      cmocka_unit_test(adamw_gives_optax_parameters_after_one_and_three_steps),
      cmocka_unit_test(clipped_adamw_gives_optax_parameters_after_one_and_three_steps),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
