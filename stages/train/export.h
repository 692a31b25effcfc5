/* A checkpoint's model as a file of another library. */
#ifndef MR_STAGES_TRAIN_EXPORT_H
#define MR_STAGES_TRAIN_EXPORT_H

#include "base/err.h"

enum { MR_EXPORT_CODE = 10240 };

/* The names of the formats, "timm|flax|hf|torchvision"; static. */
extern const char mr_export_formats[];

typedef struct mr_export {
  int tensors;
  long long count;           /* of their elements */
  char code[MR_EXPORT_CODE]; /* Python that makes the model and loads the file, lines of it */
} mr_export_t;

/* Writes the weights of a checkpoint of train-step, their average if it has one, as the
   safetensors file `out`, under a format's names and in its layouts; *made tells what it is.
   MR_ERR_USAGE: an unknown format, or a checkpoint whose model the format's library cannot
   compute, with the setting that it would need; MR_ERR_DATA, MR_ERR_IO, MR_ERR_NOMEM; no file is
   left then. */
mr_err_t mr_train_export(const char *checkpoint, const char *format, const char *out,
                         mr_export_t *made, mr_diag_t *diag);

#endif
