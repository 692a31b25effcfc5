/* Several devices of one kind in a process: each computes its own values at the same time as the
   others, closes while they run, and opens again. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "model/exec/device.h"
#include "model/exec/exec.h"
#include "model/model.h"

enum { SIDE = 48, ELEMS = SIDE * SIDE, RUNS = 40 };

/* y = tanh(x x / SIDE) + x: a product, a chain of elementwise ops. */
static mr_fn_t *product_and_chain(void) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, SIDE, SIDE));
  mr_var_t *y = mr_lax_scale(f, 1.0 / SIDE, mr_lax_dot(f, x, x));
  y = mr_lax_add(f, mr_lax_tanh(f, y), x);
  assert_int_equal(mr_fn_return(f, 1, &y), MR_OK);
  return f;
}

/* One device's work: x -> f(x) again and again, from numbers of its own. */
typedef struct work {
  const mr_device_t *device;
  int seed, runs;
  float out[ELEMS];
  const char *failed; /* NULL: it went well */
} work_t;

static void *work_main(void *arg) {
  work_t *w = arg;
  const mr_device_t *d = w->device;
  mr_diag_t diag = {0};
  mr_exec_t *x = NULL;
  const mr_compile_options_t o = {.device = d};
  mr_fn_t *f = product_and_chain();
  if (mr_compile(f, &o, &x, &diag) < 0) return mr_fn_destroy(f), w->failed = "compiling", NULL;
  void *a = mr_device_take(d, sizeof w->out), *b = mr_device_take(d, sizeof w->out);
  for (int i = 0; i < ELEMS; i++) w->out[i] = (float)((i * 7 + w->seed * 13) % 31) / 31 - 0.5f;
  for (int i = 0; a && b && i < w->runs; i++) {
    mr_device_copy(d, a, w->out, sizeof w->out, MR_COPY_IN);
    mr_exec_run(x, (const void *const[]){a}, (void *const[]){b});
    mr_device_copy(d, w->out, b, sizeof w->out, MR_COPY_OUT);
  }
  if (!a || !b) w->failed = "memory";
  if (mr_device_usable(d, &diag) < 0) w->failed = "a command";
  mr_device_give(d, a, sizeof w->out), mr_device_give(d, b, sizeof w->out);
  mr_exec_destroy(x);
  mr_fn_destroy(f);
  return NULL;
}

static const mr_device_t *opened(const char *name) {
  const mr_device_t *d = NULL;
  mr_diag_t diag = {0};
  if (mr_device_open(name, &d, &diag) < 0) fail_msg("%s", diag.text);
  return d;
}

/* What each of two devices computes alone it also computes beside the other one, to the bit. */
static void two_compute_at_once(const char *first, const char *second) {
  static work_t alone[2], beside[2];
  pthread_t thread[2];
  const char *const name[] = {first, second};
  for (int i = 0; i < 2; i++) {
    alone[i] = (work_t){.device = opened(name[i]), .seed = i, .runs = RUNS};
    work_main(&alone[i]);
    assert_null(alone[i].failed);
    mr_device_close(alone[i].device); /* and opens anew below */
  }
  assert_memory_not_equal(alone[0].out, alone[1].out, sizeof alone[0].out);
  for (int i = 0; i < 2; i++)
    beside[i] = (work_t){.device = opened(name[i]), .seed = i, .runs = RUNS};
  assert_ptr_not_equal(beside[0].device, beside[1].device);
  assert_ptr_not_equal(beside[0].device->context, beside[1].device->context);
  for (int i = 0; i < 2; i++)
    assert_int_equal(pthread_create(&thread[i], NULL, work_main, &beside[i]), 0);
  for (int i = 0; i < 2; i++) pthread_join(thread[i], NULL);
  for (int i = 0; i < 2; i++) {
    assert_null(beside[i].failed);
    assert_memory_equal(alone[i].out, beside[i].out, sizeof alone[i].out);
    mr_device_close(beside[i].device);
  }
}

/* One device runs on while the other one closes and opens. */
static void one_closes_while_the_other_runs(const char *first, const char *second) {
  static work_t alone, beside;
  pthread_t thread;
  alone = (work_t){.device = opened(first), .seed = 3, .runs = 4 * RUNS};
  work_main(&alone);
  beside = (work_t){.device = alone.device, .seed = 3, .runs = 4 * RUNS};
  assert_int_equal(pthread_create(&thread, NULL, work_main, &beside), 0);
  for (int i = 0; i < 3; i++) {
    static work_t other;
    other = (work_t){.device = opened(second), .seed = i, .runs = 2};
    work_main(&other);
    assert_null(other.failed);
    mr_device_close(other.device);
  }
  pthread_join(thread, NULL);
  assert_null(beside.failed);
  assert_memory_equal(alone.out, beside.out, sizeof alone.out);
  mr_device_close(alone.device);
}

