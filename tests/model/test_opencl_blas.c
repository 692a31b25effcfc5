/* Products by CLBlast: which are asked of it, what they hold in the presence of infinities and of
   other threads, and what a refusal does.  The device tests compare its results with f64's. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <pthread.h>
#include <stdlib.h>

#include "base/err.h"
#include "tests/model/device_run.h"

#include "model/backends/opencl/blas.h"
#include "model/backends/opencl/clblast.h"
#include "model/backends/opencl/device.h"

/* x (m,k) by w (k,n). */
static mr_fn_t *product_of(mr_dtype_t in, mr_dtype_t out, int64_t m, int64_t k, int64_t n) {
  mr_fn_t *f = mr_fn_create();
  mr_dot_dims_t d = {.n_contract = 1, .lhs_contract = {1}};
  mr_var_t *x = mr_fn_input(f, mr_aval_of(in, m, k)), *w = mr_fn_input(f, mr_aval_of(in, k, n));
  mr_var_t *y = mr_lax_dot_general(f, x, w, &d, out);
  if (!y || mr_fn_return(f, 1, &y) < 0) fail_msg("%s", f->diag.text);
  return f;
}

/* ---- which ---- */

static bool wants(mr_dtype_t in, mr_dtype_t out, int64_t m, int64_t k, int64_t n) {
  mr_product_t p;
  mr_fn_t *f = product_of(in, out, m, k, n);
  bool want = mr__opencl_blas_wants(f->eqn[0], &p);
  mr_fn_destroy(f);
  return want;
}

static void size_and_dtypes_decide(void **state) {
  unsetenv("MILLRACE_CLBLAST");
  assert_true(wants(MR_F32, MR_F32, 64, 64, 64));
  assert_false(wants(MR_F32, MR_F32, 64, 64, 63));
  assert_true(wants(MR_BF16, MR_F32, 10, 10, 2622));
  assert_false(wants(MR_BF16, MR_F32, 9, 100, 2622));
  assert_false(wants(MR_BF16, MR_F32, 100, 9, 2622));
  assert_false(wants(MR_BF16, MR_F32, 2622, 100, 9));
  assert_true(wants(MR_F64, MR_F64, 64, 64, 64));
  assert_true(wants(MR_F16, MR_F16, 64, 64, 64));
  assert_false(wants(MR_F32, MR_F64, 64, 64, 64));
}

static int notices;
static char last[300];

static void hear(void *arg, const char *text) {
  notices++;
  snprintf(last, sizeof last, "%s", text);
}

static void a_word_decides_and_another_one_is_said_once(void **state) {
  setenv("MILLRACE_CLBLAST", "off", 1);
  assert_false(wants(MR_F32, MR_F32, 64, 64, 64));
  setenv("MILLRACE_CLBLAST", "on", 1);
  assert_true(wants(MR_F32, MR_F32, 1, 2, 3));
  mr_notice_to(hear, NULL);
  setenv("MILLRACE_CLBLAST", "yes", 1);
  for (int i = 0; i < 3; i++) {
    assert_true(wants(MR_F32, MR_F32, 64, 64, 64));
    assert_false(wants(MR_F32, MR_F32, 1, 2, 3));
  }
  mr_notice_to(NULL, NULL);
  assert_int_equal(notices, 1);
  assert_non_null(strstr(last, "\"yes\", want on or off"));
  unsetenv("MILLRACE_CLBLAST");
}

/* ---- what they hold ---- */

static void edges(mr_dtype_t t, void *x, int64_t n) {
  for (int64_t i = 0; i < n; i++) mr_set_f64(t, x, i, random_in(-1, 1));
  for (int i = 0; i < 3; i++) {
    static const double edge[] = {INFINITY, -INFINITY, NAN};
    mr_set_f64(t, x, (int64_t)(grid_random() % (uint32_t)n), edge[i]);
  }
}

/* Sizes that are no multiple of a tile: what fills a tile up reaches no element. */
static void infinities_stay_in_their_rows_and_columns(void **state) {
  static const mr_dtype_t type[] = {MR_F32, MR_BF16, MR_F16};
  if (!device) skip();
  setenv("MILLRACE_CLBLAST", "on", 1);
  for (int i = 0; i < 9; i++) {
    mr_dtype_t t = type[i % 3];
    grid_state = (uint32_t)i + 5;
    int64_t m = 30 + grid_random() % 100, k = 30 + grid_random() % 100,
            n = 30 + grid_random() % 100;
    mr_fn_t *f = product_of(t, t, m, k, n);
    void *in[2], *got, *want = grid_bytes(mr_aval_bytes(&f->out[0]->aval));
    mr_diag_t diag = {0};
    mr_exec_t *x = NULL;
    for (int s = 0; s < 2; s++) {
      in[s] = grid_bytes(mr_aval_bytes(&f->in[s]->aval));
      edges(t, in[s], elems(f->in[s]));
    }
    if (mr_compile(f, NULL, &x, &diag) < 0) fail_msg("%s", diag.text);
    mr_exec_run(x, (const void *const *)in, &want);
    run_there("edges", f, NULL, in, &got);
    compare("edges", f, &got, &want, 1e-4, false);
    mr_exec_destroy(x);
    free(in[0]), free(in[1]), free(got), free(want);
    mr_fn_destroy(f);
  }
  unsetenv("MILLRACE_CLBLAST");
}

