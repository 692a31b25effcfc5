/* Parameters that begin as those of a file: of another run, or of a Vision Transformer as timm,
   Hugging Face or torchvision name it. */
#ifndef MR_STAGES_TRAIN_FROM_H
#define MR_STAGES_TRAIN_FROM_H

#include "model/nn/params.h"

/* Fills the values of params, which hold those that were drawn, from a safetensors file; of another
   run's checkpoint from its average of the weights if it has one.  Parameters of the head, "head.",
   which the file lacks or has in another shape stay as they were drawn, and *fresh is set.  MR_OK;
   MR_ERR_DATA for any other parameter that is missing, with the nearest names of the file, or has
   another shape, for a file with more layers than params, and for a checkpoint whose heads= differ
   from those of model (mr_model_text); MR_ERR_IO, MR_ERR_NOMEM.  params may be changed after a
   failure. */
mr_err_t mr__train_from(const char *path, const char *model, mr_params_t *params, bool *fresh,
                        mr_diag_t *diag);

#endif
