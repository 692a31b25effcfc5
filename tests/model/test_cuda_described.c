/* Descriptions of devices: the shipped ones are read, what is written is read again, and every
   damaged text is refused with its line. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <stdlib.h>
#include <string.h>

#include "model/backends/cuda/described.h"

#define HEAD "millrace device 1\n"
#define REST                                                                          \
  "processors 132\nmemory 141000000000\ncublaslt 130100\ncudnn 0\nf32-gflops 67000\n" \
  "bf16-gflops 989e3\ncopy-gbs 4800.5\n"
#define WHOLE HEAD "# a comment\n\nname NVIDIA H200\ncompute-capability 9.0\n" REST

static void a_written_description_is_read_back(void **state) {
  mr_cuda_described_t d, again;
  mr_diag_t diag = {0};
  char *text = NULL;
  size_t size = 0;
  if (mr__cuda_described_parse(WHOLE, strlen(WHOLE), &d, &diag) < 0) fail_msg("%s", diag.text);
  assert_string_equal(d.name, "NVIDIA H200");
  assert_true(d.major == 9 && d.minor == 0 && d.processors == 132 && d.cudnn == 0);
  assert_true(d.memory == UINT64_C(141000000000) && d.bf16_gflops == 989e3 && d.copy_gbs == 4800.5);
  FILE *f = open_memstream(&text, &size);
  mr__cuda_described_print(&d, f);
  assert_int_equal(fclose(f), 0);
  if (mr__cuda_described_parse(text, size, &again, &diag) < 0) fail_msg("%s", diag.text);
  assert_memory_equal(&again, &d, sizeof d);
  free(text);
}

static void damaged_descriptions_are_refused_with_their_line(void **state) {
  static const struct {
    const char *text, *says;
  } bad[] = {
      {"", "line 1: want \"millrace device 1\""},
      {"millrace products 1\n", "line 1"},
      {"millrace device 1", "line 1: the line has no end"},
      {HEAD, "name is missing"},
      {HEAD "name A\n" REST, "compute-capability is missing"},
      {HEAD "name A\ncompute-capability 9.0\n" REST "memory 5\n", "line 11: a second memory"},
      {HEAD "name\n" REST, "line 2: want a name"},
      {HEAD "name \n" REST, "line 2: name: want the name of a device"},
      {HEAD "name \x80\n" REST, "line 2: name"},
      {HEAD "colour red\n" REST, "line 2: want a name that a description has"},
      {HEAD "compute-capability 7.5\n", "line 2: compute-capability: want a number from 8.0"},
      {HEAD "compute-capability 9\n", "line 2: compute-capability"},
      {HEAD "compute-capability 9.x\n", "line 2: compute-capability"},
      {HEAD "processors 0\n", "line 2: processors: want a whole number"},
      {HEAD "memory -5\n", "line 2: memory"},
      {HEAD "memory 99999999999999999999\n", "line 2: memory"},
      {HEAD "f32-gflops nan\n", "line 2: f32-gflops"},
      {HEAD "f32-gflops -1\n", "line 2: f32-gflops"},
      {HEAD "copy-gbs 10 20\n", "line 2: copy-gbs"},
      {HEAD "name A\nname B", "line 3: the line has no end"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    mr_cuda_described_t d;
    mr_diag_t diag = {0};
    assert_int_equal(mr__cuda_described_parse(bad[i].text, strlen(bad[i].text), &d, &diag),
                     MR_ERR_DATA);
    if (!strstr(diag.text, bad[i].says)) fail_msg("%d: %s", (int)i, diag.text);
  }
}

static void a_zero_byte_or_a_long_line_is_refused(void **state) {
  static const char zero[] = HEAD "name A\0B\n";
  char text[600];
  mr_cuda_described_t d;
  mr_diag_t diag = {0};
  assert_int_equal(mr__cuda_described_parse(zero, sizeof zero - 1, &d, &diag), MR_ERR_DATA);
  snprintf(text, sizeof text, HEAD "name %0500d\n", 0);
  assert_int_equal(mr__cuda_described_parse(text, strlen(text), &d, &diag), MR_ERR_DATA);
  assert_non_null(strstr(diag.text, "line 2"));
}

static void shipped_descriptions_are_found_by_name(void **state) {
  static const char *const name[] = {"NVIDIA-H200", "NVIDIA-H100-80GB-HBM3"};
  mr_cuda_described_t d;
  mr_diag_t diag = {0};
  unsetenv("MILLRACE_SHARE");
  for (int i = 0; i < 2; i++) {
    if (mr__cuda_described_read(name[i], &d, &diag) < 0) fail_msg("%s", diag.text);
    assert_true(d.major == 9 && d.processors == 132);
  }
  assert_string_equal(d.name, "NVIDIA H100 80GB HBM3");
  assert_int_equal(mr__cuda_described_read("NVIDIA-X", &d, &diag), MR_ERR_CONFIG);
  assert_non_null(strstr(diag.text, "cuda:described=NVIDIA-X"));
  diag = (mr_diag_t){0};
  assert_true(mr__cuda_described_read("/nonexistent/x.txt", &d, &diag) < 0);
  assert_non_null(strstr(diag.text, "/nonexistent/x.txt"));
  diag = (mr_diag_t){0};
  assert_int_equal(mr__cuda_described_read(MR_SOURCE_DIR "/LICENSE", &d, &diag), MR_ERR_DATA);
  assert_non_null(strstr(diag.text, "LICENSE: line 1"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_written_description_is_read_back),
      cmocka_unit_test(damaged_descriptions_are_refused_with_their_line),
      cmocka_unit_test(a_zero_byte_or_a_long_line_is_refused),
      cmocka_unit_test(shipped_descriptions_are_found_by_name),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
