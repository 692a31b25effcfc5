/* A real device: every op's samples against the CPU, in their own dtypes and in double precision;
   random programs; draws and conversions of edge values to the bit; memory that the host cannot
   touch. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <signal.h>

#include "tests/model/device_run.h"
#include "tests/model/random_program.h"

static void run_here(const mr_fn_t *f, void *const *in, void **out) {
  mr_diag_t diag = {0};
  mr_exec_t *x = NULL;
  if (mr_compile(f, NULL, &x, &diag) < 0) fail_msg("%s", diag.text);
  for (int i = 0; i < f->n_out; i++) out[i] = grid_bytes(mr_aval_bytes(&f->out[i]->aval));
  mr_exec_run(x, (const void *const *)in, out);
  mr_exec_destroy(x);
}

static void same_as_here(const char *what, const mr_fn_t *f, double *const *in, double near,
                         bool narrow) {
  void *bytes[GRID_MAX], *got[GRID_MAX], *want[GRID_MAX];
  for (int i = 0; i < f->n_in; i++) bytes[i] = bytes_of(&f->in[i]->aval, in[i]);
  run_there(what, f, NULL, bytes, got);
  run_here(f, bytes, want);
  compare(what, f, got, want, near, narrow);
  for (int i = 0; i < f->n_out; i++) free(got[i]), free(want[i]);
  for (int i = 0; i < f->n_in; i++) free(bytes[i]);
}

static bool is_collective(const mr_fn_t *f) {
  for (int i = 0; i < f->n_eqn; i++)
    if (f->eqn[i]->op->collective) return true;
  return false;
}

/* Runs each sample of each op on inputs of its range through check, but collectives. */
static void each_sample(void (*check)(const char *what, const mr_fn_t *f, double *const *in)) {
  int n = 0;
  for (int i = 0; i < mr_n_ops; i++)
    for (int k = 0;; k++) {
      mr_sample_t s = {.f = mr_fn_create()};
      double *in[MR_SAMPLE_IN] = {0};
      bool is = mr_ops[i]->sample(mr_ops[i], &s, k);
      for (int j = 0; is && j < s.f->n_in; j++) {
        in[j] = doubles(elems(s.f->in[j]));
        for (int64_t e = 0; e < elems(s.f->in[j]); e++) in[j][e] = random_in(s.lo[j], s.hi[j]);
      }
      if (is && !is_collective(s.f)) check(mr_ops[i]->name, s.f, in), n++;
      for (int j = 0; is && j < s.f->n_in; j++) free(in[j]);
      mr_fn_destroy(s.f);
      if (!is) break;
    }
  print_message("%d samples\n", n);
  assert_true(n > mr_n_ops);
}

static void sample_is_the_cpus(const char *what, const mr_fn_t *f, double *const *in) {
  same_as_here(what, f, in, 2e-5, false);
}

static void every_op_computes_what_the_cpu_does(void **state) { each_sample(sample_is_the_cpus); }

static void sample_is_that_of_f64(const char *what, const mr_fn_t *f, double *const *in) {
  same_as_in_f64(what, f, in, 2e-5, false);
}

static void every_op_is_near_double_precision(void **state) { each_sample(sample_is_that_of_f64); }

static unsigned number_of(const char *name, unsigned usual) {
  const char *text = getenv(name);
  return text ? (unsigned)strtoul(text, NULL, 10) : usual;
}

static void random_programs_compute_what_the_cpu_does(void **state) {
  unsigned first = number_of("MILLRACE_SEED", 0), n = number_of("MILLRACE_PROGRAMS", 5);
  print_message("%u programs from seed %u on\n", n, first);
  for (unsigned seed = first; seed < first + n; seed++) {
    bool narrow;
    func_t q = random_program(seed, false, &narrow);
    same_as_here(q.name, q.f, q.in, 1e-3, narrow);
    func_fini(&q);
  }
}

/* Every pair of dtypes, on values around every limit. */
static void conversions_of_edge_values_are_the_cpus(void **state) {
  static const double edge[] = {0,
                                -0.0,
                                0.5,
                                -0.5,
                                1,
                                255,
                                256,
                                -1,
                                -129,
                                32767.5,
                                65504,
                                65520,
                                2147483647,
                                2147483648,
                                -2147483649.0,
                                4294967295.0,
                                4294967296.0,
                                1e19,
                                -1e19,
                                1e38,
                                1e300,
                                NAN,
                                INFINITY,
                                -INFINITY};
  enum { N = sizeof edge / sizeof *edge };
  for (int from = 0; from < MR_DTYPE_COUNT; from++)
    for (int to = 0; to < MR_DTYPE_COUNT; to++) {
      if (mr_is_storage((mr_dtype_t)from) || mr_is_storage((mr_dtype_t)to)) continue;
      mr_fn_t *f = mr_fn_create();
      mr_var_t *v =
          mr_lax_convert(f, mr_fn_input(f, mr_aval_of((mr_dtype_t)from, N)), (mr_dtype_t)to);
      char name[64];
      double *in = (double *)(uintptr_t)edge;
      snprintf(name, sizeof name, "%s to %s", mr_dtype_name((mr_dtype_t)from),
               mr_dtype_name((mr_dtype_t)to));
      assert_int_equal(mr_fn_return(f, 1, &v), MR_OK);
      same_as_here(name, f, &in, 0, false);
      mr_fn_destroy(f);
    }
}

