/* The ring alone: failures first, then a million seeded random rounds between two threads. */
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

#include "pipeline/pool.h"
#include "pipeline/ring.h"

enum { DEPTH = 8 };

static mr_buf_t *fake(size_t i) { return (mr_buf_t *)(i + 1); }

static int setup(void **state) {
  *state = aligned_alloc(64, mr_ring_footprint(DEPTH));
  return !mr_ring_init(*state, DEPTH, NULL, NULL);
}
static int teardown(void **state) { return free(*state), 0; }

static void a_depth_that_is_no_power_of_two_is_refused(void **state) {
  const size_t bad[] = {0, 1, 3, 6, 100, 131072, (size_t)-1};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    assert_int_equal(mr_ring_footprint(bad[i]), 0);
    assert_null(mr_ring_init(*state, bad[i], NULL, NULL));
  }
  assert_int_equal(mr_ring_footprint(2) % 64, 0);
}

static void an_empty_ring_gives_nothing(void **state) {
  mr_buf_t *out[1];
  assert_int_equal(mr_ring_pop(*state, out, 1), 0);
  assert_int_equal(mr_ring_ready(*state), 0);
  assert_int_equal(mr_ring_room(*state), DEPTH);
  assert_false(mr_ring_over(*state));
}

static void full_ring_pushes_back(void **state) {
  mr_buf_t *in[DEPTH + 1], *out[DEPTH + 1];
  for (size_t i = 0; i <= DEPTH; i++) in[i] = fake(i);
  assert_int_equal(mr_ring_push(*state, in, DEPTH + 1), DEPTH); /* one is left over */
  assert_int_equal(mr_ring_push(*state, in, 1), 0);
  assert_int_equal(mr_ring_pop(*state, out, DEPTH + 1), DEPTH);
  assert_memory_equal(out, in, DEPTH * sizeof *in); /* in order, once */
}

static void a_closed_ring_is_over_once_it_is_empty(void **state) {
  mr_buf_t *in[1] = {fake(0)}, *out[1];
  assert_int_equal(mr_ring_push(*state, in, 1), 1);
  mr_ring_close(*state);
  assert_false(mr_ring_over(*state));
  assert_int_equal(mr_ring_pop(*state, out, 1), 1);
  assert_true(mr_ring_over(*state));
}

static void the_producer_sees_that_the_consumer_left(void **state) {
  assert_false(mr_ring_gone(*state));
  mr_ring_abandon(*state);
  assert_true(mr_ring_gone(*state));
}

static mr_pool_t *bytes_pool(size_t n) {
  const mr_spec_t spec = mr_spec_of_bytes(MR_FLOW_BYTES, 8);
  return mr_pool_create(&spec, n);
}

/* The producer had looked before the consumer left, and pushes after it. */
static void buffers_pushed_to_a_consumer_that_has_left_are_released(void **state) {
  for (int lossy = 0; lossy < 2; lossy++) {
    mr_ring_t *r = mr_ring_init(*state, DEPTH, NULL, NULL);
    mr_pool_t *pool = bytes_pool(2);
    mr_buf_t *b = mr_pool_get(pool);
    if (lossy) mr_ring_set_lossy(r);
    assert_int_equal(mr_ring_push(r, &b, 1), 1);
    assert_false(mr__pool_whole(pool));
    mr_ring_abandon(r);
    assert_true(mr__pool_whole(pool));
    b = mr_pool_get(pool);
    assert_int_equal(mr_ring_push(r, &b, 1), 1);
    assert_true(mr__pool_whole(pool));
    mr_pool_destroy(pool);
  }
}

/* ---- two threads ---- */

typedef struct {
  mr_ring_t *ring;
  mr_wait_t producer, consumer;
  uint64_t total, seed;
} duel_t;

static uint64_t step_random(uint64_t *x) {
  *x ^= *x << 13, *x ^= *x >> 7, *x ^= *x << 17;
  return *x;
}

