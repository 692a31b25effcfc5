/* What the tests in tests/model/device share: the device that their argument names, and graphs that
   run there on bytes of the host, compared with what the CPU computes. */
#ifndef MR_TESTS_MODEL_DEVICE_RUN_H
#define MR_TESTS_MODEL_DEVICE_RUN_H

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "model/exec/device.h"
#include "tests/model/grid.h"

static const mr_device_t *device;

static inline void *there(const void *from, size_t bytes) {
  void *p = mr_device_take(device, bytes);
  assert_non_null(p);
  if (from) mr_device_copy(device, p, from, bytes, MR_COPY_IN);
  return p;
}

/* f on the device, from host bytes in[] to host bytes out[], which hold 0xFF before, NaN in every
   float: what a kernel forgets to write is seen. */
static inline void run_there_with(const char *what, const mr_fn_t *f, mr_compile_options_t o,
                                  void *const *in, void **out) {
  mr_diag_t diag = {0};
  o.device = device;
  mr_exec_t *x = NULL;
  void *a[GRID_MAX], *y[GRID_MAX];
  if (mr_compile(f, &o, &x, &diag) < 0) fail_msg("%s: %s\n%s", what, diag.text, mr_fn_text(f));
  for (int i = 0; i < f->n_in; i++) a[i] = there(in[i], mr_aval_bytes(&f->in[i]->aval));
  for (int i = 0; i < f->n_out; i++) {
    size_t n = mr_aval_bytes(&f->out[i]->aval);
    out[i] = grid_bytes(n);
    memset(out[i], 0xFF, n);
    y[i] = there(out[i], n);
  }
  for (int twice = 0; twice < 2; twice++) mr_exec_run(x, (const void *const *)a, y);
  for (int i = 0; i < f->n_out; i++) {
    size_t n = mr_aval_bytes(&f->out[i]->aval);
    mr_device_copy(device, out[i], y[i], n, MR_COPY_OUT);
    mr_device_give(device, y[i], n);
  }
  for (int i = 0; i < f->n_in; i++) mr_device_give(device, a[i], mr_aval_bytes(&f->in[i]->aval));
  mr_exec_destroy(x);
}

static inline void run_there(const char *what, const mr_fn_t *f, const char *skip, void *const *in,
                             void **out) {
  run_there_with(what, f, (mr_compile_options_t){.skip = skip}, in, out);
}

static inline void *bytes_of(const mr_aval_t *a, const double *x) {
  void *p = grid_bytes(mr_aval_bytes(a));
  for (int64_t k = 0; k < mr_aval_elems(a); k++) mr_set_f64(a->dtype, p, k, x[k]);
  return p;
}

/* Integers are equal, floats near: within `near` of f32's values, 1/64 of narrower ones. */
static inline void compare(const char *what, const mr_fn_t *f, void *const *got, void *const *want,
                           double near, bool narrow) {
  for (int i = 0; i < f->n_out; i++) {
    const mr_aval_t *a = &f->out[i]->aval;
    bool short_float = narrow || (mr_is_float(a->dtype) && mr_dtype_size(a->dtype) < 4);
    double tolerance = !mr_is_float(a->dtype) ? 0 : short_float ? 1.0 / 64 : near;
    for (int64_t k = 0; k < mr_aval_elems(a); k++) {
      double x = mr_get_f64(a->dtype, got[i], k), y = mr_get_f64(a->dtype, want[i], k);
      if (x == y || (isnan(x) && isnan(y))) continue;
      if (!(fabs(x - y) <= tolerance * (1 + fabs(y))))
        fail_msg("%s: output %d element %lld is %.12g on the device, %.12g on the CPU\n%s", what, i,
                 (long long)k, x, y, mr_fn_text(f));
    }
  }
}

/* f on random numbers of [-size,size), compiled as a and as b say: the results have the same bits.
 */
