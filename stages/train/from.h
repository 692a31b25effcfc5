/* Parameters that begin as those of a file: of another run, or of a Vision Transformer as timm,
   flax, Hugging Face or torchvision name and lay them out. */
#ifndef MR_STAGES_TRAIN_FROM_H
#define MR_STAGES_TRAIN_FROM_H

#include "model/nn/params.h"
#include "pipeline/spec.h"

/* What differs between the file and the model, and was settled. */
typedef struct mr__from {
  bool fresh_head;    /* the head stayed as it was drawn */
  bool unnamed;       /* the head is the file's, and one of both has no names for its classes */
  int known, classes; /* of the model's, the file's head, in another order, had that many; 0: in the
                         same order, or fresh */
  int from_side,
      to_side; /* positions of a grid of that side became one of the other; 0: they fit */
  int from_patch, to_patch; /* so did the kernel for patches of that side; 0: it fits */
} mr__from_t;

/* Fills the values of params, which hold those that were drawn, from a safetensors file; of another
   run's checkpoint from its average of the weights if it has one.  Parameters of the head, "head.",
   which the file lacks or has in another shape or for other classes stay as they were drawn.
   truth: the field whose class the model predicts, NULL for none; where the file says what its
   classes are called, the head follows their names, and classes that it lacks stay as they were
   drawn.  Positions for pictures of another size are interpolated, and so is the kernel for patches
   of another size.  *said tells of all that. MR_OK; MR_ERR_DATA for any other parameter that is
   missing, with the nearest names of the file, or has another shape, for a file with more layers
   than params or with tensors of no parameter, but for buffers, poolers and a head that does not
   fit, and for a model whose heads, GELU or epsilon differ from those of model (mr_model_text) as
   far as the file says them; MR_ERR_IO, MR_ERR_NOMEM. params may be changed after a failure. */
mr_err_t mr__train_from(const char *path, const char *model, const mr_field_t *truth,
                        mr_params_t *params, mr__from_t *said, mr_diag_t *diag);

#endif