/* Masks and roundings by draw, of many numbers, large and small. */
static void draws_of_many_elements_are_the_cpus(void **state) {
  for (int i = 0; i < 3; i++) {
    mr_fn_t *f = mr_fn_create();
    mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 4001));
    mr_var_t *seed = mr_fn_input(f, mr_aval_scalar(MR_U64));
    mr_var_t *step = mr_fn_input(f, mr_aval_scalar(MR_U32));
    mr_var_t *y = i == 2 ? mr_lax_dropout(f, x, 0.3, 7, seed, step)
                         : mr_lax_stochastic_round(f, x, i ? MR_F16 : MR_BF16, 7, seed, step);
    if (i < 2) y = mr_lax_convert(f, y, MR_F32);
    assert_int_equal(mr_fn_return(f, 1, &y), MR_OK);
    double *in[] = {doubles(4001), (double[]){123456789012.0}, (double[]){77}};
    for (int64_t e = 0; e < 4001; e++) in[0][e] = ldexp(random_in(-1, 1), (int)(e % 60) - 40);
    same_as_here("draws", f, in, 0, false);
    free(in[0]);
    mr_fn_destroy(f);
  }
}

/* A sum in parts, with long rows in between, is as exact as the CPU's. */
static void long_sums_are_exact_enough(void **state) {
  static const int64_t shape[][2] = {{1, 100003}, {3, 4099}, {2500, 37}, {1, 2048}};
  for (int i = 0; i < 4; i++)
    for (int axis = 0; axis < 3; axis++) {
      mr_fn_t *f = mr_fn_create();
      mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, shape[i][0], shape[i][1]));
      int axes[] = {axis == 2 ? 0 : axis, 1};
      mr_var_t *y[] = {mr_lax_reduce_sum(f, x, axis == 2 ? 2 : 1, axes),
                       mr_lax_reduce_max(f, x, axis == 2 ? 2 : 1, axes)};
      assert_int_equal(mr_fn_return(f, 2, y), MR_OK);
      double *in = doubles(elems(x));
      for (int64_t e = 0; e < elems(x); e++) in[e] = random_in(-1, 1);
      same_as_here("reduce", f, &in, 2e-5, false);
      free(in);
      mr_fn_destroy(f);
    }
}

/* f on the device with and without the pass `fuse`. */
static void same_fused_or_not(const char *what, const mr_fn_t *f, double *const *in) {
  void *bytes[GRID_MAX], *got[GRID_MAX], *want[GRID_MAX];
  for (int i = 0; i < f->n_in; i++) bytes[i] = bytes_of(&f->in[i]->aval, in[i]);
  run_there(what, f, NULL, bytes, got);
  run_there(what, f, "fuse", bytes, want);
  compare(what, f, got, want, 0, false);
  for (int i = 0; i < f->n_out; i++) {
    size_t n = mr_aval_bytes(&f->out[i]->aval);
    if (memcmp(got[i], want[i], n)) fail_msg("%s: output %d differs in its bits", what, i);
    free(got[i]), free(want[i]);
  }
  for (int i = 0; i < f->n_in; i++) free(bytes[i]);
}

/* Rows and columns, few and long ones, which are folded in parts. */
static mr_fn_t *loop_over(mr_dtype_t t, int64_t rows, int64_t columns, bool leading) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, mr_aval_of(t, rows, columns)), *y = mr_fn_input(f, x->aval);
  mr_var_t *row = mr_fn_input(f, mr_aval_of(t, columns));
  mr_var_t *z = mr_lax_mul(f, mr_lax_sin(f, x), y);
  z = mr_lax_add(f, z, mr_lax_broadcast_in_dim(f, row, 2, x->aval.dim, (int[]){1}));
  z = mr_lax_select_n(f, mr_lax_gt(f, z, x), mr_lax_neg(f, z), mr_lax_integer_pow(f, z, 3));
  mr_var_t *wide = mr_lax_convert(f, z, MR_F32);
  int axes[] = {leading ? 0 : 1};
  mr_var_t *out[] = {z, mr_lax_reduce_sum(f, wide, 1, axes), mr_lax_reduce_max(f, z, 1, axes)};
  mr_fn_return(f, 3, out);
  return f;
}

