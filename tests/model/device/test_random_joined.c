/* Random programs of loops over several tensors (random_joined.h) on a device: the bits are the
   same with the passes that join, fuse, recompute and merge, and without them. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include "tests/model/random_joined.h"

int main(int argc, char **argv) {
  int status = open_device(argc, argv);
  if (status) return status;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(joined_programs_are_right_with_and_without_passes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
