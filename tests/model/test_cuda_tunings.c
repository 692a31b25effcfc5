/* The tuning file of products: what is written is read again, and every damaged
   file is refused with its line. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "model/backends/cuda/tunings.h"

static mr_cuda_tuning_t row_of(const char *device, uint64_t version, int n) {
  mr_cuda_tuning_t r = {.version = version, .workspace = (uint64_t)n << 20, .ns = 1000};
  snprintf(r.device, sizeof r.device, "%s", device);
  snprintf(r.product, sizeof r.product, "m=%d n=8320 k=384 batch=1", n);
  for (int k = 0; k < MR_CUDA_ALGORITHM; k++) r.algorithm[k] = UINT64_MAX / 7 * (uint64_t)(n + k);
  return r;
}

static char *printed(const mr_cuda_tunings_t *t) {
  char *text = NULL;
  size_t size = 0;
  FILE *f = open_memstream(&text, &size);
  mr__cuda_tunings_print(t, f);
  assert_int_equal(fclose(f), 0);
  return text;
}

static void a_written_description_is_read_back(void **state) {
  mr_cuda_tunings_t t = {0}, again = {0};
  mr_diag_t diag = {0};
  for (int i = 0; i < 300; i++) {
    mr_cuda_tuning_t r = row_of(i % 2 ? "NVIDIA H200" : "NVIDIA A100-SXM4-40GB", 130100, 300 - i);
    assert_int_equal(mr__cuda_tunings_put(&t, &r, &diag), MR_OK);
  }
  mr_cuda_tuning_t faster = row_of("NVIDIA H200", 130100, 299);
  faster.ns = 7;
  assert_int_equal(mr__cuda_tunings_put(&t, &faster, &diag), MR_OK);
  assert_int_equal(t.n, 300);
  char *text = printed(&t);
  if (mr__cuda_tunings_parse(text, strlen(text), &again, &diag) < 0) fail_msg("%s", diag.text);
  assert_int_equal(again.n, 300);
  for (int i = 1; i <= 300; i++) {
    char product[60];
    snprintf(product, sizeof product, "m=%d n=8320 k=384 batch=1", i);
    const mr_cuda_tuning_t *r = mr__cuda_tunings_find(
        &again, i % 2 ? "NVIDIA H200" : "NVIDIA A100-SXM4-40GB", 130100, product);
    assert_non_null(r);
    assert_int_equal(r->workspace, (uint64_t)i << 20);
    assert_int_equal(r->ns, i == 299 ? 7 : 1000);
    for (int k = 0; k < MR_CUDA_ALGORITHM; k++)
      assert_int_equal(r->algorithm[k], UINT64_MAX / 7 * (uint64_t)(i + k));
  }
  assert_null(mr__cuda_tunings_find(&again, "NVIDIA H200", 130000, faster.product));
  assert_null(mr__cuda_tunings_find(&again, "NVIDIA H100", 130100, faster.product));
  assert_null(mr__cuda_tunings_find(&again, "NVIDIA H200", 130100, "m=1"));
  free(text);
  mr__cuda_tunings_fini(&t);
  mr__cuda_tunings_fini(&again);
}

#define HEX "0123456789abcdef"
#define ALGORITHM HEX " " HEX " " HEX " " HEX " " HEX " " HEX " " HEX " " HEX
#define ROW "GPU\t130100\tm=1\t" ALGORITHM "\t0\t5\n"

static void damaged_files_are_refused_with_their_line(void **state) {
  static const struct {
    const char *text, *says;
  } bad[] = {
      {"", "line 1: want \"millrace products 1\""},
      {"millrace products 2\n", "line 1"},
      {"millrace products 1", "line 1: the line has no end"},
      {"millrace products 1\n" ROW "GPU\t130100\tm=2\t" ALGORITHM "\t0\n", "line 3: want 6 fields"},
      {"millrace products 1\nGPU\t1\tm\t" ALGORITHM "\t0\t5\t6\n", "line 2: want 6 fields"},
      {"millrace products 1\n\t1\tm\t" ALGORITHM "\t0\t5\n", "field 1"},
      {"millrace products 1\nG\x80\t1\tm\t" ALGORITHM "\t0\t5\n", "field 1"},
      {"millrace products 1\nGPU\t-1\tm\t" ALGORITHM "\t0\t5\n", "field 2"},
      {"millrace products 1\nGPU\t1\t\t" ALGORITHM "\t0\t5\n", "field 3"},
      {"millrace products 1\nGPU\t1\tm\t" ALGORITHM "0\t0\t5\n", "field 4"},
      {"millrace products 1\nGPU\t1\tm\t" HEX "\t0\t5\n", "field 4"},
      {"millrace products 1\nGPU\t1\tm\t" ALGORITHM "\t99999999999999999999\t5\n", "field 5"},
      {"millrace products 1\nGPU\t1\tm\t" ALGORITHM "\t0\t\n", "field 6"},
      {"millrace products 1\n" ROW ROW, "two rows for m=1 on GPU"},
      {"{\"foreign\": true}\n", "line 1"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    mr_cuda_tunings_t t = {0};
    mr_diag_t diag = {0};
    assert_int_equal(mr__cuda_tunings_parse(bad[i].text, strlen(bad[i].text), &t, &diag),
                     MR_ERR_DATA);
    if (!strstr(diag.text, bad[i].says)) fail_msg("%d: %s", (int)i, diag.text);
    mr__cuda_tunings_fini(&t);
  }
}

static void a_zero_byte_ends_nothing(void **state) {
  static const char text[] = "millrace products 1\nGPU\0X\t1\tm\t" ALGORITHM "\t0\t5\n";
  mr_cuda_tunings_t t = {0};
  mr_diag_t diag = {0};
  assert_int_equal(mr__cuda_tunings_parse(text, sizeof text - 1, &t, &diag), MR_ERR_DATA);
  assert_non_null(strstr(diag.text, "line 2: field 1"));
  mr__cuda_tunings_fini(&t);
}

static void names_that_would_break_a_line_are_not_written(void **state) {
  static const char *const name[] = {"", "a\tb", "a\nb"};
  for (int i = 0; i < 3; i++) {
    mr_cuda_tunings_t t = {0};
    mr_diag_t diag = {0};
    mr_cuda_tuning_t r = row_of(name[i], 1, 1);
    assert_int_equal(mr__cuda_tunings_put(&t, &r, &diag), MR_ERR_CONFIG);
    assert_int_equal(t.n, 0);
    mr__cuda_tunings_fini(&t);
  }
}

static void a_shipped_file_is_named_by_device_and_version(void **state) {
  char name[MR_CUDA_TUNINGS_FILE], longest[MR_CUDA_DEVICE_TEXT];
  assert_string_equal(mr__cuda_tunings_file("NVIDIA H200", 130100, name),
                      "cuda/products/NVIDIA-H200-130100.txt");
  assert_string_equal(mr__cuda_tunings_file("../A100/40 GB_x", 120900, name),
                      "cuda/products/..-A100-40-GB_x-120900.txt");
  memset(longest, 'x', sizeof longest - 1);
  longest[sizeof longest - 1] = 0;
  mr__cuda_tunings_file(longest, UINT64_MAX, name);
  assert_non_null(strstr(name, "xx-18446744073709551615.txt"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_written_description_is_read_back),
      cmocka_unit_test(damaged_files_are_refused_with_their_line),
      cmocka_unit_test(a_zero_byte_ends_nothing),
      cmocka_unit_test(a_shipped_file_is_named_by_device_and_version),
      cmocka_unit_test(names_that_would_break_a_line_are_not_written),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
