/* Every kernel that the generator writes, and those that set conditions of CUDA graphs, go through
   CUDA's own compiler, for the H100's and H200's architecture and as PTX for the oldest one,
   without a warning; a kernel of f32 computes nothing in f64 by accident. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "model/backends/cuda/condition.h"
#include "model/backends/cuda/matmul.h"
#include "model/backends/cuda/program.h"
#include "tests/model/cuda_texts.h"

enum { TOGETHER = 24, PROGRAMS = 512, THREADS = 8 };

static const mr_nvrtc_t *nvrtc;
static mr_kernel_texts_t all;

/* One program through the compiler. */
typedef struct unit {
  const char *arch;
  size_t first, n; /* of all.kept */
  mr_cuda_image_t image;
  char *log;
  mr_err_t err;
  mr_diag_t diag;
} unit_t;

static unit_t unit[PROGRAMS];
static size_t n_unit;
static atomic_size_t next_unit;

static void *compile_units(void *arg) {
  for (;;) {
    size_t i = next_unit++;
    const char *text[TOGETHER];
    if (i >= n_unit) return NULL;
    unit_t *u = &unit[i];
    for (size_t k = 0; k < u->n; k++) text[k] = all.kept[u->first + k].text;
    char *program = mr__cuda_program_text(text, u->n);
    u->err = program ? mr__cuda_compile(nvrtc, program, u->arch, &u->image, &u->log, &u->diag)
                     : MR_ERR_NOMEM;
    free(program);
  }
}

static void compile_for(const char *arch) {
  pthread_t thread[THREADS];
  long cpus = sysconf(_SC_NPROCESSORS_ONLN);
  int n = cpus < 1 ? 1 : cpus > THREADS ? THREADS : (int)cpus;
  n_unit = 0, next_unit = 0;
  for (size_t i = 0; i < all.n; i += TOGETHER) {
    assert_true(n_unit < PROGRAMS);
    unit[n_unit++] =
        (unit_t){.arch = arch, .first = i, .n = all.n - i < TOGETHER ? all.n - i : TOGETHER};
  }
  for (int i = 0; i < n; i++)
    assert_int_equal(pthread_create(&thread[i], NULL, compile_units, NULL), 0);
  for (int i = 0; i < n; i++) pthread_join(thread[i], NULL);
}

static void units_fini(void) {
  for (size_t i = 0; i < n_unit; i++) free(unit[i].image.data), free(unit[i].log);
}

static void unit_is_clean(const unit_t *u) {
  if (u->err < 0) fail_msg("%s: %s\n%.4000s", u->arch, u->diag.text, u->log ? u->log : "");
  if (u->log && *u->log) fail_msg("%s: the compiler says: %.4000s", u->arch, u->log);
  assert_true(u->image.bytes > 64);
}

/* The machine code of one architecture, as a file that the driver loads. */
static void all_kernels_compile_for_hopper_without_a_warning(void **state) {
  compile_for("sm_90a");
  for (size_t i = 0; i < n_unit; i++) {
    unit_is_clean(&unit[i]);
    assert_memory_equal(unit[i].image.data, "\177ELF", 4);
  }
  print_message("%zu kernels in %zu programs\n", all.n, n_unit);
  units_fini();
}

/* The body of function k<i> in PTX; its end is written as 0 while `look` reads it. */
static void each_entry(const unit_t *u, void (*look)(const char *text, const char *ptx)) {
  char *ptx = u->image.data, *at = ptx;
  size_t n = 0;
  ptx[u->image.bytes - 1] = 0;
  while ((at = strstr(at, ".visible .entry k"))) {
    size_t number = strtoul(at + strlen(".visible .entry k"), NULL, 10);
    char *end = strstr(at + 1, ".visible .entry k"), was = end ? *end : 0;
    assert_true(number < u->n);
    if (end) *end = 0;
    look(all.kept[u->first + number].text, at);
    if (end) *end = was;
    n++, at++;
  }
  assert_int_equal(n, u->n);
}

/* Operands in f64 are `double` in the text; without one, no instruction may be of f64: a constant
   or a function of C++ would make the whole formula so, 64 times slower on most devices.  Only the
   compiler's own sine and cosine reduce large angles in f64. */
static void computes_in_its_own_width(const char *text, const char *ptx) {
  if (strstr(text, "double") || strstr(text, "sin(") || strstr(text, "cos(")) return;
  const char *wide = strstr(ptx, ".f64");
  if (wide) fail_msg("%s\nis compiled to f64: %.200s", text, wide > ptx + 60 ? wide - 60 : ptx);
}

/* Function calls remain only where the compiler's own library needs them. */
static void all_kernels_compile_to_ptx_and_stay_in_f32(void **state) {
  compile_for("compute_80");
  for (size_t i = 0; i < n_unit; i++) {
    unit_is_clean(&unit[i]);
    each_entry(&unit[i], computes_in_its_own_width);
  }
  units_fini();
}

