/* The tester itself: what C11 allows it finds, what C11 forbids it does not make up. */
/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include "tests/weak/atomics.h"

enum { ROUNDS = 20000 };

static atomic_int x, y;
static int order_of_stores, order_of_loads;
static int seen[4], plain;

static void zero(void) {
  atomic_init(&x, 0);
  atomic_init(&y, 0);
  memset(seen, 0, sizeof seen);
}

static bool finds(void (*before)(void), int stores, int loads) {
  weak_test_t test = {"litmus", before, NULL};
  order_of_stores = stores, order_of_loads = loads;
  return weak_finds(&test, 1, ROUNDS);
}

#define LOAD(p) atomic_load_explicit(p, order_of_loads)
#define STORE(p, v) atomic_store_explicit(p, v, order_of_stores)

/* ---- a message: data, then a flag ---- */

static void *send(void *arg) {
  weak_write(&plain);
  atomic_store_explicit(&x, 1, memory_order_relaxed);
  STORE(&y, 1);
  return NULL;
}

static void *receive(void *arg) {
  if (!LOAD(&y)) return NULL;
  weak_read(&plain);
  WEAK_CHECK(atomic_load_explicit(&x, memory_order_relaxed));
  return NULL;
}

static void message(void) { zero(), weak_start(send, NULL), weak_start(receive, NULL); }

static void a_message_needs_release_and_acquire(void **state) {
  assert_true(finds(message, memory_order_relaxed, memory_order_relaxed));
  assert_true(finds(message, memory_order_relaxed, memory_order_acquire));
  assert_true(finds(message, memory_order_release, memory_order_relaxed));
  assert_false(finds(message, memory_order_release, memory_order_acquire));
  assert_false(finds(message, memory_order_seq_cst, memory_order_seq_cst));
}

/* ---- each stores, then looks at the other: what parking rests on ---- */

static void *left(void *arg) {
  STORE(&x, 1);
  seen[0] = LOAD(&y), seen[2] = 1;
  WEAK_CHECK(!seen[3] || seen[0] || seen[1]);
  return NULL;
}

static void *right(void *arg) {
  STORE(&y, 1);
  seen[1] = LOAD(&x), seen[3] = 1;
  WEAK_CHECK(!seen[2] || seen[0] || seen[1]);
  return NULL;
}

static void both_look(void) { zero(), weak_start(left, NULL), weak_start(right, NULL); }

static void two_that_look_at_each_other_need_seq_cst(void **state) {
  assert_true(finds(both_look, memory_order_release, memory_order_acquire));
  assert_false(finds(both_look, memory_order_seq_cst, memory_order_seq_cst));
}

/* ---- one location has one order, which no thread sees backwards ---- */

static void *count_up(void *arg) {
  for (int i = 1; i < 6; i++) atomic_store_explicit(&x, i, memory_order_relaxed);
  return NULL;
}

static void *look_twice(void *arg) {
  int first = atomic_load_explicit(&x, memory_order_relaxed);
  WEAK_CHECK(atomic_load_explicit(&x, memory_order_relaxed) >= first);
  return NULL;
}

static void coherence(void) { zero(), weak_start(count_up, NULL), weak_start(look_twice, NULL); }

static void one_location_is_never_seen_backwards(void **state) {
  assert_false(finds(coherence, 0, 0));
}

/* ---- a read-modify-write between a release and an acquire hands the release on ---- */

static void *add_relaxed(void *arg) {
  atomic_fetch_add_explicit(&y, 1, memory_order_relaxed);
  return NULL;
}

static void *receive_two(void *arg) {
  if (LOAD(&y) < 2) return NULL;
  weak_read(&plain);
  return NULL;
}

static void *add_after_writing(void *arg) {
  weak_write(&plain);
  atomic_fetch_add_explicit(&y, 1, order_of_stores);
  return NULL;
}

static void sequence(void) {
  zero();
  weak_start(add_after_writing, NULL);
  weak_start(add_relaxed, NULL);
  weak_start(receive_two, NULL);
}

static void a_release_sequence_reaches_through_other_threads(void **state) {
  assert_false(finds(sequence, memory_order_release, memory_order_acquire));
  assert_true(finds(sequence, memory_order_relaxed, memory_order_acquire));
}

/* ---- sleeping ---- */

static void *sleeper(void *arg) {
  atomic_exchange_explicit(&x, 1, order_of_stores); /* parked */
  if (!LOAD(&y)) weak_futex(&x, FUTEX_WAIT, 1, NULL);
  return NULL;
}

static void *waker(void *arg) {
  atomic_exchange_explicit(&y, 1, order_of_stores); /* news */
  if (!LOAD(&x)) return NULL;
  atomic_exchange_explicit(&x, 0, order_of_stores);
  weak_futex(&x, FUTEX_WAKE, 1, NULL);
  return NULL;
}

static void naps(void) { zero(), weak_start(sleeper, NULL), weak_start(waker, NULL); }

static void a_lost_wake_up_is_found(void **state) {
  assert_true(finds(naps, memory_order_acq_rel, memory_order_acquire));
  assert_false(finds(naps, memory_order_seq_cst, memory_order_seq_cst));
}

/* ---- mutexes ---- */

static int mutex;

static void *locked(void *arg) {
  weak_lock(&mutex);
  weak_write(&plain);
  weak_unlock(&mutex);
  return NULL;
}

static void *unlocked(void *arg) { return weak_write(&plain), NULL; }

static void two_locked(void) { mutex = 0, weak_start(locked, NULL), weak_start(locked, NULL); }
static void one_locked(void) { mutex = 0, weak_start(locked, NULL), weak_start(unlocked, NULL); }

static void a_mutex_orders_what_it_guards(void **state) {
  assert_false(finds(two_locked, 0, 0));
  assert_true(finds(one_locked, 0, 0));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_message_needs_release_and_acquire),
      cmocka_unit_test(two_that_look_at_each_other_need_seq_cst),
      cmocka_unit_test(one_location_is_never_seen_backwards),
      cmocka_unit_test(a_release_sequence_reaches_through_other_threads),
      cmocka_unit_test(a_lost_wake_up_is_found),
      cmocka_unit_test(a_mutex_orders_what_it_guards),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
