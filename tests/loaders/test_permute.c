/* What is kept between calls never shows: every way of asking gives what one walk gives. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include <pthread.h>
#include <stdbool.h>

#include "base/index_shuffle.h"
#include "loaders/orders/sampler.h"

static void check(uint64_t i, uint64_t n, uint32_t seed, bool bijective) {
  mr_index_shuffle_t s;
  if (bijective)
    mr_index_shuffle_init_bijective(&s, n - 1, seed, MR_SHUFFLE_ROUNDS);
  else
    mr_index_shuffle_init(&s, n - 1, seed, MR_SHUFFLE_ROUNDS);
  assert_int_equal(mr_permute(i, n - 1, seed, bijective), mr_index_shuffle_at(&s, i));
}

static void epochs_in_a_row_are_those_one_by_one(void **state) {
  static const uint64_t n[] = {1, 2, 10, 97, 1023, 1024, 1025};
  for (size_t k = 0; k < sizeof n / sizeof *n; k++)
    for (uint32_t epoch = 0; epoch < 2 * MR_SHUFFLE_TOGETHER + 3; epoch++)
      for (uint64_t i = 0; i < n[k]; i += 1 + n[k] / 16) check(i, n[k], 40 + epoch, false);
}

/* Far enough that many are made at once, twice; most are only passed. */
static void tiny_epochs_in_a_row_are_those_one_by_one(void **state) {
  enum { MADE = MR_SHUFFLE_TOGETHER + MR_SHUFFLE_TINY_TOGETHER };
  for (uint64_t n = 2; n <= MR_SHUFFLE_TINY_MAX + 1; n++)
    for (uint32_t epoch = 0; epoch < MADE + MR_SHUFFLE_TINY_TOGETHER / 4; epoch++) {
      uint64_t seen = 0;
      for (uint64_t i = 0; i < n; i++)
        seen |= UINT64_C(1) << mr_permute(i, n - 1, UINT32_MAX - 99 + epoch, false);
      assert_int_equal(seen, (1 << n) - 1);
      bool edge = epoch < MR_SHUFFLE_TOGETHER + 3 || (epoch > MADE - 2 && epoch < MADE + 4);
      for (uint64_t i = 0; i < n && (edge || epoch % 97 == 0); i++)
        check(i, n, UINT32_MAX - 99 + epoch, epoch % 2);
    }
}

static void seeds_continue_after_the_last_one(void **state) {
  for (uint32_t epoch = 0; epoch < 3 * MR_SHUFFLE_TOGETHER; epoch++)
    for (uint64_t i = 0; i < 5; i++) check(i, 5, UINT32_MAX - 10 + epoch, false);
}

static void leaps_and_turns_are_those_one_by_one(void **state) {
  uint32_t word = 7;
  uint64_t n = 20, seed = 0;
  for (int k = 0; k < 6000; k++) {
    word = word * 1664525u + 1013904223u;
    switch (word >> 24 & 31) {
      case 0: n = 2 + (word >> 8) % 60; break;
      case 1: seed = word >> 20; break;
      case 2: seed -= seed > 3 ? 3 : 0; break;
      case 3:
      case 4:
      case 5:
      case 6: seed++; break;
    }
    check((word >> 4) % n, n, (uint32_t)seed, word >> 30 == 0);
  }
}

static void two_orders_by_turns_keep_apart(void **state) {
  for (uint32_t k = 0; k < 300; k++) {
    check(k % 30, 30, k / 30, false);
    check(k % 30, k % 7 ? 30 : 31, k / 30 + 1, false);
  }
}

/* ---- the inverse ---- */

/* Of some indices, or all of few, the inverse of the image is the index, alone. */
static void expect_inverse(uint64_t n, uint32_t seed, bool bijective) {
  uint64_t from[2], step = 1 + n / 300, tested = 0;
  for (uint64_t i = seed % step; i < n; i += step, tested++) {
    uint64_t image = mr_permute(i, n - 1, seed, bijective);
    int many = mr_permute_from(image, n - 1, seed, bijective, from);
    if (many != 1 || from[0] != i)
      fail_msg("%llu of %llu, seed %u: %d from %llu", (unsigned long long)i, (unsigned long long)n,
               seed, many, (unsigned long long)from[0]);
    assert_int_equal(mr_permute_from(i, n - 1, seed, bijective, from), 1);
    assert_int_equal(mr_permute(from[0], n - 1, seed, bijective), i);
  }
  assert_true(tested > 0 && tested <= 302);
  assert_int_equal(mr_permute_from(n, n - 1, seed, bijective, from), 0);
}

