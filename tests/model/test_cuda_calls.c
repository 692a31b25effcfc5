/* The whole CUDA backend on a table in the place of CUDA's libraries (cuda_host.h), which runs the
   kernels' own text on the CPU: every op's samples and random programs beside the CPU's results,
   training steps with their calls checked, and each refusal. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <sys/wait.h>

#include "base/philox.h"
#include "model/backends/cuda/program.h"
#include "model/exec/device.h"
#include "tests/model/cuda_host.h"
#include "tests/model/cuda_texts.h"
#include "tests/model/random_program.h"

static const mr_device_t *cuda;

static void *bytes_there(const void *bytes, size_t n) {
  void *p = mr_device_take(cuda, n);
  assert_non_null(p);
  mr_device_copy(cuda, p, bytes, n, MR_COPY_IN);
  return p;
}

/* f on the device, twice: what is bound stays bound.  Outputs hold 0xAA before. */
static void on_cuda(const char *what, const mr_fn_t *f, void *const *in, void **out) {
  mr_compile_options_t o = {.device = cuda};
  mr_diag_t diag = {0};
  mr_exec_t *x = NULL;
  void *a[GRID_MAX], *y[GRID_MAX];
  if (mr_compile(f, &o, &x, &diag) < 0) fail_msg("%s: %s\n%s", what, diag.text, mr_fn_text(f));
  for (int i = 0; i < f->n_in; i++) a[i] = bytes_there(in[i], mr_aval_bytes(&f->in[i]->aval));
  for (int i = 0; i < f->n_out; i++) {
    size_t n = mr_aval_bytes(&f->out[i]->aval);
    out[i] = memset(grid_bytes(n), 0xAA, n);
    y[i] = bytes_there(out[i], n);
  }
  for (int twice = 0; twice < 2; twice++) mr_exec_start(x, (const void *const *)a, y);
  for (int i = 0; i < f->n_out; i++) {
    size_t n = mr_aval_bytes(&f->out[i]->aval);
    mr_device_copy(cuda, out[i], y[i], n, MR_COPY_OUT);
    mr_device_give(cuda, y[i], n);
  }
  for (int i = 0; i < f->n_in; i++) mr_device_give(cuda, a[i], mr_aval_bytes(&f->in[i]->aval));
  mr_exec_destroy(x);
}

static void on_cpu(const mr_fn_t *f, void *const *in, void **out) {
  mr_diag_t diag = {0};
  mr_exec_t *x = NULL;
  if (mr_compile(f, NULL, &x, &diag) < 0) fail_msg("%s", diag.text);
  for (int i = 0; i < f->n_out; i++) out[i] = grid_bytes(mr_aval_bytes(&f->out[i]->aval));
  mr_exec_run(x, (const void *const *)in, out);
  mr_exec_destroy(x);
}

/* Integers are equal, floats near: within `near` of f32's values, 1/64 of narrower ones. */
static void are_near(const char *what, const mr_fn_t *f, void *const *got, void *const *want,
                     double near, bool narrow) {
  for (int i = 0; i < f->n_out; i++) {
    const mr_aval_t *a = &f->out[i]->aval;
    bool few_bits = narrow || (mr_is_float(a->dtype) && mr_dtype_size(a->dtype) < 4);
    double tolerance = !mr_is_float(a->dtype) ? 0 : few_bits ? 1.0 / 64 : near;
    for (int64_t k = 0; k < mr_aval_elems(a); k++) {
      double x = mr_get_f64(a->dtype, got[i], k), y = mr_get_f64(a->dtype, want[i], k);
      if (x == y || (isnan(x) && isnan(y))) continue;
      if (!(fabs(x - y) <= tolerance * (1 + fabs(y))))
        fail_msg("%s: output %d element %lld is %.12g on the table, %.12g on the CPU\n%s", what, i,
                 (long long)k, x, y, mr_fn_text(f));
    }
  }
}

