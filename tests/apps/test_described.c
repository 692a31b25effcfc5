/* A GPU that is described in a file: mem and explain plan for it on a machine without one, and
   everything that computes refuses it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <cjson/cJSON.h>
#include <stdbool.h>

#include "tests/apps/program.h"

#define TINY "--layers", "1", "--embed", "32", "--mlp", "64", "--heads", "2", "--batch", "4"
#define H200 "--device", "cuda:described=NVIDIA-H200"

static program_t p;
static char file[] = "/tmp/mr-described-XXXXXX";

static void says(const char *text, const char *part) {
  if (!strstr(text, part)) fail_msg("\"%s\" is not in: %s%s", part, p.out, p.err);
}

static void says_not(const char *text, const char *part) {
  if (strstr(text, part)) fail_msg("\"%s\" is in: %s%s", part, p.out, p.err);
}

/* Writes a description with these versions of the libraries; the device that it is. */
static const char *described(int cublaslt, int cudnn) {
  static char device[100];
  FILE *f = fopen(file, "w");
  assert_non_null(f);
  fprintf(f,
          "millrace device 1\nname A GPU\ncompute-capability 8.0\nprocessors 10\n"
          "memory 1000000000\ncublaslt %d\ncudnn %d\nf32-gflops 100\nbf16-gflops 100\n"
          "copy-gbs 100\n",
          cublaslt, cudnn);
  assert_int_equal(fclose(f), 0);
  snprintf(device, sizeof device, "cuda:described=%s", file);
  return device;
}

static void a_plan_needs_no_device_and_nothing_runs(void **state) {
  RUN(&p, "mem", "step", TINY, H200);
  if (p.status) fail_msg("%s", p.err);
  says(p.out, "planned peak ");
  says(p.out, "products and attentions, which the libraries choose on the device");
  says(p.out, "slots of to-device");
  says_not(p.out, "measured peak");
  RUN(&p, "mem", "step", TINY, H200, "--json");
  cJSON *all = cJSON_Parse(p.out);
  assert_true(cJSON_GetNumberValue(cJSON_GetObjectItem(all, "unplanned_workspaces")) > 10);
  assert_null(cJSON_GetObjectItem(all, "measured_peak_bytes"));
  cJSON_Delete(all);
}

static void a_plan_that_does_not_fit_is_said(void **state) {
  const char *device = described(130100, 91900); /* of 1 GB */
  RUN(&p, "mem", "step", "--batch", "2048", "--device", device);
  if (p.status) fail_msg("%s", p.err);
  says(p.out, "it does not fit: ");
  says(p.out, "gives at most 1000000000\n");
  RUN(&p, "mem", "step", "--batch", "2048", "--device", device, "--json");
  cJSON *all = cJSON_Parse(p.out);
  assert_true(cJSON_IsFalse(cJSON_GetObjectItem(all, "fits")));
  assert_true(cJSON_GetNumberValue(cJSON_GetObjectItem(all, "room_bytes")) == 1e9);
  cJSON_Delete(all);
  RUN(&p, "mem", "step", TINY, "--device", device);
  says_not(p.out, "does not fit");
  RUN(&p, "mem", "step", TINY, "--device", device, "--json");
  all = cJSON_Parse(p.out);
  assert_true(cJSON_IsTrue(cJSON_GetObjectItem(all, "fits")));
  cJSON_Delete(all);
}

static void a_step_is_fitted_by_the_described_limits(void **state) {
  RUN(&p, "mem", "step", TINY, H200, "--fit", "10MiB");
  if (p.status) fail_msg("%s", p.err);
  says(p.out, "a byte counts as 160 operations"); /* 989 TFLOP/s beside 4.8 TB/s */
  RUN(&p, "mem", "step", TINY, "--device", described(130100, 91900), "--fit", "10MiB");
  says(p.out, "a byte counts as 0.625 operations");
}

