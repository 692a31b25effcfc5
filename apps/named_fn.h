/* Functions that commands name: those of the model, examples, and files in the notation of jaxprs.
 */
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

/* The function `word` names, with the command's flags; the caller destroys it.  MR_ERR_USAGE. */
mr_err_t mr_named_fn(const mr_args_t *a, const char *word, mr_fn_t **out, mr_diag_t *diag);

#endif
