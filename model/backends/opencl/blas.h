/* Products by CLBlast: the equations that it takes, their computation, and what doctor says of it.

   Implemented in blas_way.c (which products are worth it) and blas.c; without CLBlast's headers
   blas_without.c takes none. */
#ifndef MR_MODEL_BACKENDS_OPENCL_BLAS_H
#define MR_MODEL_BACKENDS_OPENCL_BLAS_H

#include "model/backends/kernels/product.h"
#include "model/exec/call.h"

/* Whether CLBlast should compute e if it is there, and then sets *p to its plan
   (mr__product_wide): a dot_general of at least ten rows, columns and terms and of 2^18
   multiply-adds; for smaller ones its kernels take longer to start than the generated kernel takes
   to run.  MILLRACE_CLBLAST=off: none; =on: of any size; another word is ignored, which a notice
   says once.  Reads the environment at each call.  Any thread. */
bool mr__opencl_blas_wants(const mr_eqn_t *e, mr_product_t *p);

/* Returns whether the same holds and CLBlast is there; if it is not, a notice says so, once.  Any
   thread; the first call loads the library. */
bool mr__opencl_blas_takes(const mr_eqn_t *e, mr_product_t *p);

/* Says in one line, as mr_device_ops_t.describe, which file of CLBlast computes products, or why
   none does.  Any thread. */
void mr__opencl_blas_describe(void (*say)(void *arg, const char *line), void *arg);

/* Gives the product of c to the queue: its operands are copied, and the matrix d goes to c's
   result, or to the scratch as mr__product_narrow reads it.  Returns CLBlast's code, which is
   OpenCL's where OpenCL has one: 0, or a failure, after a notice that says how to do without.
   CLBlast's own buffers are not in the scratch; its first call compiles its kernels.  Any thread.
 */
int mr__opencl_blas_run(const mr_call_t *c, const mr_product_t *p);

#endif
