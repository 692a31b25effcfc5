/* Random programs of loops over several tensors (random_joined.h) by the kernels that CUDA would
   compile, on the table of cuda_host.h. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include "model/model.h"
#include "tests/model/cuda_host.h"
#include "tests/model/random_joined.h"

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(joined_programs_are_right_with_and_without_passes),
  };
  mr_diag_t diag = {0};
  if (system("g++ --version >/dev/null 2>&1")) {
    printf("[  SKIPPED ] cuda_joined: there is no g++\n");
    return 77;
  }
  /* Products are not tested here, and without a GPU their library keeps memory. */
  setenv("MILLRACE_CUBLASLT", "off", 1);
  host_put();
  if (mr_device_open("cuda", &device, &diag) < 0) return printf("%s\n", diag.text), 1;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