static bool has_room(void *arg) { return mr_ring_room(((duel_t *)arg)->ring) > 0; }
static bool has_news(void *arg) {
  mr_ring_t *r = ((duel_t *)arg)->ring;
  return mr_ring_ready(r) || mr_ring_over(r);
}

static void *produce(void *arg) {
  duel_t *d = arg;
  uint64_t x = d->seed;
  for (uint64_t at = 0; at < d->total;) {
    mr_buf_t *in[2 * DEPTH];
    uint64_t n = 1 + step_random(&x) % (2 * DEPTH);
    if (n > d->total - at) n = d->total - at;
    for (uint64_t i = 0; i < n; i++) in[i] = fake(at + i);
    size_t k = mr_ring_push(d->ring, in, n);
    at += k;
    if (!k) mr_wait_until(&d->producer, has_room, d);
  }
  mr_ring_close(d->ring);
  return NULL;
}

typedef struct leaving {
  mr_ring_t *ring;
  mr_pool_t *pool;
  int total;
} leaving_t;

static void *push_on(void *arg) {
  leaving_t *t = arg;
  for (int i = 0; i < t->total;) {
    mr_buf_t *b = mr_pool_get(t->pool);
    if (!b) sched_yield(); /* they are in the ring, until the consumer leaves */
    if (!b) continue;
    if (!mr_ring_push(t->ring, &b, 1)) mr_buf_unref(b);
    i++;
  }
  return NULL;
}

/* Whenever it leaves: once the producer is done too, no buffer is missing. */
static void a_consumer_that_leaves_at_any_moment_leaves_nothing_behind(void **state) {
  uint64_t x = 88172645463325252u;
  for (int round = 0; round < 200; round++) {
    leaving_t t = {mr_ring_init(*state, DEPTH, NULL, NULL), bytes_pool(DEPTH / 2), DEPTH};
    pthread_t thread;
    mr_buf_t *b;
    if (round % 2) mr_ring_set_lossy(t.ring);
    assert_int_equal(pthread_create(&thread, NULL, push_on, &t), 0);
    for (uint64_t i = step_random(&x) % 64; i; i--)
      if (mr_ring_pop(t.ring, &b, 1)) mr_buf_unref(b);
    mr_ring_abandon(t.ring);
    pthread_join(thread, NULL);
    if (!mr__pool_whole(t.pool)) fail_msg("round %d: a buffer stays in the ring", round);
    mr_pool_destroy(t.pool);
  }
}

static void a_million_random_bursts_arrive_once_and_in_order(void **state) {
  duel_t d = {.ring = NULL, .total = 1000000, .seed = 88172645463325252u};
  uint64_t x = d.seed * 3, got = 0;
  pthread_t thread;
  d.ring = mr_ring_init(*state, DEPTH, &d.producer, &d.consumer);
  assert_int_equal(pthread_create(&thread, NULL, produce, &d), 0);
  while (!mr_ring_over(d.ring)) {
    mr_buf_t *out[2 * DEPTH];
    size_t k = mr_ring_pop(d.ring, out, 1 + step_random(&x) % (2 * DEPTH));
    for (size_t i = 0; i < k; i++)
      if (out[i] != fake(got + i))
        fail_msg("seed %llu: wrong at %llu", (unsigned long long)d.seed,
                 (unsigned long long)(got + i));
    got += k;
    if (!k) mr_wait_until(&d.consumer, has_news, &d);
  }
  pthread_join(thread, NULL);
  assert_int_equal(got, d.total);
}

/* ---- lossy: buffers of a pool, so that one that is lost or given twice shows ---- */

static mr_pool_t *pool_of(size_t n) {
  mr_spec_t spec = mr_spec_of_bytes(MR_FLOW_BYTES, 8);
  return mr_pool_create(&spec, n);
}