static void explain_names_libraries_dtypes_and_kernels(void **state) {
  RUN(&p, "explain", "step", TINY, H200);
  if (p.status) fail_msg("%s", p.err);
  says(p.out, "cuBLASLt, algorithm chosen on the device, sums in f32");
  says(p.out, "cuDNN 9.19");
  says(p.out, "kernels start on cuda:described=NVIDIA-H200 in a run");
  RUN(&p, "explain", "step", TINY, H200, "--dtype", "f32");
  says(p.out, "cuBLASLt, algorithm chosen on the device, f32");
  says_not(p.out, "cuDNN");
}

/* The images that are compiled, or kept from an earlier command, say the same. */
static void explain_compiles_the_kernels_for_the_described_gpu(void **state) {
  char folder[] = "/tmp/mr-kernels-XXXXXX", before[40000] = "", remove[60];
  assert_non_null(mkdtemp(folder));
  setenv("MILLRACE_KERNELS", folder, 1);
  RUN(&p, "explain", "step", TINY, H200, "--kernels", "--json");
  if (strstr(p.err, "libnvrtc")) {
    print_message("%s", p.err);
    skip();
  }
  if (p.status) fail_msg("%s", p.err);
  cJSON *all = cJSON_Parse(p.out), *kernels = cJSON_GetObjectItem(all, "generated"), *k;
  assert_in_range(cJSON_GetArraySize(kernels), 30,
                  (int)cJSON_GetNumberValue(cJSON_GetObjectItem(all, "kernels")));
  cJSON_ArrayForEach(k, kernels) {
    double registers = cJSON_GetNumberValue(cJSON_GetObjectItem(k, "registers"));
    assert_true(registers >= 8 && registers <= 255);
    assert_true(cJSON_GetNumberValue(cJSON_GetObjectItem(k, "stack_bytes")) >= 0);
  }
  cJSON_Delete(all);
  RUN(&p, "explain", "step", TINY, H200, "--kernels");
  says(p.out, "generated kernels: result");
  says(p.out, "-> f32[4,65,32] in encoder_blocks.*.norm1");
  snprintf(before, sizeof before, "%.39000s", p.out);
  setenv("MILLRACE_KERNELS", "off", 1);
  RUN(&p, "explain", "step", TINY, H200, "--kernels");
  assert_memory_equal(p.out, before, strlen(before));
  RUN(&p, "explain", "step", TINY, "--kernels");
  assert_int_equal(p.status, 2);
  says(p.err, "--kernels: device cpu does not tell its kernels");
  snprintf(remove, sizeof remove, "rm -r %s", folder);
  assert_int_equal(system(remove), 0);
}

/* What a library computes by default has generated kernels with its switch off. */
static void a_library_that_is_switched_off_takes_nothing(void **state) {
  setenv("MILLRACE_CUBLASLT", "off", 1);
  RUN(&p, "explain", "step", TINY, H200);
  if (p.status) fail_msg("%s", p.err);
  says_not(p.out, "cuBLASLt");
  says(p.out, "cuDNN 9.19");
  setenv("MILLRACE_CUBLASLT", "on", 1);
  setenv("MILLRACE_CUDNN", "off", 1);
  RUN(&p, "explain", "step", TINY, H200);
  says(p.out, "cuBLASLt");
  says_not(p.out, "cuDNN");
  says(p.out, "attention: a kernel of one group a head");
  setenv("MILLRACE_CUDNN", "never", 1);
  RUN(&p, "explain", "step", TINY, H200);
  says(p.out, "cuDNN 9.19");
  says(p.err, "MILLRACE_CUDNN: \"never\", want on or off; it is ignored");
  unsetenv("MILLRACE_CUBLASLT");
  unsetenv("MILLRACE_CUDNN");
}

enum { REGISTERS_MOST = 256 };

