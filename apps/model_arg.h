/* A Vision Transformer as flags say it, and its functions by name: what summary, jaxpr and mem
 * share. */
#ifndef MR_APPS_MODEL_ARG_H
#define MR_APPS_MODEL_ARG_H

#include "apps/cli.h"
#include "model/train.h"

/* Rows for a command's flags. */
#define MR_MODEL_FLAGS                                                             \
  {"--variant", "flax|timm", "Names and layout of the parameters; default flax."}, \
      {"--layers", "N", "Encoder blocks; default 6."},                             \
      {"--embed", "N", "Width of a token; default 384."},                          \
      {"--mlp", "N", "Width inside a block's MLP; default 1536."},                 \
      {"--heads", "N", "Attention heads; default 8."},                             \
      {"--patch", "N", "Pixels along a patch; default 4."},                        \
      {"--image", "N", "Pixels along a picture; default 32."}, {                   \
    "--classes", "N", "Classes; default 10."                                       \
  }
#define MR_MODEL_RUN_FLAGS                                                                  \
  {"--batch", "N", "Records at once; default 128."},                                        \
      {"--remat", "W", "What a block's backward pass computes again: none, dots or full."}, \
      {"--accumulate", "N", "Parts a step's batch is worked through in; default 1."},       \
      {"--dtype", "f32|bf16", "Type of the matrix products; default bf16."}, {              \
    "--precision", "P", "none, default, high or highest: of the products of --dtype f32."   \
  }

/* The flags that were given, over the recipe's defaults; t NULL: only those of the model. */
mr_err_t mr_model_arg(const mr_args_t *a, mr_vit_config_t *c, mr_train_config_t *t,
                      mr_diag_t *diag);

/* "loss", "grad" (loss and gradients) or "step" (with AdamW) of a model.  params (zeroed before)
   gets its list.  NULL on failure; MR_ERR_USAGE names the words there are. */
mr_fn_t *mr_model_fn(const char *word, const mr_vit_config_t *c, const mr_train_config_t *t,
                     mr_params_t *params, mr_diag_t *diag);

/* Compiles f, which mr_model_fn made by that name; a step, as in training, in place: its parameters
   and the optimizer's slots, behind the data and two scalars, are donated. */
mr_err_t mr_model_jit(const mr_fn_t *f, const char *word, mr_exec_t **out, mr_diag_t *diag);

#endif
