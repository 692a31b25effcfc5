/* MILLRACE_ISA is read once a process: each case is a process of its own. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/isa.h"
#include "model/backends/cpu/kernels.h"
#include "model/exec/exec.h"
#include "model/ir/fn.h"

/* What a child says: the set it chose, oneDNN's, and what mr_compile has to say. */
static int say(void) {
  mr_diag_t diag = {0};
  mr_matmul_t *p = NULL;
  mr_exec_t *x = NULL;
  mr_matmul_spec_t s = {1, 4, 4, 4, 16, 4, 1, 16, 4, 1, 16, 4, MR_F32, MR_F32, MR_F32, false, 0, 0};
  mr_fn_t *f = mr_fn_create();
  if (mr_matmul_create(&s, &p, NULL) < 0) return 1;
  mr_matmul_destroy(p);
  mr_err_t err = mr_compile(f, NULL, &x, &diag);
  printf("%s %d %d %s", mr_isa_name(mr_isa()), (int)dnnl_get_effective_cpu_isa(), (int)err,
         diag.text);
  mr_exec_destroy(x);
  mr_fn_destroy(f);
  return 0;
}

typedef struct said {
  char isa[16], text[300];
  int dnnl, err;
} said_t;

static said_t with(const char *value) {
  said_t s = {.text = ""};
  char line[400] = "", path[300];
  ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
  assert_true(n > 0);
  path[n] = 0;
  if (value)
    setenv("MILLRACE_ISA", value, 1);
  else
    unsetenv("MILLRACE_ISA");
  char command[340];
  snprintf(command, sizeof command, "'%s' say", path);
  FILE *f = popen(command, "r");
  assert_non_null(f);
  assert_non_null(fgets(line, sizeof line, f));
  assert_int_equal(pclose(f), 0);
  assert_true(sscanf(line, "%15s %d %d %299[^\n]", s.isa, &s.dnnl, &s.err, s.text) >= 3);
  return s;
}

static void an_isa_can_be_named(void **state) {
  for (mr_isa_t i = MR_ISA_PLAIN; i < MR_ISA_COUNT; i++) {
    if (!mr_isa_available(i)) continue;
    said_t s = with(mr_isa_name(i));
    assert_string_equal(s.isa, mr_isa_name(i));
    assert_int_equal(s.err, MR_OK);
  }
  assert_string_equal(with(NULL).isa, mr_isa_name(mr_isa_best()));
  assert_string_equal(with("").isa, mr_isa_name(mr_isa_best()));
}

static void onednn_keeps_to_the_named_isa(void **state) {
  if (mr_isa_best() == MR_ISA_PLAIN) skip();
  assert_int_equal(with("plain").dnnl, dnnl_cpu_isa_sse41);
  if (mr_isa_available(MR_ISA_AVX512)) assert_int_equal(with("avx2").dnnl, dnnl_cpu_isa_avx2);
  if (mr_isa_best() >= MR_ISA_AVX512_BF16)
    assert_true(with("avx512").dnnl < dnnl_cpu_isa_avx512_core_bf16);
  assert_true(with(NULL).dnnl >= dnnl_cpu_isa_avx2);
}

static void an_unknown_isa_is_reported(void **state) {
  said_t s = with("sse9");
  assert_int_equal(s.err, MR_ERR_CONFIG);
  assert_string_equal(s.text,
                      "MILLRACE_ISA is \"sse9\"; expected plain, avx2, avx512 or avx512-bf16");
}

static void an_isa_that_the_machine_lacks_is_reported(void **state) {
  if (mr_isa_available(MR_ISA_COUNT - 1)) skip();
  said_t s = with("avx512-bf16");
  assert_int_equal(s.err, MR_ERR_UNAVAILABLE);
  assert_non_null(strstr(s.text, "which this machine lacks"));
}

int main(int argc, char **argv) {
  if (argc > 1) return say();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_isa_can_be_named),
      cmocka_unit_test(onednn_keeps_to_the_named_isa),
      cmocka_unit_test(an_unknown_isa_is_reported),
      cmocka_unit_test(an_isa_that_the_machine_lacks_is_reported),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