static void as_on_the_cpu(const char *what, const mr_fn_t *f, double *const *in, double near,
                          bool narrow) {
  void *bytes[GRID_MAX], *got[GRID_MAX], *want[GRID_MAX];
  for (int i = 0; i < f->n_in; i++) {
    const mr_aval_t *a = &f->in[i]->aval;
    bytes[i] = grid_bytes(mr_aval_bytes(a));
    for (int64_t k = 0; k < mr_aval_elems(a); k++) mr_set_f64(a->dtype, bytes[i], k, in[i][k]);
  }
  on_cuda(what, f, bytes, got);
  on_cpu(f, bytes, want);
  are_near(what, f, got, want, near, narrow);
  for (int i = 0; i < f->n_out; i++) free(got[i]), free(want[i]);
  for (int i = 0; i < f->n_in; i++) free(bytes[i]);
}

/* All texts at once: a compiler is started for a few dozen of them, not for each graph. */
static void compile_together(const mr_kernel_texts_t *all) {
  mr_cuda_device_t *d = mr__cuda_use(cuda);
  mr_diag_t diag = {0};
  mr_cuda_wanted_t *want = calloc(all->n, sizeof *want);
  cudaKernel_t *kernel = calloc(all->n, sizeof *kernel);
  for (size_t i = 0; i < all->n; i++) want[i] = (mr_cuda_wanted_t){all->kept[i].text, &kernel[i]};
  if (mr__cuda_kernels(d, want, all->n, &diag) < 0) fail_msg("%s", diag.text);
  free(want), free(kernel);
}

static bool collective_in(const mr_fn_t *f) {
  for (int i = 0; i < f->n_eqn; i++)
    if (f->eqn[i]->op->collective) return true;
  return false;
}

static void every_op_computes_what_the_cpu_does(void **state) {
  mr_kernel_texts_t all = {0};
  int n = 0;
  texts_of_samples(&all);
  compile_together(&all);
  texts_fini(&all);
  for (int i = 0; i < mr_n_ops; i++)
    for (int k = 0;; k++) {
      mr_sample_t s = {.f = mr_fn_create()};
      double *in[MR_SAMPLE_IN] = {0};
      bool is = mr_ops[i]->sample(mr_ops[i], &s, k);
      for (int j = 0; is && j < s.f->n_in; j++) {
        in[j] = doubles(elems(s.f->in[j]));
        for (int64_t e = 0; e < elems(s.f->in[j]); e++) in[j][e] = random_in(s.lo[j], s.hi[j]);
      }
      if (is && !collective_in(s.f)) as_on_the_cpu(mr_ops[i]->name, s.f, in, 2e-5, false), n++;
      for (int j = 0; is && j < s.f->n_in; j++) free(in[j]);
      mr_fn_destroy(s.f);
      if (!is) break;
    }
  print_message("%d samples, %d launches\n", n, host.launches);
  assert_true(n > mr_n_ops);
  assert_int_equal(host_blocks_left(), 0);
}

static void a_random_program_computes_what_the_cpu_does(void **state) {
  bool narrow;
  func_t q = random_program(3, false, &narrow);
  as_on_the_cpu(q.name, q.f, q.in, 1e-3, narrow);
  func_fini(&q);
}

/* Items of a group share an array: each adds what its neighbour wrote before the barrier. */
static void items_of_a_group_wait_for_each_other(void **state) {
  static const char text[] =
      "KERNEL_OF(64) k(ARG(0), ARG(1)) {\n"
      "  PTR(float, x0, 0); PTR(float, y0, 1); LOCAL(float, row, 64);\n"
      "  row[LANE] = x0[GROUP * 64 + LANE]; BARRIER;\n"
      "  y0[GROUP * 64 + LANE] = row[LANE] + 1000 * row[63 - LANE];\n"
      "}\n";
  mr_cuda_device_t *d = mr__cuda_use(cuda);
  mr_diag_t diag = {0};
  cudaKernel_t kernel;
  float x[192], y[192];
  for (int i = 0; i < 192; i++) x[i] = (float)i;
  const mr_cuda_wanted_t want = {text, &kernel};
  if (mr__cuda_kernels(d, &want, 1, &diag) < 0) fail_msg("%s", diag.text);
  void *arg[] = {bytes_there(x, sizeof x), bytes_there(y, sizeof y)};
  assert_int_equal(mr__cuda_launch(d, kernel, 192, 64, arg, 2), cudaSuccess);
  mr_device_copy(cuda, y, arg[1], sizeof y, MR_COPY_OUT);
  for (int i = 0; i < 192; i++)
    assert_true(y[i] == x[i] + 1000 * (float)(i / 64 * 64 + 63 - i % 64));
  mr_device_give(cuda, arg[0], sizeof x), mr_device_give(cuda, arg[1], sizeof y);
}