/* What the last two see would be seen: a comparison that has one outcome, and a constant of f64. */
static void a_warning_and_a_wide_formula_are_found(void **state) {
  static const char *const text[] = {
      "KERNEL k(ARG(0)) { PTR(float, y0, 0); u32 i = 1; if (i >= 0) y0[0] = 1; }",
      "KERNEL k(ARG(0)) { PTR(float, y0, 0); y0[ITEM] = y0[ITEM] * 0.1; }"};
  mr_diag_t diag = {0};
  char *program = mr__cuda_program_text(text, 2), *log = NULL;
  mr_cuda_image_t image;
  assert_int_equal(mr__cuda_compile(nvrtc, program, "compute_80", &image, &log, &diag), MR_OK);
  assert_non_null(strstr(log, "pointless comparison"));
  ((char *)image.data)[image.bytes - 1] = 0;
  assert_non_null(strstr(image.data, ".f64"));
  free(log), free(image.data), free(program);
  program = mr__cuda_program_text((const char *[]){"KERNEL k(ARG(0)) { y0 = 1; }"}, 1);
  assert_int_equal(mr__cuda_compile(nvrtc, program, "sm_90a", &image, NULL, &diag),
                   MR_ERR_UNAVAILABLE);
  assert_non_null(strstr(diag.text, "does not compile a kernel"));
  assert_non_null(strstr(diag.text, "y0"));
  assert_null(image.data);
  free(program);
}

/* nvcc, the toolkit's compiler for programs, where it is: warnings are errors.  Its headers have
   macros of two names that the dialect defines. */
static void some_kernels_compile_by_nvcc_too(void **state) {
  const char *text[TOGETHER];
  char file[] = "/tmp/kernels-XXXXXX.cu", command[256];
  if (system("command -v nvcc >/dev/null 2>&1")) {
    print_message("there is no nvcc here: NVRTC alone compiles the kernels\n");
    skip();
  }
  size_t n = 0;
  for (size_t i = 0; i < all.n && n < TOGETHER; i += all.n / TOGETHER) text[n++] = all.kept[i].text;
  char *program = mr__cuda_program_text(text, n);
  int fd = mkstemps(file, 3);
  FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
  assert_non_null(f);
  fprintf(f, "#undef INFINITY\n#undef NAN\n#define __CUDACC_RTC__\n%s", program);
  fclose(f), free(program);
  snprintf(
      command, sizeof command,
      "nvcc -arch=sm_90a --fmad=false -Werror all-warnings -diag-suppress=177 -cubin -o /dev/null "
      "%s",
      file);
  int status = system(command);
  remove(file);
  assert_int_equal(status, 0);
}

/* Attention and its backward pass by kernels of one group a head. */
static void texts_of_attention(void) {
  static const int64_t T[] = {1, 40, 64, 80}, D[] = {8, 24, 48, 64};
  for (int i = 0; i < 4; i++)
    for (int f16 = 0; f16 < 2; f16++) {
      mr_fn_t *f = mr_fn_create(), *g = NULL;
      mr_diag_t diag = {0};
      mr_var_t *x = mr_fn_input(f, mr_aval_of(f16 ? MR_F16 : MR_BF16, 2, T[i], 3, 2, D[3 - i]));
      mr_var_t *y =
          mr_lax_reduce_sum(f, mr_lax_attention_packed(f, x, 0.25f), 4, (int[]){0, 1, 2, 3});
      assert_int_equal(mr_fn_return(f, 1, &y), MR_OK);
      assert_int_equal(mr_grad(f, 1, (int[]){0}, &g, &diag), MR_OK);
      assert_true(texts_of_compiled(&all, g, NULL) > 1);
      mr_fn_destroy(f), mr_fn_destroy(g);
    }
}

static int collect(void **state) {
  vit_t v = vit_default();
  int samples = texts_of_samples(&all);
  int step = texts_of_step(&all, &v, 128, NULL);
  print_message("%d kernels of samples, %d of a training step\n", samples, step);
  v.how.dtype = MR_F32;
  v.model.layers = 1;
  texts_of_step(&all, &v, 8, NULL);
  texts_of_step(&all, &v, 8, "fuse");
  texts_of_attention();
  size_t at;
  assert_true(mr_kernel_texts_add(&all, mr_cuda_set_branch, &at));
  assert_true(mr_kernel_texts_add(&all, mr_cuda_set_round, &at));
  assert_true(mr_kernel_texts_add(&all, mr__cuda_fill_text, &at));
  return samples > mr_n_ops && step > 100 ? 0 : -1;
}

static int forget(void **state) {
  texts_fini(&all);
  return 0;
}

int main(void) {
  mr_diag_t diag = {0};
  if (mr__nvrtc(&nvrtc, &diag) < 0) {
    printf("%s\n[  SKIPPED ] cuda_text_without_nvrtc\n", diag.text);
    return 77; /* no compiler: ctest says that the test was left out */
  }
  print_message("NVRTC %d.%d, %s\n", nvrtc->major, nvrtc->minor, nvrtc->path);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_warning_and_a_wide_formula_are_found),
      cmocka_unit_test(all_kernels_compile_to_ptx_and_stay_in_f32),
      cmocka_unit_test(all_kernels_compile_for_hopper_without_a_warning),
      cmocka_unit_test(some_kernels_compile_by_nvcc_too),
  };
  return cmocka_run_group_tests(tests, collect, forget);
}