static void the_inverse_of_each_length_and_seed_leads_back(void **state) {
  static const uint64_t n[] = {1, 2, 3, 5, 97, 257, 7919, 104729, 1000000007, 1000000000000};
  static const uint32_t seed[] = {0, 1, 12, 99991, UINT32_MAX};
  for (size_t s = 0; s < sizeof seed / sizeof *seed; s++) {
    for (size_t k = 0; k < sizeof n / sizeof *n; k++) {
      expect_inverse(n[k], seed[s], false);
      expect_inverse(n[k], seed[s], true);
    }
    for (int bits = 1; bits < 60; bits++) {
      uint64_t power = UINT64_C(1) << bits;
      for (uint64_t k = power - 1; k <= power + 1; k++) {
        expect_inverse(k, seed[s], true);
        if (mr_permutes((int64_t)k, false)) expect_inverse(k, seed[s], false);
      }
    }
  }
}

/* grain's own has two indices of one image where there are 4^k + 1 records, and one of none. */
static void where_it_is_no_permutation_the_inverse_says_two_and_none(void **state) {
  static const uint64_t n[] = {65537, 262145, (UINT64_C(1) << 40) + 1};
  for (size_t k = 0; k < sizeof n / sizeof *n; k++)
    for (uint32_t seed = 0; seed < 5; seed++) {
      uint64_t from[2], twice = mr_permute(0, n[k] - 1, seed, false);
      assert_int_equal(mr_permute(n[k] - 1, n[k] - 1, seed, false), twice);
      assert_int_equal(mr_permute_from(twice, n[k] - 1, seed, false, from), 2);
      assert_int_equal(from[0], 0);
      assert_int_equal(from[1], n[k] - 1);
      assert_int_equal(mr_permute_from(n[k] - 1, n[k] - 1, seed, false, from), 0);
      uint64_t image = mr_permute(7, n[k] - 1, seed, false);
      assert_int_equal(mr_permute_from(image, n[k] - 1, seed, false, from), 1);
      assert_int_equal(from[0], 7);
    }
}

/* ---- threads ---- */

static _Thread_local bool short_of_memory;
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size) {
  return short_of_memory ? NULL : __real_calloc(n, size);
}

static void *ask_in_turn(void *lacks) {
  short_of_memory = lacks != NULL;
  for (uint32_t seed = 0; seed < 40; seed++)
    for (uint64_t i = 0; i < 9; i++) check(i, 9 + seed % 3, seed / 3, seed % 2);
  short_of_memory = false;
  check(3, 11, 5, false);
  return NULL;
}

/* Each thread keeps its own, and one that gets no memory for it finds the same. */
static void threads_find_the_same_with_memory_and_without(void **state) {
  pthread_t thread[16];
  for (int k = 0; k < 16; k++)
    assert_int_equal(pthread_create(&thread[k], NULL, ask_in_turn, k % 2 ? thread : NULL), 0);
  for (int k = 0; k < 16; k++) assert_int_equal(pthread_join(thread[k], NULL), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(epochs_in_a_row_are_those_one_by_one),
      cmocka_unit_test(tiny_epochs_in_a_row_are_those_one_by_one),
      cmocka_unit_test(seeds_continue_after_the_last_one),
      cmocka_unit_test(leaps_and_turns_are_those_one_by_one),
      cmocka_unit_test(two_orders_by_turns_keep_apart),
      cmocka_unit_test(the_inverse_of_each_length_and_seed_leads_back),
      cmocka_unit_test(where_it_is_no_permutation_the_inverse_says_two_and_none),
      cmocka_unit_test(threads_find_the_same_with_memory_and_without),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