/* ---- training ---- */

enum { B = 4, STEPS = 12, SIDE = 8, CLASSES = 5, PIXELS = SIDE * SIDE * 3 };

static _Alignas(64) float images[STEPS][B * PIXELS];
static _Alignas(64) int32_t labels[STEPS][64];

static vit_t tiny_vit(const mr_device_t *b) {
  vit_t v = vit_default();
  v.model.image = SIDE, v.model.classes = CLASSES, v.model.layers = 1;
  v.model.embed = 16, v.model.mlp = 32, v.model.heads = 2;
  v.how = (mr_compute_t){.dtype = MR_F32, .device = b};
  return v;
}

/* Steps with up to MR_TRAIN_RING unread, whose batches are overwritten once they have been read;
   after half of them the parameters are fetched.  Returns what the steps report. */
static void train_steps(const mr_device_t *b, mr_train_out_t *out, int *now) {
  static _Alignas(64) float batch[MR_TRAIN_RING][B * PIXELS];
  mr_diag_t diag = {0};
  mr_train_config_t t = mr_train_default(B);
  vit_t v = tiny_vit(b);
  mr_params_t params = {0};
  mr_train_step_t *step = NULL;
  if (vit_params(&v, 12, &params, &diag) < 0 || vit_step(&v, t, &step, &diag) < 0)
    fail_msg("%s", diag.text);
  for (int i = 0, read = 0; read < STEPS;) {
    if (i < STEPS && i - read < MR_TRAIN_RING) {
      const mr_train_in_t in = {.step = i + 1, .seed = 7, .lr = 1e-3f};
      float *own = memcpy(batch[i % MR_TRAIN_RING], images[i], sizeof images[i]);
      if (mr_train_step_run(step, &params, (const void *[]){own, labels[i]}, &in, &diag) < 0)
        fail_msg("step %d: %s", i + 1, diag.text);
      if (i++ == 0) *now = host.copies_now;
      continue;
    }
    mr_err_t e = mr_train_step_read(step, true, &out[read], &diag);
    if (e != MR_OK) fail_msg("reading step %d: %s", read + 1, diag.text);
    memset(batch[read % MR_TRAIN_RING], 0xFF, sizeof batch[0]); /* NaN */
    read++;
  }
  *now = host.copies_now - *now;
  if (mr_train_step_fetch(step, &params, &diag) < 0) fail_msg("%s", diag.text);
  assert_true(isfinite(values_of(&params)[0]));
  mr_train_step_destroy(step);
  mr_params_fini(&params);
}

static void training_steps_are_the_cpus_and_never_wait(void **state) {
  mr_train_out_t here[STEPS], there[STEPS];
  int now = 0, later = host.copies_later;
  train_steps(NULL, here, &now);
  train_steps(cuda, there, &now);
  for (int i = 0; i < STEPS; i++) {
    if (!(fabs(here[i].loss - there[i].loss) <= 1e-3 * (1 + fabs(here[i].loss))))
      fail_msg("the loss of step %d is %.9g, want %.9g", i + 1, there[i].loss, here[i].loss);
    assert_true(there[i].grad_norm > 0);
  }
  assert_int_equal(now,
                   0); /* a copy from memory that is not pinned would wait for the step before */
  assert_true(host.copies_later - later >= 4 * STEPS);
  assert_int_equal(host_blocks_left(), 0);
  assert_int_equal(host.events, HOST_EVENTS_KEPT);
}

