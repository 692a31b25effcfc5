/* What is kept between calls never shows: every way of asking gives what one walk gives. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(epochs_in_a_row_are_those_one_by_one),
      cmocka_unit_test(tiny_epochs_in_a_row_are_those_one_by_one),
      cmocka_unit_test(seeds_continue_after_the_last_one),
      cmocka_unit_test(leaps_and_turns_are_those_one_by_one),
      cmocka_unit_test(two_orders_by_turns_keep_apart),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
