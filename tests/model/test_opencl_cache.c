/* The OpenCL backend with a kernel cache on a real device: what a second process compiles, and what
   it does with files that are damaged or that the driver refuses.  The backend's table of calls
   counts.  Each process is forked before OpenCL is touched. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <dirent.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/err.h"
#include "model/model.h"
#include "tests/model/device_run.h"

#include "model/backends/opencl/device.h"

static char folder[64];

/* What a process did. */
typedef struct done {
  int compiled, loaded, notices;
  char last[1024];
  float y[3];
} done_t;

static done_t *done; /* shared */
static int refuses;  /* the device's clBuildProgram of an image fails */
static const mr_opencl_api_t *real;
static mr_opencl_api_t own;

static cl_program CL_API_CALL count_source(cl_context x, cl_uint n, const char **text,
                                           const size_t *length, cl_int *code) {
  done->compiled++;
  return own.clCreateProgramWithSource(x, n, text, length, code);
}

static cl_program CL_API_CALL count_binary(cl_context x, cl_uint n, const cl_device_id *id,
                                           const size_t *bytes, const unsigned char **data,
                                           cl_int *status, cl_int *code) {
  done->loaded++;
  if (refuses) return *code = CL_INVALID_BINARY, NULL;
  return own.clCreateProgramWithBinary(x, n, id, bytes, data, status, code);
}

static void hear(void *arg, const char *text) {
  done->notices++;
  snprintf(done->last, sizeof done->last, "%s", text);
}

/* tanh(x) + x on the device, in this process. */
static void compute(void) {
  double x[3] = {0, 0.5, -1};
  void *in, *out;
  mr_fn_t *f = mr_fn_create();
  mr_var_t *v = mr_fn_input(f, mr_aval_of(MR_F32, 3));
  mr_var_t *y = mr_lax_add(f, mr_lax_tanh(f, v), v);
  assert_int_equal(mr_fn_return(f, 1, &y), MR_OK);
  in = bytes_of(&f->in[0]->aval, x);
  run_there("tanh", f, NULL, &in, &out);
  memcpy(done->y, out, sizeof done->y);
}

/* Runs compute in a process of its own and returns what it did. */
static done_t process(void) {
  memset(done, 0, sizeof *done);
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    mr_diag_t diag = {0};
    mr_notice_to(hear, NULL);
    if (mr__opencl_api(&real, &diag) < 0) _exit(77);
    own = *real;
    mr_opencl_api_t *table = (mr_opencl_api_t *)(uintptr_t)real; /* the library's own, not const */
    table->clCreateProgramWithSource = count_source;
    table->clCreateProgramWithBinary = count_binary;
    if (mr_device_open("opencl", &device, &diag) < 0) _exit(77);
    compute();
    _exit(0);
  }
  int status = -1;
  assert_int_equal(waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) skip();
  assert_int_equal(status, 0);
  assert_true(done->y[0] == 0 && fabsf(done->y[1] - 0.96211716f) < 1e-5f);
  return *done;
}

/* The one file of the folder. */
static const char *file(void) {
  static char path[512];
  int n = 0;
  DIR *d = opendir(folder);
  assert_non_null(d);
  for (const struct dirent *f; (f = readdir(d));)
    if (f->d_name[0] != '.') n++, snprintf(path, sizeof path, "%s/%s", folder, f->d_name);
  closedir(d);
  assert_int_equal(n, 1);
  return path;
}

static void a_second_process_compiles_nothing(void **state) {
  done_t first = process(), second = process();
  assert_int_equal(first.compiled, 1);
  assert_int_equal(first.loaded, 0);
  assert_int_equal(second.compiled, 0);
  assert_int_equal(second.loaded, 1);
  assert_int_equal(first.notices + second.notices, 0);
  assert_memory_equal(first.y, second.y, sizeof first.y);
}

static void a_damaged_file_is_compiled_anew_and_said_once(void **state) {
  assert_int_equal(truncate(file(), 100), 0);
  done_t d = process(), next = process();
  assert_int_equal(d.compiled, 1);
  assert_int_equal(d.loaded, 0);
  assert_int_equal(d.notices, 1);
  assert_non_null(strstr(d.last, "replaced"));
  assert_int_equal(next.compiled + next.notices, 0);
}

static void an_image_that_the_driver_refuses_is_compiled_anew(void **state) {
  refuses = 1;
  done_t d = process();
  refuses = 0;
  assert_int_equal(d.compiled, 1);
  assert_int_equal(d.loaded, 1);
  assert_int_equal(d.notices, 1);
  assert_non_null(strstr(d.last, "the driver refuses it"));
  done_t next = process();
  assert_int_equal(next.compiled + next.notices, 0);
}

static void without_a_cache_each_process_compiles(void **state) {
  setenv("MILLRACE_KERNELS", "off", 1);
  done_t d = process();
  setenv("MILLRACE_KERNELS", folder, 1);
  assert_int_equal(d.compiled, 1);
  assert_int_equal(d.loaded + d.notices, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_second_process_compiles_nothing),
      cmocka_unit_test(a_damaged_file_is_compiled_anew_and_said_once),
      cmocka_unit_test(an_image_that_the_driver_refuses_is_compiled_anew),
      cmocka_unit_test(without_a_cache_each_process_compiles),
  };
  snprintf(folder, sizeof folder, "/tmp/mr-opencl-cache-XXXXXX");
  done = mmap(NULL, sizeof *done, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (done == MAP_FAILED || !mkdtemp(folder)) return 1;
  setenv("MILLRACE_KERNELS", folder, 1);
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  char command[96];
  snprintf(command, sizeof command, "rm -rf %s", folder);
  return system(command) || failed;
}
