/* Waits end when the run that their thread works for is to end, and no sooner. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdatomic.h>

#include "base/clock.h"
#include "base/halt.h"

static bool is_set(const void *of) {
  return atomic_load_explicit((const atomic_bool *)of, memory_order_relaxed);
}

static void a_thread_that_works_for_no_run_waits(void **state) {
  pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t never = PTHREAD_COND_INITIALIZER;
  assert_false(mr_halted());
  assert_true(mr_halt_pause(1000));
  pthread_mutex_lock(&lock);
  for (int i = 0; i < 3; i++) assert_true(mr_halt_wait(&never, &lock)); /* in slices */
  pthread_mutex_unlock(&lock);
}

static void a_pause_lasts_its_time(void **state) {
  int64_t from = mr_now_ns(), long_enough = (int64_t)(2.5 * MR_HALT_SLICE_MS * 1e6);
  assert_true(mr_halt_pause(long_enough));
  assert_true(mr_now_ns() - from >= long_enough);
}

typedef struct waiting {
  pthread_mutex_t lock;
  pthread_cond_t never;
  mr_halt_t halt;
  bool paused;
} waiting_t;

static void *wait_for_ever(void *arg) {
  waiting_t *w = arg;
  mr_halt_set(w->halt);
  if (w->paused) return mr_halt_pause(INT64_MAX / 2), NULL;
  pthread_mutex_lock(&w->lock);
  while (mr_halt_wait(&w->never, &w->lock)) continue;
  pthread_mutex_unlock(&w->lock);
  return NULL;
}

static void a_wait_of_a_thread_ends_with_its_run_alone(void **state) {
  atomic_bool ends = false;
  mr_halt_t none = {0}, halt = {.asked = is_set, .of = &ends};
  for (int paused = 0; paused < 2; paused++) {
    waiting_t w = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, halt, paused};
    pthread_t thread;
    atomic_store_explicit(&ends, false, memory_order_relaxed);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_ever, &w), 0);
    atomic_store_explicit(&ends, true, memory_order_relaxed);
    assert_int_equal(pthread_join(thread, NULL), 0);
  }
  assert_false(mr_halted()); /* this thread works for no run */
  mr_halt_t before = mr_halt_set(halt);
  assert_null(before.asked);
  assert_true(mr_halted());
  assert_false(mr_halt_pause(1));
  assert_ptr_equal(mr_halt_set(none).of, &ends);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_thread_that_works_for_no_run_waits),
      cmocka_unit_test(a_pause_lasts_its_time),
      cmocka_unit_test(a_wait_of_a_thread_ends_with_its_run_alone),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
