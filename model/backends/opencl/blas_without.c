/* The place of CLBlast in a build without its headers: it takes no equation, so that each product
   has a generated kernel.  The first product that would be faster sends a notice with the package
   to install. */
#include <pthread.h>

#include "base/feature.h"
#include "model/backends/opencl/blas.h"

static pthread_once_t without_said = PTHREAD_ONCE_INIT;

static void say_no_clblast_built(void) {
  mr_diag_t why = {0};
  mr_without(&why, "device opencl: products have generated kernels, which are slow", "CLBLAST");
  mr_notice("%s", why.text);
}

bool mr__opencl_blas_takes(const mr_eqn_t *e, mr_product_t *p) {
  if (mr__opencl_blas_wants(e, p)) pthread_once(&without_said, say_no_clblast_built);
  return false;
}

void mr__opencl_blas_describe(void (*say)(void *arg, const char *line), void *arg) {
  mr_diag_t why = {0};
  mr_without(&why, "opencl-clblast", "CLBLAST");
  say(arg, why.text);
}

int mr__opencl_blas_run(const mr_call_t *c, const mr_product_t *p) { return -1; }
