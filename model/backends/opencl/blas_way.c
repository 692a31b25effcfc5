/* Which products CLBlast is asked for: by size, since each of its products starts several kernels,
   or as the environment says, which is read at each call so that tests can compile in several ways
   in one process. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "model/backends/opencl/blas.h"
#include "model/ops/lax.h"

/* Measured on PoCL: from here on CLBlast's three to five kernels are faster than the generated one.
 */
enum { SIDE = 10, TERMS = 1 << 18 };

typedef enum way { USUAL, ALL, NONE } way_t;

static way_t blas_way_of_environment(void) {
  static atomic_flag said = ATOMIC_FLAG_INIT;
  const char *word = getenv("MILLRACE_CLBLAST");
  if (!word || !*word) return USUAL;
  if (!strcmp(word, "on")) return ALL;
  if (!strcmp(word, "off")) return NONE;
  /* Relaxed: the flag orders nothing, it only lets one thread say it. */
  if (!atomic_flag_test_and_set_explicit(&said, memory_order_relaxed))
    mr_notice("MILLRACE_CLBLAST: \"%s\", want on or off; it is ignored", word);
  return USUAL;
}

static bool is_large(const mr_product_t *p) {
  return p->m >= SIDE && p->n >= SIDE && p->k >= SIDE &&
         (double)p->m * (double)p->n * (double)p->k * (double)p->batch >= TERMS;
}

bool mr__opencl_blas_wants(const mr_eqn_t *e, mr_product_t *p) {
  way_t way = blas_way_of_environment();
  if (e->op != &mr_op_dot_general || way == NONE || !mr__product_wide(e, p)) return false;
  return way == ALL || is_large(p);
}