static void a_device_that_is_open_is_opened_again(const char *name) {
  const mr_device_t *a = opened(name), *b = opened(name);
  static work_t w;
  assert_ptr_equal(a, b);
  assert_string_equal(a->name, name);
  mr_device_close(a); /* the other owner has it still */
  w = (work_t){.device = b, .runs = 1};
  work_main(&w);
  assert_null(w.failed);
  mr_device_close(b);
}

static void shares_of_the_processors_compute_at_once(void **state) {
  two_compute_at_once("cpu:0/2", "cpu:1/2");
  one_closes_while_the_other_runs("cpu:0/2", "cpu:1/2");
  a_device_that_is_open_is_opened_again("cpu:1/2");
  assert_ptr_equal(opened("cpu"), mr_device_default());
}

static void shares_have_the_processors_between_them(void **state) {
  int all = mr_device_processors(mr_device_default()), sum = 0;
  char name[40];
  for (int i = 0; i < all; i++) {
    snprintf(name, sizeof name, "cpu:%d/%d", i, all);
    const mr_device_t *d = opened(name);
    assert_int_equal(d->index, i);
    assert_int_equal(mr_device_threads(d), 1);
    sum += mr_device_processors(d);
    mr_device_close(d);
  }
  assert_int_equal(sum, all);
  const mr_device_t *whole = opened("cpu:0/1"), *more = opened("cpu:63/64");
  assert_int_equal(mr_device_processors(whole), all);
  assert_int_equal(mr_device_threads(more), 1); /* shared with others where there are fewer */
  mr_device_close(whole), mr_device_close(more);
}

static void two_names_of_one_device_are_the_same(void **state) {
  setenv("MILLRACE_CPU_DEVICES", "4", 1);
  assert_true(mr_device_same("cpu:1", "cpu:1/4"));
  assert_false(mr_device_same("cpu:1", "cpu:1/8"));
  unsetenv("MILLRACE_CPU_DEVICES");
  assert_true(mr_device_same("opencl", "opencl:0"));
  assert_false(mr_device_same("opencl", "opencl:1"));
  assert_false(mr_device_same("opencl:0", "cuda:0"));
}

/* PoCL makes a device of each word.  Asked in a process of its own: a driver may abort. */
static bool two_opencl_devices(void) {
  const mr_device_t *a, *b;
  int status = 1;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return false; /* a driver's own compiler and threads are not built for a sanitizer */
#endif
  setenv("POCL_DEVICES", "pthread pthread", 1);
  fflush(NULL);
  pid_t child = fork();
  if (child == 0)
    _exit(mr_device_open("opencl:0", &a, NULL) < 0 || mr_device_open("opencl:1", &b, NULL) < 0);
  return waitpid(child, &status, 0) == child && status == 0;
}

/* As processes of one host do, each with another number. */
static void a_name_without_a_number_means_the_preferred_device(void **state) {
  if (!two_opencl_devices()) skip();
  static const struct {
    int preferred;
    const char *environment;
    int index;
  } row[] = {{0, NULL, 0}, {1, NULL, 1}, {1, "0", 0}, {7, NULL, 0}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    mr_device_prefer(row[i].preferred);
    if (row[i].environment) setenv("MILLRACE_OPENCL", row[i].environment, 1);
    const mr_device_t *d = opened("opencl");
    if (d->index != row[i].index) fail_msg("row %zu: %s", i, d->name);
    mr_device_close(d);
    unsetenv("MILLRACE_OPENCL");
  }
  mr_diag_t diag = {0};
  const mr_device_t *d;
  setenv("MILLRACE_OPENCL", "7", 1); /* what is asked for is not replaced */
  mr_device_prefer(7);
  assert_int_equal(mr_device_open("opencl", &d, &diag), MR_ERR_CONFIG);
  unsetenv("MILLRACE_OPENCL");
  mr_device_prefer(0);
}

static void opencl_devices_compute_at_once(void **state) {
  if (!two_opencl_devices()) skip();
  two_compute_at_once("opencl:0", "opencl:1");
  one_closes_while_the_other_runs("opencl:0", "opencl:1");
  a_device_that_is_open_is_opened_again("opencl:1");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(shares_of_the_processors_compute_at_once),
      cmocka_unit_test(shares_have_the_processors_between_them),
      cmocka_unit_test(two_names_of_one_device_are_the_same),
      cmocka_unit_test(opencl_devices_compute_at_once),
      cmocka_unit_test(a_name_without_a_number_means_the_preferred_device),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
