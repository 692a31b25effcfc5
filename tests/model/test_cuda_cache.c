/* The CUDA backend with a kernel cache, on a table in the place of CUDA's libraries (cuda_host.h):
   what a second process compiles, and what it does with an image that the driver refuses.  Each
   process is forked before the device is opened. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <sys/wait.h>

#include "base/err.h"
#include "model/backends/cuda/program.h"
#include "model/exec/device.h"
#include "tests/model/cuda_host.h"

static const char text[] =
    "KERNEL k(ARG(0), ARG(1)) {\n"
    "  PTR(float, x0, 0); PTR(float, y0, 1);\n"
    "  y0[ITEM] = 2 * x0[ITEM] + 1;\n"
    "}\n";

enum { N = 64 };

/* What a process did. */
typedef struct done {
  int compiled, notices;
  char last[1024];
  float y[N];
} done_t;

static done_t *done; /* shared */
static int planted;  /* an image that the driver refuses lies in the cache */

static void hear(void *arg, const char *said) {
  done->notices++;
  snprintf(done->last, sizeof done->last, "%s", said);
}

static void plant(void) {
  static const char image[64] = "of another driver";
  char *all = mr__cuda_program_text((const char *const[]){text}, 1);
  mr_kernel_entry_t e = mr__cuda_entry(&host_nvrtc, all, "sm_90a");
  mr_kernel_cache_put(&e, image, sizeof image);
  free(all);
}

static int compute(void) {
  const mr_device_t *device;
  mr_diag_t diag = {0};
  cudaKernel_t kernel;
  float x[N];
  for (int i = 0; i < N; i++) x[i] = (float)i;
  const mr_cuda_wanted_t want = {text, &kernel};
  if (mr_device_open("cuda", &device, &diag) < 0) return fprintf(stderr, "%s\n", diag.text), 1;
  mr_cuda_device_t *d = mr__cuda_use(device);
  if (mr__cuda_kernels(d, &want, 1, &diag) < 0) return fprintf(stderr, "%s\n", diag.text), 1;
  void *arg[] = {mr__cuda_take(device, sizeof x), mr__cuda_take(device, sizeof x)};
  mr__cuda_copy(device, arg[0], x, sizeof x, MR_COPY_IN);
  if (mr__cuda_launch(d, kernel, N, 0, arg, 2) != cudaSuccess) return 2;
  mr__cuda_copy(device, done->y, arg[1], sizeof done->y, MR_COPY_OUT);
  done->compiled = host.compiled;
  return 0;
}

/* Runs compute in a process of its own and returns what it did. */
static done_t process(void) {
  memset(done, 0, sizeof *done);
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    mr_notice_to(hear, NULL);
    host_put();
    if (planted) plant();
    _exit(compute());
  }
  int status = -1;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  for (int i = 0; i < N; i++) assert_true(done->y[i] == 2 * (float)i + 1);
  return *done;
}

static void a_second_process_compiles_nothing(void **state) {
  done_t first = process(), second = process();
  assert_int_equal(first.compiled, 1);
  assert_int_equal(second.compiled, 0);
  assert_int_equal(first.notices + second.notices, 0);
}

static void an_image_that_the_driver_refuses_is_compiled_anew(void **state) {
  planted = 1;
  done_t d = process();
  planted = 0;
  assert_int_equal(d.compiled, 1);
  assert_int_equal(d.notices, 1);
  assert_non_null(strstr(d.last, "the driver refuses it"));
  done_t next = process();
  assert_int_equal(next.compiled + next.notices, 0);
}

static void without_a_cache_each_process_compiles(void **state) {
  char *folder = strdup(getenv("MILLRACE_KERNELS"));
  setenv("MILLRACE_KERNELS", "off", 1);
  assert_int_equal(process().compiled, 1);
  setenv("MILLRACE_KERNELS", folder, 1);
  free(folder);
}

int main(void) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  printf("[  SKIPPED ] cuda_cache_under_a_sanitizer\n");
  return 77; /* the kernels of this test are not built for a sanitizer */
#endif
  if (system("g++ --version >/dev/null 2>&1")) {
    printf("[  SKIPPED ] cuda_cache_without_a_cpp_compiler\n");
    return 77; /* the kernels' text is C++ */
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_second_process_compiles_nothing),
      cmocka_unit_test(an_image_that_the_driver_refuses_is_compiled_anew),
      cmocka_unit_test(without_a_cache_each_process_compiles),
  };
  char folder[] = "/tmp/mr-cuda-cache-XXXXXX", command[96];
  done = mmap(NULL, sizeof *done, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (done == MAP_FAILED || !mkdtemp(folder)) return 1;
  setenv("MILLRACE_KERNELS", folder, 1);
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  snprintf(command, sizeof command, "rm -rf %s", folder);
  return system(command) || failed;
}
