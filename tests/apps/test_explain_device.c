/* millrace explain --device opencl: the kernels of a graph, counted and named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <cjson/cJSON.h>
#include <stdbool.h>

#include "model/exec/device.h"
#include "tests/apps/program.h"

static program_t p;

static cJSON *explained(void) {
  if (p.status) fail_msg("%s", p.err);
  cJSON *all = cJSON_Parse(p.out);
  assert_non_null(all);
  return all;
}

static void expect_kernels(int least, int most) {
  cJSON *all = explained();
  const cJSON *kernels = cJSON_GetObjectItem(all, "kernels");
  assert_true(cJSON_IsNumber(kernels));
  assert_in_range((int)kernels->valuedouble, least, most);
  cJSON_Delete(all);
}

/* docs/devices.md says how many a step of the recipe has. */
static void a_step_of_the_recipe_is_at_most_600_kernels(void **state) {
  setenv("MILLRACE_CLBLAST", "off", 1);
  RUN(&p, "explain", "step", "--device", "opencl", "--json");
  unsetenv("MILLRACE_CLBLAST");
  expect_kernels(100, 600);
  assert_null(strstr(p.out, "CLBlast"));
}

/* Its operands and results are f32, so that each product brings copies and a rounding. */
static void with_clblast_products_are_its_own(void **state) {
  RUN(&p, "explain", "step", "--device", "opencl", "--json");
  if (!strstr(p.out, "CLBlast")) {
    assert_non_null(strstr(p.err, "products")); /* says why */
    skip();
  }
  assert_non_null(strstr(p.out, "CLBlast, sums in f32"));
  assert_non_null(strstr(p.out, "operand 0 converted"));
  expect_kernels(600, 900);
}

int main(void) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  printf("[  SKIPPED ] explain_device_under_a_sanitizer\n");
  printf("a driver's own compiler and threads are not built for a sanitizer\n");
  return 77;
#endif
  mr_diag_t diag = {0};
  const mr_device_t *device;
  if (mr_device_open("opencl", &device, &diag) < 0) {
    printf("%s\n[  SKIPPED ] explain_device_without_a_device\n", diag.text);
    return 77; /* no device: ctest says that the test was left out */
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_step_of_the_recipe_is_at_most_600_kernels),
      cmocka_unit_test(with_clblast_products_are_its_own),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