static void a_full_lossy_ring_lets_the_oldest_go(void **state) {
  mr_pool_t *pool = pool_of(DEPTH + 3);
  mr_buf_t *out[DEPTH + 1];
  mr_ring_set_lossy(*state);
  for (int64_t i = 0; i < DEPTH + 3; i++) {
    mr_buf_t *b = mr_pool_get(pool);
    assert_non_null(b);
    b->seq = i;
    assert_true(mr_ring_room(*state) > 0);
    assert_int_equal(mr_ring_push(*state, &b, 1), 1);
  }
  assert_int_equal(mr_ring_lost(*state), 3);
  assert_int_equal(mr_ring_ready(*state), DEPTH);
  mr_ring_close(*state);
  assert_false(mr_ring_over(*state));
  assert_int_equal(mr_ring_pop(*state, out, DEPTH + 1), DEPTH);
  for (int64_t i = 0; i < DEPTH; i++) {
    assert_int_equal(out[i]->seq, i + 3); /* the newest, in order */
    mr_buf_unref(out[i]);
  }
  assert_true(mr_ring_over(*state));
  mr_pool_destroy(pool);
}

typedef struct {
  mr_ring_t *ring;
  mr_pool_t *pool;
  int64_t total;
} flood_t;

static void *flood(void *arg) {
  flood_t *f = arg;
  for (int64_t i = 0; i < f->total; i++) {
    mr_buf_t *b = mr_pool_get(f->pool);
    if (!b) return "the pool is empty: a buffer was lost";
    b->seq = i;
    mr_ring_push(f->ring, &b, 1);
  }
  mr_ring_close(f->ring);
  return NULL;
}

static void a_slow_consumer_of_a_lossy_ring_sees_growing_numbers_up_to_the_last(void **state) {
  flood_t f = {*state, pool_of(2 * DEPTH), 300000};
  int64_t last = -1, got = 0;
  uint64_t x = 88172645463325252u;
  pthread_t thread;
  void *said;
  mr_ring_set_lossy(*state);
  assert_int_equal(pthread_create(&thread, NULL, flood, &f), 0);
  while (!mr_ring_over(f.ring)) {
    mr_buf_t *out[4];
    size_t k = mr_ring_pop(f.ring, out, 1 + step_random(&x) % 4);
    for (size_t i = 0; i < k; i++) {
      assert_true(out[i]->seq > last);
      last = out[i]->seq;
      mr_buf_unref(out[i]);
    }
    got += (int64_t)k;
  }
  pthread_join(thread, &said);
  if (said) fail_msg("%s", (const char *)said);
  assert_int_equal(last, f.total - 1);
  assert_int_equal(got + mr_ring_lost(f.ring), f.total);
  for (int i = 0; i < 2 * DEPTH; i++) assert_non_null(mr_pool_get(f.pool)); /* all are back */
  mr_pool_destroy(f.pool);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(a_depth_that_is_no_power_of_two_is_refused, setup, teardown),
      cmocka_unit_test_setup_teardown(an_empty_ring_gives_nothing, setup, teardown),
      cmocka_unit_test_setup_teardown(full_ring_pushes_back, setup, teardown),
      cmocka_unit_test_setup_teardown(a_closed_ring_is_over_once_it_is_empty, setup, teardown),
      cmocka_unit_test_setup_teardown(the_producer_sees_that_the_consumer_left, setup, teardown),
      cmocka_unit_test_setup_teardown(buffers_pushed_to_a_consumer_that_has_left_are_released,
                                      setup, teardown),
      cmocka_unit_test_setup_teardown(a_consumer_that_leaves_at_any_moment_leaves_nothing_behind,
                                      setup, teardown),
      cmocka_unit_test_setup_teardown(a_million_random_bursts_arrive_once_and_in_order, setup,
                                      teardown),
      cmocka_unit_test_setup_teardown(a_full_lossy_ring_lets_the_oldest_go, setup, teardown),
      cmocka_unit_test_setup_teardown(
          a_slow_consumer_of_a_lossy_ring_sees_growing_numbers_up_to_the_last, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
