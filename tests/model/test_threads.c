/* A training run has the same bytes whenever it runs and however many threads compute it. */
/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/philox.h"
#include "model/train/train.h"
#include "tests/model/vit_step.h"

enum { B = 48, PIXELS = B * 32 * 32 * 3, STEPS = 2 }; /* 3120 tokens: weight gradients are turned */

static _Alignas(64) float images[PIXELS];
static _Alignas(64) int32_t labels[B];

static int setup(void **state) {
  mr_philox_t g;
  mr_philox_init(&g, 12, 0);
  for (int i = 0; i < PIXELS; i++) images[i] = (float)mr_philox_uniform(&g, -2, 2);
  for (int i = 0; i < B; i++) labels[i] = i % 10;
  return 0;
}

static vit_t small_vit(mr_dtype_t dtype, int threads, bool pin) {
  vit_t c = vit_default();
  c.model.embed = 96, c.model.mlp = 192, c.model.heads = 4, c.model.layers = 2;
  c.how.dtype = dtype, c.how.threads = threads, c.how.pin = pin;
  return c;
}

/* The parameters after STEPS steps and the losses of an evaluation with them. */
typedef struct result {
  mr_params_t params;
  float losses[B];
} result_t;

static result_t train(mr_dtype_t dtype, int threads, bool pin) {
  vit_t c = small_vit(dtype, threads, pin);
  mr_train_config_t config = mr_train_default(B);
  mr_train_step_t *s = NULL;
  mr_eval_step_t *e = NULL;
  mr_train_out_t out;
  mr_diag_t d = {0};
  result_t r = {0};
  mr_eval_rows_t rows;
  if (vit_params(&c, 12, &r.params, &d) < 0 || vit_step(&c, config, &s, &d) < 0 ||
      vit_eval(&c, B, s, &e, &d) < 0)
    fail_msg("%s", d.text);
  for (int t = 1; t <= STEPS; t++)
    assert_int_equal(vit_run(s, &r.params, images, labels, 1e-3f, t, 12, &out, &d), MR_OK);
  assert_int_equal(vit_judge(e, &r.params, images, labels, &rows, &d), MR_OK);
  memcpy(r.losses, rows.losses, sizeof r.losses);
  mr_eval_step_destroy(e);
  mr_train_step_destroy(s);
  return r;
}

static void expect_same(result_t *a, result_t *b, const char *what) {
  size_t bytes = a->params.arena_size * sizeof(float);
  if (memcmp(values_of(&a->params), values_of(&b->params), bytes) ||
      memcmp(slot_of(&a->params, 0), slot_of(&b->params, 0), bytes) ||
      memcmp(slot_of(&a->params, 1), slot_of(&b->params, 1), bytes) ||
      memcmp(a->losses, b->losses, sizeof a->losses))
    fail_msg("%s: other bytes", what);
  mr_params_fini(&b->params);
}

static void runs_agree(mr_dtype_t dtype) {
  result_t one = train(dtype, 1, false), again = train(dtype, 1, false);
  expect_same(&one, &again, "a second run on one thread");
  for (int threads = 2; threads <= 5; threads++) {
    char what[64];
    result_t many = train(dtype, threads, threads == 3);
    snprintf(what, sizeof what, "%d threads", threads);
    expect_same(&one, &many, what);
  }
  mr_params_fini(&one.params);
}

static void bf16_training_has_the_same_bytes_on_any_number_of_threads(void **state) {
  runs_agree(MR_BF16);
}

static void f32_training_has_the_same_bytes_on_any_number_of_threads(void **state) {
  runs_agree(MR_F32);
}

static void *pinned_run(void *count) {
  cpu_set_t own;
  result_t r = train(MR_BF16, 2, true);
  mr_params_fini(&r.params);
  if (sched_getaffinity(0, sizeof own, &own) == 0) *(int *)count = CPU_COUNT(&own);
  return NULL;
}

static void a_pinned_team_stands_on_one_processor_a_thread(void **state) {
  pthread_t thread;
  int count = 0;
  assert_int_equal(pthread_create(&thread, NULL, pinned_run, &count), 0);
  pthread_join(thread, NULL);
  assert_int_equal(count, 1);
}

static void too_many_threads_are_refused(void **state) {
  vit_t c = small_vit(MR_F32, 1025, false);
  mr_diag_t d = {0};
  assert_int_equal(mr_compute_check(&c.how, &d), MR_ERR_CONFIG);
  assert_string_equal(d.text, "threads: 1025, want [0,1024]");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bf16_training_has_the_same_bytes_on_any_number_of_threads),
      cmocka_unit_test(f32_training_has_the_same_bytes_on_any_number_of_threads),
      cmocka_unit_test(a_pinned_team_stands_on_one_processor_a_thread),
      cmocka_unit_test(too_many_threads_are_refused),
  };
  return cmocka_run_group_tests(tests, setup, NULL);
}