/* Counts the rows of the table of kernels by their registers. */
static void count_rows(const char *table, int count[REGISTERS_MOST]) {
  const char *line = strstr(table, "generated kernels: result");
  assert_non_null(line);
  while ((line = strchr(line, '\n')) && *++line != '\n') {
    int kernels, registers;
    assert_int_equal(sscanf(line, "%d %d", &kernels, &registers), 2);
    assert_in_range(registers, 1, REGISTERS_MOST - 1);
    count[registers] += kernels;
  }
}

/* An equation whose kernels differ, as a normalization's backward pass, has a row for each. */
static void the_table_of_kernels_has_the_registers_of_each(void **state) {
  int rows[REGISTERS_MOST] = {0}, kernels[REGISTERS_MOST] = {0}, several = 0;
  RUN(&p, "explain", "step", TINY, H200, "--kernels", "--json");
  if (strstr(p.err, "libnvrtc")) skip();
  if (p.status) fail_msg("%s", p.err);
  cJSON *all = cJSON_Parse(p.out), *k;
  cJSON_ArrayForEach(k, cJSON_GetObjectItem(all, "generated")) {
    kernels[(int)cJSON_GetNumberValue(cJSON_GetObjectItem(k, "registers"))]++;
    several += cJSON_GetNumberValue(cJSON_GetObjectItem(k, "number")) > 1;
  }
  cJSON_Delete(all);
  assert_true(several > 0);
  RUN(&p, "explain", "step", TINY, H200, "--kernels", "--top", "10000");
  says(p.out, ", kernel 2 of ");
  count_rows(p.out, rows);
  for (int i = 0; i < REGISTERS_MOST; i++) assert_int_equal(rows[i], kernels[i]);
}

static void the_limits_of_a_library_follow_from_the_described_version(void **state) {
  RUN(&p, "explain", "step", TINY, "--device", described(130100, 0));
  says(p.out, "cuBLASLt");
  says_not(p.out, "cuDNN");
  RUN(&p, "explain", "step", TINY, "--device", described(0, 91900));
  says(p.out, "a kernel of one loop for each element");
  says_not(p.out, "cuBLASLt");
  RUN(&p, "explain", "step", TINY, "--device", described(130100, 91000));
  says(p.err, "A GPU is cuDNN 9.10.0, whose attention has known bugs");
  says_not(p.out, "cuDNN");
  RUN(&p, "explain", "step", TINY, "--device", described(130100, 91400));
  says(p.err, "cuDNN 9.14 computes the backward pass of attention only for multiples of 128");
  says(p.out, "cuDNN 9.14");
}

static void commands_that_compute_refuse_a_described_device(void **state) {
  RUN(&p, "train", "--data", "synthetic", H200);
  assert_int_equal(p.status, 2);
  says(p.err, "a described device computes nothing: only mem, explain and jaxpr take one");
  RUN(&p, "bench", "step", H200);
  assert_int_equal(p.status, 2);
  says(p.err, "computes nothing");
  RUN(&p, "explain", "step", H200, "--runs", "2");
  assert_int_equal(p.status, 2);
  says(p.err, "a described device runs nothing");
  RUN(&p, "run", "synthetic n=64 ! batch 16 ! train-step device=cuda:described=NVIDIA-H200");
  assert_int_equal(p.status, 2);
  says(p.err, "computes nothing");
}

static void a_wrong_description_is_one_sentence(void **state) {
  RUN(&p, "mem", "step", TINY, "--device", "cuda:described=nothing");
  assert_int_equal(p.status, 2);
  says(p.err, "no such description comes with millrace");
  RUN(&p, "mem", "step", TINY, "--device", "opencl:described=NVIDIA-H200");
  assert_int_equal(p.status, 2);
  says(p.err, "backend opencl has no described devices");
  FILE *f = fopen(file, "w");
  fputs("millrace device 1\nname A GPU\n", f);
  fclose(f);
  char device[100];
  snprintf(device, sizeof device, "cuda:described=%s", file);
  RUN(&p, "mem", "step", TINY, "--device", device);
  assert_int_equal(p.status, 1);
  says(p.err, "compute-capability is missing");
}

