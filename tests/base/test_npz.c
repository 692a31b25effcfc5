/* Arrays of any types and shapes, written as an .npz and read by a reader of the test's own. */
/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include "base/npz.h"
#include "base/xio.h"
#include "tests/npz.h"
#include "tests/random.h"

static char path[64];

static int setup(void **state) {
  snprintf(path, sizeof path, "/tmp/mr-npz-XXXXXX");
  int fd = mkstemp(path);
  return fd < 0 ? -1 : close(fd);
}

static int teardown(void **state) { return unlink(path); }

/* NumPy has none of the others, and mr_npy_load reads none. */
static bool loads(mr_dtype_t t) { return t != MR_BF16 && t != MR_F8_E4M3FN && t != MR_F8_E5M2; }

static void arrays_come_back_as_they_were(void **state) {
  round_t r = round_first(60);
  while (round_next(&r)) {
    mr_npz_array_t array[MR_NPZ_MOST];
    int n = draw(&r, one_in(&r, 9) ? MR_NPZ_MOST + 1 : 6), has;
    for (int i = 0; i < n; i++) {
      mr_npz_array_t *a = &array[i];
      *a = (mr_npz_array_t){.ndim = draw(&r, 5)};
      do a->dtype = (mr_dtype_t)draw(&r, MR_DTYPE_COUNT);
      while (!loads(a->dtype));
      snprintf(a->name, sizeof a->name, "a%d%s", i, one_in(&r, 2) ? ".of-a_longer.name" : "");
      size_t bytes = mr_dtype_size(a->dtype);
      for (int k = 0; k < a->ndim; k++) bytes *= (size_t)(a->dim[k] = draw(&r, 9));
      uint8_t *data = malloc(bytes + 1);
      for (size_t k = 0; k < bytes; k++) data[k] = (uint8_t)round_bits(&r);
      a->data = data;
    }
    mr_diag_t diag = {0};
    void *file;
    size_t size;
    round_check(&r, mr_npz_save(path, array, n, &diag) == MR_OK, "%s", diag.text);
    round_check(&r, mr_read_file(path, 1 << 28, &file, &size, &diag) == MR_OK, "%s", diag.text);
    for (int i = 0; i < n; i++) {
      const mr_npz_array_t *a = &array[i];
      mr_npy_t got;
      round_check(&r, npz_find(file, size, a->name, &got, &has), "%s", a->name);
      round_check(&r, has == n && got.dtype == a->dtype && got.ndim == a->ndim, "%s", a->name);
      round_check(&r, !memcmp(got.dim, a->dim, (size_t)a->ndim * 8), "%s", a->name);
      round_check(&r, !memcmp(got.data, a->data, got.count * mr_dtype_size(got.dtype)), "bytes");
      free((void *)a->data);
    }
    free(file);
  }
}

/* Not made: the file of before stays as it was. */
static void a_damaged_zip_file_is_refused(void **state) {
  mr_npz_array_t array = {.name = "a", .dtype = MR_U8, .ndim = 1, .dim = {3}, .data = "abc"};
  mr_diag_t diag = {0};
  assert_int_equal(mr_npz_save(path, &array, 1, &diag), MR_OK);
  assert_true(mr_npz_save("/none/x.npz", &array, 1, &diag) < 0);
  assert_non_null(strstr(diag.text, "/none/x.npz"));
}

/* The header is right, and bytes are missing behind it. */
static void a_file_in_memory_that_is_cut_gives_no_array(void **state) {
  static const int64_t dim[] = {4, 5};
  char file[MR_NPY_HEAD_MAX + 80] = {0};
  mr_npy_t a;
  mr_diag_t diag = {0};
  size_t n = mr_npy_head(MR_F32, 2, dim, file);
  assert_int_equal(mr_npy_parse("x.npy", file, n + 79, &a, &diag), MR_ERR_DATA);
  assert_true(!a.data && !a.ndim && !a.count && !a.dim[0]);
  assert_int_equal(mr_npy_parse("x.npy", file, n + 80, &a, &diag), MR_OK);
  assert_int_equal(a.count, 20);
  mr_npy_free(&a);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(arrays_come_back_as_they_were),
                                     cmocka_unit_test(a_damaged_zip_file_is_refused),
                                     cmocka_unit_test(a_file_in_memory_that_is_cut_gives_no_array)};
  return cmocka_run_group_tests(tests, setup, teardown);
}
