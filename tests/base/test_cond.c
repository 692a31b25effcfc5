#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"

enum { LATE_NS = 20000000 };

typedef struct meeting {
  pthread_mutex_t lock;
  pthread_cond_t came;
  bool here;
} meeting_t;

static int open_meeting(void **state) {
  static meeting_t m;
  pthread_mutex_init(&m.lock, NULL);
  mr_cond_init(&m.came);
  m.here = false;
  return *state = &m, 0;
}

static int close_meeting(void **state) {
  meeting_t *m = *state;
  return pthread_cond_destroy(&m->came) | pthread_mutex_destroy(&m->lock);
}

static void no_waiter_wakes_before_the_time_is_up(void **state) {
  meeting_t *m = *state;
  int64_t until = mr_now_ns() + LATE_NS;
  pthread_mutex_lock(&m->lock);
  while (mr_cond_wait_until(&m->came, &m->lock, until)) continue;
  pthread_mutex_unlock(&m->lock);
  assert_true(mr_now_ns() >= until);
}

static void *come(void *meeting) {
  meeting_t *m = meeting;
  pthread_mutex_lock(&m->lock);
  m->here = true;
  pthread_cond_signal(&m->came);
  pthread_mutex_unlock(&m->lock);
  return NULL;
}

static void a_signal_ends_the_wait(void **state) {
  meeting_t *m = *state;
  pthread_t other;
  bool in_time = true;
  pthread_mutex_lock(&m->lock);
  assert_int_equal(pthread_create(&other, NULL, come, m), 0);
  while (!m->here && in_time) in_time = mr_cond_wait_until(&m->came, &m->lock, INT64_MAX);
  pthread_mutex_unlock(&m->lock);
  pthread_join(other, NULL);
  assert_true(m->here && in_time);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(no_waiter_wakes_before_the_time_is_up, open_meeting,
                                      close_meeting),
      cmocka_unit_test_setup_teardown(a_signal_ends_the_wait, open_meeting, close_meeting),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