static inline void same_either_way(const char *what, const mr_fn_t *f, double size,
                                   mr_compile_options_t a, mr_compile_options_t b) {
  void *in[GRID_MAX], *got[GRID_MAX], *want[GRID_MAX];
  for (int i = 0; i < f->n_in; i++) {
    const mr_aval_t *v = &f->in[i]->aval;
    double *x = doubles(mr_aval_elems(v));
    for (int64_t k = 0; k < mr_aval_elems(v); k++)
      x[k] = mr_is_float(v->dtype) ? random_in(-size, size) : (double)(grid_random() % 1000);
    in[i] = bytes_of(v, x);
    free(x);
  }
  run_there_with(what, f, a, in, got);
  run_there_with(what, f, b, in, want);
  for (int i = 0; i < f->n_out; i++) {
    const mr_aval_t *v = &f->out[i]->aval;
    size_t one = mr_dtype_size(v->dtype);
    for (int64_t k = 0; k < mr_aval_elems(v); k++)
      if (memcmp((char *)got[i] + (size_t)k * one, (char *)want[i] + (size_t)k * one, one))
        fail_msg("%s: output %d element %lld is %.12g, and %.12g as it is compared with\n%s", what,
                 i, (long long)k, mr_get_f64(v->dtype, got[i], k), mr_get_f64(v->dtype, want[i], k),
                 mr_fn_text(f));
    free(got[i]), free(want[i]);
  }
  for (int i = 0; i < f->n_in; i++) free(in[i]);
}

/* Opens `device` as the program's argument names it: "opencl" without one, "cuda", "cuda:1".
   Returns 0, or 77 where it cannot be opened: ctest then says that the test was left out.  A
   process of its own asks first: a driver may abort where it finds no memory or no /sys. */
static inline int open_device(int argc, char **argv) {
  const char *name = argc > 1 ? argv[1] : "opencl";
  int status = 1;
  mr_diag_t diag = {0};
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  printf("a driver's own compiler and threads are not built for a sanitizer\n");
  printf("[  SKIPPED ] devices_under_a_sanitizer\n");
  return 77;
#endif
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    mr_err_t e = mr_device_open(name, &device, &diag);
    if (e < 0) printf("%s\n", diag.text), fflush(stdout);
    _exit(e < 0);
  }
  if (waitpid(child, &status, 0) == child && status == 0 &&
      mr_device_open(name, &device, &diag) == MR_OK)
    return 0;
  if (*diag.text) printf("%s\n", diag.text);
  printf("[  SKIPPED ] %.*s_without_a_device\n", (int)strcspn(name, ":"), name);
  return 77;
}

/* f on the device against f in double precision on the CPU, from the same rounded inputs. */
static inline void same_as_in_f64(const char *what, const mr_fn_t *f, double *const *in,
                                  double near, bool narrow) {
  void *bytes[GRID_MAX], *got[GRID_MAX];
  double *rounded[GRID_MAX], *want[GRID_MAX], *there[GRID_MAX];
  for (int i = 0; i < f->n_in; i++) {
    bytes[i] = bytes_of(&f->in[i]->aval, in[i]);
    rounded[i] = doubles(elems(f->in[i]));
    for (int64_t k = 0; k < elems(f->in[i]); k++)
      rounded[i][k] = mr_get_f64(f->in[i]->aval.dtype, bytes[i], k);
  }
  run_there(what, f, NULL, bytes, got);
  run_f64(f, rounded, want);
  for (int i = 0; i < f->n_out; i++) {
    const mr_aval_t *a = &f->out[i]->aval;
    there[i] = doubles(mr_aval_elems(a));
    for (int64_t k = 0; k < mr_aval_elems(a); k++) there[i][k] = mr_get_f64(a->dtype, got[i], k);
  }
  assert_near(what, f, there, want, narrow ? 1.0 / 32 : near);
  free_all(f->n_out, there), free_all(f->n_out, want), free_all(f->n_in, rounded);
  for (int i = 0; i < f->n_out; i++) free(got[i]);
  for (int i = 0; i < f->n_in; i++) free(bytes[i]);
}

#endif