static void fused_loops_have_the_bits_of_their_ops(void **state) {
  static const int64_t shape[][2] = {{1, 10007}, {3, 4099},  {1500, 37},
                                     {4099, 3},  {10007, 1}, {2100, 1030}};
  static const mr_dtype_t some[] = {MR_F32, MR_BF16, MR_F16};
  for (int i = 0; i < 6; i++)
    for (int k = 0; k < 6; k++) {
      char name[96];
      mr_fn_t *f = loop_over(some[k / 2], shape[i][0], shape[i][1], k % 2);
      double *in[3];
      for (int j = 0; j < 3; j++) {
        in[j] = doubles(elems(f->in[j]));
        for (int64_t e = 0; e < elems(f->in[j]); e++) in[j][e] = random_in(-2, 2);
      }
      snprintf(name, sizeof name, "loop of %s over %lld x %lld, axis %d",
               mr_dtype_name(some[k / 2]), (long long)shape[i][0], (long long)shape[i][1], k % 2);
      if (f->diag.code < 0) fail_msg("%s: %s", name, f->diag.text);
      same_fused_or_not(name, f, in);
      for (int j = 0; j < 3; j++) free(in[j]);
      mr_fn_destroy(f);
    }
  for (unsigned seed = 40; seed < 43; seed++) {
    bool narrow;
    func_t q = random_program(seed, false, &narrow);
    same_fused_or_not(q.name, q.f, q.in);
    func_fini(&q);
  }
}

static void arrays_travel_and_functions_run_where_they_lie(void **state) {
  mr_diag_t diag = {0};
  float x[1000], y[1000];
  for (int i = 0; i < 1000; i++) x[i] = (float)i / 7;
  mr_array_t *a = mr_array_on(device, mr_aval_of(MR_F32, 1000), x, &diag);
  assert_non_null(a);
  mr_array_t *b = mr_array_to(a, NULL, &diag), *c = mr_array_to(b, device, &diag);
  assert_int_equal(mr_array_read(c, y, &diag), MR_OK);
  assert_memory_equal(x, y, sizeof x);
  mr_array_drop(a), mr_array_drop(b), mr_array_drop(c);
}

static void the_host_cannot_touch_the_devices_memory(void **state) {
  volatile char *p = there(NULL, 100);
  pid_t child = fork();
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL);
    _exit(p[50] ? 1 : 2);
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
  mr_device_give(device, (void *)(uintptr_t)p, 100);
}

/* In a process of its own, whose device the environment chooses. */
static void a_device_that_is_not_there_is_refused(void **state) {
  const char *variable =
      strcmp(device->backend->name, "cuda") ? "MILLRACE_OPENCL" : "MILLRACE_CUDA";
  static const char *const wish[] = {"99", "x", "-1", "1e3"};
  for (int i = 0; i < 4; i++) {
    int status = 0, end[2];
    char text[300] = "";
    assert_int_equal(pipe(end), 0);
    pid_t child = fork();
    if (child == 0) {
      dup2(end[1], 1);
      setenv(variable, wish[i], 1);
      execl("/proc/self/exe", "test", device->backend->name, "refused", NULL);
      _exit(99);
    }
    close(end[1]);
    assert_true(read(end[0], text, sizeof text - 1) > 0);
    close(end[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_non_null(strstr(text, wish[i]));
    assert_non_null(strstr(text, i ? "want the number of a device" : "want 0 to"));
  }
}

static int refused(const char *name) {
  mr_diag_t diag = {0};
  if (mr_device_open(name, &device, &diag) != MR_ERR_CONFIG) return 1;
  puts(diag.text);
  return 0;
}

int main(int argc, char **argv) {
  if (argc > 2) return refused(argv[1]);
  int status = open_device(argc, argv);
  if (status) return status;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_op_computes_what_the_cpu_does),
      cmocka_unit_test(every_op_is_near_double_precision),
      cmocka_unit_test(random_programs_compute_what_the_cpu_does),
      cmocka_unit_test(conversions_of_edge_values_are_the_cpus),
      cmocka_unit_test(draws_of_many_elements_are_the_cpus),
      cmocka_unit_test(long_sums_are_exact_enough),
      cmocka_unit_test(fused_loops_have_the_bits_of_their_ops),
      cmocka_unit_test(arrays_travel_and_functions_run_where_they_lie),
      cmocka_unit_test(the_host_cannot_touch_the_devices_memory),
      cmocka_unit_test(a_device_that_is_not_there_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