static void doctor_prints_a_description_that_is_read_again(void **state) {
  char device[100], text[2000];
  snprintf(device, sizeof device, "%s", described(130100, 91900));
  RUN(&p, "doctor", "--describe", device);
  if (p.status) fail_msg("%s", p.err);
  snprintf(text, sizeof text, "%.1999s", p.out);
  FILE *f = fopen(file, "w");
  fputs(text, f);
  fclose(f);
  RUN(&p, "doctor", "--describe", device);
  assert_string_equal(p.out, text);
  RUN(&p, "doctor", "--describe", "cpu");
  assert_int_equal(p.status, 2);
  says(p.err, "backend cpu has no described devices, expected cuda");
}

/* The value of a row of doctor's, which it prints once; "" without one. */
static const char *row_of(const char *name) {
  static char value[600];
  char head[40];
  snprintf(head, sizeof head, "\n  %s ", name);
  const char *at = strstr(p.out, head);
  value[0] = 0;
  if (at && strstr(at + 1, head)) fail_msg("%s: two rows in %s", name, p.out);
  if (at) at += strlen(head), at += strspn(at, " ");
  if (at) snprintf(value, sizeof value, "%.*s", (int)strcspn(at, "\n"), at);
  return value;
}

/* A library without calls, which is found before the machine's. */
static void doctor_has_one_row_for_an_nvrtc_that_lacks_something(void **state) {
  char folder[] = "/tmp/mr-nvrtc-XXXXXX", command[200];
  assert_non_null(mkdtemp(folder));
  snprintf(command, sizeof command,
           "echo 'int nothing;' | cc -shared -fPIC -x c - -o %s/libnvrtc.so.13", folder);
  bool made = !system(command);
  setenv("MILLRACE_CUDA_LIBRARIES", folder, 1);
  if (made) RUN(&p, "doctor");
  unsetenv("MILLRACE_CUDA_LIBRARIES");
  program_forget(folder);
  if (!made) skip(); /* no compiler */
  assert_int_equal(strncmp(row_of("cuda-nvrtc"), folder, strlen(folder)), 0);
  says(row_of("cuda-nvrtc"), "libnvrtc.so.13 lacks nvrtc");
  says(row_of("cuda"), ""); /* of the device alone */
}

static void doctor_says_why_a_driver_cannot_be_loaded(void **state) {
  program_doctor_beside_junk(&p, "libcuda.so.1");
  says(row_of("cuda"), "the NVIDIA driver (libcuda.so.1) cannot be loaded: /tmp/mr-junk-");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_plan_needs_no_device_and_nothing_runs),
      cmocka_unit_test(a_plan_that_does_not_fit_is_said),
      cmocka_unit_test(a_step_is_fitted_by_the_described_limits),
      cmocka_unit_test(explain_names_libraries_dtypes_and_kernels),
      cmocka_unit_test(explain_compiles_the_kernels_for_the_described_gpu),
      cmocka_unit_test(a_library_that_is_switched_off_takes_nothing),
      cmocka_unit_test(the_table_of_kernels_has_the_registers_of_each),
      cmocka_unit_test(the_limits_of_a_library_follow_from_the_described_version),
      cmocka_unit_test(commands_that_compute_refuse_a_described_device),
      cmocka_unit_test(a_wrong_description_is_one_sentence),
      cmocka_unit_test(doctor_prints_a_description_that_is_read_again),
      cmocka_unit_test(doctor_has_one_row_for_an_nvrtc_that_lacks_something),
      cmocka_unit_test(doctor_says_why_a_driver_cannot_be_loaded),
  };
  if (mkstemp(file) < 0) return 1;
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  unlink(file);
  return failed;
}
