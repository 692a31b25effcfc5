/* Small functions by name, for `millrace jaxpr NAME`. */
#ifndef MR_APPS_JAXPR_EXAMPLES_H
#define MR_APPS_JAXPR_EXAMPLES_H

#include "model/ir/fn.h"

typedef struct mr_jaxpr_example {
  const char *name, *help;
  void (*build)(
      mr_fn_t *f); /* adds inputs and one output; input 0 is f32; failures are in f->diag */
} mr_jaxpr_example_t;

extern const mr_jaxpr_example_t mr_jaxpr_examples[]; /* static; ends at a NULL name */

#endif
