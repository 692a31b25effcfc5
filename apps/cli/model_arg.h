/* A model from flags and words, and its functions by name (model_arg.c); functions by name of a
   model, an example or a file (named_fn.c).  Shared by summary, jaxpr, explain and mem. */
#ifndef MR_APPS_CLI_MODEL_ARG_H
#define MR_APPS_CLI_MODEL_ARG_H

#include "apps/cli/cli.h"
#include "model/train/train.h"
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
#define MR_MODEL_RUN_FLAGS                                                                       \
  {"--batch", "N", "Records in a batch; default 128."},                                          \
      {"--device", "cpu[:N]|opencl[:N]|cuda[:N]",                                                \
       "Where the function computes; default cpu.  cuda:described=NAME plans for a GPU that is " \
       "not here (docs/devices.md)."},                                                           \
      {"--remat", "W", "What the backward pass of a block recomputes: none, dots or full."},     \
      {"--accumulate", "N", "Parts into which a step splits its batch; default 1."},             \
      {"--ordered", "N", "Parts that a step adds as a binary tree, a power of two."},            \
      {"--dtype", "f32|bf16|f16", "Type that the model computes in; default bf16."},             \
      {"--amp", "usual|jaxamp|none",                                                             \
       "What computes in that type (docs/transforms.md); none: beside --dtype f32."},            \
      {"--amp-rule", "RULES", "Exceptions, as \"head=f32, attn=original\"."},                    \
      {"--param-dtype", "f32|bf16|f16", "Type of the parameters that the model reads."},         \
      {"--master", "f32|none", "Whether narrow parameters have a copy in f32; default f32."},    \
      {"--slot-dtype", "f32|bf16", "Type in which a step keeps the optimizer's moments."},       \
      {"--fp8", "none|hybrid|e4m3", "Computes products of bf16 in f8; default none."},           \
      {"--fp8-history", "N", "Steps that its scales follow; default 1024."},                     \
      {"--fp8-margin", "N", "Divides the scales of --fp8 by 2^N; default 0."},                   \
      {"--fp8-amax", "max|most-recent", "Which magnitude of the history counts; default max."},  \
      {"--optimizer", "NAME", "Optimizer of a step; default adamw."},                            \
      {"--ema", "D", "A step keeps an average of the weights with this decay."}, {               \
    "--precision", "P",                                                                          \
        "Precision of the products of --dtype f32: none, default, high or highest."              \
  }
/* How a step's batches lie on a device, for the commands that count them. */
#define MR_MODEL_BATCH_FLAGS                                                              \
  {"--slots", "N", "Batches in a device's memory, as slots= of to-device; default 5."}, { \
    "--pictures", "f32|bf16|u8",                                                          \
        "Type in which a batch holds the pictures, as dtype= of normalize; default f32."  \
  }
#define MR_MODEL_WORDS_HELP                                                                    \
  "model=NAME chooses another model than vit, NAME=VALUE changes a setting of it: `millrace\n" \
  "inspect train-step model=NAME` lists them."

typedef struct mr_model_job {
  mr_model_t model;
  void *state; /* heap */
  mr_model_field_t field[2];
  int64_t slots; /* of to-device */
  mr_train_config_t train;
  mr_amp_policy_t policy; /* train.compute points to it */
} mr_model_job_t;

/* Fills *job, which must then stay where it is, from the model's defaults, the flags given, and
   words [first,n_words) as settings, for batches of pictures with classes.  MR_ERR_USAGE or
   MR_ERR_CONFIG names the flag or the word; MR_ERR_NOMEM; failures of planning the model.  The
   caller calls fini after a failure too. */
mr_err_t mr_model_arg(const mr_args_t *a, int first, mr_model_job_t *job, mr_diag_t *diag);
void mr_model_job_fini(mr_model_job_t *job); /* frees the state; twice is fine */

/* Returns the function "loss", "grad" (loss and gradients) or "step" (with AdamW) of a model, which
   the caller destroys with mr_fn_destroy.  params, zeroed before, gets the parameters' list, which
   the caller ends with mr_params_fini.  NULL on failure, with diag set; MR_ERR_USAGE for another
   word. */
mr_fn_t *mr_model_fn(const char *word, const mr_model_job_t *job, mr_params_t *params,
                     mr_diag_t *diag);

/* Compiles f, which mr_model_fn returned for that word, into *out, which the caller destroys with
   mr_exec_destroy.  A step is compiled in place, as in training: its last inputs, parameters and
   optimizer slots, are donated.  It computes on a's --device, which may be a described one if
   plan_only: it then takes no arena and cannot run.  Fails as mr_compile.
 */
mr_err_t mr_model_jit(const mr_args_t *a, const mr_fn_t *f, const char *word, bool plan_only,
                      mr_exec_t **out, mr_diag_t *diag);
/* Checks the form of --device and that this build knows it; opens nothing.  MR_OK, also without the
   flag; fails as mr_device_check, the flag before the sentence. */
mr_err_t mr_device_named(const mr_args_t *a, mr_diag_t *diag);
/* Opens the device of --device for *out; NULL without the flag.  Fails as mr_device_open, the flag
   before the sentence. */
mr_err_t mr_device_arg(const mr_args_t *a, const struct mr_device **out, mr_diag_t *diag);

/* Bytes of the slots that to-device takes on job's device, as `millrace train` puts the stage
   before a step on job's batches: job->slots batches with all fields, as they are held, whether the
   model reads them or not.  0 on the CPU. */
size_t mr_model_slots_bytes(const mr_model_job_t *job);

/* Rows for the flags of a command that takes a function by name. */
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
