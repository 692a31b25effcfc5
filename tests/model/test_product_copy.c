/* The kernels that copy a product's operands for a library, on an OpenCL device: the bits must be
   those of the plan executed on the host.  For cuBLASLt too: the dialect of their text is the same.
 */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <sys/wait.h>
#include <unistd.h>

#include "model/backends/kernels/product.h"
#include "model/backends/opencl/device.h"
#include "model/backends/opencl/program.h"
#include "model/exec/device.h"
#include "tests/model/product_plan.h"

static const mr_device_t *device;

static void *there(size_t bytes, const void *from) {
  void *p = mr__opencl_take(device, bytes + 1);
  assert_non_null(p);
  if (from) mr__opencl_copy(device, p, from, bytes, MR_COPY_IN);
  return p;
}

/* Starts a kernel on arg[n], addresses of the device's memory. */
static void start_kernel(cl_kernel kernel, int64_t items, void *const *arg, int n) {
  size_t all = ((size_t)items + 63) / 64 * 64;
  for (int k = 0; k < n; k++) {
    size_t offset;
    cl_mem buffer = mr__opencl_find(mr__opencl_device(device), arg[k], &offset);
    cl_ulong at = offset;
    assert_int_equal(mr__opencl_device(device)->cl->clSetKernelArg(kernel, (cl_uint)(2 * k),
                                                                   sizeof buffer, &buffer),
                     CL_SUCCESS);
    assert_int_equal(
        mr__opencl_device(device)->cl->clSetKernelArg(kernel, (cl_uint)(2 * k + 1), sizeof at, &at),
        CL_SUCCESS);
  }
  assert_int_equal(
      mr__opencl_device(device)->cl->clEnqueueNDRangeKernel(
          mr__opencl_device(device)->queue, kernel, 1, NULL, &all, NULL, 0, NULL, NULL),
      CL_SUCCESS);
}

static void fill(mr_dtype_t t, void *x, int64_t n) {
  static const double edge[] = {INFINITY, -INFINITY, NAN, 0, -0.0, 3.4e38, 1e-40};
  for (int64_t i = 0; i < n; i++) {
    bool odd = grid_random() % 16 == 0;
    mr_set_f64(t, x, i, odd ? edge[grid_random() % 7] : random_in(-3, 3));
  }
}

/* Compares the copies that a device makes for the product f with the host's. */
static int copies_agree(mr_fn_t *f, bool wide, int turn) {
  const mr_eqn_t *e = f->eqn[0];
  mr_product_t p;
  mr_kernels_t k;
  mr_diag_t diag = {0};
  void *in[2], *arg[4];
  cl_kernel kernel[2] = {NULL, NULL};
  assert_true((wide ? mr__product_wide : mr__product)(e, &p));
  if (!p.copies) return 0;
  if (mr__product_copies(e, &p, &k, &diag) < 0) fail_msg("%s", diag.text);
  for (int i = 0; i < 2; i++) {
    size_t bytes = mr_aval_bytes(&e->in[i]->aval);
    in[i] = grid_bytes(bytes);
    fill(e->in[i]->aval.dtype, in[i], elems(e->in[i]));
    arg[i] = there(bytes, in[i]);
  }
  char *want = grid_bytes(p.copies), *got = grid_bytes(p.copies);
  memset(want, 0xAA, p.copies);
  arg[2] = there(mr_aval_bytes(&e->out[0]->aval), NULL), arg[3] = there(p.copies, want);
  const mr_product_operand_t *side[] = {&p.a, &p.b};
  for (int s = 0; s < 2; s++)
    if (side[s]->n_parts) copy_operand(side[s], in[side[s]->in], want);
  for (int i = 0; i < k.n; i++) {
    mr_opencl_wanted_t w = {k.kernel[i].text, &kernel[i]};
    if (mr__opencl_kernels(mr__opencl_device(device), &w, 1, &diag) < 0)
      fail_msg("%s\n%s", diag.text, k.kernel[i].text);
    start_kernel(kernel[i], k.kernel[i].items, arg, 4);
    mr__opencl_device(device)->cl->clReleaseKernel(kernel[i]);
  }
  mr__opencl_copy(device, got, arg[3], p.copies, MR_COPY_OUT);
  for (size_t i = 0; i < p.copies; i++)
    if (got[i] != want[i])
      fail_msg("product %d: byte %zu of the copies is %d, want %d\n%s%s", turn, i, got[i], want[i],
               k.kernel[0].text, k.n > 1 ? k.kernel[1].text : "");
  int n = k.n;
  mr__opencl_give(device, arg[0], mr_aval_bytes(&e->in[0]->aval) + 1);
  mr__opencl_give(device, arg[1], mr_aval_bytes(&e->in[1]->aval) + 1);
  mr__opencl_give(device, arg[2], mr_aval_bytes(&e->out[0]->aval) + 1);
  mr__opencl_give(device, arg[3], p.copies + 1);
  free(in[0]), free(in[1]), free(want), free(got);
  mr_kernels_fini(&k);
  return n;
}

static void copies_on_a_device_are_the_hosts(void **state) {
  static const struct {
    mr_dtype_t t;
    mr_precision_t precision;
  } kind[] = {{MR_F32, MR_PRECISION_NONE},
              {MR_F32, MR_PRECISION_DEFAULT},
              {MR_F32, MR_PRECISION_HIGH},
              {MR_BF16, MR_PRECISION_NONE},
              {MR_F16, MR_PRECISION_DEFAULT}};
  int n[10] = {0};
  for (int i = 0; i < 200; i++) {
    grid_state = (uint32_t)i + 77;
    mr_fn_t *f = random_dot(kind[i % 5].t, kind[i % 5].t, kind[i % 5].precision);
    n[i % 10] += copies_agree(f, i % 10 >= 5, i);
    mr_fn_destroy(f);
  }
  for (int k = 0; k < 10; k++) assert_true(n[k] > 1);
}

/* Asked in a process of its own: a driver may abort where it finds no memory or no /sys. */
static bool has_device(void) {
  int status = 1;
  pid_t child = fork();
  if (child == 0) _exit(mr_device_open("opencl", &device, NULL) < 0);
  return waitpid(child, &status, 0) == child && status == 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(copies_on_a_device_are_the_hosts)};
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  printf("[  SKIPPED ] product_copy_under_a_sanitizer\n");
  return 77;
#endif
  if (!has_device() || mr_device_open("opencl", &device, NULL) < 0) {
    printf("[  SKIPPED ] product_copy_without_a_device\n");
    return 77;
  }
  return cmocka_run_group_tests(tests, NULL, NULL);
}