static void a_block_too_large_names_peak_and_what_is_free(void **state) {
  mr_diag_t diag = {0};
  mr_exec_t *x = NULL;
  mr_fn_t *f = mr_fn_create();
  mr_var_t *v = mr_fn_input(f, mr_aval_of(MR_F32, 8192, 8192));
  v = mr_lax_rev(f, mr_lax_rev(f, v, 1, (int[]){0}), 1, (int[]){1});
  assert_int_equal(mr_fn_return(f, 1, &v), MR_OK);
  host.least_free = (size_t)100 << 20;
  mr_compile_options_t o = {.device = cuda, .skip = "fuse"};
  assert_int_equal(mr_compile(f, &o, &x, &diag), MR_ERR_NOMEM);
  host.least_free = (size_t)1 << 33;
  assert_non_null(strstr(diag.text, "cuda: the planned peak is"));
  assert_non_null(strstr(diag.text, "may have 104857600"));
  assert_non_null(strstr(diag.text, "; take a smaller batch"));
  mr_fn_destroy(f);
}

/* It counts no blocks, held or free, but what other libraries take. */
static void memory_of_libraries_is_counted_beside_the_blocks(void **state) {
  const size_t more = (size_t)100 << 20;
  size_t at_open, least = host.least_free;
  assert_int_equal(cuda->backend->memory->beside(cuda, &at_open), 0);
  assert_int_equal(at_open, HOST_CONTEXT);
  host.least_free = least - more, host.pool_holds = more;
  assert_int_equal(cuda->backend->memory->beside(cuda, &at_open), 0);
  host.least_free = least - 3 * more;
  assert_int_equal(cuda->backend->memory->beside(cuda, &at_open), 2 * more);
  host.least_free = least, host.pool_holds = 0;
}

/* The host's copy of the results is NaN, and the device refuses what comes later.  The last test:
   the device stays so. */
static void a_launch_that_fails_ends_the_device(void **state) {
  mr_diag_t diag = {0};
  double x[2] = {1, 2}, *in[] = {x};
  void *bytes[1], *out[1];
  float y[2] = {1, 2};
  mr_fn_t *f = mr_fn_create();
  mr_var_t *v = mr_lax_tanh(f, mr_fn_input(f, mr_aval_of(MR_F32, 2)));
  assert_int_equal(mr_fn_return(f, 1, &v), MR_OK);
  (void)in;
  bytes[0] = y;
  host.fail_launch = host.launches + 1;
  on_cuda("tanh", f, bytes, out);
  host.fail_launch = 0;
  assert_true(isnan(((float *)out[0])[0]) && isnan(((float *)out[0])[1]));
  assert_int_equal(mr_device_usable(cuda, &diag), MR_ERR_UNAVAILABLE);
  assert_non_null(strstr(diag.text, "tanh failed with"));
  free(out[0]);
  mr_fn_destroy(f);
}

/* ---- refusals, each in a process of its own, as the device is chosen once ---- */

static cudaError_t no_driver(int *v) { return *v = 0, cudaSuccess; }
static cudaError_t old_driver(int *v) { return *v = 12040, cudaSuccess; }
static cudaError_t no_library(int *n) { return cudaErrorInsufficientDriver; }
static cudaError_t only_a_stub(int *n) { return cudaErrorStubLibrary; }
static cudaError_t no_device(int *n) { return *n = 0, cudaErrorNoDevice; }
static cudaError_t turing(struct cudaDeviceProp *p, int device) {
  host_properties(p, device);
  return p->major = 7, p->minor = 5, cudaSuccess;
}

