/* Functions that commands take by name: those of the model, examples, and files in jaxpr
   notation. */
#ifndef MR_APPS_NAMED_FN_H
#define MR_APPS_NAMED_FN_H

#include "apps/model_arg.h"

/* Rows for a command's flags. */
#define MR_NAMED_FN_FLAGS                                                                       \
  {"--grad", NULL, "For an example or a file: its value and its gradient by the first input."}, \
      MR_MODEL_FLAGS, MR_MODEL_RUN_FLAGS

#define MR_NAMED_FN_HELP                                                                      \
  "FUNCTION of the Vision Transformer: loss, grad (loss and gradients), step (with AdamW).\n" \
  "Examples: poly, dot, gelu, energy, layers.  FILE.jaxpr: a file in JAX's notation."

/* Builds the function that `word` names, with the command's flags, into *out, which the caller
   destroys with mr_fn_destroy, after a failure too.  MR_ERR_USAGE for an unknown name; else
   failures of reading, parsing or building.  Set *out to NULL before the call. */
mr_err_t mr_named_fn(const mr_args_t *a, const char *word, mr_fn_t **out, mr_diag_t *diag);

#endif
