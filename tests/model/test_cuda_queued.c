/* The steps that bench step queues on a device, on the table in the place of CUDA's libraries,
   whose clock counts commands: their times are the device's and nothing of the host's is in them.
 */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <math.h>

#include "base/philox.h"
#include "model/exec/device.h"
#include "model/train/queued.h"
#include "tests/model/cuda_host.h"
#include "tests/model/vit_step.h"

enum { B = 4, SIDE = 8, CLASSES = 5, PIXELS = SIDE * SIDE * 3, STEPS = 6 };

static const mr_device_t *cuda;
static _Alignas(4096) float images[B * PIXELS];
static _Alignas(64) int32_t labels[16];
static const void *const field[] = {images, labels};

static void make_step(bool there, mr_train_step_t **step, mr_params_t *params) {
  mr_train_config_t t = mr_train_default(B);
  vit_t v = vit_default();
  mr_diag_t diag = {0};
  v.model.image = SIDE, v.model.classes = CLASSES, v.model.layers = 1;
  v.model.embed = 16, v.model.mlp = 32, v.model.heads = 2;
  v.how = (mr_compute_t){.dtype = MR_F32, .device = cuda};
  t.there = there;
  if (vit_params(&v, 12, params, &diag) < 0 || vit_step(&v, t, step, &diag) < 0)
    fail_msg("%s", diag.text);
}

static void measured(int64_t steps, mr_queued_times_t *out) {
  mr_train_step_t *step = NULL;
  mr_params_t params = {0};
  mr_diag_t diag = {0};
  make_step(true, &step, &params);
  const mr_queued_t q = {.device = cuda,
                         .step = step,
                         .params = &params,
                         .field = {images, labels},
                         .bytes = {sizeof images, B * sizeof *labels},
                         .warm_up = 3,
                         .steps = steps};
  if (mr_queued_measure(&q, out, &diag) < 0) fail_msg("%s", diag.text);
  mr_train_step_destroy(step);
  mr_params_fini(&params);
  assert_int_equal(host_blocks_left(), 0);
  assert_int_equal(host.events, HOST_EVENTS_KEPT);
}

static void the_time_of_a_step_is_the_devices(void **state) {
  mr_queued_times_t first, second;
  int copies = host.copies_later;
  measured(STEPS, &first);
  assert_true(host.copies_later - copies > 2 * 2 * STEPS); /* pictures and labels of many batches */
  measured(STEPS, &second);
  assert_true(first.by_device && first.steps == STEPS && first.rows == STEPS);
  assert_true(first.warm_up_s >= 1);
  assert_true(first.step_s == second.step_s); /* no two times of the host are */
  assert_true(fabs(first.step_s * 1e6 - rint(first.step_s * 1e6)) < 1e-6 && first.step_s > 100e-6);
  assert_true(first.copied_s >= first.step_s && first.copied_s < 1.1 * first.step_s);
}

static void the_first_losses_are_those_of_plain_steps(void **state) {
  mr_train_step_t *step = NULL;
  mr_params_t params = {0};
  mr_diag_t diag = {0};
  mr_queued_times_t queued;
  float loss[2];
  make_step(false, &step, &params);
  for (int i = 0; i < 2; i++) {
    const mr_train_in_t in = {.step = i + 1, .seed = 12, .lr = 1e-3f};
    mr_train_out_t out;
    if (mr_train_step_run(step, &params, field, &in, &diag) < 0 ||
        mr_train_step_read(step, true, &out, &diag) < 0)
      fail_msg("%s", diag.text);
    loss[i] = out.loss;
  }
  mr_train_step_destroy(step);
  mr_params_fini(&params);
  measured(STEPS, &queued);
  assert_true(queued.loss[0] == loss[0] && queued.loss[1] == loss[1] && loss[0] != loss[1]);
}

static int open_cuda(void **state) {
  mr_diag_t diag = {0};
  mr_philox_t g;
  mr_philox_init(&g, 5, 0);
  for (int i = 0; i < B * PIXELS; i++) images[i] = (float)mr_philox_uniform(&g, -2, 2);
  for (int i = 0; i < B; i++) labels[i] = i % CLASSES;
  if (mr_device_open("cuda", &cuda, &diag) == MR_OK) return 0;
  print_error("%s\n", diag.text);
  return -1;
}

int main(void) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  printf("[  SKIPPED ] cuda_queued_under_a_sanitizer\n");
  printf("the kernels of this test are not built for a sanitizer\n");
  return 77;
#endif
  if (system("g++ --version >/dev/null 2>&1")) {
    printf("[  SKIPPED ] cuda_queued_without_a_cpp_compiler\n");
    return 77; /* the kernels' text is C++ */
  }
  unsetenv("MILLRACE_GRAPH");
  host_put();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_time_of_a_step_is_the_devices),
      cmocka_unit_test(the_first_losses_are_those_of_plain_steps),
  };
  return cmocka_run_group_tests(tests, open_cuda, NULL);
}
