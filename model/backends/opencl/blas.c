/* Products by CLBlast, from their plans.  Its calls take buffers and offsets in elements, and give
   their kernels to the queue, in whose order they run. */
#include "model/backends/opencl/blas.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/backends/opencl/clblast.h"
#include "model/backends/opencl/device.h"

static pthread_once_t missing_said = PTHREAD_ONCE_INIT;

static void say_no_clblast(void) {
  const mr_clblast_t *blas;
  mr_diag_t why = {0};
  if (mr__clblast(&blas, &why) < 0) mr_notice("%s", why.text);
}

bool mr__opencl_blas_takes(const mr_eqn_t *e, mr_product_t *p) {
  const mr_clblast_t *blas;
  if (!mr__opencl_blas_wants(e, p)) return false;
  if (mr__clblast(&blas, NULL) == MR_OK) return true;
  pthread_once(&missing_said, say_no_clblast);
  return false;
}

/* The library tells no version; the name of its file ends in it, once links are followed. */
void mr__opencl_blas_describe(void (*say)(void *arg, const char *line), void *arg) {
  static const char device[] = "device opencl: "; /* which a row's name stands for */
  const mr_clblast_t *blas;
  mr_diag_t why = {0};
  char real[PATH_MAX], line[PATH_MAX + 40];
  if (mr__clblast(&blas, &why) < 0)
    snprintf(line, sizeof line, "opencl-clblast: %s",
             why.text + (strncmp(why.text, device, strlen(device)) ? 0 : strlen(device)));
  else
    snprintf(line, sizeof line, "opencl-clblast: %s",
             realpath(blas->path, real) ? real : blas->path);
  say(arg, line);
}

/* A matrix in a buffer, in elements. */
typedef struct matrix {
  cl_mem buffer;
  size_t offset, ld, stride;
} matrix_t;

static matrix_t matrix_at(mr_opencl_device_t *d, const void *at, mr_dtype_t dtype, int64_t ld,
                          int64_t stride) {
  matrix_t m = {.ld = (size_t)ld, .stride = (size_t)stride};
  m.buffer = mr__opencl_find(d, at, &m.offset);
  m.offset /= mr_dtype_size(dtype);
  return m;
}

static matrix_t operand_of(const mr_call_t *c, const mr_product_operand_t *o) {
  mr_opencl_device_t *d = mr__opencl_device(c->device);
  const void *at = o->n_parts ? (const char *)c->scratch + o->at : c->in[o->in];
  return matrix_at(d, at, o->dtype, o->ld, o->batch_stride);
}

static CLBlastTranspose turn_of(const mr_product_operand_t *o) {
  return o->transposed ? CLBlastTransposeYes : CLBlastTransposeNo;
}

static CLBlastStatusCode give_product(const mr_clblast_t *blas, const mr_product_t *p, matrix_t a,
                                      matrix_t b, matrix_t d, cl_command_queue queue) {
  const size_t m = (size_t)p->m, n = (size_t)p->n, k = (size_t)p->k, batch = (size_t)p->batch;
  const CLBlastLayout columns = CLBlastLayoutColMajor;
  const CLBlastTranspose ta = turn_of(&p->a), tb = turn_of(&p->b);
  if (p->sums == MR_PRODUCT_F64 && batch == 1)
    return blas->CLBlastDgemm(columns, ta, tb, m, n, k, 1, a.buffer, a.offset, a.ld, b.buffer,
                              b.offset, b.ld, 0, d.buffer, d.offset, d.ld, &queue, NULL);
  if (p->sums == MR_PRODUCT_F64)
    return blas->CLBlastDgemmStridedBatched(
        columns, ta, tb, m, n, k, 1, a.buffer, a.offset, a.ld, a.stride, b.buffer, b.offset, b.ld,
        b.stride, 0, d.buffer, d.offset, d.ld, d.stride, batch, &queue, NULL);
  if (batch == 1)
    return blas->CLBlastSgemm(columns, ta, tb, m, n, k, 1, a.buffer, a.offset, a.ld, b.buffer,
                              b.offset, b.ld, 0, d.buffer, d.offset, d.ld, &queue, NULL);
  return blas->CLBlastSgemmStridedBatched(columns, ta, tb, m, n, k, 1, a.buffer, a.offset, a.ld,
                                          a.stride, b.buffer, b.offset, b.ld, b.stride, 0, d.buffer,
                                          d.offset, d.ld, d.stride, batch, &queue, NULL);
}

/* Once: a device that has failed is given the rest of a run too. */
static void say_refused(const mr_product_t *p, CLBlastStatusCode code) {
  static atomic_flag said = ATOMIC_FLAG_INIT;
  char text[MR_PRODUCT_TEXT];
  /* Relaxed: the flag orders nothing, it only lets one thread say it. */
  if (!atomic_flag_test_and_set_explicit(&said, memory_order_relaxed))
    mr_notice(
        "device opencl: CLBlast refuses the product %s with code %d; MILLRACE_CLBLAST=off "
        "computes products without it",
        mr__product_text(p, text), (int)code);
}

int mr__opencl_blas_run(const mr_call_t *c, const mr_product_t *p) {
  mr_opencl_device_t *d = mr__opencl_device(c->device);
  const mr_clblast_t *blas;
  if (mr__clblast(&blas, NULL) < 0) return CL_DEVICE_NOT_AVAILABLE;
  bool narrow = mr__product_is_narrow(p);
  const void *result = narrow ? (const char *)c->scratch + p->copies : c->out[0];
  CLBlastStatusCode code =
      give_product(blas, p, operand_of(c, &p->a), operand_of(c, &p->b),
                   matrix_at(d, result, p->a.dtype, p->d_ld, p->d_batch), d->queue);
  if (code != CLBlastSuccess) say_refused(p, code);
  return (int)code;
}
