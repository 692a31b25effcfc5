/* A model as flags and words say it, and its functions by name: what summary, jaxpr, explain and
   mem share. */
#ifndef MR_APPS_MODEL_ARG_H
#define MR_APPS_MODEL_ARG_H

#include "apps/cli.h"
#include "model/train.h"
#include "model/zoo/zoo.h"

/* Rows for a command's flags. */
#define MR_MODEL_FLAGS                                                                  \
  {"--variant", "flax|timm", "vit: names and layout of the parameters; default flax."}, \
      {"--layers", "N", "vit: encoder blocks; default 6."},                             \
      {"--embed", "N", "vit: width of a token; default 384."},                          \
      {"--mlp", "N", "vit: width inside a block's MLP; default 1536."},                 \
      {"--heads", "N", "vit: attention heads; default 8."},                             \
      {"--patch", "N", "vit: pixels along a patch; default 4."},                        \
      {"--image", "N", "Pixels along a picture; default 32."}, {                        \
    "--classes", "N", "Classes; default 10."                                            \
  }
#define MR_MODEL_RUN_FLAGS                                                                   \
  {"--batch", "N", "Records in a batch; default 128."},                                      \
      {"--remat", "W", "What the backward pass of a block recomputes: none, dots or full."}, \
      {"--accumulate", "N", "Parts into which a step splits its batch; default 1."},         \
      {"--dtype", "f32|bf16", "Type of the matrix products; default bf16."}, {               \
    "--precision", "P",                                                                      \
        "Precision of the products of --dtype f32: none, default, high or highest."          \
  }
#define MR_MODEL_WORDS_HELP                                                                   \
  "model=NAME chooses another model than vit, KEY=VALUE changes a setting of it: `millrace\n" \
  "inspect train-step model=NAME` lists them."

typedef struct mr_model_job {
  mr_model_t model;
  void *state; /* heap */
  mr_model_field_t field[2];
  mr_train_config_t train;
} mr_model_job_t;

/* The flags that were given, and words [first,n) as settings, over the model's defaults, for
   batches of pictures with classes.  MR_ERR_USAGE or MR_ERR_CONFIG names the flag or the word; fini
   gives back, also after a failure. */
mr_err_t mr_model_arg(const mr_args_t *a, int first, mr_model_job_t *job, mr_diag_t *diag);
void mr_model_job_fini(mr_model_job_t *job);

/* "loss", "grad" (loss and gradients) or "step" (with AdamW) of a model.  params (zeroed before)
   gets its list.  NULL on failure; MR_ERR_USAGE names the words there are. */
mr_fn_t *mr_model_fn(const char *word, const mr_model_job_t *job, mr_params_t *params,
                     mr_diag_t *diag);

/* Compiles f, which mr_model_fn made by that name; a step, as in training, in place: its parameters
   and the optimizer's slots, the last inputs, are donated. */
mr_err_t mr_model_jit(const mr_fn_t *f, const char *word, mr_exec_t **out, mr_diag_t *diag);

#endif