enum { ROUNDS = 10 };

/* One thread's product, again and again: each round gives the bits of the first. */
static void *multiply_again(void *arg) {
  mr_fn_t *f = arg;
  void *in[2], *first = NULL;
  for (int s = 0; s < 2; s++) {
    in[s] = grid_bytes(mr_aval_bytes(&f->in[s]->aval));
    for (int64_t k = 0; k < elems(f->in[s]); k++)
      mr_set_f64(f->in[s]->aval.dtype, in[s], k, (double)(k % 31 - 15) / 16);
  }
  size_t bytes = mr_aval_bytes(&f->out[0]->aval), wrong = 0;
  for (int i = 0; i < ROUNDS; i++) {
    void *out;
    run_there("again", f, NULL, in, &out);
    if (!first)
      first = out;
    else
      wrong += memcmp(first, out, bytes) != 0, free(out);
  }
  free(first), free(in[0]), free(in[1]);
  return (void *)wrong;
}

static void threads_at_once_get_the_same_bits_each_time(void **state) {
  if (!device) skip();
  pthread_t thread[3];
  mr_fn_t *f[3] = {product_of(MR_F32, MR_F32, 70, 90, 130),
                   product_of(MR_BF16, MR_BF16, 65, 384, 65),
                   product_of(MR_F16, MR_F32, 128, 64, 128)};
  for (int i = 0; i < 3; i++)
    assert_int_equal(pthread_create(&thread[i], NULL, multiply_again, f[i]), 0);
  for (int i = 0; i < 3; i++) {
    void *wrong;
    assert_int_equal(pthread_join(thread[i], &wrong), 0);
    assert_null(wrong);
    mr_fn_destroy(f[i]);
  }
}

/* ---- a refusal ---- */

static CLBlastStatusCode refuse(CLBlastLayout layout, CLBlastTranspose ta, CLBlastTranspose tb,
                                size_t m, size_t n, size_t k, float alpha, cl_mem a, size_t a_at,
                                size_t a_ld, cl_mem b, size_t b_at, size_t b_ld, float beta,
                                cl_mem c, size_t c_at, size_t c_ld, cl_command_queue *queue,
                                cl_event *event) {
  return CLBlastInvalidLocalMemUsage;
}

static void a_refused_product_is_a_failure_of_the_device(void **state) {
  const mr_clblast_t *blas;
  mr_diag_t diag = {0};
  void *in[2], *out;
  if (!device) skip();
  assert_int_equal(mr__clblast(&blas, &diag), MR_OK);
  mr_clblast_t *table = (mr_clblast_t *)(uintptr_t)blas; /* the library's own, not const */
  mr_fn_t *f = product_of(MR_F32, MR_F32, 64, 64, 64);
  for (int s = 0; s < 2; s++) in[s] = grid_bytes(mr_aval_bytes(&f->in[s]->aval));
  notices = 0;
  mr_notice_to(hear, NULL);
  fflush(NULL);
  table->CLBlastSgemm = refuse; /* the device fails for good: the last test */
  run_there("refused", f, NULL, in, &out);
  mr_notice_to(NULL, NULL);
  float y;
  memcpy(&y, out, sizeof y);
  assert_true(isnan(y));
  assert_int_equal(notices, 2); /* of two runs: CLBlast's, and that the device has failed */
  assert_non_null(strstr(last, "dot_general failed with error -2046"));
  assert_int_equal(mr_device_usable(device, &diag), MR_ERR_UNAVAILABLE);
  free(in[0]), free(in[1]), free(out);
  mr_fn_destroy(f);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(size_and_dtypes_decide),
      cmocka_unit_test(a_word_decides_and_another_one_is_said_once),
      cmocka_unit_test(infinities_stay_in_their_rows_and_columns),
      cmocka_unit_test(threads_at_once_get_the_same_bits_each_time),
      cmocka_unit_test(a_refused_product_is_a_failure_of_the_device),
  };
  const mr_clblast_t *blas;
  if (open_device(argc, argv) || mr__clblast(&blas, NULL) < 0) device = NULL;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
