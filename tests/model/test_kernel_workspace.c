/* Blocks that kernels borrow. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include <string.h>

#include "model/backends/cpu/kernels.h"

static void a_small_wish_leaves_the_large_block_to_others(void **state) {
  mr__workspace_join();
  void *small = mr__workspace_take(100), *large = mr__workspace_take(1 << 20);
  assert_true(small && large && small != large);
  memset(large, 1, 1 << 20);
  mr__workspace_give(small);
  mr__workspace_give(large);
  assert_ptr_equal(mr__workspace_take(1 << 19), large);
  assert_ptr_equal(mr__workspace_take(90), small);
  mr__workspace_give(small);
  mr__workspace_give(large);
  assert_ptr_equal(mr__workspace_take(80), small);
  assert_ptr_equal(mr__workspace_take(80), large);
  mr__workspace_give(large);
  mr__workspace_give(small);
  mr__workspace_leave();
}

static void blocks_are_aligned_and_grow(void **state) {
  mr__workspace_join();
  for (size_t bytes = 1; bytes < 1 << 20; bytes = bytes * 3 + 5) {
    void *x = mr__workspace_take(bytes);
    assert_non_null(x);
    assert_int_equal((uintptr_t)x % 64, 0);
    memset(x, 7, bytes);
    mr__workspace_give(x);
  }
  mr__workspace_leave();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_small_wish_leaves_the_large_block_to_others),
      cmocka_unit_test(blocks_are_aligned_and_grow),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