static void refused_by(const mr_cuda_api_t *table, const char *device, mr_err_t want,
                       const char *sentence) {
  int status = 0, end[2];
  char text[1024] = "";
  assert_int_equal(pipe(end), 0);
  pid_t child = fork();
  if (child == 0) {
    const mr_device_t *b;
    mr_diag_t diag = {0};
    mr__cuda_api_put(table);
    mr_err_t e = mr_device_open(device, &b, &diag);
    if (write(end[1], diag.text, strlen(diag.text) + 1) < 0) _exit(1);
    _exit(e == want ? 0 : 1);
  }
  close(end[1]);
  if (read(end[0], text, sizeof text - 1) < 0) fail_msg("no answer");
  close(end[0]);
  assert_int_equal(waitpid(child, &status, 0), child);
  if (status || !strstr(text, sentence))
    fail_msg("%s: status %d, \"%s\", want \"%s\"", device, status, text, sentence);
}

static void devices_that_cannot_be_used_are_refused_by_a_sentence(void **state) {
  mr_cuda_api_t t = host_api;
  refused_by(&t, "cuda:7", MR_ERR_CONFIG,
             "device = cuda:7: this machine has 2 CUDA devices, want 0 to 1");
  refused_by(&t, "cuda:x", MR_ERR_CONFIG, "want cuda:N");
  setenv("MILLRACE_CUDA", "3", 1);
  refused_by(&t, "cuda", MR_ERR_CONFIG, "MILLRACE_CUDA = 3: this machine has 2 CUDA devices");
  setenv("MILLRACE_CUDA", "x", 1);
  refused_by(&t, "cuda", MR_ERR_CONFIG, "MILLRACE_CUDA = x: want the number of a device");
  unsetenv("MILLRACE_CUDA");
  t.cudaDriverGetVersion = no_driver, t.cudaGetDeviceCount = no_library;
  refused_by(&t, "cuda", MR_ERR_UNAVAILABLE, "there is no NVIDIA driver");
  t.cudaGetDeviceCount = only_a_stub;
  refused_by(&t, "cuda", MR_ERR_UNAVAILABLE, "the driver (libcuda.so.1) does not start: ");
  t.cudaGetDeviceCount = host_count;
  t.cudaDriverGetVersion = old_driver;
  refused_by(&t, "cuda", MR_ERR_UNAVAILABLE, "is for CUDA 12.4, want one for CUDA 13");
  t = host_api, t.cudaGetDeviceCount = no_device;
  refused_by(&t, "cuda", MR_ERR_UNAVAILABLE, "finds no GPU");
  t = host_api, t.cudaGetDeviceProperties = turing;
  refused_by(&t, "cuda:1", MR_ERR_UNAVAILABLE, "compute capability 7.5, want 8.0");
}

static void make_batches(void) {
  mr_philox_t g;
  mr_philox_init(&g, 5, 0);
  for (int s = 0; s < STEPS; s++) {
    for (int i = 0; i < B * PIXELS; i++) images[s][i] = (float)mr_philox_uniform(&g, -2, 2);
    for (int i = 0; i < B; i++) labels[s][i] = (s + i) % CLASSES;
  }
}

static int open_cuda(void **state) {
  mr_diag_t diag = {0};
  if (mr_device_open("cuda", &cuda, &diag) == MR_OK) return 0;
  print_error("%s\n", diag.text);
  return -1;
}

int main(void) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  printf("[  SKIPPED ] cuda_calls_under_a_sanitizer\n");
  printf("the kernels of this test are not built for a sanitizer\n");
  return 77;
#endif
  if (system("g++ --version >/dev/null 2>&1")) {
    printf("[  SKIPPED ] cuda_calls_without_a_cpp_compiler\n");
    return 77; /* the kernels' text is C++ */
  }
  make_batches();
  host_put();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(devices_that_cannot_be_used_are_refused_by_a_sentence),
      cmocka_unit_test_setup(every_op_computes_what_the_cpu_does, open_cuda),
      cmocka_unit_test(a_random_program_computes_what_the_cpu_does),
      cmocka_unit_test(items_of_a_group_wait_for_each_other),
      cmocka_unit_test(training_steps_are_the_cpus_and_never_wait),
      cmocka_unit_test(a_block_too_large_names_peak_and_what_is_free),
      cmocka_unit_test(memory_of_libraries_is_counted_beside_the_blocks),
      cmocka_unit_test(a_launch_that_fails_ends_the_device),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
